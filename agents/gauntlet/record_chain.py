# SPDX-License-Identifier: Apache-2.0
"""Whether a validator's record follows the one that it revealed before.

Rule: a record names the newest one that its validator revealed in the job, in the last LOOK_BACK
rounds; the chain says which that is. A validator that can't have that one any more may start from
fresh ratings, once in that time. Whoever could do so in each round would choose, knowing the
round's measurements, whether its ratings follow from them alone or from all before.

A record of an older version was made by other rules, so nothing follows from it: the record after
it starts from fresh ratings. That is no choice, and not counted as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agents.gauntlet.record import OlderRecord, ScoreRecord

LOOK_BACK = 64  # rounds

Revealed = Sequence[tuple[int, bytes]]
"""Rounds and digests of the records that a validator revealed, newest first."""

Read = Callable[[bytes], ScoreRecord | None]


def within_reach(revealed: Revealed, round_id: int) -> list[tuple[int, bytes]]:
    """Those that the record of a round may name, of the LOOK_BACK rounds before it."""
    first = round_id - LOOK_BACK
    return [(number, digest) for number, digest in revealed if first <= number < round_id]


def breach(record: ScoreRecord, revealed: Revealed, read: Read) -> str:
    """Why a record does not follow the records before it, "" if it does.

    Args:
        revealed: by the record's validator, newest first.
        read: a record by its digest; None if it can't be had, which proves nothing. Raises
            OlderRecord.
    """
    reach = within_reach(revealed, record.round)
    if record.previous is not None and (not reach or reach[0][1] != bytes.fromhex(record.previous)):
        newest = f"that of round {reach[0][0]}" if reach else "none"
        return f"it names another record before it than the newest that was revealed, {newest}"
    if not _starts_again(record, reach, read):
        return ""
    for number, digest in reach:
        try:
            earlier = read(digest)
        except OlderRecord:
            continue
        if earlier is not None and _starts_again(earlier, within_reach(revealed, number), read):
            return f"it starts again, as that of round {number} did, and chooses its own past"
    return ""


def _starts_again(record: ScoreRecord, reach: Revealed, read: Read) -> bool:
    """Whether a record takes nothing from those that it could follow."""
    return bool(reach) and record.previous is None and not _is_older(reach[0][1], read)


def _is_older(digest: bytes, read: Read) -> bool:
    try:
        read(digest)
    except OlderRecord:
        return True
    return False
