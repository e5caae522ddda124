# SPDX-License-Identifier: Apache-2.0
"""The people of `tests/contracts/tasks`."""

from __future__ import annotations

from tests.contracts.tasks.conftest import appeals, made, stage, tasks

__all__ = ["appeals", "made", "stage", "tasks"]
