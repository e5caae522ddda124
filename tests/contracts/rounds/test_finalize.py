# SPDX-License-Identifier: Apache-2.0
"""finalize and settle: once, from the proposed arrays only, paying only valid work."""

from __future__ import annotations

from typing import Any

from tests.contracts.round_world import Field


def test_whole_round(field: Field, rounds: Any) -> None:
    field.to_finalized()
    assert rounds.round(1, 1).settled
