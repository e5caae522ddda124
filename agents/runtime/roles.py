# SPDX-License-Identifier: Apache-2.0
"""The names of the roles, and those that they had before.

A role's name is the argument of `python -m agents`, the settings section of that role, and the
beginning of its journal's file name. A former name works in all three places.
"""

from __future__ import annotations

PACKAGE = __name__.removesuffix(".runtime.roles")
"""What `python -m` runs agents by: `agents`, or where a wheel has put it."""
ROLES = ("trainer", "aggregator", "verifier", "executor", "coordinator")
FORMER_NAMES = {"redundant": "executor"}
