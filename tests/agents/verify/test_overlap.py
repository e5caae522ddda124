# SPDX-License-Identifier: Apache-2.0
"""Overlap by hand and against sets; who is flagged, and what it takes a copier not to be."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.codec.parts.support import Support
from agents.verify.overlap import OVERLAP, corrected, overlap, pairs
from agents.verify.provenance import provenance
from agents.verify.similarity import Flag

LIMIT = 0.4
SIZE = 50_000
SENT = 1000


def support(*signed: float) -> Support:
    """From places with a sign; -0.0 is place 0, negative."""
    ordered = sorted(signed, key=abs)
    return Support(
        np.array([abs(value) for value in ordered], np.int64),
        np.array([np.signbit(value) for value in ordered], np.bool_),
    )


EMPTY = support()


def honest(seed: int, common: float = 0.3) -> Support:
    """`SENT` places: a share that all nodes send alike, the rest the node's own."""
    shared = np.random.default_rng(0).choice(SIZE, SENT, replace=False)[: round(common * SENT)]
    generator = np.random.default_rng(1000 + seed)
    own = generator.choice(np.setdiff1d(np.arange(SIZE), shared), SENT - len(shared), replace=False)
    places = np.concatenate([shared, own]).astype(np.int64)
    negative = np.concatenate([shared % 2 == 0, generator.random(len(own)) < 0.5])
    order = np.argsort(places)
    return Support(places[order], negative[order])


def keep(one: Support, kept: np.ndarray) -> Support:
    return Support(one.places[kept], one.negative[kept])


def perturbed(victim: Support, dropped: float = 0, flipped: float = 0, added: float = 0) -> Support:
    generator = np.random.default_rng(77)
    part = keep(victim, generator.random(victim.size) >= dropped)
    negative = part.negative ^ (generator.random(part.size) < flipped)
    free = np.setdiff1d(np.arange(SIZE), part.places)
    extra = generator.choice(free, round(added * victim.size), replace=False)
    places = np.concatenate([part.places, extra]).astype(np.int64)
    order = np.argsort(places)
    return Support(
        places[order], np.concatenate([negative, generator.random(len(extra)) < 0.5])[order]
    )


def flagged(copy: Support, nodes: int = 6) -> set[int]:
    """Node 50 sends a copy of node 0's payload; node ids of all flags."""
    supports = {node: honest(node) for node in range(nodes)} | {50: copy}
    return {flag.node_id for flag in pairs(supports, LIMIT)}


def test_overlap_by_hand():
    one = support(1, -2, 3, -4)
    assert overlap(one, one) == 1
    assert overlap(one, support(1, -2, -3, 9)) == 0.5  # 2 of 4, the third by place only
    assert overlap(one, support(-1, 2, -3, 4)) == 0
    assert overlap(one, support(1, -2)) == pytest.approx(2 * 2 / 6)
    assert overlap(support(0.0, 5), support(-0.0, 5)) == 0.5
    assert overlap(one, EMPTY) == overlap(EMPTY, EMPTY) == 0


def test_corrected_by_hand():
    table = [[1, 0.9, 0.2, 0.3], [0.9, 1, 0.4, 0.2], [0.2, 0.4, 1, 0.2], [0.3, 0.2, 0.2, 1]]
    # Of 0 and 1 with others: 0.2 0.2 0.3 0.4; the smaller middle is 0.2.
    assert corrected(table, 0, 1) == corrected(table, 1, 0) == pytest.approx(0.7 / 0.8)
    # Of 2 and 3 with others: 0.2 0.2 0.3 0.4 as well.
    assert corrected(table, 2, 3) == 0
    assert corrected([[1, 0.6], [0.6, 1]], 0, 1) == 0.6  # No others: nothing is usual.
    assert corrected([[1.0] * 3] * 3, 0, 1) == 1


def test_both_of_a_pair_are_flagged_and_nobody_else():
    supports = {node: honest(node) for node in range(5)}
    assert pairs(supports, LIMIT) == []
    supports[9] = supports[3]
    assert pairs(supports, LIMIT) == [Flag(3, OVERLAP, (9,), 1.0), Flag(9, OVERLAP, (3,), 1.0)]


def test_a_group_is_flagged_whole():
    supports = {node: honest(node) for node in range(5)} | {7: honest(0), 8: honest(0)}
    found = [(flag.node_id, flag.others) for flag in pairs(supports, LIMIT)]
    assert found == [(0, (7, 8)), (7, (0, 8)), (8, (0, 7))]
    assert len(pairs(dict.fromkeys(range(4), honest(0)), LIMIT)) == 4


@pytest.mark.parametrize("common", [0.05, 0.5, 0.85])
def test_what_all_see_alike_flags_nobody_and_hides_no_copy(common):
    """Large common gradients: an uncorrected limit of 0.4 flags everybody at 0.5 and above."""
    supports = {node: honest(node, common) for node in range(6)}
    assert pairs(supports, LIMIT) == []
    supports[6] = perturbed(supports[2], dropped=0.05, flipped=0.02)
    assert {flag.node_id for flag in pairs(supports, LIMIT)} == {2, 6}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"dropped": 0.4},
        {"flipped": 0.25},
        {"added": 0.5},
        {"dropped": 0.3, "added": 0.3},
        {"dropped": 0.2, "flipped": 0.2},
    ],
    ids=str,
)
def test_a_perturbed_copy_is_flagged(change):
    assert flagged(perturbed(honest(0), **change)) == {0, 50}


@pytest.mark.parametrize(
    "change", [{"dropped": 0.72}, {"flipped": 0.5}, {"dropped": 0.6, "added": 0.6}], ids=str
)
def test_how_far_a_copier_must_go(change):
    """Half of the signs, or well over half of the places, of what it stole."""
    assert flagged(perturbed(honest(0), **change)) == set()


def test_a_few_popular_places_flag_nobody():
    """Nobody can order audits of everyone by sending only what all send."""
    shared = honest(0, 1.0)
    assert flagged(keep(shared, np.arange(shared.size) < 5)) == set()
    assert flagged(EMPTY) == set()


def test_fewer_than_three_nodes_flag_nobody():
    assert [f.node_id for f in pairs({1: honest(1), 2: honest(1)}, LIMIT)] == [1, 2]
    assert pairs({1: honest(1), 2: honest(2)}, LIMIT) == []
    assert pairs({1: honest(1)}, LIMIT) == pairs({}, LIMIT) == []
    assert pairs({1: EMPTY, 2: EMPTY}, LIMIT) == []


@pytest.mark.parametrize("limit", [0, -1, 1.5, float("nan")])
def test_limits_are_checked(limit):
    with pytest.raises(ValueError, match="limit of an overlap"):
        pairs({}, limit)


def test_no_function_is_told_who_was_first():
    """Arrival is no evidence: in production a copier could make its victim look late."""
    taken = [set(inspect.signature(function).parameters) for function in (overlap, pairs)]
    assert taken == [{"one", "other"}, {"supports", "limit"}]
    assert set(inspect.signature(provenance).parameters) == {
        *("node", "look_alikes", "revealed", "redone", "margin")
    }


SIGNED = st.dictionaries(st.integers(0, 200_000), st.booleans(), max_size=40)


def of(entries: dict[int, bool]) -> Support:
    places = np.array(sorted(entries), np.int64)
    return Support(places, np.array([entries[int(p)] for p in places], np.bool_))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.integers(0, 9), SIGNED, min_size=2, max_size=5), st.randoms())
def test_equals_sets_and_ignores_order(nodes, random):
    supports = {node: of(entries) for node, entries in nodes.items()}
    table = {}
    for one, other in [(a, b) for a in nodes for b in nodes]:
        mine, theirs = set(nodes[one].items()), set(nodes[other].items())
        total = len(mine) + len(theirs)
        table[one, other] = 2 * len(mine & theirs) / total if total else 0.0
        assert overlap(supports[one], supports[other]) == table[one, other]
    order = sorted(nodes)
    rows = [[table[a, b] for b in order] for a in order]
    expected = {
        node
        for i, node in enumerate(order)
        if any(corrected(rows, i, j) >= LIMIT for j in range(len(order)) if j != i)
    }
    flags = pairs(supports, LIMIT)
    assert {flag.node_id for flag in flags} == expected
    shuffled = random.sample(order, len(order))
    assert pairs({node: supports[node] for node in shuffled}, LIMIT) == flags
