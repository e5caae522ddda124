# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks of a network, replayed from the events and compared with what is kept."""
