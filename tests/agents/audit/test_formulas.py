# SPDX-License-Identifier: Apache-2.0
"""The audit's own formulas of consensus, trust and pay: by hand, and against the agents' ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.protocol import formulas
from agents.protocol import median as agents
from agents.protocol.scores import scores_digest

_ROWS = st.integers(1, 5).flatmap(
    lambda nodes: st.lists(
        st.tuples(
            st.integers(0, 100),
            st.lists(st.sampled_from([0, 1, 2, 500, 65_535]), min_size=nodes, max_size=nodes),
        ),
        min_size=1,
        max_size=6,
    )
)


def test_consensus_by_hand() -> None:
    """Stakes 40, 30 and 30 of 100: half is reached by any two, or not at all by one."""
    rows = [(40, [100, 0, 9]), (30, [50, 7, 0]), (30, [80, 7, 0])]
    assert formulas.consensus(rows, 100, 3) == [80, 7, 0]
    # Whoever is silent counts as zero: 40 of 100 decides nothing.
    assert formulas.consensus(rows[:1], 100, 3) == [0, 0, 0]
    # Exactly half is enough.
    assert formulas.consensus(rows[:1], 80, 3) == [100, 0, 9]
    assert formulas.consensus([], 100, 2) == [0, 0]


@given(_ROWS, st.integers(0, 100))
def test_consensus_is_the_agents(rows: list[tuple[int, list[int]]], silent: int) -> None:
    stakes, vectors = [stake for stake, _ in rows], [scores for _, scores in rows]
    total, nodes = sum(stakes) + silent, len(vectors[0])
    if not total:
        return
    found = formulas.consensus(rows, total, nodes)
    assert found == agents.stake_median(vectors, stakes, total)
    for scores in vectors:
        assert formulas.agreement(scores, found) == agents.agreement(scores, found)


def test_agreement_and_trust_by_hand() -> None:
    """Common 30 of 60 is half; a vector of the right shape and a tenth of the size is a tenth."""
    assert formulas.agreement([30, 30], [30, 0]) == 5_000
    assert formulas.agreement([3, 0], [30, 0]) == 1_000
    assert formulas.agreement([0, 0], [30, 0]) == 0
    assert formulas.agreement([7, 8], [7, 8]) == 10_000
    assert formulas.trust(None, 4_000) == 4_000
    assert formulas.trust(10_000, 0) == 7_000
    assert formulas.trust(0, 9_999) == 2_999
    assert formulas.cut_factor(3, 4) == 7_500
    assert formulas.cut_factor(0, 0) == 10_000


def test_split_by_scores_by_hand() -> None:
    """1,000 units: 100 for verifiers, 50 for the proposer; node 7's part is nobody's."""
    plain = formulas.split(1_000, 1_000, 500, 9, {1: 60, 2: 40}, {5: 1, 6: 1})
    assert plain.cuts == ((9, 50), (1, 60), (2, 40))
    assert (plain.trainer_amount, plain.total, plain.shares) == (850, 2, {5: 425, 6: 425})
    scored = formulas.split(
        *(1_000, 1_000, 500, 9, {1: 60, 2: 40}, {5: 1, 6: 1}),
        factors={1: 5_000, 2: 0},
        scores={6: 30_000, 7: 10_000},
    )
    assert scored.cuts == ((9, 50), (1, 30), (2, 0))
    assert scored.trainer_amount == 920
    assert scored.total == 40_000
    assert scored.parts == {5: 0, 6: 30_000}
    assert scored.shares == {5: 0, 6: 690}
    assert scored.paid == 770


@given(
    st.dictionaries(st.integers(1, 9), st.integers(1, 10**20), min_size=1),
    st.dictionaries(st.integers(10, 19), st.integers(0, 10**6)),
    st.dictionaries(st.integers(10, 19), st.integers(1, 65_535), min_size=1),
    st.integers(0, 10_000),
    st.integers(0, 10**22),
)
def test_no_split_pays_more_than_the_pool(
    attesters: dict[int, int],
    contributions: dict[int, int],
    scores: dict[int, int],
    factor: int,
    reward: int,
) -> None:
    factors = dict.fromkeys(attesters, factor)
    found = formulas.split(reward, 1_000, 500, 20, attesters, contributions, factors, scores)
    assert 0 <= found.paid <= reward


def test_digest_is_the_agents() -> None:
    sender, contract = "0x" + "ab" * 20, "0x" + "cd" * 20
    scores, record, salt = [4, 5], b"\6" * 32, b"\7" * 32
    mine = formulas.scores_digest(31_337, contract, 1, 2, 3, sender, scores, record, salt)
    assert mine == scores_digest(31_337, contract, (1, 2, 3), sender, scores, record, salt)
