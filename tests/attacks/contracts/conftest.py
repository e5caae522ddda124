# SPDX-License-Identifier: Apache-2.0
"""The system of `tests/contracts` on titanoboa: time and blocks are the attackers' to choose."""

from __future__ import annotations

from tests.contracts.conftest import codes, deployed, own_traces, owner, system

__all__ = ["codes", "deployed", "own_traces", "owner", "system"]
