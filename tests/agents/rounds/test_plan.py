# SPDX-License-Identifier: Apache-2.0
"""Plans: what a round missed comes first in the next, whoever was to blame and whatever happened
in between."""

from __future__ import annotations

import pytest
from eth_utils import keccak

from agents.rounds.models import Models
from agents.rounds.outcome import compute
from agents.rounds.plan import Plan, Plans
from agents.rounds.submissions import fetch
from tests.stage.memory.honest_round import DEVICE, JOB, NODES, SEED, ChainFacts, HonestRound

SEEDS = {number: keccak(text=f"seed {number}") for number in range(1, 9)}


@pytest.fixture
def plans(tiny: HonestRound, facts: ChainFacts) -> Plans:
    return Plans(facts, Models(facts, tiny.store))


def finish(tiny: HonestRound, facts: ChainFacts, number: int, plan: Plan, bad: set[int]) -> None:
    """Record round `number`, in which the nodes of `bad` sent junk."""
    submissions = [
        fetch(tiny.reveal(node, b"junk" if node in bad else None), tiny.job, tiny.store)
        for node in NODES
    ]
    outcome = compute(tiny.job, JOB, number, plan, tiny.before, submissions, DEVICE)
    facts.record(number, outcome, tiny.store)


def covered(plan: Plan) -> list[int]:
    """Every batch handed out, in order of nodes."""
    pairs = [r for a in plan.manifest.assignments for r in a.ranges]
    return sorted(index for first, last in pairs for index in range(first, last))


def test_the_first_round_starts_at_batch_0(facts: ChainFacts, plans: Plans) -> None:
    plan = plans.of(facts.open(1, SEEDS[1]))
    assert (plan.step, plan.carry_in, plan.cursor_in) == (0, (), 0)
    assert covered(plan) == list(range(12))


def test_there_is_no_plan_before_the_seed_is_known(facts: ChainFacts, plans: Plans) -> None:
    assert plans.of(facts.open(1, b"")) is None


def test_every_reader_derives_the_same_plan(
    tiny: HonestRound, facts: ChainFacts, plans: Plans
) -> None:
    view = facts.open(1, SEED)
    other = Plans(facts, Models(facts, tiny.store))
    assert plans.of(view).manifest.hash() == other.of(view).manifest.hash()


def test_batches_of_a_refused_payload_come_first_in_the_next_round(
    tiny: HonestRound, facts: ChainFacts, plans: Plans
) -> None:
    first = plans.of(facts.open(1, SEEDS[1]))
    finish(tiny, facts, 1, first, bad={5})
    second = plans.of(facts.open(2, SEEDS[2]))
    missed = first.manifest.of(5).ranges
    assert second.step == 1
    assert second.carry_in == missed
    assert second.cursor_in == 12
    lost = [index for a, b in missed for index in range(a, b)]
    assert covered(second) == [*lost, *range(12, 24 - len(lost))]


def test_batches_of_a_node_found_invalid_after_the_merge_are_trained_again(
    tiny: HonestRound, facts: ChainFacts, plans: Plans
) -> None:
    first = plans.of(facts.open(1, SEEDS[1]))
    finish(tiny, facts, 1, first, bad=set())
    facts.invalid = {(1, 9)}
    second = plans.of(facts.open(2, SEEDS[2]))
    assert second.carry_in == first.manifest.of(9).ranges


def test_what_stays_missed_is_carried_on(
    tiny: HonestRound, facts: ChainFacts, plans: Plans
) -> None:
    first = plans.of(facts.open(1, SEEDS[1]))
    finish(tiny, facts, 1, first, bad=set(NODES))
    second = plans.of(facts.open(2, SEEDS[2]))
    assert covered(second) == covered(first)
    assert second.cursor_in == 12
    finish(tiny, facts, 2, second, bad={3})
    third = plans.of(facts.open(3, SEEDS[3]))
    assert third.carry_in == second.manifest.of(3).ranges
    assert third.cursor_in == 12
    assert third.step == 2


def test_a_void_round_hands_out_the_same_batches_again(
    tiny: HonestRound, facts: ChainFacts, plans: Plans
) -> None:
    finish(tiny, facts, 1, plans.of(facts.open(1, SEEDS[1])), bad={8})
    second = plans.of(facts.open(2, SEEDS[2]))  # never recorded: void
    third = plans.of(facts.open(3, SEEDS[3]))
    assert (third.step, third.carry_in, third.cursor_in) == (
        second.step,
        second.carry_in,
        second.cursor_in,
    )
    assert covered(third) == covered(second)


def test_an_old_round_keeps_its_plan_when_later_ones_are_final(
    tiny: HonestRound, facts: ChainFacts, plans: Plans
) -> None:
    view = facts.open(1, SEEDS[1])
    first = plans.of(view)
    finish(tiny, facts, 1, first, bad={5})
    finish(tiny, facts, 2, plans.of(facts.open(2, SEEDS[2])), bad=set())
    later = Plans(facts, Models(facts, tiny.store))
    assert later.of(view) == first
