# SPDX-License-Identifier: Apache-2.0
"""A post takes statements of its epoch's miners by their operators, and gives them to anybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.pipeline.post import Post
from agents.pipeline.shards import MAX_STATEMENT, Statement
from agents.pipeline.statements import fetch, leave
from agents.runtime.bounded_http import ask
from tests.stage.memory.pipeline_epoch import EPOCH, MINERS, OPERATORS, WALLETS, WHERE, post

SEED = b"\x05" * 32


def said(owner: int, epoch: int = 7, content: bytes = b"\1" * 32) -> Statement:
    bare = Statement(3, epoch, owner, SEED, (11, 12), content, (b"\4" * 32,))
    return bare.by(WALLETS[owner], WHERE)


@pytest.fixture
def board() -> Iterator[Post]:
    made = post()
    made.statements.expect(EPOCH, OPERATORS)
    yield made
    made.stop()


def test_statements_are_left_and_fetched(board: Post) -> None:
    for owner in (11, 12):
        assert leave(board.url, said(owner))
    assert fetch(board.url, EPOCH) == [said(11), said(12)]
    for number in range(4):
        assert leave(board.url, said(11, content=bytes([number]) * 32))
    others = replace(EPOCH, number=8), replace(EPOCH, job=4)
    assert [fetch(board.url, other) for other in others] == [[], []]


def test_an_old_statement_that_is_sent_again_pushes_out_none(board: Post) -> None:
    newer = said(11, content=b"\2" * 32)
    for one in (said(11), newer, said(11), said(11)):
        assert leave(board.url, one)
    assert fetch(board.url, EPOCH) == [said(11), newer]
    for number in range(9):
        assert leave(board.url, said(11, content=bytes([number]) * 32))
    assert len(fetch(board.url, EPOCH)) == 4


def test_nobody_speaks_for_another(board: Post) -> None:
    forged = replace(said(99), owner=11)
    stranger = said(99)
    other_epoch = said(11, epoch=8)
    assert not any(leave(board.url, one) for one in (forged, stranger, other_epoch))
    assert fetch(board.url, EPOCH) == []


def test_old_epochs_are_forgotten(board: Post) -> None:
    assert leave(board.url, said(11))
    for epoch in range(8, 12):
        board.statements.expect(replace(EPOCH, number=epoch), OPERATORS)
    assert fetch(board.url, EPOCH) == []
    assert not leave(board.url, said(11))


@pytest.mark.parametrize(
    ("body", "status"), [(b"{}", 400), (b"\xff", 400), (b" " * (MAX_STATEMENT + 1), 413)]
)
def test_bytes_that_are_no_statement_are_refused(board: Post, body: bytes, status: int) -> None:
    assert ask("POST", board.url + "/shards", body, 60.0, 1000)[0] == status


@pytest.mark.parametrize("path", ["/shards", "/shards/3", "/shards/x/7", "/shards/3/7/1"])
def test_another_path_is_not_found(board: Post, path: str) -> None:
    assert ask("GET", board.url + path, None, 60.0, 1000)[0] == 404


@pytest.mark.parametrize("body", [b"{}", b"[1, null, {}]", b"nonsense", b"[" * 5000])
def test_a_post_that_answers_nonsense_gives_nothing(
    board: Post, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "listed_statements", lambda path: body)
    assert fetch(board.url, EPOCH) == []


def test_a_post_that_is_gone_gives_and_takes_nothing(board: Post) -> None:
    board.stop()
    assert fetch(board.url, EPOCH) == [] and not leave(board.url, said(11))


def test_good_statements_are_read_beside_bad_ones(
    board: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = json.dumps([{"owner": 11}, said(12).to_json()]).encode()
    monkeypatch.setattr(board, "listed_statements", lambda path: mixed)
    assert fetch(board.url, EPOCH) == [said(12)]


def test_as_many_and_as_long_statements_as_there_can_be_are_read(board: Post) -> None:
    for owner in MINERS:
        stage = EPOCH.stage_of(owner)
        assert stage is not None
        longest = replace(said(owner), contributors=EPOCH.stages[stage])
        for number in range(4):
            one = replace(longest, content=bytes([number]) * 32).by(WALLETS[owner], WHERE)
            assert leave(board.url, one)
    assert len(fetch(board.url, EPOCH)) == 4 * len(MINERS)


def test_of_a_longer_list_nothing_is_read(board: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proposer asks eight posts at once, and whoever holds a stage may have one. Each could make
    it parse 64 KiB for each of four statements of each miner."""
    body = json.dumps([said(11).to_json(), "x" * 100_000]).encode()
    monkeypatch.setattr(board, "listed_statements", lambda path: body)
    assert fetch(board.url, EPOCH) == []


def test_nobody_makes_an_honest_posts_list_too_long(board: Post) -> None:
    strangers = replace(said(11), contributors=(11, 12, *range(2**64 - 500, 2**64)))
    shards = replace(said(11), digests=(b"\4" * 32,) * 500)
    for one in (strangers, shards):
        assert not leave(board.url, one.by(WALLETS[11], WHERE))
    assert leave(board.url, said(11))


def test_what_can_not_be_true_after_a_reorg_is_forgotten(board: Post) -> None:
    assert leave(board.url, said(11)) and leave(board.url, said(12))
    (first, *rest), seed = EPOCH.stages, b"\x06" * 32
    other = replace(EPOCH, seed=seed, stages=((11,), (12, *first[2:], *rest[0]), *rest[1:]))
    board.statements.expect(other, OPERATORS)
    assert fetch(board.url, other) == []
    alone = replace(said(11), contributors=(11,), digests=()).by(WALLETS[11], WHERE)
    assert leave(board.url, alone)
    assert fetch(board.url, other) == [alone]
