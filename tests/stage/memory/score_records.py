# SPDX-License-Identifier: Apache-2.0
"""Records as an honest validator would write them, from what it saw."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from agents.gauntlet.record import NodeScore, ScoreRecord
from agents.gauntlet.replay import digest_of_record, drawn, follow, scores_of
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.storage.canonical import dumps

OPTIONS = Gauntlet(evaluated=3, extra=0)
NODES = (4, 2, 9, 7, 11)
MODEL = "ab" * 32

# LossScores in nano-nats: (assigned, random, expected).
Losses = Mapping[int, tuple[int, int, int]]


def seed_of(number: int) -> bytes:
    """The audit seed of round `number` in these tests."""
    return hashlib.sha256(b"audit seed %d" % number).digest()


def honest_record(
    previous: ScoreRecord | None,
    number: int,
    losses: Losses,
    failures: Mapping[int, str] | None = None,
    nodes: Sequence[int] = NODES,
    options: Gauntlet = OPTIONS,
) -> ScoreRecord:
    """The record of round `number`. `failures`: nodes without a usable payload, with the reason."""
    failures = failures or {}
    audit_seed = seed_of(number)
    usable = [node for node in nodes if node not in failures]
    others = [node for node in nodes if node in failures]
    due, last = drawn(audit_seed, previous, usable, others, options)
    lines = []
    for node in nodes:
        assigned, random, expected = losses[node] if node in due else (None, None, None)
        lines.append(
            NodeScore(
                node=node,
                failure=failures.get(node, ""),
                usable=node in usable,
                sync=0 if node in usable else None,
                evaluated=node in due or node in last,
                assigned=assigned,
                random=random,
                expected=expected,
                shown=_shown(assigned, random, expected),
                extra=None if assigned is None else 0,
                score=0,
            )
        )
    ratings = follow(previous, lines, options)
    scores = scores_of(lines, ratings, options)
    return ScoreRecord(
        job=1,
        round=number,
        verifier=21,
        position=0 if previous is None else previous.position + 1,
        previous=None if previous is None else digest_of_record(previous.to_bytes()).hex(),
        audit_seed=audit_seed.hex(),
        model=MODEL,
        scores=[
            line.model_copy(update={"score": score})
            for line, score in zip(lines, scores, strict=True)
        ],
        ratings=ratings,
    )


def _shown(assigned: int | None, random: int | None, expected: int | None) -> int | None:
    """All of the work, or as much of its contrary, by whether the assigned batches are ahead."""
    if assigned is None or random is None or expected is None:
        return None
    ahead = assigned - expected - random
    return 1_000_000 * ((ahead > 0) - (ahead < 0))


# The nodes in order of merit: 4 is best and 11 worst; only 4 and 2 do better on their own data.
LOSSES: Losses = {
    4: (9_000_000, 8_000_000, 0),
    2: (8_000_000, 7_000_000, 0),
    9: (6_000_000, 6_000_000, 0),
    7: (4_000_000, 5_000_000, 0),
    11: (3_000_000, 5_000_000, -1_000_000),
}


def older(record: ScoreRecord) -> bytes:
    """The bytes of a record as one of the version before."""
    fields = record.model_dump(mode="json")
    return dumps({**fields, "version": fields["version"] - 1})


def chain_of(rounds: int, losses: Losses = LOSSES) -> list[ScoreRecord]:
    """The records of that many rounds, each following from the one before."""
    records: list[ScoreRecord] = []
    for number in range(1, rounds + 1):
        records.append(honest_record(records[-1] if records else None, number, losses))
    return records
