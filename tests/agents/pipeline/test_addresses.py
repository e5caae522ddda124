# SPDX-License-Identifier: Apache-2.0
"""Of each node the newest address counts that its operator signed."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from agents.pipeline import addresses
from agents.pipeline.addresses import AddressBook
from agents.pipeline.letters import Announcement, LetterError
from tests.stage.memory.pipeline_epoch import OPERATORS, WALLETS, WHERE, announced, book


def test_the_newest_announcement_counts_in_any_order() -> None:
    known = book()
    for when in (5, 9, 7):
        assert known.take(announced(11, f"http://host:{when}", when))
    assert known.url_of(11) == "http://host:9"


def test_a_node_says_that_it_takes_no_connections() -> None:
    known = book()
    assert known.take(announced(11, "http://a", 5)) and known.take(announced(11, "", 6))
    assert (known.url_of(11), known.url_of(12)) == ("", None)
    assert Announcement.from_json(announced(11, "", 6).to_json()).url == ""


def test_a_forged_or_future_announcement_does_not_count() -> None:
    known = book()
    assert not known.take(replace(announced(11, "http://a", 5), node=12))
    assert not known.take(replace(announced(11, "http://a", 5), url="http://b"))
    assert not known.take(announced(11, "http://a", int(time.time()) + 10_000))
    assert not known.take(Announcement.signed(WALLETS[99], WHERE, 99, "http://a", 5))
    assert known.url_of(11) is None


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a",
        "file:///etc/passwd",
        "http://",
        "http://user@a",
        "http://a/?q=1",
        "http://a/\r\nX: y",
        "http://a/" + "b" * 200,
    ],
)
def test_an_address_that_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(LetterError):
        announced(11, url)


def test_a_full_book_forgets_who_does_not_matter_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "MAX_ANNOUNCEMENTS", 2)
    matter = {11, 12}
    known = AddressBook(WHERE, lambda node: OPERATORS[node] if node in matter else None)
    assert known.take(announced(11, "http://a")) and known.take(announced(12, "http://b"))
    matter.add(21)
    assert not known.take(announced(21, "http://c")), "all of the book is needed"
    matter.remove(11)
    assert known.take(announced(21, "http://c"))
    assert (known.url_of(11), known.url_of(12)) == (None, "http://b")


def moved() -> tuple[AddressBook, dict[int, str]]:
    """A book with what a node's operator announced before its key was changed, as far ahead as a
    clock may be, and the operators after it."""
    operators = dict(OPERATORS)
    known = AddressBook(WHERE, operators.get)
    assert known.take(announced(11, "http://thief", int(time.time()) + 500))
    operators[11] = WALLETS[99].address
    return known, operators


def test_a_former_operator_keeps_no_node_from_its_letters() -> None:
    """Others would send them to the thief of a key for as long as its time lies ahead."""
    known, _ = moved()
    assert known.url_of(11) is None
    assert known.take(Announcement.signed(WALLETS[99], WHERE, 11, "http://new", int(time.time())))
    assert known.url_of(11) == "http://new"
    assert not known.take(announced(11, "http://thief", int(time.time()) + 550))
    assert known.url_of(11) == "http://new"


def test_a_former_operators_announcement_is_passed_on_to_nobody() -> None:
    """Whoever gets some that are not by the operators reads no more of a list."""
    known, operators = moved()
    assert known.take(announced(12, "http://b"))
    assert [one["node"] for one in json.loads(known.listed())["announcements"]] == [12]
    del operators[12]  # it plays no part in this epoch, and may for others
    assert [one["node"] for one in json.loads(known.listed())["announcements"]] == [12]
