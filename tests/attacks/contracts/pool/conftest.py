# SPDX-License-Identifier: Apache-2.0
"""The people of `tests/contracts/pool`."""

from __future__ import annotations

from tests.contracts.pool.conftest import made, results, sponsor, stage, stranger

__all__ = ["made", "results", "sponsor", "stage", "stranger"]
