# SPDX-License-Identifier: Apache-2.0
"""Plans: what a round missed comes first in the next, whoever was to blame and whatever happened
in between."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace as Stub
from typing import Any

import pytest
from eth_utils import keccak

from agents.mechanisms import verify as verifications
from agents.rounds.models import Models
from agents.rounds.outcome import compute
from agents.rounds.plan import Plan, Plans, done_in
from agents.rounds.submissions import fetch
from tests.stage.memory.honest_round import DEVICE, JOB, NODES, SEED, ChainFacts, HonestRound

SEEDS = {number: keccak(text=f"seed {number}") for number in range(1, 9)}


class Rounds:
    """A job's rounds, each with a seed of its own."""

    def __init__(self, tiny: HonestRound, facts: ChainFacts) -> None:
        self.tiny, self.facts = tiny, facts
        self.plans = self.reader()

    def reader(self) -> Plans:
        return Plans(self.facts, Models(self.facts, self.tiny.store))

    def plan(self, number: int) -> Plan:
        found = self.plans.of(self.facts.open(number, SEEDS[number]))
        assert found is not None
        return found

    def finish(self, number: int, plan: Plan, bad: Collection[int] = ()) -> None:
        """Record a round in which the nodes of `bad` sent junk."""
        tiny = self.tiny
        submissions = [
            fetch(tiny.reveal(node, b"junk" if node in bad else None), tiny.job, tiny.store)
            for node in NODES
        ]
        outcome = compute(tiny.job, JOB, number, plan, tiny.before, submissions, DEVICE)
        self.facts.record(number, outcome, tiny.store)


@pytest.fixture
def rounds(tiny: HonestRound, facts: ChainFacts) -> Rounds:
    return Rounds(tiny, facts)


def covered(plan: Plan) -> list[int]:
    """Every batch handed out, in order of nodes."""
    pairs = [r for a in plan.manifest.assignments for r in a.ranges]
    return sorted(index for first, last in pairs for index in range(first, last))


def test_the_first_round_starts_at_batch_0(rounds: Rounds) -> None:
    plan = rounds.plan(1)
    assert (plan.step, plan.carry_in, plan.cursor_in) == (0, (), 0)
    assert covered(plan) == list(range(12))


def test_there_is_no_plan_before_the_seed_is_known(rounds: Rounds) -> None:
    assert rounds.plans.of(rounds.facts.open(1, b"")) is None


def test_every_reader_derives_the_same_plan(rounds: Rounds) -> None:
    view = rounds.facts.open(1, SEED)
    assert rounds.plans.of(view).manifest.hash() == rounds.reader().of(view).manifest.hash()


def test_batches_of_a_refused_payload_come_first_in_the_next_round(rounds: Rounds) -> None:
    first = rounds.plan(1)
    rounds.finish(1, first, bad={5})
    second = rounds.plan(2)
    missed = first.manifest.of(5).ranges
    assert (second.step, second.carry_in, second.cursor_in) == (1, missed, 12)
    lost = [index for a, b in missed for index in range(a, b)]
    assert covered(second) == [*lost, *range(12, 24 - len(lost))]


def test_batches_of_a_node_found_invalid_after_the_merge_are_trained_again(rounds: Rounds) -> None:
    first = rounds.plan(1)
    rounds.finish(1, first)
    rounds.facts.invalid = {(1, 9)}
    assert rounds.plan(2).carry_in == first.manifest.of(9).ranges


def test_who_is_cleared_once_a_round_is_open_moves_no_batch_of_it(rounds: Rounds) -> None:
    first = rounds.plan(1)
    rounds.finish(1, first)
    rounds.facts.invalid = {(1, 9)}
    view = rounds.facts.open(2, SEEDS[2])
    early = rounds.plans.of(view)
    rounds.facts.invalid.clear()
    late = rounds.reader()
    assert late.of(view) == early and early.invalid == {(1, 9)}
    rounds.finish(2, early)
    assert late.past(JOB, 2) == rounds.reader().past(JOB, 2) == early
    assert rounds.plan(3).carry_in == ()
    # Had the second round been void, the third would hand nothing out again: it opened later.
    rounds.facts.entries.pop()
    assert rounds.reader().of(rounds.facts.open(3, SEEDS[3])).carry_in == ()


@pytest.mark.parametrize(("verify", "again"), [("reexecution", {5, 8}), ("gauntlet", {8})])
def test_who_shows_work_and_is_not_merged_is_not_handed_it_again(
    verify: str, again: set[int]
) -> None:
    """Node 5 sent a good payload that was not merged, and node 8 sent none."""
    job: Any = Stub(verification=verifications.get(verify))
    report: Any = Stub(accepted=lambda: {3, 5, 9}, merged=lambda: {3, 9})
    assert {3, 5, 8, 9} - done_in(job, report) == again


def test_what_stays_missed_is_carried_on(rounds: Rounds) -> None:
    first = rounds.plan(1)
    rounds.finish(1, first, bad=NODES)
    second = rounds.plan(2)
    assert covered(second) == covered(first)
    assert second.cursor_in == 12
    rounds.finish(2, second, bad={3})
    third = rounds.plan(3)
    assert third.carry_in == second.manifest.of(3).ranges
    assert (third.step, third.cursor_in) == (2, 12)


def test_a_void_round_hands_out_the_same_batches_again(rounds: Rounds) -> None:
    rounds.finish(1, rounds.plan(1), bad={8})
    void, third = rounds.plan(2), rounds.plan(3)  # the second is never recorded
    for field in ("step", "carry_in", "cursor_in"):
        assert getattr(third, field) == getattr(void, field), field
    assert covered(third) == covered(void)


def test_an_old_round_keeps_its_plan_when_later_ones_are_final(rounds: Rounds) -> None:
    view = rounds.facts.open(1, SEEDS[1])
    first = rounds.plans.of(view)
    rounds.finish(1, first, bad={5})
    rounds.finish(2, rounds.plan(2))
    assert rounds.reader().of(view) == first


def test_what_a_long_life_drops_is_read_again(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many rounds a few plans and reports stay in memory; the others give the same as before."""
    monkeypatch.setattr("agents.rounds.plan._KEPT", 2)
    monkeypatch.setattr("agents.rounds.models._REPORTS_KEPT", 2)
    models = Models(rounds.facts, rounds.tiny.store)
    rounds.plans = Plans(rounds.facts, models)
    made = []
    for number in range(1, 7):
        made.append(rounds.plan(number))
        rounds.finish(number, made[-1], bad={NODES[number % len(NODES)]})
    assert len(rounds.plans._plans) == len(models._reports) == 2
    for number, plan in enumerate(made, start=1):
        assert rounds.plans.past(JOB, number) == rounds.reader().past(JOB, number) == plan
    assert len(rounds.plans._plans) == len(models._reports) == 2
