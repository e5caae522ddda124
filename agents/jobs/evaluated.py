# SPDX-License-Identifier: Apache-2.0
"""Whether validators look at enough: of a gauntlet job's trainers in a round, and of text.

Rule: of the trainers that can work in it, half at least are evaluated in a round. With fewer, pay
for equal work is uneven, and a sponsor is warned. Where there are `MANY` trainers or more, and an
eighth of them or fewer is evaluated, who stops after half of the rounds is paid more than half of
an honest node's pay and a tenth of that; such a job is not created unless its sponsor says so.

A loss is measured on `LEAST_TOKENS` at least. By fewer, chance says what a node has shown in a
round, and a sponsor is warned.

Figures: `python -m tests.measure.studies.coasting --evaluated 8`, 32 and 64: draw, ratings and
shares are real, what is measured of a node is made up. Of tokens: the row "stop to work after half
of the rounds" of `ape run economics attacks --full`, with 4 and 8 batches of 32 (docs/gauntlet.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agents.mechanisms.score.gauntlet import Gauntlet
from agents.training.spec import JobSpec

MANY = 24
"""Trainers from which an eighth was seen to pay half of the work too much; of 16 it did not."""
LEAST_TOKENS = 256
"""Of a loss that is measured."""
_EIGHTH = 8
_SEEN = (
    "Of 64 nodes in simulated rounds, equal ones' pay spread by 0.73 to 0.80 of its mean over 24 "
    "rounds where 8 were evaluated, by 0.45 to 0.50 where 32 were, and by 0.29 to 0.31 where all "
    "were; who stopped after half of 100 rounds earned 0.57, 0.46 and 0.49 of an honest node's pay "
    "(docs/gauntlet.md)."
)


@dataclass(frozen=True)
class FewEvaluated:
    """`sentence`: what a sponsor should know and change. `overpays`: whether half of the work is
    known to be paid above its share and a tenth of that."""

    sentence: str
    overpays: bool


def few_evaluated(spec: JobSpec, trainers: int) -> FewEvaluated | None:
    """None where enough of so many trainers are evaluated, and where no validator scores."""
    if spec.score != "gauntlet":
        return None
    count = int(spec.score_options.get("evaluated", Gauntlet.evaluated))
    enough = math.ceil(trainers / 2)
    if count >= enough:
        return None
    return FewEvaluated(
        f"validators evaluate {count} of {trainers} trainers in a round. {_SEEN} Set "
        f"score_options.evaluated to {enough} or more; each validator then measures as many "
        "payloads a round.",
        trainers >= MANY and _EIGHTH * count <= trainers,
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
        "who stopped to work after half of the rounds earned 0.63 of an honest node's pay by 128 "
        f"tokens, and 0.53 by {LEAST_TOKENS} (docs/gauntlet.md). Set score_options.eval_batches to "
        f"{math.ceil(LEAST_TOKENS / each)} or more."
    )
