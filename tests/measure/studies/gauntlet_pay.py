# SPDX-License-Identifier: Apache-2.0
"""What a node earns under the score `gauntlet` for what it does, by a real round's functions.

Run: `python -m tests.measure.studies.gauntlet_pay [--job signs|plain|sparse|...] [--rounds 24]
[--seeds 3] [--cases riders,...] [--paper] [--power 1.25 ...] [--texts] [--seq-len 64]
[--codec-options '{"per_chunk": 512}'] [--optimizer '{"outer_lr": 4e-3}']`.

Nodes train a small model on the standard library's source, and three validators score them
(`scripts/_attacks/gauntlet_swarm.py`). Printed: the share of all pay of each kind of node, over the
share that its work is of all the work; 1.00 is fair. Where sizes differ, what each is paid in parts
of an honest node's pay stands beside it. `--seq-len`: tokens of a sequence, of which a quarter is
a run on which work is looked for; with more than 32 the small models read as many. `--power`: also
what the same rounds' ratings pay under another exponent of the shares. Who is merged does not
depend on it while every plausible node has a share. A seed draws what validators measure; with
`--texts` it orders the text and draws the first model too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from agents.gauntlet.replay import scores_of
from agents.protocol.median import stake_median
from agents.storage.embedded import EmbeddedStore
from scripts._attacks import riders
from scripts._attacks.gauntlet_swarm import VALIDATORS, GauntletSwarm
from scripts._attacks.strategies import (
    adapts,
    blurs,
    copies,
    head_and_part,
    head_and_past,
    head_only,
    history,
    masked_history,
    noise,
    part_pool,
    pools,
    pools_in_a_ring,
    rides,
    rides_by_tensor,
    skims,
    trains,
    upper_half,
    windows,
    zero,
)
from scripts._attacks.swarm import Strategy, seeded
from scripts._demo.gauntlet import GAUNTLET as SCENARIO
from tests.stage.memory.gauntlet_run import LOCAL_STEPS, SPEC, allowed
from tests.stage.memory.tiny_specs import tiny_model

PAPER: dict[str, Any] = {"pays": "rank", "history": 0, "power": 2.0}
BATCHES = 4  # a node and round
DEMO = SCENARIO.spec(SCENARIO.trainers)
# As in `make demo JOB=gauntlet`, on a smaller model and shorter sequences.
SIGNS: dict[str, Any] = {
    "codec_options": riders.SIGNS["codec_options"],
    "optimizer": {**riders.SIGNS["optimizer"], "seq_len": 16},
}
JOBS: dict[str, dict[str, Any]] = {
    "signs": SIGNS,
    # The same with four layers in place of one: part of them may be left out.
    "deep": {**SIGNS, "model": tiny_model(32, 64, 32, layers=4)},
    # The same without momentum: a payload holds one round's gradient, and past updates add to it.
    # Refused, as it says too little of it.
    "plain": {
        "codec_options": {"per_chunk": 64, "decay": 0.0},
        "optimizer": {**SPEC["optimizer"], "batch_size": 2, "seq_len": 16, "outer_lr": 2e-3},
    },
    # Refused by `agents.jobs.combinations.pay`, too, as the last one with the codec of the demo is,
    # the same with another inner optimizer, and what is taken: its codec without local steps.
    "sparse": LOCAL_STEPS,
    "sparse muon": {
        **LOCAL_STEPS,
        "optimizer": {**LOCAL_STEPS["optimizer"], "inner": "muon"},
    },
    "sparse gradient": {
        **LOCAL_STEPS,
        "optimizer": {**LOCAL_STEPS["optimizer"], "inner": "gradient", "outer_lr": 0.05},
    },
    "steps": {**LOCAL_STEPS, "codec": "demo"},
    # That of `make demo JOB=gauntlet`, on its own model.
    "demo": {**{key: DEMO[key] for key in ("codec_options", "optimizer")}, "model": {}},
}


@dataclass(frozen=True)
class Case:
    """Who comes: for each kind of node its work, in honest nodes', and how many there are."""

    kinds: Mapping[str, tuple[float, Callable[..., Strategy] | Strategy, int]]

    def population(self) -> dict[int, tuple[str, float, Strategy]]:
        """Kind, work and strategy by node."""
        found, node = {}, 1
        for kind, (work, strategy, count) in self.kinds.items():
            members = tuple(range(node, node + count))
            for _ in range(count):
                made = strategy(*members) if kind.startswith("pool") else strategy
                found[node] = (kind, work, made)
                node += 1
        return found


def crowd(honest: int, **others: tuple[float, Any, int]) -> Case:
    return Case({"honest": (1.0, trains(), honest), **others})


# Each takes a quarter of an honest node's work.
QUARTERS = (
    rides(0.25),
    rides_by_tensor(0.25),
    masked_history(),
    skims(0.25),
    windows(0.25),
    trains(0.25),
)

CASES: dict[str, Case] = {
    "equal": crowd(8),
    "rider": crowd(6, rider=(1.0, rides(), 1)),
    "riders": crowd(5, rider=(1.0, rides(), 2)),
    "quarter": crowd(6, rider=(0.25, rides(0.25), 1)),
    "quarters": crowd(5, rider=(0.25, rides(0.25), 2)),
    "plain quarter": crowd(6, quarter=(0.25, trains(0.25), 1)),
    "by tensor": crowd(5, rider=(0.25, rides_by_tensor(0.25), 2)),
    "masked": crowd(5, rider=(0.25, masked_history(), 2)),
    "little": crowd(5, rider=(0.25, rides(0.25, 0.3), 2)),
    "adapting": crowd(6, rider=(0.25, adapts(*QUARTERS), 1)),
    "adapting third": crowd(4, rider=(0.25, adapts(*QUARTERS), 2)),
    "skims": crowd(5, rider=(0.25, skims(0.25), 2)),
    "windows": crowd(6, rider=(0.25, windows(0.25), 3)),
    # Work as for the output layer: half of it is saved where nothing goes back through the others.
    "head": crowd(5, rider=(0.5, head_only, 2)),
    "head and past": crowd(5, rider=(0.5, head_and_past, 2)),
    "head and quarter": crowd(5, rider=(0.625, head_and_part(0.25), 2)),
    "head and half": crowd(5, rider=(0.75, head_and_part(0.5), 2)),
    "upper": crowd(5, rider=(0.75, upper_half(), 2)),
    "upper and quarter": crowd(5, rider=(0.8125, upper_half(0.25), 2)),
    "history": crowd(6, history=(0.0, history, 1)),
    "histories": crowd(5, history=(0.0, history, 2)),
    "pair": crowd(6, pool=(1.0, pools, 2)),
    "pool": crowd(6, pool=(1.0, pools, 3)),
    "pool in part": crowd(5, pool=(1.0, part_pool, 3)),
    "ring": crowd(5, pool=(1.0, pools_in_a_ring, 3)),
    "twice": crowd(4, twice=(2.0, trains(2.0), 1), noise=(0.0, noise, 2)),
    "halves": crowd(6, half=(0.5, trains(0.5), 3)),
    "sizes": crowd(5, twice=(2.0, trains(2.0), 1), half=(0.5, trains(0.5), 1)),
    "blur": crowd(5, blur=(0.0, blurs(1), 2)),
    # Nodes 5 to 8 send what 1 to 4 train.
    "copiers": crowd(4, copier=(0.0, lambda turn, node: turn.gradient(node - 4), 4)),
    "idle": crowd(6, noise=(0.0, noise, 1), zero=(0.0, zero, 1), copier=(0.0, copies(1), 1)),
}


Pay = dict[int, float]  # of each node, in rounds' pots


def played(
    case: Case,
    store: EmbeddedStore,
    rounds: int,
    seed: int,
    powers: Sequence[float] = (),
    **fields: Any,
) -> list[Pay]:
    """What the nodes of a case have earned after so many rounds; then under each of `powers`."""
    people = case.population()
    strategies = {node: person[2] for node, person in people.items()}
    chosen = {**SPEC, "batches_per_round": BATCHES * len(people), **fields}
    with allowed():
        market = GauntletSwarm.open(store, strategies, seed, **chosen)
    others: list[Pay] = [dict.fromkeys(market.nodes, 0.0) for _ in powers]
    for _ in range(rounds):
        market.round()
        for pay, power in zip(others, powers, strict=True):
            for node, part in paid_by(market, power).items():
                pay[node] += part
    return [market.pay, *others]


def paid_by(market: GauntletSwarm, power: float) -> Pay:
    """Shares of the newest round's pot by its ratings, under an exponent."""
    options = replace(market.options, power=power)
    rows = [scores_of(one.scores, one.ratings, options) for one in market.records if one]
    shares = stake_median(rows, [1] * VALIDATORS, VALIDATORS)
    total = sum(shares) or 1
    return {node: part / total for node, part in zip(market.nodes, shares, strict=True)}


def report(case: Case, pays: Sequence[Pay]) -> str:
    """Per kind its share of the pay over its share of the work, each seed, and the spread."""
    people = case.population()
    work = {node: person[1] for node, person in people.items()}
    equal = [n for n, person in people.items() if person[0] == "honest"]
    cells = []
    for kind in case.kinds:
        members = [node for node, person in people.items() if person[0] == kind]
        fair = sum(work[n] for n in members) / sum(work.values())
        shares = [sum(pay[n] for n in members) / sum(pay.values()) for pay in pays]
        text = " ".join(f"{share / (fair or 1):.2f}" for share in shares)
        cells.append(f"{kind} {text}" + ("" if fair else " (of all)"))
        if case.kinds[kind][0] not in (0.0, 1.0):
            each = (_each(pay, members) / _each(pay, equal) for pay in pays)
            cells[-1] += " (" + " ".join(f"{part:.2f}" for part in each) + " of an honest node's)"
    spreads = [
        statistics.pstdev(pay[n] for n in equal) / statistics.mean(pay[n] for n in equal)
        for pay in pays
    ]
    return "; ".join(cells) + "; spread " + " ".join(f"{s:.2f}" for s in spreads)


def _each(pay: Pay, members: Sequence[int]) -> float:
    """What one of these nodes was paid, by the mean."""
    return statistics.mean(pay[node] for node in members)


def longer(fields: Mapping[str, Any], length: int) -> dict[str, Any]:
    """The fields of a spec with sequences of so many tokens, and a model that reads them."""
    model = {**SPEC["model"], **fields.get("model", {})}
    if "model" not in fields and length > model["max_seq_len"]:
        fields = {**fields, "model": {**model, "max_seq_len": length}}
    return {**fields, "optimizer": {**fields["optimizer"], "seq_len": length}}


def changed(
    fields: Mapping[str, Any], codec_options: Mapping[str, Any], optimizer: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of a spec with some options of its codec and of its optimizer changed."""
    return {
        **fields,
        "codec_options": {**fields.get("codec_options", {}), **codec_options},
        "optimizer": {**fields["optimizer"], **optimizer},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", choices=sorted(JOBS), action="append")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--evaluated", type=int, default=16)
    parser.add_argument("--eval-batches", type=int, default=6)
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--seq-len", type=int, help="tokens of a sequence")
    parser.add_argument("--paper", action="store_true", help="pay as the paper does")
    parser.add_argument("--texts", action="store_true", help="text and first model by the seed")
    parser.add_argument("--options", default="{}", help="more score options, JSON")
    parser.add_argument("--codec-options", default="{}", help="in place of the job's own, JSON")
    parser.add_argument("--optimizer", default="{}", help="in place of the job's own, JSON")
    parser.add_argument("--power", type=float, action="append", default=[], help="see above")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    options = {"evaluated": chosen.evaluated, "eval_batches": chosen.eval_batches}
    if chosen.paper:
        options |= PAPER
    options |= json.loads(chosen.options)
    codec_options, optimizer = json.loads(chosen.codec_options), json.loads(chosen.optimizer)
    for job in chosen.job or JOBS:
        for name in chosen.cases.split(","):
            found = []
            for seed in range(chosen.seeds):
                with tempfile.TemporaryDirectory() as folder:
                    store = EmbeddedStore(Path(folder) / "store")
                    people = len(CASES[name].population())
                    chosen_job = changed(JOBS[job], codec_options, optimizer)
                    if chosen.seq_len:
                        chosen_job = longer(chosen_job, chosen.seq_len)
                    fields = {
                        **chosen_job,
                        "score_options": options,
                        "batches_per_round": chosen.batches * people,
                    }
                    if chosen.texts:
                        fields = seeded({"model": SPEC["model"], **fields}, seed)
                    length = (chosen.rounds, seed, chosen.power)
                    found.append(played(CASES[name], store, *length, **fields))
            for power, pays in zip(("", *chosen.power), zip(*found, strict=True), strict=True):
                said = f"{name}, power {power:g}" if power else name
                print(f"{job} | {said} | {report(CASES[name], pays)}", flush=True)


if __name__ == "__main__":
    main()
