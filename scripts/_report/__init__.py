# SPDX-License-Identifier: Apache-2.0
"""The rule: a run's history, and what is made of it for people."""
