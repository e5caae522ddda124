# SPDX-License-Identifier: Apache-2.0
"""The people of `tests/contracts/rounds`."""

from __future__ import annotations

from tests.contracts.rounds.conftest import made, stage

__all__ = ["made", "stage"]
