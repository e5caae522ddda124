# SPDX-License-Identifier: Apache-2.0
"""A round's manifest hands every sample to one node of each stage, and follows from the seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from agents.pipeline.assignment import Facts, epoch_of, manifest, seats_of
from agents.pipeline.seats import Unseated
from agents.training.assignment import Assignment, input_root, node_seed
from agents.training.spec import JobSpec

SEED = keccak(text="round")
DATA = "b" + "a" * 58


def spec(stages: int = 2, batches: int = 12) -> JobSpec:
    fields: dict[str, Any] = {"data": DATA, "batches_per_round": batches, "mode": "pipeline"}
    return JobSpec.from_dict({**fields, "pipeline": {"layers": [1] * stages}})


def batches(assignment: Assignment) -> list[int]:
    return [sample for first, last in assignment.ranges for sample in range(first, last)]


@given(
    st.binary(min_size=32, max_size=32),
    st.sets(st.integers(1, 99), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(0, 10**6),
)
def test_each_node_has_what_it_is_first_for_and_each_stage_every_sample(
    seed: bytes, nodes: set[int], stages: int, cursor: int
) -> None:
    order, job = list(nodes), spec(stages)
    if len(nodes) < stages:
        with pytest.raises(Unseated, match=f"{len(nodes)} nodes can't hold the {stages} stages"):
            manifest(seed, order, order, job, cursor)
        return
    made = manifest(seed, order, order, job, cursor)
    epoch = epoch_of(7, 3, seed, order[::-1], range(cursor, cursor + 12), stages)
    assert (made.carry, made.cursor) == ((), cursor + 12)
    assert [(a.node, a.weight) for a in made.assignments] == [(n, n) for n in sorted(nodes)]
    assert all(a.rng_seed == node_seed(seed, a.node) for a in made.assignments)
    assert all(batches(a) == epoch.due(a.node) for a in made.assignments)
    handed = Counter(sample for a in made.assignments for sample in batches(a))
    assert handed == dict.fromkeys(epoch.samples, stages)


def test_stages_are_staffed_evenly_and_a_later_seed_seats_nodes_anew() -> None:
    seeds = [keccak(bytes([number])) for number in range(20)]
    made = [epoch_of(1, 2, seed, range(1, 9), range(4), 3) for seed in seeds]
    assert all(sorted(map(len, one.stages)) == [2, 3, 3] for one in made)
    assert {one.stage_of(5) for one in made} == {0, 1, 2}
    assert (made[0].job, made[0].number) == (1, 2)


def test_ranges_that_touch_are_joined_and_make_an_input_root() -> None:
    alone = manifest(SEED, [4, 9], [1, 1], spec(2), 30)
    assert [a.ranges for a in alone.assignments] == [((30, 42),)] * 2
    assert input_root(alone, 4, bytes(32)) != input_root(alone, 9, bytes(32))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"nodes": [4, 4]}, "given twice"),
        ({"seed": bytes(31)}, "32 bytes"),
        ({"weights": [1, -1]}, "a weight from 0"),
        ({"weights": [1]}, "a weight from 0"),
        ({"nodes": [0, 4]}, "an id from 1"),
        ({"cursor": -1}, "cursor is from 0"),
        ({"spec": JobSpec.from_dict({"data": DATA})}, "not split into stages"),
    ],
)
def test_wrong_facts_are_refused(changes: dict[str, Any], says: str) -> None:
    facts = {"seed": SEED, "nodes": [4, 9], "weights": [1, 1], "spec": spec(), "cursor": 0}
    with pytest.raises(ValueError, match=says):
        manifest(**{**facts, **changes})


# -- seats that last, and declared memory ----------------------------------------------------------

NODES = st.sets(st.integers(1, 99), min_size=4, max_size=12)
NEEDS = st.lists(st.integers(1, 50), min_size=2, max_size=4).map(tuple)


@given(st.binary(min_size=32, max_size=32), NODES, NEEDS)
def test_where_nobody_declares_memory_the_draw_is_that_without(
    seed: bytes, nodes: set[int], needs: tuple[int, ...]
) -> None:
    """So it is in a job's first round. Equal needs leave nobody out."""
    plain = seats_of(seed, sorted(nodes), len(needs))
    assert seats_of(seed, sorted(nodes), len(needs), Facts(needs=needs)) == plain


@given(
    st.binary(min_size=32, max_size=32),
    st.dictionaries(st.integers(1, 99), st.integers(0, 60), min_size=2, max_size=12),
    NEEDS,
    st.booleans(),
)
def test_nobody_is_seated_at_a_stage_that_needs_more_than_it_declares(
    seed: bytes, declared: dict[int, int], needs: tuple[int, ...], seated_before: bool
) -> None:
    known = {node: node % len(needs) for node in declared if seated_before and node % 3}
    facts = Facts(known, declared, needs)
    try:
        seats = seats_of(seed, sorted(declared), len(needs), facts)
    except Unseated:
        # Then the largest stages can't all be held by those that have the memory.
        most = sorted(needs, reverse=True)
        assert any(
            sum(memory >= need for memory in declared.values()) < place + 1
            for place, need in enumerate(most)
        )
        return
    assert seats.keys() == {node for node, memory in declared.items() if memory >= min(needs)}
    assert all(declared[node] >= needs[stage] for node, stage in seats.items())
    assert set(seats.values()) == set(range(len(needs)))


def test_a_node_that_says_nothing_gets_a_small_stage_where_others_hold_the_large_ones() -> None:
    declared = dict.fromkeys(range(1, 9), 100)
    for number in range(20):
        facts = Facts({}, declared, (10, 100, 100))
        seats = seats_of(keccak(bytes([number])), range(1, 11), 3, facts)
        assert seats[9] == seats[10] == 0


def test_friends_that_come_and_rest_in_turn_do_not_all_get_one_stage() -> None:
    """Attack: who rests keeps its seat. If that left a gap, the next friend would be seated there,
    and so on: eight beside two honest miners, who are a majority of its merge and of its shards."""
    honest, friends, stages = 11, 8, 4
    known = {node: node % stages for node in range(1, honest + 1)}
    for node in range(honest + 1, honest + friends + 1):
        present = [*range(1, honest + 1), node]
        seed = keccak(text=f"round {node}")
        known |= seats_of(seed, present, stages, Facts(known))
    held = [known[node] for node in range(honest + 1, honest + friends + 1)]
    assert max(map(held.count, range(stages))) <= 3


def test_known_seats_are_kept_and_newcomers_go_where_fewest_are() -> None:
    known = {1: 0, 2: 0, 3: 1, 4: 1, 5: 1}
    for number in range(20):
        seed = keccak(bytes([number]))
        seats = seats_of(seed, [1, 2, 3, 4, 5, 6, 7], 3, Facts(known))
        assert {node: seats[node] for node in known} == known
        assert seats[6] == seats[7] == 2, "the empty stage first, then the shortest"
        lost = seats_of(seed, [1, 2, 3], 2, Facts({1: 0, 2: 0, 3: 0}))
        assert sorted(lost.values()) == [0, 0, 1]


def test_a_declaration_that_falls_costs_the_seat() -> None:
    facts = Facts({1: 1, 2: 1, 3: 0}, {1: 5, 2: 20, 3: 20}, (5, 20))
    assert seats_of(SEED, [1, 2, 3], 2, facts) == {1: 0, 2: 1, 3: 0}
