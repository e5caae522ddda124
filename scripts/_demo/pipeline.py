# SPDX-License-Identifier: Apache-2.0
"""The demo of a pipeline (IOTA): a model in four stages, and no node holds more than one of them.

Samples pass from stage to stage as compressed codes, along ways that the round's seed draws; their
gradients come back the same way. Once a round each stage's miners merge their changes: pairs of
them own a shard each, sign what they merged, and answer for it. The merged change goes through
Nesterov's momentum. From the second round on miners are drawn by the pace and the reliability that
the rounds before showed. In the second round a miner and both aggregators are killed while samples
are under way. The miner starts again and goes on; a verifier proposes the round's result, and the
aggregators stay away until it has. In the end a stranger does all work of that round again. Each
honest miner must have earned something by then, the killed one too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.protocol.numbers import Violation
from scripts._demo.scenario import Cheat, Scenario
from scripts._report.story import Story
from scripts._report.verdict import Check, check_earned

STAGES = 4
_SAMPLES = 8  # a round and miner of the first stage


def _spec(trainers: int) -> dict[str, Any]:
    return {
        "mode": "pipeline",
        "score": "backward_passes",
        "score_options": {"gamma": 2},
        "merge": "median",
        "batches_per_round": _SAMPLES * trainers // STAGES,
        "model": {"n_layers": STAGES, "tie_embeddings": False},
        "pipeline": {
            "layers": [1] * STAGES,
            "boundary": "residual",
            "boundary_options": {"width": 8},
            "local_batch": 4,
            "all_reduce": "butterfly",
            "least_valid": 0.6,
            "outer": {"rate": 0.7, "momentum": 0.8},
            "paths": "measured",
        },
        "audit_sample": trainers,
        # AdamW. No grid chose this rate, and Muon was not tried here: the settings of the standard
        # demo are for kept state, which a stage can't have, because it changes hands.
        "optimizer": {"lr": 1e-2},
    }


def _checks(history: Story, names: Mapping[str, str]) -> list[Check]:
    """The killed miner is among those who must have earned: what it did of that round counts, and
    it is there in all others."""
    return [check_earned(history, names.values())]


PIPELINE = Scenario(
    title="strangers train a model of which each holds one stage; cheats are found and slashed",
    trainers=12,
    cheats={
        "loafer": Cheat(
            "loafer", Violation.INVALID, "Answer with random codes, and log that it worked."
        ),
        "two-faced": Cheat(
            "two_faced", Violation.INVALID, "Hand on another code than it logs and signs for."
        ),
        "misstater": Cheat(
            "misstater", Violation.INVALID, "State false merges of the shards that it owns."
        ),
        "poisoner": Cheat(
            "poisoner",
            Violation.INVALID,
            "Do the work, and send the change of its stage reversed.",
            {"CHEAT_ATTACK": "sign_flip"},
        ),
    },
    killed={2: ("trainer-1", "aggregator-1", "aggregator-2")},
    again=2,
    spec=_spec,
    plain=STAGES,
    rounds=6,
    checks=_checks,
)
