# SPDX-License-Identifier: Apache-2.0
"""A pool of executors kept busy at the default terms, by tasks whose inputs nobody can get.

In-process, because hours pass. Executors do what the agents do: they look for the inputs until a
fixed share of their time is left, and then say that they can't be had. Gas is not counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import boa
import pytest
from eth_utils import keccak

from agents.tasks.giving_up import _LAST_SHARE
from scripts._net.deployment import TaskTerms
from tests.stage.contracts.clock import BLOCK_SECONDS, mine, now
from tests.stage.contracts.revm import use_revm
from tests.stage.contracts.system import ZOO, Codes, deploy
from tests.stage.contracts.tasks import (
    AGREED,
    DRAWING,
    MAX_OPEN,
    RIGHT,
    RUNNING,
    UNDECIDED,
    TaskStage,
    make_tasks,
)

use_revm()

TERMS = TaskTerms()
UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")
# The longest task for the least fee; one minute is the shortest.
RUN_S = TERMS.max_run_s
VICTIMS_FEE = 2 * ZOO
EXECUTORS = 6
HOUR = 3_600


@pytest.fixture(scope="module")
def codes() -> Codes:
    return Codes.compile()


@pytest.fixture(scope="module")
def made(codes: Codes) -> Iterator[TaskStage]:
    with boa.env.anchor():
        yield make_tasks(deploy(codes, TERMS.encode()), nodes=EXECUTORS)


@pytest.fixture
def jam(made: TaskStage) -> Iterator[Jam]:
    with boa.env.anchor():
        yield Jam(made)


class Jam:
    """One person that keeps all lanes of the pool busy, and a victim that has one task run."""

    def __init__(self, stage: TaskStage) -> None:
        self.stage = stage
        self.jammer = stage.system.person("jammer", 400 * ZOO)
        self.fee = RUN_S * TERMS.fee_per_s
        self.bought: list[int] = []
        self.had = self.worth()

    def worth(self) -> Counter[str]:
        """Everybody's wallet, credits and stake."""
        stage, worth = self.stage, Counter[str]()
        for (_, name), units in stage.books().items():
            worth[name] += units
        worth["jammer"] = stage.system.token.balanceOf(self.jammer)
        worth["jammer"] += stage.tasks.bond_credit(self.jammer)
        return worth

    def gains(self) -> dict[str, float]:
        """In ZOO since the beginning, of those who won or lost."""
        worth = self.worth()
        return {n: (worth[n] - self.had[n]) / ZOO for n in worth if worth[n] != self.had[n]}

    def open(self, status: int) -> list[int]:
        return [n for n in self.bought if self.stage.status(n) == status]

    def free(self) -> int:
        """Executors that can take another task."""
        return sum(self.stage.open_lanes(node) < MAX_OPEN for node in self.stage.nodes)

    def fill(self) -> None:
        """Buys tasks, and draws them as soon as possible, until no two executors are free."""
        while self.free() >= 2:
            self.bought.append(self.stage.create(self.fee, RUN_S, creator=self.jammer))
            self.stage.draw(self.bought[-1], sender=self.jammer)

    def answer(self) -> None:
        """Honest executors give up looking for the inputs, all at the same time."""
        for number in self.open(RUNNING):
            if now() >= self.stage.state(number).time - RUN_S // _LAST_SHARE:
                self.stage.commit_all(number, dict.fromkeys((0, 1), UNAVAILABLE))
                self.stage.reveal_all(number, dict.fromkeys((0, 1), UNAVAILABLE))

    def hold(self, until: Callable[[], bool]) -> None:
        """Keeps the pool full."""
        while not until():
            self.answer()
            self.fill()
            self.wait()

    def let_go(self) -> None:
        """Buys no more, and waits for what runs."""
        while self.open(RUNNING):
            self.answer()
            self.wait()

    @staticmethod
    def wait(seconds: int = 300) -> None:
        mine(seconds // BLOCK_SECONDS)

    def rent(self) -> float:
        return len(self.bought) * self.fee / ZOO


def test_pool_jammed_by_inputs_that_nobody_has__costs_rent_and_the_honest_task_only_waits(
    jam: Jam,
) -> None:
    """The jam of 1.7 hours that made an honest task UNDECIDED for nothing: each draw that found all
    busy brought the end nearer, the fees came back, and the jammer had the bounty for closing it.
    Now it pays the least fee of every task, and the victim's is run when it stops paying."""
    stage = jam.stage
    jam.fill()
    victim, began = stage.create(VICTIMS_FEE), now()
    jam.hold(lambda: now() >= began + 1.74 * HOUR)
    assert stage.status(victim) == DRAWING
    jam.let_go()
    print(f"\n{len(jam.bought)} tasks of {EXECUTORS} executors' pool: {jam.gains()}")
    assert jam.gains()["jammer"] == -jam.rent() < -20
    assert jam.gains()["treasury"] == jam.rent()

    if not stage.tasks.expected(victim):  # forgotten after 256 blocks
        stage.tasks.draw(victim, sender=stage.stranger)
    stage.play(RIGHT, RIGHT, task_id=victim)
    assert stage.status(victim) == AGREED
    pair = {player.name: 1.0 for player in stage.runners(victim)}
    assert jam.gains() == {
        "jammer": -jam.rent(),
        "treasury": jam.rent(),
        "creator": -VICTIMS_FEE / ZOO,
        **pair,
    }


def test_pool_jammed_for_a_day__the_victim_has_its_whole_fee_back(jam: Jam) -> None:
    """Nobody wins anything by the end of a task, whoever brings it about. A day of a jam is the
    rent of all lanes: only its last tasks are bought here, and the rest counted."""
    stage = jam.stage
    victim = stage.create(VICTIMS_FEE)
    mine(1, TERMS.draw_s)
    jam.fill()
    stage.tasks.draw(victim, sender=jam.jammer)
    assert stage.status(victim) == UNDECIDED
    jam.let_go()
    assert jam.gains() == {"jammer": -jam.rent(), "treasury": jam.rent()}


def test_two_say_falsely_that_inputs_cannot_be_had__lose_more_than_the_creator(jam: Jam) -> None:
    """They burn the creator's rent, a part of the fee that they would have earned with the work."""
    stage = jam.stage
    victim = stage.create(VICTIMS_FEE, run_s=600)
    stage.play(UNAVAILABLE, UNAVAILABLE, task_id=victim)
    assert jam.gains() == {"creator": -0.3, "treasury": 0.3}
