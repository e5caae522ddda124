# SPDX-License-Identifier: Apache-2.0
"""Whether validators look at enough: of a gauntlet job's trainers, of their batches, and of text.

Rule: of the trainers that can work in it, half at least are evaluated in a round. With fewer, pay
for equal work is uneven, and a sponsor is warned.

Work is looked for on every batch that a trainer is assigned: on a part of them little work passes
for all of it. So no more are handed out than are measured (`agents.training.assignment`), and a
sponsor who names more is told how many a round has. Of more than `FEW_SEQUENCES` sequences a
trainer a sponsor is warned.

A loss is measured on `LEAST_TOKENS` at least. By fewer, chance says what a node has shown in a
round, and a sponsor is warned.

Figures: `python -m tests.measure.studies.coasting --evaluated 8`, 32 and 64: draw, ratings and
shares are real, what is measured of a node is made up. Of batches: `python -m
tests.measure.studies.gauntlet_pay --job demo --texts --rounds 16 --cases "plain quarter" --batches
16 --eval-batches 8`, and with other numbers of both (docs/gauntlet.md). Of tokens: the row "stop to
work after half of the rounds" of `ape run economics attacks --full`, with 4 and 8 batches of 32
(docs/gauntlet.md).
"""

from __future__ import annotations

import math
from typing import Any

from agents.mechanisms.score.gauntlet import Gauntlet
from agents.training.assignment import equal_share
from agents.training.spec import JobSpec

LEAST_TOKENS = 256
"""Of a loss that is measured."""
MOST_BATCHES = 64
"""Of a loss: what a spec allows."""
FEW_SEQUENCES = 8
"""Of a trainer in a round: so many have the demo's."""
_MANY = (
    "The more there are, the less its update shows of each. By 32 the pay of equal nodes spread by "
    "0.19 to 0.35 of its mean, and a node that did a quarter of the work earned up to 0.45 of an "
    "honest node's pay; by 8 it was 0.07 to 0.29, and 0.16 (docs/gauntlet.md)."
)
_SEEN = (
    "Of 64 nodes in simulated rounds, equal ones' pay spread by 0.58 to 0.76 of its mean over 24 "
    "rounds where 8 were evaluated, by 0.38 to 0.45 where 32 were, and by 0.24 to 0.33 where all "
    "were (docs/gauntlet.md)."
)


def few_evaluated(spec: JobSpec, trainers: int) -> str | None:
    """What a sponsor should know and change where few of so many trainers are evaluated; None where
    enough are, and where no validator scores."""
    if spec.score != "gauntlet":
        return None
    count = int(spec.score_options.get("evaluated", Gauntlet.evaluated))
    enough = math.ceil(trainers / 2)
    if count >= enough:
        return None
    return (
        f"validators evaluate {count} of {trainers} trainers in a round. {_SEEN} Set "
        f"score_options.evaluated to {enough} or more; each validator then measures as many "
        "payloads a round."
    )


def held_back(spec: JobSpec, trainers: int) -> str | None:
    """What a sponsor should know and change where so many trainers are not handed out all batches
    of a round, since validators measure fewer; None where they are, and where no validator scores.
    """
    if spec.score != "gauntlet":
        return None
    named, own = spec.batches_per_round, equal_share(spec, trainers)
    wanted = max(1, named // trainers)
    if own >= wanted:
        return None
    options = Gauntlet(**dict[str, Any](spec.score_options))
    found = (
        f"each of {trainers} trainers is handed out {own} batches in a round and not {wanted}, "
        f"since validators measure {options.eval_batches} (score_options.eval_batches). So a round "
        f"has {own * trainers} of the {named} that batches_per_round names, and costs as much. "
        f"With {math.ceil(named / own)} trainers it has all of them."
    )
    needed = wanted * max(1, options.extra)
    if needed <= MOST_BATCHES:
        found += f" For {trainers} set score_options.eval_batches to {needed}."
    return found


def many_sequences(spec: JobSpec, trainers: int) -> str | None:
    """What a sponsor should know and change where a trainer has many sequences in a round; None
    where it has few, and where no validator scores."""
    if spec.score != "gauntlet":
        return None
    own = equal_share(spec, trainers) * spec.optimizer.batch_size
    if own <= FEW_SEQUENCES:
        return None
    return (
        f"each of {trainers} trainers has {own} sequences in a round. {_MANY} Hand out fewer "
        "(batches_per_round, optimizer.batch_size)."
    )


def few_measured(spec: JobSpec) -> str | None:
    """What a sponsor should know and change where losses are measured on few tokens."""
    if spec.score != "gauntlet":
        return None
    batches = int(spec.score_options.get("eval_batches", Gauntlet.eval_batches))
    each = spec.optimizer.batch_size * spec.optimizer.seq_len
    if batches * each >= LEAST_TOKENS:
        return None
    return (
        f"validators measure a loss on {batches * each} tokens. In a small job that was played, "
        "who stopped to work after half of the rounds earned 0.57 of an honest node's pay by 128 "
        f"tokens, and 0.49 by {LEAST_TOKENS} (docs/gauntlet.md). Set score_options.eval_batches to "
        f"{math.ceil(LEAST_TOKENS / each)} or more."
    )
