# SPDX-License-Identifier: Apache-2.0
"""Who is evaluated: bounded, repeatable, unforeseeable, and in proportion to tickets."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.gauntlet.draw import NEW, NEWCOMERS, RATED, draw, round_seed

SEED = hashlib.sha256(b"seed").digest()


def seeds(count: int) -> list[bytes]:
    return [hashlib.sha256(b"%d" % number).digest() for number in range(count)]


@given(
    st.binary(min_size=32, max_size=32),
    st.lists(st.integers(1, 10**6), unique=True, max_size=40),
    st.integers(0, 12),
    st.dictionaries(st.integers(1, 10**6), st.integers(1, 1001)),
)
def test_it_draws_that_many_of_the_candidates_whatever_their_order(
    seed: bytes, nodes: list[int], count: int, tickets: dict[int, int]
) -> None:
    chosen = draw(seed, "good", tickets, nodes, count)
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(nodes)
    assert len(chosen) == min(count, len(nodes))
    assert draw(seed, "good", tickets, nodes[::-1], count) == chosen


def test_the_choice_by_hand() -> None:
    """The nodes with the greatest tickets are chosen."""
    tickets = {3: 1, 5: 5, 8: 2}
    words = sorted(
        (hashlib.sha256(SEED + b"good" + n.to_bytes(8) + t.to_bytes(8)).digest(), n)
        for n, own in tickets.items()
        for t in range(own)
    )
    order = list(dict.fromkeys(node for _, node in reversed(words)))
    for count in (1, 2, 3):
        assert draw(SEED, "good", tickets, [8, 3, 5], count) == sorted(order[:count])


@given(st.binary(min_size=32, max_size=32), st.integers(1, 20), st.integers(1, 20))
def test_who_is_missing_makes_room_for_one_other(seed: bytes, missing: int, count: int) -> None:
    """A validator that can't have one payload measures what the others do, but for that one."""
    everybody = set(range(1, 21))
    whole = set(draw(seed, "good", {}, everybody, count))
    without = set(draw(seed, "good", {}, everybody - {missing}, count))
    assert whole - {missing} <= without
    assert len(without - whole) <= 1


@given(
    st.binary(min_size=32, max_size=32),
    st.integers(1, 12),
    st.sets(st.integers(1, 40), max_size=30),
    st.sets(st.integers(41, 80), max_size=30),
)
def test_newcomers_have_a_quarter_of_the_seats_and_what_others_leave(
    seed: bytes, count: int, rated: set[int], late: set[int]
) -> None:
    tickets = dict.fromkeys(rated, RATED)
    chosen = draw(seed, "good", tickets, rated | late, count, late)
    others = len(set(chosen) & rated)
    bound = max(1, count // NEWCOMERS)
    assert len(chosen) == min(count, len(rated | late))
    assert others >= min(len(rated), count - bound)
    assert len(set(chosen) & late) <= max(bound, count - len(rated))
    # Of either kind those who would come first without a bound.
    for kind in (rated, late):
        seated = set(chosen) & kind
        assert seated == set(draw(seed, "good", tickets, kind, len(seated)))


def test_nodes_come_up_in_proportion_to_their_tickets() -> None:
    """Weights 1, 3 and 8 of 12, over 3,000 draws: within four standard deviations."""
    tickets = {1: 1, 2: 3, 3: 8}
    found = Counter(draw(seed, "good", tickets, tickets, 1)[0] for seed in seeds(3000))
    for node, own in tickets.items():
        share = own / 12
        assert abs(found[node] - 3000 * share) < 4 * (3000 * share * (1 - share)) ** 0.5


def test_a_node_that_nobody_knows_has_a_newcomer_s_tickets() -> None:
    for seed in seeds(50):
        assert draw(seed, "good", {2: RATED}, [1, 2], 1) == draw(
            seed, "good", {1: 1 + NEW, 2: RATED}, [1, 2], 1
        )
    assert RATED < 1 + NEW


OTHER = hashlib.sha256(b"other").digest()


@pytest.mark.parametrize(
    ("audit_seed", "purpose"), [(OTHER, "good"), (SEED, "last")], ids=["audit seed", "purpose"]
)
def test_seed_and_purpose_change_the_draw(audit_seed: bytes, purpose: str) -> None:
    base, again = (draw(round_seed(SEED), "good", {}, range(1, 60), 10) for _ in range(2))
    assert base == again
    assert base != draw(round_seed(audit_seed), purpose, {}, range(1, 60), 10)
