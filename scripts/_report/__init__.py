# SPDX-License-Identifier: Apache-2.0
"""A run's history, and what is made of it for people."""
