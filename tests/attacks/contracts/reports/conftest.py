# SPDX-License-Identifier: Apache-2.0
"""The people of `tests/contracts/reports`."""

from __future__ import annotations

from tests.contracts.reports.conftest import made, stage

__all__ = ["made", "stage"]
