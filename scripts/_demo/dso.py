# SPDX-License-Identifier: Apache-2.0
"""The demo of decentralized semantic optimization (ZIP-400): groups that may not share their data.

Each trainer has a folder of its own, cut from another part of the corpus, that never leaves it.
Steps are differentially private per example (DP-SGD), updates travel at a hundredth of their size,
Multi-Krum outvotes three poisoners, and one node has so little data that each step tells more of
it: its privacy budget runs out, and it stops by itself in the middle of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.protocol.numbers import ZOO
from scripts._demo.scenario import Cheat, Data, Scenario
from scripts._report.story import Story
from scripts._report.verdict import Check

_PUBLIC_EVERY = 6  # of this many documents one is public, for validation
_STEPS = 3  # a round and trainer, on average; a better benchmark gets more
_LOT = 128
_OPTIMIZER: Mapping[str, Any] = {
    "lr": 1e-2,
    "min_lr_ratio": 0.5,
    "betas": (0.0, 0.95),
    "eps": 1e-2,
    "grad_clip": 1e4,
}
"""With AdamW's usual `eps` every number of a step is about as long, so most of a step is the noise
of DP-SGD. An `eps` above that noise (0.0027 a number) leaves each number its size, and without a
first moment no early step counts twice. docs/compression.md has what two updates share of it."""
_SEMANTIC: dict[str, Any] = {"ratio": 100.0, "clip": 2.0, "bits": 2, "width": 1.0}
"""`clip` is above an update of a few steps; few bits buy more rows at the same length."""
_CHANCE = 0.0091  # 3 / sqrt(108,864): of that many numbers chance makes a cosine
_CHANCE_OF_ROWS = 0.023  # 3 / sqrt(17,128): `semantic` sends that many rows
_SMALL = 0  # the trainer with little data
_SMALL_BYTES = 83_200  # 1,280 examples: the budget lasts for one to six rounds of 9 to 2 steps
_POISON_SHARE = 0.2  # of an honest node's mean pay, at most


def _spec(trainers: int) -> dict[str, Any]:
    return {
        "access": "local",
        "verify": "screening",
        "codec": "polytope",
        "merge": "multi_krum",
        "score": "alignment",
        "score_options": {"chance": _CHANCE},
        "privacy": "dp_sgd",
        "privacy_options": {"clip": 0.5, "noise_multiplier": 0.7, "lot": _LOT},
        "optimizer": dict(_OPTIMIZER),
        "batches_per_round": _STEPS * trainers,
        "val_fraction": 0.5,
        "eval_batches": 4,
    }


def by_semantic_gradients(scenario: Scenario) -> Scenario:
    """The same job with ZIP-400's codec at a hundredth of the bytes.

    All nodes project with the round's seed, because Multi-Krum compares their payloads.
    """

    def spec(trainers: int) -> dict[str, Any]:
        semantic = {"codec": "semantic", "codec_options": _SEMANTIC}
        return scenario.spec(trainers) | semantic | {"score_options": {"chance": _CHANCE_OF_ROWS}}

    return replace(scenario, spec=spec)


def _data(documents: Sequence[bytes], folder: Path, trainers: int) -> Data:
    """Neighbouring documents go to the same trainer, so the shards are disjoint and unlike.

    Every so many documents one is public and measures what was learnt from all of them.
    """
    public = list(documents[::_PUBLIC_EVERY])
    parts = _cut([d for i, d in enumerate(documents) if i % _PUBLIC_EVERY], trainers)
    settings = []
    parts[_SMALL] = [b"\n".join(parts[_SMALL])[:_SMALL_BYTES]]
    for number, part in enumerate(parts, start=1):
        own = folder / f"trainer-{number}"
        own.mkdir(parents=True)
        for index, document in enumerate(part):
            (own / f"{index:04d}.txt").write_bytes(document)
        settings.append(
            {"MENAGERIE_TRAINER__LOCAL_DATA": str(own), "MENAGERIE_TRAINER__ACCEPT_RIDERS": "true"}
        )
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


def _checks(history: Story, cheats: Mapping[str, str]) -> list[Check]:
    trainers = [node for node in history.nodes.values() if node.roles == 1]
    names = set(cheats.values())
    small = next(node for node in trainers if node.name == f"trainer-{_SMALL + 1}")
    steady = [n.earned for n in trainers if n.name not in names and n is not small]
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
    took_part = [story.round_id for story in rounds if small.node_id in story.committed]
    stopped = bool(took_part) and took_part == list(range(1, len(took_part) + 1))
    found.append(
        Check(
            stopped and len(took_part) < len(rounds),
            f"{small.name}, with {_SMALL_BYTES:,} bytes of data, took part in the first "
            f"{len(took_part)} of {len(rounds)} rounds; its budget was spent and it stopped",
        )
    )
    return found


DSO = Scenario(
    title="groups train on data that never leaves them; liars are outvoted, privacy is counted",
    trainers=10,
    cheats={
        "sign flip": Cheat(
            "poisoner", None, "Send its update reversed.", {"CHEAT_ATTACK": "sign_flip"}
        ),
        "blow-up": Cheat(
            "poisoner",
            None,
            "Send its update reversed and a thousand times as long.",
            {"CHEAT_ATTACK": "blow_up"},
        ),
        "noise": Cheat(
            "poisoner", None, "Send noise instead of an update.", {"CHEAT_ATTACK": "noise"}
        ),
    },
    spec=_spec,
    data=_data,
    checks=_checks,
)
