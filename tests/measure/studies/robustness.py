# SPDX-License-Identifier: Apache-2.0
"""Experiments with 7 honest and 3 malicious nodes: `python -m tests.measure.studies.robustness`.

Rule: a robustness figure in the docs is printed by this command, from the updates that
`test_poisoning.py` judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import torch

from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merge_rules
from agents.mechanisms import score as score_rules
from agents.mechanisms.score import Evidence
from agents.training.state import State
from tests.attacks.poisoning import ATTACKS, cosine, mean, vector
from tests.stage.memory.ten_trainers import NODES, honest_updates, ten_trainers

HONEST = 7
LABEL_FLIP = "label_flip"
NAMES = (*ATTACKS, LABEL_FLIP)
RULES = ("multi_krum", "trimmed_mean", "median", "geometric_median", "centred_clipping")
_STEPS = 4


@lru_cache(maxsize=32)
def rows(attack: str, alike: bool) -> tuple[State, ...]:
    """One round's updates, honest ones first; not to be written to."""
    known = honest_updates(alike)
    honest, own = known.updates[:HONEST], known.updates[HONEST:]
    if attack == LABEL_FLIP:
        flipped = (
            known.nodes.train(node, known.state, known.round_number, known.steps, flipped=True)
            for node in range(HONEST, NODES)
        )
        return (*honest, *flipped)
    return (*honest, *ATTACKS[attack](honest, own))


@lru_cache(maxsize=128)
def merged_cosine(rule: str, attack: str, alike: bool) -> float:
    """Cosine of the merged update to the honest nodes' mean."""
    updates = rows(attack, alike)
    return cosine(merge_rules.get(rule)()(updates), mean(updates[:HONEST]))


def guaranteed_cosine(alike: bool) -> float:
    """The cosine to the honest mean that the best of all rules can guarantee on these updates.

    Allouah et al., "Fixing by Mixing" (AISTATS 2023), definition 2 and proposition 6: no rule keeps
    the squared distance to the honest mean below kappa times the honest nodes' mean squared
    distance to it for a kappa under f / (n - 2 f), here 3/4. A point at that distance from the mean
    m can be at an angle with it whose sine is the distance over |m|.
    """
    honest = torch.stack([vector(update) for update in honest_updates(alike).updates[:HONEST]])
    centre = honest.mean(0)
    spread = (honest - centre).square().sum(1).mean()
    kappa = (NODES - HONEST) / (2 * HONEST - NODES)
    return max(0.0, 1 - kappa * float(spread / centre.square().sum())) ** 0.5


def qualities(attack: str, alike: bool) -> list[float]:
    """Scores 0..1 under `alignment`, with measured gains, after a merge by Multi-Krum."""
    updates, known = rows(attack, alike), honest_updates(alike)
    merged = merge_rules.get("multi_krum")()(updates)
    gains = known.nodes.gains_ppm(known.state, updates, merged)
    score = score_rules.get("alignment")()
    found = score(updates, [known.steps] * NODES, Evidence(merged, tuple(gains)))
    return [quality / 1e6 for quality in found.quality_ppm]


def converge(
    attack: str | None, codec: str, rule: str = "multi_krum", rounds: int = 4, **options: Any
) -> tuple[float, float]:
    """Validation loss before and after rounds of nodes with the same text, 3 of 10 malicious.

    Updates travel through `codec` and are merged by `rule` with `options`. Attackers see all
    updates as they are before the codec, and keep the codec's memory as everybody does. None: all
    ten are honest.
    """
    nodes, wire, merge = (
        ten_trainers(alike=True),
        codecs.get(codec)(),
        merge_rules.get(rule)(**options),
    )
    state = nodes.genesis()
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    memories: list[State | None] = [None] * NODES
    first = nodes.loss(state)
    for number in range(rounds):
        seed = bytes([number]) * 32
        honest = nodes.honest(state, number, _STEPS, range(HONEST))
        own = [
            nodes.train(node, state, number, _STEPS, flipped=attack == LABEL_FLIP)
            for node in range(HONEST, NODES)
        ]
        sent = ATTACKS[attack](honest, own) if attack in ATTACKS else own
        received = []
        for node, update in enumerate(chain(honest, sent)):
            payload = wire.encode(update, memories[node], seed)
            received.append(wire.decode(payload, shapes, seed))
            memories[node] = wire.remember(update, memories[node], received[-1])
        state = nodes.step(state, merge(received))
    return first, nodes.loss(state)


def _table(head: str, columns: Sequence[str], lines: dict[str, list[float]]) -> None:
    print(f"\n| {head} | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name, values in lines.items():
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} |")


def main() -> None:
    """Print the tables of docs/scoring.md."""
    for alike in (True, False):
        kind = "alike" if alike else "apart"
        units = torch.stack([vector(update) for update in honest_updates(alike).updates])
        units = units / units.norm(dim=1, keepdim=True)
        pairs = (units @ units.T)[~torch.eye(NODES, dtype=torch.bool)]
        print(f"\n{kind}: median cosine of two honest updates {float(pairs.median()):.2f};", end="")
        print(f" the best rule can guarantee {guaranteed_cosine(alike):.2f}")
        columns = ("mean", *RULES)
        cosines = {a: [merged_cosine(rule, a, alike) for rule in columns] for a in NAMES}
        _table(f"cosine to the honest mean, {kind}", columns, cosines)
        scores = {a: qualities(a, alike) for a in NAMES}
        spans = {a: [min(q[:HONEST]), max(q[:HONEST]), max(q[HONEST:])] for a, q in scores.items()}
        _table(f"score, {kind}", ("honest, least", "honest, most", "malicious, most"), spans)
    print("\n| last loss / first, multi_krum | rounds | attack | ratio |\n|---|---|---|---|")
    some = (None, "sign_flip", "ipm_strong", "mimic")
    for name, codec, options, rounds, attacks in (
        ("dense", "dense", {}, 4, (None, *NAMES)),
        ("polytope", "polytope", {}, 4, some),
        ("sparse", "sparse", {}, 7, some),
        ("sparse, mixing", "sparse", {"mixing": True}, 7, some),
    ):
        for attack in attacks:
            first, last = converge(attack, codec, rounds=rounds, **options)
            print(f"| {name} | {rounds} | {attack or 'none'} | {last / first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
