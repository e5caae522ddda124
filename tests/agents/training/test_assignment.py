# SPDX-License-Identifier: Apache-2.0
"""Assignment covers every batch exactly once, in proportion, and the same for everybody."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from eth_abi import encode
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from agents.training import assignment
from agents.training.spec import Hyperparameters, JobSpec

DATA = "b" + "a" * 58
SEED = bytes(range(32))


def spec_of(batches: int) -> JobSpec:
    return JobSpec.from_dict({"data": DATA, "batches_per_round": batches})


def numbers(ranges: tuple[tuple[int, int], ...]) -> list[int]:
    return [i for first, last in ranges for i in range(first, last)]


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[int], list[int], int, list[tuple[int, int]], int]:
    nodes = draw(st.lists(st.integers(1, 10**6), min_size=1, max_size=12, unique=True))
    weights = draw(st.lists(st.integers(0, 10**30), min_size=len(nodes), max_size=len(nodes)))
    batches = draw(st.integers(1, 60))
    cuts = sorted(draw(st.sets(st.integers(0, 80), max_size=8)))
    carry = list(zip(cuts[::2], cuts[1::2], strict=False))
    cursor = (carry[-1][1] if carry else 0) + draw(st.integers(0, 9))
    return nodes, weights, batches, carry, cursor


@given(situations(), st.randoms(use_true_random=False))
def test_every_batch_exactly_once_whatever_the_order(situation, shuffler: random.Random) -> None:
    nodes, weights, batches, carry, cursor = situation
    manifest = assignment.assign(SEED, nodes, weights, spec_of(batches), carry, cursor)
    given_out = [i for a in manifest.assignments for i in numbers(a.ranges)]
    assert len(given_out) == batches
    expected = [*numbers(tuple(carry)), *range(cursor, cursor + batches)][:batches]
    assert sorted(given_out) == sorted(expected)
    assert sorted([*given_out, *numbers(manifest.carry)]) == sorted(
        [*numbers(tuple(carry)), *range(cursor, manifest.cursor)]
    )
    pairs = list(zip(nodes, weights, strict=True))
    shuffler.shuffle(pairs)
    again = assignment.assign(SEED, [n for n, _ in pairs], [w for _, w in pairs], spec_of(batches),
                   carry, cursor)  # fmt: skip
    assert again == manifest
    assert again.hash() == manifest.hash()


@given(st.integers(1, 500), st.lists(st.integers(0, 10**30), min_size=1, max_size=20))
def test_apportion_is_within_one_of_the_exact_share(total: int, weights: list[int]) -> None:
    counts = assignment.apportion(total, weights)
    assert sum(counts) == total
    if sum(weights) == 0:
        assert max(counts) - min(counts) <= 1
        return
    if total >= len(weights):
        assert min(counts) >= 1
    # Those at one batch may have been raised; the others share the rest within one.
    shares = [Fraction(total * w, sum(weights)) for w in weights]
    if min(shares) >= 1:
        assert all(abs(c - s) < 1 for c, s in zip(counts, shares, strict=True))
    for c1, w1 in zip(counts, weights, strict=True):
        for c2, w2 in zip(counts, weights, strict=True):
            assert not (w1 > w2 and c1 < c2)


@pytest.mark.parametrize(
    ("total", "weights", "counts"),
    [
        (10, [1, 1, 2], [3, 2, 5]),  # 2.5, 2.5, 5: the tie goes to the lower index
        (7, [5, 3, 1], [4, 2, 1]),  # 3.89, 2.33, 0.78
        (10, [98, 1, 1], [8, 1, 1]),  # 9.8, 0.1, 0.1: both raised to one
        (2, [1, 1, 1], [1, 1, 0]),  # fewer batches than nodes
        (5, [0, 0], [3, 2]),
        (3, [0, 1], [1, 2]),
    ],
)
def test_apportion_by_hand(total: int, weights: list[int], counts: list[int]) -> None:
    assert assignment.apportion(total, weights) == counts


def test_assignment_by_hand() -> None:
    manifest = assignment.assign(
        SEED, [7, 2], [100, 300], spec_of(8), carry=[[3, 5], [9, 10]], cursor=20
    )
    # The pool is 3,4,9 then 20..24; node 2 has three quarters of it and comes first.
    assert manifest.of(2).ranges == ((3, 5), (9, 10), (20, 23))
    assert manifest.of(7).ranges == ((23, 25),)
    assert manifest.of(3) is None
    assert (manifest.carry, manifest.cursor) == ((), 25)
    assert (
        manifest.of(7).rng_seed
        == keccak(SEED + (7).to_bytes(32, "big"))
        == assignment.node_seed(SEED, 7)
    )


@pytest.mark.parametrize(("nodes", "batches", "each"), [(5, 8, 1), (4, 8, 2), (6, 4, 1)])
def test_where_nodes_are_compared_all_get_equally_many(nodes: int, batches: int, each: int) -> None:
    """Not even a remainder goes to the lower ids, and nobody is left without a batch."""
    free = {"score": "gauntlet", "verify": "gauntlet", "codec": "demo", "merge": "demo_sign"}
    spec = JobSpec.from_dict({"data": DATA, "batches_per_round": batches, **free})
    ids = range(1, nodes + 1)
    first = assignment.assign(SEED, ids, [7, *[0] * (nodes - 1)], spec)
    assert [a.batches for a in first.assignments] == [each] * nodes
    assert (first.carry, first.cursor) == ((), each * nodes)
    carry, cursor = assignment.next_carry(first, [1])
    second = assignment.assign(SEED, ids, [1] * nodes, spec, carry, cursor)
    assert [a.batches for a in second.assignments] == [each] * nodes
    assert second.cursor == cursor + each, "what was missed goes first; only the rest is new"


@pytest.mark.parametrize(
    ("nodes", "options", "each"),
    [(16, {}, 6), (3, {}, 6), (3, {"extra": 2}, 3), (3, {"eval_batches": 40}, 32)],
    ids=str,
)
def test_where_nodes_are_measured_nobody_has_more_than_is_measured(
    nodes: int, options: dict[str, int], each: int
) -> None:
    """Of 96 batches. What is not handed out is new in the next round; nothing is carried."""
    free = {"score": "gauntlet", "verify": "gauntlet", "codec": "demo", "merge": "demo_sign"}
    fields = {"data": DATA, "batches_per_round": 96, "score_options": options, **free}
    manifest = assignment.assign(SEED, range(1, nodes + 1), [1] * nodes, JobSpec.from_dict(fields))
    assert [a.batches for a in manifest.assignments] == [each] * nodes
    assert (manifest.carry, manifest.cursor) == ((), nodes * each)


def test_long_carry_stays_carried() -> None:
    manifest = assignment.assign(SEED, [1, 2], [1, 1], spec_of(4), carry=[(0, 10)], cursor=10)
    assert [a.ranges for a in manifest.assignments] == [((0, 2),), ((2, 4),)]
    assert (manifest.carry, manifest.cursor) == (((4, 10),), 10)
    assert assignment.next_carry(manifest, accepted=[1]) == (((2, 10),), 10)


@given(situations(), st.data())
def test_nothing_is_lost_between_rounds(situation, data: st.DataObject) -> None:
    nodes, weights, batches, carry, cursor = situation
    manifest = assignment.assign(SEED, nodes, weights, spec_of(batches), carry, cursor)
    accepted = data.draw(st.sets(st.sampled_from(nodes)))
    missed, new_cursor = assignment.next_carry(manifest, accepted)
    done = [i for a in manifest.assignments if a.node in accepted for i in numbers(a.ranges)]
    assert sorted([*done, *numbers(missed)]) == sorted(
        [*numbers(tuple(carry)), *range(cursor, new_cursor)]
    )
    assert assignment.size(missed) <= max(assignment.size(tuple(carry)), batches)
    assignment.assign(SEED, nodes, weights, spec_of(batches), missed, new_cursor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": b"x"}, "32 bytes, got 1"),
        ({"nodes": [], "weights": []}, "at least one node"),
        ({"nodes": [1, 1]}, "each once"),
        ({"weights": [1]}, "one weight each"),
        ({"weights": [1, -1]}, "must not be negative"),
        ({"nodes": [0, 1]}, "start at 1"),
        ({"carry": [(3, 3)]}, "empty or negative"),
        ({"carry": [(0, 3), (2, 4)]}, "overlap at 2"),
        ({"carry": [(9, 12)]}, "beyond the cursor 10"),
    ],
)
def test_bad_input_is_refused(change: dict[str, object], message: str) -> None:
    fields = {"seed": SEED, "nodes": [1, 2], "weights": [1, 1], "spec": spec_of(4), "carry": [],
              "cursor": 10}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        assignment.assign(**(fields | change))


def test_normalise_joins_neighbours() -> None:
    assert assignment.normalise([(5, 6), (0, 2), (2, 4)]) == ((0, 4), (5, 6))


def test_task_holds_the_nodes_share() -> None:
    spec = spec_of(6)
    manifest = assignment.assign(SEED, [1, 2], [1, 1], spec, cursor=30)
    task = assignment.work_order(manifest, 2, spec, 5, 3, bytes(32))
    assert task.batches() == [33, 34, 35]
    assert task.steps == 3
    assert task.hyperparameters == Hyperparameters.of(spec, 3)
    assert (task.job_id, task.epoch) == (5, 3)
    assert task.task_id == keccak(b"".join(n.to_bytes(32, "big") for n in (5, 3, 2)))
    with pytest.raises(ValueError, match="node 9 is not in"):
        assignment.work_order(manifest, 9, spec, 5, 3, bytes(32))


def test_input_root_binds_every_part() -> None:
    manifest = assignment.assign(SEED, [1, 2], [1, 1], spec_of(6))
    mine = manifest.of(1)
    body = encode(
        ["bytes32", "bytes32", "bytes32", "uint256", "uint256[2][]", "bytes32"],
        [SEED, b"\1" * 32, manifest.hash(), 1, [[0, 3]], mine.rng_seed],
    )
    root = assignment.input_root(manifest, 1, b"\1" * 32)
    assert root == keccak(body)
    other_seed = assignment.assign(bytes(32), [1, 2], [1, 1], spec_of(6))
    other_weight = assignment.assign(SEED, [1, 2], [1, 2], spec_of(6))
    others = {
        assignment.input_root(manifest, 2, b"\1" * 32),
        assignment.input_root(manifest, 1, b"\2" * 32),
        assignment.input_root(other_seed, 1, b"\1" * 32),
        assignment.input_root(other_weight, 1, b"\1" * 32),
    }
    assert len(others | {root}) == 5


def test_task_ids_differ() -> None:
    assert len({assignment.task_id(j, r, n) for j in (1, 2) for r in (1, 2) for n in (1, 2)}) == 8


@given(situations(), st.integers(0, 60))
def test_extra_batches_are_nobodys_and_differ_between_nodes(situation, wanted: int) -> None:
    nodes, weights, batches, carry, cursor = situation
    manifest = assignment.assign(SEED, nodes, weights, spec_of(batches), carry, cursor)
    count = min(wanted, batches)
    extra = [i for node in nodes for i in numbers(assignment.unassigned(manifest, node, count))]
    assert len(extra) == len(set(extra)) == count * len(nodes)
    assert not {i for a in manifest.assignments for i in numbers(a.ranges)} & set(extra)
    assert not set(numbers(manifest.carry)) & set(extra)


def test_extra_batches_by_hand() -> None:
    manifest = assignment.assign(SEED, [7, 2], [100, 300], spec_of(8), cursor=20)
    assert assignment.unassigned(manifest, 2, 3) == ((28, 31),)
    assert assignment.unassigned(manifest, 7, 8) == ((36, 44),)
    assert assignment.unassigned(manifest, 7, 0) == ()
    for count in (-1, 9):
        with pytest.raises(ValueError, match="from 0 to 8 may be taken"):
            assignment.unassigned(manifest, 7, count)
    with pytest.raises(ValueError, match="node 3 is not"):
        assignment.unassigned(manifest, 3, 1)
