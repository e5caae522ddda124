# SPDX-License-Identifier: Apache-2.0
"""The demo of decentralized semantic optimization (ZIP-400): groups that may not share their data.

Each trainer has a folder of its own, cut from another part of the corpus, that never leaves it.
Steps are differentially private per example (DP-SGD), updates travel at a hundredth of their size,
Multi-Krum outvotes three poisoners, and one node has a smaller privacy budget than the others: it
stops by itself in the middle of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts._history import ZOO, History
from scripts._scenario import BATCHES_PER_TRAINER, Cheat, Data, Scenario
from scripts._verdict import Check

_PUBLIC_PARTS = 2  # of the corpus, for validation
_FRUGAL = 0  # the trainer with the smaller budget
_FRUGAL_EPSILON = "3.0"
_POISON_SHARE = 0.2  # of an honest node's mean pay, at most


def _spec(trainers: int) -> dict[str, Any]:
    return {
        "access": "local",
        "verify": "screening",
        "codec": "polytope",
        "merge": "multi_krum",
        "score": "alignment",
        "privacy": "dp_sgd",
        "privacy_options": {"clip": 1.0, "noise_multiplier": 0.8, "max_epsilon": 8.0},
        "optimizer": {"batch_size": 64, "warmup_rounds": 0, "min_lr_ratio": 0.3},
        "batches_per_round": BATCHES_PER_TRAINER * trainers,
        "val_fraction": 0.5,
        "eval_batches": 4,
    }


def _data(documents: Sequence[bytes], folder: Path, trainers: int) -> Data:
    """Neighbouring documents go to the same trainer: the shards are disjoint and unlike."""
    parts = _cut(documents, trainers + _PUBLIC_PARTS)
    settings = []
    for number, part in enumerate(parts[:trainers], start=1):
        own = folder / f"trainer-{number}"
        own.mkdir(parents=True)
        for index, document in enumerate(part):
            (own / f"{index:04d}.txt").write_bytes(document)
        settings.append({"MENAGERIE_TRAINER__LOCAL_DATA": str(own)})
    settings[_FRUGAL]["MENAGERIE_TRAINER__MAX_EPSILON"] = _FRUGAL_EPSILON
    public = [document for part in parts[trainers:] for document in part]
    return Data(public, settings)


def _cut(documents: Sequence[bytes], count: int) -> list[list[bytes]]:
    """`count` runs of neighbouring documents of about equal length in bytes."""
    whole = sum(map(len, documents))
    parts: list[list[bytes]] = [[] for _ in range(count)]
    done = 0
    for document in documents:
        parts[min(count - 1, done * count // whole)].append(document)
        done += len(document)
    return parts


def _checks(history: History, cheats: Mapping[str, str]) -> list[Check]:
    trainers = [node for node in history.nodes.values() if node.roles == 1]
    names = set(cheats.values())
    frugal = next(node for node in trainers if node.name == f"trainer-{_FRUGAL + 1}")
    steady = [n.earned for n in trainers if n.name not in names and n is not frugal]
    usual = sum(steady) / len(steady)
    found = []
    for node in trainers:
        if node.name in names:
            share = node.earned / usual if usual else 1.0
            sentence = (
                f"{node.name} earned {node.earned / ZOO:,.2f} ZOO, {share:.1%} of an honest one"
            )
            found.append(Check(share <= _POISON_SHARE, sentence))
    rounds = sorted(history.rounds.values(), key=lambda story: story.round_id)
    took_part = [story.round_id for story in rounds if frugal.node_id in story.committed]
    stopped = bool(took_part) and took_part == list(range(1, len(took_part) + 1))
    found.append(
        Check(
            stopped and len(took_part) < len(rounds),
            f"{frugal.name}, with a budget of epsilon {_FRUGAL_EPSILON}, took part in the first "
            f"{len(took_part)} of {len(rounds)} rounds and then stopped by itself",
        )
    )
    return found


DSO = Scenario(
    title="groups train on data that never leaves them; liars are outvoted, privacy is counted",
    trainers=10,
    cheats={
        "sign flip": Cheat("poisoner", None, {"CHEAT_ATTACK": "sign_flip"}),
        "blow-up": Cheat("poisoner", None, {"CHEAT_ATTACK": "blow_up"}),
        "noise": Cheat("poisoner", None, {"CHEAT_ATTACK": "noise"}),
    },
    spec=_spec,
    data=_data,
    checks=_checks,
)
