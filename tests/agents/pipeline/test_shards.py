# SPDX-License-Identifier: Apache-2.0
"""Owners' statements: who delivered, who lied, what is lost, and what is left of the merge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from agents.mechanisms import merge
from agents.pipeline.butterfly import Butterfly, valid_fraction, valid_shards
from agents.pipeline.letters import LetterError
from agents.pipeline.shards import (
    MAX_STATEMENT,
    Statement,
    flat,
    merge_shards,
    settle,
    stage_seed,
    unflat,
)
from agents.training.state import PayloadError
from tests.stage.memory.pipeline_epoch import OPERATORS, WALLETS, WHERE

SEED = stage_seed(b"\x07" * 32, 1)
MINERS, LENGTH = (2, 3, 5, 8, 13), 1003
ROWS = [torch.randn(LENGTH, generator=torch.Generator().manual_seed(m)) for m in MINERS]
NINE = Fraction(9, 10)
MEAN = merge.get("mean")()
MERGED = MEAN([{"shard": row} for row in ROWS])["shard"]


@pytest.fixture
def butterfly() -> Butterfly:
    return Butterfly.draw(SEED, MINERS, LENGTH)


def says(butterfly: Butterfly, owner: int, off: Sequence[int] = (), **changes: Any) -> Statement:
    """What an owner states. `off`: shards of which it states another merge."""
    made = merge_shards(butterfly, owner, ROWS, MEAN)
    made = {s: values + 1 if s in off else values for s, values in made.items()}
    digests = tuple(butterfly.digest(s, values) for s, values in made.items())
    said = Statement(1, 7, owner, SEED, MINERS, b"\1" * 32, digests, b"\2" * 65)
    return replace(said, **changes)


def nobody(owner: int, shard: int) -> Tensor | None:
    """Where nobody has the pieces."""
    return None


def everybody(butterfly: Butterfly, without: Sequence[int] = ()) -> dict[int, Statement]:
    return {owner: says(butterfly, owner) for owner in MINERS if owner not in without}


def test_all_owners_give_the_merge_to_the_bit(butterfly: Butterfly) -> None:
    found = settle(butterfly, MERGED, MINERS, everybody(butterfly), NINE, nobody)
    assert torch.equal(found.update, MERGED) and found.accepted
    assert (found.lost, found.liars, found.elsewhere) == ((), {}, ())
    off_diagonal = [m for r, row in enumerate(found.matrix) for c, m in enumerate(row) if r != c]
    assert off_diagonal == [True] * 20


@pytest.mark.parametrize("name", ["mean", "median", "trimmed_mean", "geometric_mean"])
def test_a_shard_alone_is_merged_to_the_bits_of_the_whole(name: str, butterfly: Butterfly) -> None:
    rule = merge.get(name)()
    whole = rule([{"a": row[:500].view(5, 100), "b": row[500:]} for row in ROWS])
    for owner in MINERS:
        for shard, values in merge_shards(butterfly, owner, ROWS, rule).items():
            first, last = butterfly.spans[shard]
            assert torch.equal(values, flat(whole)[first:last])


@pytest.mark.parametrize("lost", range(6))
def test_valid_shards_are_the_formulas_and_lost_ones_are_zero(
    butterfly: Butterfly, lost: int
) -> None:
    for away in combinations(MINERS, lost):
        said = everybody(butterfly, away)
        found = settle(butterfly, MERGED, MINERS, said, Fraction(0), nobody)
        delivered = len(butterfly.pairs) - len(found.lost)
        assert delivered == valid_shards(5, lost)
        assert Fraction(delivered, len(butterfly.pairs)) == valid_fraction(5, lost)
        for shard, (first, last) in enumerate(butterfly.spans):
            gone = shard in found.lost
            assert gone == (set(butterfly.pairs[shard]) <= set(away))
            wanted = torch.zeros(last - first) if gone else MERGED[first:last]
            assert torch.equal(found.update[first:last], wanted)


def test_with_too_few_shards_the_merge_is_refused(butterfly: Butterfly) -> None:
    said = everybody(butterfly, (2, 3, 5))  # 7 of 10 shards
    assert settle(butterfly, MERGED, MINERS, said, Fraction(7, 10), nobody).accepted
    found = settle(butterfly, MERGED, MINERS, said, Fraction(71, 100), nobody)
    assert not found.accepted and not found.update.any()


def test_a_liar_is_found_by_the_merge_and_not_by_votes(butterfly: Butterfly) -> None:
    """Also where both owners of the shard agree on the lie."""
    shard = butterfly.pairs.index((3, 8))
    one = {**everybody(butterfly), 3: says(butterfly, 3, [shard])}
    found = settle(butterfly, MERGED, MINERS, one, NINE, nobody)
    assert found.liars == {3: (shard,)} and torch.equal(found.update, MERGED)
    assert [row.count(False) for row in found.matrix] == [0, 1, 0, 1, 0]
    both = {**one, 8: says(butterfly, 8, [shard])}
    found = settle(butterfly, MERGED, MINERS, both, NINE, nobody)
    assert found.liars == {3: (shard,), 8: (shard,)} and torch.equal(found.update, MERGED)


def test_a_liar_is_found_in_all_its_shards_and_its_partners_are_not(butterfly: Butterfly) -> None:
    said = {**everybody(butterfly), 5: says(butterfly, 5, range(10))}
    found = settle(butterfly, MERGED, MINERS, said, NINE, nobody)
    assert found.liars == {5: butterfly.owned(5)} and torch.equal(found.update, MERGED)
    assert [row.count(False) for row in found.matrix] == [1, 1, 4, 1, 1]
    assert all(found.matrix[place][place] is None for place in range(5))


def test_a_majority_of_liars_convicts_nobody_honest(butterfly: Butterfly) -> None:
    """They agree among themselves, and the honest one with nobody."""
    liars = MINERS[:-1]
    said = everybody(butterfly) | {liar: says(butterfly, liar, range(10)) for liar in liars}
    found = settle(butterfly, MERGED, MINERS, said, NINE, nobody)
    assert found.matrix[-1] == [False] * 4 + [None]
    assert found.liars == {liar: butterfly.owned(liar) for liar in liars}
    assert torch.equal(found.update, MERGED)


def test_who_lies_about_a_shard_that_it_alone_delivered_is_found(butterfly: Butterfly) -> None:
    """Nobody else states what it comes to."""
    liar, absent = butterfly.pairs[2]
    said = {**everybody(butterfly, [absent]), liar: says(butterfly, liar, [2])}
    found = settle(butterfly, MERGED, MINERS, said, NINE, nobody)
    assert found.liars == {liar: (2,)} and found.lost == ()
    assert torch.equal(found.update, MERGED)


def test_who_merged_fewer_delivers_and_is_judged_for_those(butterfly: Butterfly) -> None:
    """It could not see one payload in time, so its digests are of another merge."""

    def again(owner: int, shard: int) -> Tensor:
        first, last = butterfly.spans[shard]
        return MEAN([{"shard": row[first:last]} for row in ROWS[:-1]])["shard"]

    made = {s: again(3, s) for s in butterfly.owned(3)}
    digests = tuple(butterfly.digest(s, values) for s, values in made.items())
    fewer = says(butterfly, 3, contributors=MINERS[:-1], digests=digests)
    for said, liars in (
        ({**everybody(butterfly, [8]), 3: fewer}, {}),
        ({**everybody(butterfly, [8]), 3: replace(fewer, digests=says(butterfly, 3).digests)}, {3}),
    ):
        found = settle(butterfly, MERGED, MINERS, said, NINE, again)
        assert found.elsewhere == (3,) and found.liars.keys() == set(liars)
        assert found.lost == () and torch.equal(found.update, MERGED)
        assert found.matrix[MINERS.index(3)] == [None] * 5, "it agrees with nobody"


def test_who_merges_fewer_than_the_rule_does_stated_a_wrong_digest(butterfly: Butterfly) -> None:
    def again(owner: int, shard: int) -> Tensor:
        raise PayloadError("it names too few")

    said = {**everybody(butterfly), 3: says(butterfly, 3, contributors=(3,))}
    found = settle(butterfly, MERGED, MINERS, said, NINE, again)
    assert found.liars == {3: butterfly.owned(3)} and torch.equal(found.update, MERGED)


@pytest.mark.parametrize("changes", [{"digests": ()}, {"contributors": ()}])
def test_a_statement_of_no_merge_delivers_nothing(
    butterfly: Butterfly, changes: dict[str, Any]
) -> None:
    said = {**everybody(butterfly, [8]), 3: says(butterfly, 3, **changes)}
    found = settle(butterfly, MERGED, MINERS, said, Fraction(0), nobody)
    assert found.liars == {} and found.elsewhere == (3,)
    assert found.lost == (butterfly.pairs.index((3, 8)),)


@pytest.mark.parametrize("changes", [{"seed": b"\0" * 32}, {"owner": 5}])
def test_a_statement_of_another_merge_is_not_settled(
    butterfly: Butterfly, changes: dict[str, Any]
) -> None:
    said = {3: replace(says(butterfly, 3), **changes)}
    with pytest.raises(ValueError, match="is not of this merge"):
        settle(butterfly, MERGED, MINERS, said, NINE, nobody)


def test_small_changes_leave_shards_empty() -> None:
    butterfly = Butterfly.draw(SEED, MINERS, 3)
    rows = [row[:3] for row in ROWS]
    said = {}
    for owner in MINERS:
        made = merge_shards(butterfly, owner, rows, MEAN)
        digests = tuple(butterfly.digest(s, values) for s, values in made.items())
        said[owner] = Statement(1, 7, owner, SEED, MINERS, b"\1" * 32, digests, b"\2" * 65)
    merged = MEAN([{"shard": row} for row in rows])["shard"]
    found = settle(butterfly, merged, MINERS, said, NINE, nobody)
    assert torch.equal(found.update, merged) and found.liars == {}


def test_tensors_come_back_from_the_flat_numbers() -> None:
    change: dict[str, Tensor] = {"b": torch.arange(6.0).view(2, 3), "a": torch.tensor(7.0)}
    numbers = flat(change)
    assert numbers.tolist() == [7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    again = unflat(numbers, {"a": (), "b": (2, 3)})
    assert all(torch.equal(again[name], change[name]) for name in change)


# -- statements on the wire --------------------------------------------------------------------


@pytest.fixture
def signed(butterfly: Butterfly) -> Statement:
    return replace(says(butterfly, 3), owner=11).by(WALLETS[11], WHERE)


def test_a_statement_survives_the_wire_with_its_signer(signed: Statement) -> None:
    raw = json.dumps(signed.to_json()).encode()
    again = Statement.from_bytes(raw)
    assert again == signed and again.signer(WHERE) == OPERATORS[11]
    assert len(raw) < MAX_STATEMENT


def test_the_longest_statement_is_short_enough() -> None:
    most = 2**64 - 1
    nodes = tuple(range(most - 512, most))
    longest = Statement(most, most, most, SEED, nodes, SEED, (SEED,) * 511, b"\2" * 65)
    raw = json.dumps(longest.to_json()).encode()
    assert Statement.from_bytes(raw) == longest


@pytest.mark.parametrize(
    "changes",
    [
        {"job": 2},
        {"epoch": 8},
        {"owner": 12},
        {"seed": b"\0" * 32},
        {"contributors": (2, 3)},
        {"content": b"\0" * 32},
        {"digests": ()},
    ],
)
def test_the_signature_is_over_every_field(signed: Statement, changes: dict[str, Any]) -> None:
    assert replace(signed, **changes).signer(WHERE) != OPERATORS[11]


@pytest.mark.parametrize(
    "changes",
    [
        {"owner": "11"},
        {"owner": True},
        {"owner": -1},
        {"seed": "00"},
        {"seed": 7},
        {"contributors": [3, 2]},
        {"contributors": [3, 3]},
        {"contributors": "23"},
        {"contributors": list(range(513))},
        {"digests": ["00" * 32] * 512},
        {"digests": ["AB" * 32]},
        {"digests": None},
        {"signature": "00" * 64},
        {"more": 1},
    ],
)
def test_what_is_no_statement_is_refused(signed: Statement, changes: dict[str, Any]) -> None:
    with pytest.raises(LetterError):
        Statement.from_json({**signed.to_json(), **changes})


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"\xff", b"[" * 60_000, b" " * 70_000])
def test_bytes_that_are_none_are_refused(raw: bytes) -> None:
    with pytest.raises(LetterError):
        Statement.from_bytes(raw)
