# SPDX-License-Identifier: Apache-2.0
"""Whether a validator's record follows the one that it revealed before.

Rule: a record names the newest one that its validator revealed in the job, in the last LOOK_BACK
rounds; the chain says which that is. A validator that can't have that one any more may start from
fresh ratings, once in that time. Whoever could do so in each round would choose, knowing the
round's measurements, whether its ratings follow from them alone or from all before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agents.gauntlet.record import ScoreRecord

LOOK_BACK = 64  # rounds

Revealed = Sequence[tuple[int, bytes]]
"""Rounds and digests of the records that a validator revealed, newest first."""


def within_reach(revealed: Revealed, round_id: int) -> list[tuple[int, bytes]]:
    """Those that the record of a round may name, of the LOOK_BACK rounds before it."""
    first = round_id - LOOK_BACK
    return [(number, digest) for number, digest in revealed if first <= number < round_id]


def breach(
    record: ScoreRecord, revealed: Revealed, read: Callable[[bytes], ScoreRecord | None]
) -> str:
    """Why a record does not follow the records before it, "" if it does.

    Args:
        revealed: by the record's validator, newest first.
        read: a record by its digest; None if it can't be had, which proves nothing.
    """
    reach = within_reach(revealed, record.round)
    if record.previous is not None and (not reach or reach[0][1] != bytes.fromhex(record.previous)):
        newest = f"that of round {reach[0][0]}" if reach else "none"
        return f"it names another record before it than the newest that was revealed, {newest}"
    if not _starts_again(record, reach):
        return ""
    for number, digest in reach:
        earlier = read(digest)
        if earlier is not None and _starts_again(earlier, within_reach(revealed, number)):
            return f"it starts again, as that of round {number} did, and chooses its own past"
    return ""


def _starts_again(record: ScoreRecord, reach: Revealed) -> bool:
    """Whether a record takes nothing from those that it could follow."""
    return bool(reach) and record.previous is None
