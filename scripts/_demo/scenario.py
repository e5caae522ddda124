# SPDX-License-Identifier: Apache-2.0
"""What a demo is about: the job, the data, who cheats and how, and what must hold at the end.

A scenario names only what differs between demos. Starting, watching and judging a network is the
same for all; `scripts/_demo/demo.py` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.jobs.publish import Terms
from agents.protocol.numbers import ZOO, Violation
from agents.training.documents import stdlib_corpus
from scripts._demo.secret import Sight
from scripts._report.story import Story
from scripts._report.verdict import LOSS_GOAL, Check

BATCHES_PER_TRAINER = 12
TERMS = Terms(
    reward_per_round=100 * ZOO,
    commit_s=60,
    reveal_s=12,
    aggregate_s=30,
    challenge_s=60,
    appeal_s=6,
    dispute_s=60,
    challenge_bond=50 * ZOO,
)


@dataclass(frozen=True)
class Cheat:
    """A dishonest trainer: its program in `scripts._demo.cheats`, and what it is slashed for, if
    so.

    `does`: what the program does, for readers of the report.
    `partner`: the number, from 1, of the trainer whose folder it can read. `same_owner`: it is
    registered by that trainer's owner.
    """

    program: str
    violation: Violation | None
    does: str
    env: Mapping[str, str] = field(default_factory=dict)
    partner: int = 1
    same_owner: bool = False


@dataclass(frozen=True)
class Data:
    """The public documents, and settings per trainer (environment) that its own data needs."""

    public: Sequence[bytes]
    settings: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Scenario:
    """One demo.

    Attributes:
        title: one line for the screen.
        trainers: how many by default, cheats included; they come last.
        cheats: by the name that reports show.
        peers: honest trainers with settings of their own (environment), by the name that reports
            show; they come before the cheats.
        killed: seats that are killed in the middle of a round's work, by that round, a trainer
            first. It starts again a little later, the others when the round's result is proposed.
        again: a round of which the audit does all work again; 0 for none.
        plain: the fewest other trainers without which the demo shows nothing.
        rounds: how many by default.
        loss_goal: share of the first validation loss that the last may be at most.
        spec: fields of the job spec, from the number of trainers.
        data: writes what the trainers bring into a folder; gets the documents, the folder and the
            number of trainers.
        terms: what the sponsor offers.
        checks: sentences that must hold besides those of every demo, from what happened and the
            names of cheats and peers as reports show them.
        shard_bytes: encrypt the data in shards of so many bytes, each with a key of its own; None
            leaves it public.
        sight: sentences that must hold of encrypted data, from what the sponsor sees and the
            cheats' seats by what they do.
    """

    title: str
    trainers: int
    cheats: Mapping[str, Cheat]
    spec: Callable[[int], dict[str, Any]]
    data: Callable[[Sequence[bytes], Path, int], Data] = lambda documents, folder, n: Data(
        documents
    )
    terms: Terms = TERMS
    checks: Callable[[Story, Mapping[str, str]], list[Check]] = lambda history, names: []
    peers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    killed: Mapping[int, Sequence[str]] = field(default_factory=dict)
    again: int = 0
    plain: int = 2
    rounds: int = 10
    loss_goal: float = LOSS_GOAL
    shard_bytes: int | None = None
    sight: Callable[[Sight, Mapping[str, str]], list[Check]] = lambda sight, cheats: []

    @property
    def fewest(self) -> int:
        """Trainers without which the demo shows nothing."""
        return len(self.cheats) + len(self.peers) + self.plain


OPTIMIZER: Mapping[str, Any] = {
    "inner": "muon",
    "inner_options": {"lr_ratio": 5.0},
    "lr": 8e-3,
    "warmup_rounds": 1,
    "min_lr_ratio": 0.3,
}
"""The best of a grid on the demo's job, 8 honest nodes and 10 rounds: 2.17 nats a byte, and 2.14
where each node's state lives on from round to round; AdamW at its best rate there 2.32."""


def _plain_spec(trainers: int) -> dict[str, Any]:
    return {
        "batches_per_round": BATCHES_PER_TRAINER * trainers,
        "optimizer": {**OPTIMIZER, "inner_state": "kept"},
    }


PLAIN = Scenario(
    title="strangers train on public data; cheats are found by re-execution and slashed",
    trainers=8,
    cheats={
        "noise": Cheat("noise", Violation.INVALID, "Send noise instead of an update."),
        "copier": Cheat("copier", Violation.COPIED, "Commit to another node's payload."),
        "silent": Cheat("silent", Violation.NO_REVEAL, "Commit and never reveal."),
    },
    spec=_plain_spec,
)


def documents_of(files: Sequence[Path]) -> list[bytes]:
    """The texts to train on: the given files, or Python's standard library."""
    from agents.training.documents import read_documents

    return list(read_documents(files) if files else stdlib_corpus())
