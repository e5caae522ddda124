# SPDX-License-Identifier: Apache-2.0
"""What cheats at redundant tasks win and lose: the real contracts, beside the exact figures.

Random tasks on all contracts in titanoboa, each with a seed of its own. Some of the pool's nodes
obey one attacker, every node has its own owner, and the books say afterwards what the attacker and
the honest nodes gained: credits, bounties and stakes, to the unit. Strategies:

- fake: its nodes always give the same fake. Nobody appeals.
- watched: the same, but whoever is outvoted has an appeal made, and verifiers judge.
- leave: it fakes where both of the first two nodes are its own, and never commits else.
- pair: it fakes there, and works honestly else; a share `rate` of the fakes is audited.

Every task starts from the same state (an anchor undoes it): full stakes, no strikes, nobody
suspended. So tasks are independent, and a node's penalty is the row's share of the whole stake.
Intervals are 95 %: Wilson's for the success rate, the normal one for the profit. Over many rows one
in twenty is expected outside.

    python -m tests.measure.studies.task_deterrence            # run, print, record
    python -m tests.measure.studies.task_deterrence --tasks 200  # not recorded below 2,000
    python -m tests.measure.studies.task_deterrence --table    # print what is recorded
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import boa
from rich.console import Console

from agents.tasks.economics import Amount, Draw, drawn, expectation, pair_gain, penalty_needed
from tests.measure.rows import text_table
from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import EMPTY, ZOO, Codes, deploy
from tests.stage.contracts.tasks import (
    AGREED,
    DECIDED,
    DRAWING,
    LANE_COMMITTED,
    LANE_RUNNING,
    RIGHT,
    RUNNING,
    UNDECIDED,
    WRONG,
    TaskStage,
    make_tasks,
)

RECORD = Path(__file__).resolve().parents[3] / "docs" / "redundancy.json"
STAKE = 100 * ZOO
# Rows of the slashing table, of a whole stake.
MISMATCH = ABORT = STAKE * 2_000 // 10_000
COLLUSION = STAKE * 5_000 // 10_000
LANES = 5
LEAST_RECORDED = 2_000
Z_95 = statistics.NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Scenario:
    """A strategy of an attacker with `dishonest` of `nodes`; `fee` in wei; `rate` of audits."""

    strategy: str
    dishonest: int
    nodes: int
    fee: int
    rate: str = "0"

    @property
    def blocks(self) -> int:
        """From one task to the next: no two draws of different tasks may have the same block."""
        return 20 if self.strategy == "leave" else 3  # two draws, or one more after each deadline

    @property
    def draw(self) -> Draw:
        """Chances of the first three draws."""
        return drawn(self.dishonest, self.nodes - self.dishonest)


def at_the_bound(dishonest: int, nodes: int) -> int:
    """The fee, wei, at which always faking is worth nothing against `MISMATCH`."""
    needed = penalty_needed(drawn(dishonest, nodes - dishonest), 1)
    assert needed
    return int(MISMATCH / needed)


SCENARIOS = (
    Scenario("fake", 3, 9, ZOO),
    Scenario("fake", 5, 10, ZOO),
    Scenario("fake", 6, 9, at_the_bound(6, 9)),
    Scenario("fake", 6, 9, 10 * ZOO),
    Scenario("watched", 5, 10, ZOO),
    Scenario("leave", 3, 9, ZOO),
    Scenario("leave", 6, 9, 10 * ZOO),
    Scenario("pair", 5, 10, 10 * ZOO),
    Scenario("pair", 5, 10, 10 * ZOO, "0.1"),
    Scenario("pair", 5, 10, 10 * ZOO, "0.3"),
)


class Expected(NamedTuple):
    """Per task: chance that the fake stands at the end, and both sides' profits in wei."""

    success: Fraction
    profit: Fraction
    honest: Fraction


class Seen(NamedTuple):
    """The same of one task on the contracts, and how many nodes were drawn for it."""

    success: bool
    profit: int
    honest: int
    drawn: int


# -- what the formulas say ---------------------------------------------------------------------


def watched_expectation(
    draw: Draw, fee: Amount, penalty: Amount, collusion: Amount, rate: Fraction = Fraction(0)
) -> Fraction:
    """What always faking brings if whoever is outvoted appeals and verifiers are honest.

    Only own pairs still pay, less what `pair_gain` says; two fakes against one honest result cost
    both nodes `collusion`, and the fee goes back to the creator.
    """
    return (
        draw.pair * pair_gain(fee, collusion, rate)
        - draw.framed * 2 * collusion
        - draw.loses * penalty
    )


def expected(scenario: Scenario) -> Expected:
    draw, fee = scenario.draw, scenario.fee
    agreed_honest = draw.none + draw.one / 3  # both of the first two are
    if scenario.strategy == "fake":
        earned = (draw.none + draw.one) * fee - draw.framed * MISMATCH
        return Expected(draw.wins, expectation(draw, fee, MISMATCH), earned)
    if scenario.strategy == "watched":
        earned = (draw.none + draw.one) * fee + draw.framed * fee / 2
        profit = watched_expectation(draw, fee, MISMATCH, COLLUSION)
        return Expected(draw.pair, profit, earned)
    if scenario.strategy == "leave":
        return _leave(scenario)
    rate = Fraction(scenario.rate)
    own = draw.pair * pair_gain(fee, COLLUSION, rate) + draw.split * fee / 2
    return Expected(draw.pair * (1 - rate), own, agreed_honest * fee + draw.split * fee / 2)


def _leave(scenario: Scenario) -> Expected:
    """One honest result waits for a second; every own node drawn meanwhile leaves."""
    draw, fee = scenario.draw, scenario.fee

    def waiting(dishonest: int, honest: int, lanes: int) -> tuple[Fraction, Fraction]:
        """(own, honest) profits from here on."""
        if lanes == LANES or dishonest + honest == 0:
            return Fraction(0), Fraction(0)
        chance = Fraction(dishonest, dishonest + honest)
        own, others = waiting(dishonest - 1, honest, lanes + 1) if dishonest else (0, 0)
        return chance * (own - ABORT), chance * others + (1 - chance) * fee

    honest = scenario.nodes - scenario.dishonest
    own, others = waiting(scenario.dishonest - 1, honest - 1, 2)
    return Expected(
        draw.pair,
        draw.pair * fee + draw.split * (own - ABORT),
        (draw.none + draw.one / 3) * fee + draw.split * others,
    )


# -- what the contracts do ---------------------------------------------------------------------


def stage_of(scenario: Scenario, codes: Codes) -> TaskStage:
    """A deployment with the scenario's pool."""
    return make_tasks(deploy(codes), nodes=scenario.nodes, stake=STAKE)


def play(stage: TaskStage, scenario: Scenario, tasks: int, seed: int) -> Iterator[Seen]:
    """Take so many tasks through the contracts, one after the other."""
    dice = random.Random(seed)
    cheats = {player.node_id for player in stage.nodes[: scenario.dishonest]}
    mine(dice.randrange(10**9), 12)  # block hashes are a function of the block number here
    before = _bonded(stage)
    for _ in range(tasks):
        mine(scenario.blocks)
        audited = dice.random() < float(Fraction(scenario.rate))
        with boa.env.anchor():
            yield _one(stage, scenario, cheats, audited, before)


def _one(
    stage: TaskStage, scenario: Scenario, cheats: set[int], audited: bool, before: dict[int, int]
) -> Seen:
    task_id = stage.create(fee=scenario.fee)
    state = stage.state(task_id)
    while state.status < AGREED:
        _step(stage, scenario, cheats, task_id, state)
        state = stage.state(task_id)
    fake = stage.tasks.result_of(task_id) == WRONG
    framed = fake and state.status == DECIDED
    if (scenario.strategy == "watched" and framed) or (audited and fake):
        stage.appeal(task_id)
        stage.judge(task_id, RIGHT)
        fake = False
    elif state.status == DECIDED:
        stage.finalize(task_id)
    else:
        assert state.status in (AGREED, UNDECIDED)
    after = _bonded(stage)
    gains = {node_id: after[node_id] - before[node_id] for node_id in before}
    profit = sum(gain for node_id, gain in gains.items() if node_id in cheats)
    return Seen(fake, profit, sum(gains.values()) - profit, len(state.nodes))


def _step(stage: TaskStage, scenario: Scenario, cheats: set[int], task_id: int, state: Any) -> None:
    """Take a task through the stage it is in."""
    if state.status == DRAWING:
        mine(2)
        stage.tasks.draw(task_id, sender=stage.stranger)
        return
    both = cheats.issuperset(state.nodes[:2])
    shown: set[bytes] = set()
    silent = False
    for lane, (node_id, at) in enumerate(zip(state.nodes, state.states, strict=True)):
        result = RIGHT
        if node_id in cheats:
            if scenario.strategy in ("fake", "watched") or both:
                result = WRONG
            elif scenario.strategy == "leave":
                silent = silent or at == LANE_RUNNING
                continue
        player = stage.player(node_id)
        tag, salt = stage.tag(task_id, result), stage.salt(task_id, lane)
        if state.status == RUNNING and at == LANE_RUNNING:
            digest = stage.digest(task_id, player, tag, salt)
            stage.tasks.commit(task_id, lane, digest, sender=player.operator)
        elif state.status != RUNNING and at == LANE_COMMITTED:
            known = tag in shown or tag in state.answers
            opened = result if known else EMPTY
            stage.tasks.reveal(task_id, lane, tag, opened, salt, sender=player.operator)
            shown.add(tag)
    if silent:
        stage.wait_out(task_id)
        stage.tasks.advance(task_id, sender=stage.stranger)


def _bonded(stage: TaskStage) -> dict[int, int]:
    """What every executor has: stake, and what it may claim or withdraw."""
    return {
        player.node_id: stage.registry.bonded(player.node_id)
        + stage.tasks.bond_credit(player.payout)
        + stage.appeals.bond_credit(player.payout)
        + stage.registry.bounty(player.payout)
        for player in stage.nodes
    }


# -- both beside each other --------------------------------------------------------------------


def wilson(successes: int, count: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval of a rate (JASA 22, 1927)."""
    rate, square = successes / count, z * z
    centre = (rate + square / (2 * count)) / (1 + square / count)
    spread = math.sqrt(rate * (1 - rate) / count + square / (4 * count * count))
    half = z * spread / (1 + square / count)
    return centre - half, centre + half


def normal(values: list[int], z: float = Z_95) -> tuple[float, float]:
    """Interval of the mean, in units of the values."""
    mean = statistics.fmean(values)
    half = z * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def compared(scenario: Scenario, seen: list[Seen], seed: int) -> dict[str, Any]:
    """A row of the record; amounts in ZOO per task."""
    wanted = expected(scenario)
    successes = sum(task.success for task in seen)
    profit, honest = [task.profit for task in seen], [task.honest for task in seen]

    def money(values: list[int], exact: Fraction) -> dict[str, Any]:
        low, high = normal(values)
        return {
            "exact": float(exact / ZOO),
            "seen": statistics.fmean(values) / ZOO,
            "interval": [low / ZOO, high / ZOO],
            "inside": low <= exact <= high,
        }

    low, high = wilson(successes, len(seen))
    return {
        "scenario": asdict(scenario),
        "tasks": len(seen),
        "seed": seed,
        "success": {
            "exact": float(wanted.success),
            "seen": successes / len(seen),
            "interval": [low, high],
            "inside": low <= wanted.success <= high,
        },
        "profit": money(profit, wanted.profit),
        "honest": money(honest, wanted.honest),
        "drawn": statistics.fmean(task.drawn for task in seen),
    }


def show(rows: list[dict[str, Any]]) -> None:
    title = "Cheats at redundant tasks: exact, and seen on the contracts (95 %)"
    money = ("cheat, ZOO a task", "honest, ZOO a task")
    table = text_table(title, ("strategy", "fee", "tasks", "fake stands", *money))
    for row in rows:
        scenario = row["scenario"]
        rate = f", audits {float(scenario['rate']):.0%}" if scenario["strategy"] == "pair" else ""
        table.add_row(
            f"{scenario['strategy']}, {scenario['dishonest']} of {scenario['nodes']}{rate}",
            f"{scenario['fee'] / ZOO:.3g}",
            f"{row['tasks']:,}",
            *(
                _cell(row[name], 4 if name == "success" else 3)
                for name in ("success", "profit", "honest")
            ),
        )
    Console(width=170).print(table)


def _cell(figure: dict[str, Any], digits: int) -> str:
    low, high = figure["interval"]
    mark = "" if figure["inside"] else " !"
    return (
        f"{figure['exact']:.{digits}f}: {figure['seen']:.{digits}f} "
        f"({low:.{digits}f} to {high:.{digits}f}){mark}"
    )


def record(rows: list[dict[str, Any]]) -> None:
    """Write these rows; those of other scenarios stay."""
    kept = json.loads(RECORD.read_text())["rows"] if RECORD.exists() else []
    by_scenario = {json.dumps(row["scenario"]): row for row in (*kept, *rows)}
    names = (json.dumps(asdict(scenario)) for scenario in SCENARIOS)
    content = {
        "state": "every task from full stakes, no strikes, nobody suspended",
        "rows": [by_scenario[name] for name in names if name in by_scenario],
    }
    RECORD.write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=LEAST_RECORDED, help="per row")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first row; the next has one more"
    )
    parser.add_argument("--only", choices=sorted({s.strategy for s in SCENARIOS}))
    parser.add_argument("--table", action="store_true", help="only print what is recorded")
    given = parser.parse_args()
    if given.table:
        show(json.loads(RECORD.read_text())["rows"])
        return
    codes = Codes.compile()
    rows = []
    for seed, scenario in enumerate(SCENARIOS, given.seed):
        if given.only in (None, scenario.strategy):
            started = time.monotonic()
            with boa.env.anchor():
                seen = list(play(stage_of(scenario, codes), scenario, given.tasks, seed))
            rows.append(compared(scenario, seen, seed))
            print(f"{scenario}: {time.monotonic() - started:.0f} s", flush=True)
    show(rows)
    if given.tasks >= LEAST_RECORDED:
        record(rows)


if __name__ == "__main__":
    main()
