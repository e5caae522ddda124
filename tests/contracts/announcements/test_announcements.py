# SPDX-License-Identifier: Apache-2.0
"""The module of announcements behind a thin contract: who has found something first."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from agents.protocol import formulas
from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import refuses

HARNESS = """
# pragma version ~=0.4.3
from contracts.modules import announcements
initializes: announcements

@deploy
def __init__():
    announcements.__init__()

@external
def announce(scope: bytes32, digest: bytes32, deposit: uint256):
    announcements._announce(scope, digest, deposit)

@external
def open(scope: bytes32, digest: bytes32, subject: bytes32, finder: uint256) -> (bool, uint256):
    return announcements._open(scope, digest, subject, finder)

@external
def publish(subject: bytes32):
    announcements._publish(subject)

@external
def expire(scope: bytes32, digest: bytes32, after: uint256) -> uint256:
    return announcements._expire(scope, digest, after)

@view
@external
def finder(subject: bytes32) -> uint256:
    return announcements._finder(subject)

@view
@external
def digest(job: uint256, round: uint256, what: uint256, finder: uint256, word: bytes32) -> bytes32:
    return announcements._digest(job, round, what, finder, word)
"""
SUBJECT = keccak(text="subject")
ADA, BOB = keccak(text="ada"), keccak(text="bob")
DIGEST = keccak(text="digest")
MOST = 2**128 - 1


@pytest.fixture
def book() -> Any:
    return boa.loads(HARNESS)


def test_open__in_a_later_block__finds(book: Any) -> None:
    book.announce(ADA, DIGEST, MOST)
    assert book.open(ADA, DIGEST, SUBJECT, 7) == (False, 0)
    mine(1)
    assert book.open(BOB, DIGEST, SUBJECT, 8) == (False, 0)
    assert book.open(ADA, DIGEST, SUBJECT, 2**160 - 1) == (True, MOST)
    assert book.finder(SUBJECT) == 2**160 - 1
    assert book.open(ADA, DIGEST, SUBJECT, 7) == (False, 0)


def test_open__the_oldest_is_the_finder_whoever_opens_first(book: Any) -> None:
    for scope in (ADA, BOB):
        book.announce(scope, DIGEST, 0)
        mine(1)
    book.open(BOB, DIGEST, SUBJECT, 8)
    assert book.finder(SUBJECT) == 8
    book.open(ADA, DIGEST, SUBJECT, 7)
    assert book.finder(SUBJECT) == 7


def test_open__of_one_block__the_first_to_open_stays(book: Any) -> None:
    for scope in (ADA, BOB):
        book.announce(scope, DIGEST, 0)
    mine(1)
    book.open(BOB, DIGEST, SUBJECT, 8)
    book.open(ADA, DIGEST, SUBJECT, 7)
    assert book.finder(SUBJECT) == 8


def test_publish__announcements_from_then_on_find_nothing(book: Any) -> None:
    book.announce(ADA, DIGEST, 0)
    mine(1)
    book.publish(SUBJECT)
    book.announce(BOB, DIGEST, 5)
    mine(1)
    book.publish(SUBJECT)
    assert book.open(BOB, DIGEST, SUBJECT, 8) == (True, 5)
    assert book.finder(SUBJECT) == 0
    book.open(ADA, DIGEST, SUBJECT, 7)
    assert book.finder(SUBJECT) == 7


def test_announce__twice__reverts_until_it_is_opened(book: Any) -> None:
    book.announce(ADA, DIGEST, 0)
    with refuses("announcements: already announced"):
        book.announce(ADA, DIGEST, 0)
    mine(1)
    book.open(ADA, DIGEST, SUBJECT, 7)
    book.announce(ADA, DIGEST, 0)


def test_expire__after_its_time__gives_the_deposit_once(book: Any) -> None:
    with refuses("announcements: not announced"):
        book.expire(ADA, DIGEST, 100)
    book.announce(ADA, DIGEST, 5)
    mine(1, 100)
    with refuses("announcements: too early"):
        book.expire(ADA, DIGEST, 100)
    mine(1, 1)
    assert book.expire(ADA, DIGEST, 100) == 5
    assert book.open(ADA, DIGEST, SUBJECT, 7) == (False, 0)
    with refuses("announcements: not announced"):
        book.expire(ADA, DIGEST, 100)


def test_digest__is_the_formula(book: Any) -> None:
    chain = int(boa.env.evm.patch.chain_id)
    own = formulas.announcement(chain, book.address, (1, 2), 2**256 - 1, 2**160 - 1, SUBJECT)
    assert book.digest(1, 2, 2**256 - 1, 2**160 - 1, SUBJECT) == own
