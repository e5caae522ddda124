# SPDX-License-Identifier: Apache-2.0
"""One wrong step is found, proven under the node's own root, and nobody can be framed."""

from dataclasses import replace

import pytest
from eth_utils import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.training.state import PayloadError
from agents.training.trace import Trace
from agents.verify.bisection import Evidence, find_evidence, first_wrong_step, verify_evidence


def chain(length: int, wrong_from: int | None = None) -> tuple[bytes, ...]:
    wrong = length if wrong_from is None else wrong_from
    return tuple(keccak(bytes([index, index >= wrong])) for index in range(length))


class Counting(tuple):
    reads = 0

    def __getitem__(self, index):
        type(self).reads += 1
        return super().__getitem__(index)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_finds_the_first_wrong_step(case):
    length, wrong = case
    expected = None if wrong == length else wrong
    assert first_wrong_step(chain(length), chain(length, wrong)) == expected


def test_needs_few_comparisons():
    claimed = Counting(chain(200, 137))
    Counting.reads = 0
    assert first_wrong_step(chain(200), claimed) == 137
    assert Counting.reads <= 10


@settings(max_examples=200, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_any_pattern_gives_an_agreed_and_then_a_wrong_hash(equal):
    own = chain(len(equal))
    claimed = tuple(a if same else b"\0" * 32 for a, same in zip(own, equal, strict=True))
    index = first_wrong_step(own, claimed)
    if index is None:
        assert all(equal)
    else:
        assert not equal[index] and (index == 0 or equal[index - 1])


def test_reconverging_traces_are_scanned():
    own = chain(9)
    claimed = (*own[:3], b"\1" * 32, *own[4:])
    assert first_wrong_step(own, claimed) == 3


def test_lengths_must_match():
    assert first_wrong_step((), ()) is None
    with pytest.raises(ValueError, match="trace of 2 hashes can't be compared with 3"):
        first_wrong_step(chain(3), chain(2))


@pytest.mark.parametrize("wrong", [0, 1, 4, 6])
def test_evidence_holds_and_survives_the_wire(wrong):
    own, claimed = Trace(5, chain(7)), Trace(5, chain(7, wrong))
    found = find_evidence(own, claimed)
    assert found is not None and found.index == wrong
    again = Evidence.from_bytes(found.to_bytes())
    assert again == found
    assert verify_evidence(again, claimed.root(), own) is None


def test_equal_traces_give_no_evidence():
    assert find_evidence(Trace(5, chain(4)), Trace(5, chain(4))) is None
    with pytest.raises(ValueError, match="node 6 can't be judged by one of node 5"):
        find_evidence(Trace(5, chain(4)), Trace(6, chain(4)))


OWN = Trace(5, chain(7))
CLAIMED = Trace(5, chain(7, 3))
FOUND = find_evidence(OWN, CLAIMED)
JUNK = b"\x09" * 32


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"node": 6}, "about node 6, not 5"),
        ({"index": 7}, "not among the 7"),
        ({"index": 4}, "claimed hash is not in the trace"),
        ({"claimed": JUNK}, "claimed hash is not in the trace"),
        ({"claimed_proof": ()}, "claimed hash is not in the trace"),
        ({"agreed": JUNK}, "agreed hash is not in the trace"),
        ({"agreed": None}, "hash before the wrong one is needed"),
        ({"expected": JUNK}, "doesn't give the hash"),
        ({"expected": FOUND.claimed}, "are the same"),
    ],
)
def test_tampered_evidence_is_refused(changes, part):
    assert part in verify_evidence(replace(FOUND, **changes), CLAIMED.root(), OWN)


def test_honest_node_cannot_be_framed():
    assert "not in the trace" in verify_evidence(FOUND, OWN.root(), OWN)
    framed = find_evidence(Trace(5, chain(7, 3)), OWN)  # a liar's "replay" against an honest trace
    assert "doesn't give the hash" in verify_evidence(framed, OWN.root(), OWN)


def test_evidence_that_skips_past_the_first_wrong_step_is_refused():
    late = find_evidence(Trace(5, (*CLAIMED.hashes[:4], *OWN.hashes[4:])), CLAIMED)
    assert late.index == 4
    assert "doesn't agree with the hash before" in verify_evidence(late, CLAIMED.root(), OWN)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(FOUND.to_bytes()) - 1), st.binary(min_size=1, max_size=3))
def test_changed_evidence_is_refused(where, value):
    raw = FOUND.to_bytes()
    data = raw[:where] + value + raw[where + len(value) :]
    try:
        found = Evidence.from_bytes(data)
    except PayloadError:
        return
    assert data == raw or verify_evidence(found, CLAIMED.root(), OWN) is not None


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff", b"[" * 9000, b" " * 20_000, b'{"version":1}']
)
def test_malformed_evidence_is_refused(data):
    with pytest.raises(PayloadError):
        Evidence.from_bytes(data)
