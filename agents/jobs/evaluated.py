# SPDX-License-Identifier: Apache-2.0
"""Whether validators look at enough: of a gauntlet job's trainers in a round, and of text.

Rule: of the trainers that can work in it, half at least are evaluated in a round. With fewer, pay
for equal work is uneven, and a sponsor is warned.

A loss is measured on `LEAST_TOKENS` at least. By fewer, chance says what a node has shown in a
round, and a sponsor is warned.

Figures: `python -m tests.measure.studies.coasting --evaluated 8`, 32 and 64: draw, ratings and
shares are real, what is measured of a node is made up. Of tokens: the row "stop to work after half
of the rounds" of `ape run economics attacks --full`, with 4 and 8 batches of 32 (docs/gauntlet.md).
"""

from __future__ import annotations

import math

from agents.mechanisms.score.gauntlet import Gauntlet
from agents.training.spec import JobSpec

LEAST_TOKENS = 256
"""Of a loss that is measured."""
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
