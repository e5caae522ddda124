# SPDX-License-Identifier: Apache-2.0
"""The lens gives each view's own answer, and nothing that it asks can write."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from boa import BoaError

from agents.runtime.lens import MOST_ANSWER, MOST_CALLS, MOST_DATA
from tests.stage.contracts.system import ERROR_SELECTOR, deployers

ASKED = """
# pragma version ~=0.4.3
n: public(uint256)

@external
def write():
    self.n += 1

@view
@external
def long(words: uint256) -> DynArray[uint256, 400]:
    found: DynArray[uint256, 400] = []
    for i: uint256 in range(words, bound=400):
        found.append(i)
    return found

@view
@external
def refuse():
    assert self.n > 10, "asked: not now"

@view
@external
def asker() -> address:
    return msg.sender

@view
@external
def length(data: Bytes[4096]) -> uint256:
    return len(data)
"""


@pytest.fixture(scope="module")
def lens() -> Any:
    (code,) = deployers(("Lens",))
    return code.deploy()


@pytest.fixture(scope="module")
def asked() -> Any:
    return boa.loads(ASKED)


def question(contract: Any, function: str, *args: Any) -> tuple[str, bytes]:
    return contract.address, getattr(contract, function).prepare_calldata(*args)


def words(data: bytes) -> list[int]:
    return [int.from_bytes(data[i : i + 32], "big") for i in range(0, len(data), 32)]


def test_answers_come_in_the_order_of_the_questions(lens: Any, asked: Any) -> None:
    answers = lens.read(
        [question(asked, "long", 2), question(asked, "n"), question(asked, "long", 0)]
    )
    assert [words(answer.data) for answer in answers] == [[32, 2, 0, 1], [0], [32, 0]]
    assert all(answer.success for answer in answers)
    assert lens.read([]) == []


def test_a_view_that_reverts__gives_its_reason_and_stops_no_other(lens: Any, asked: Any) -> None:
    refused, other = lens.read([question(asked, "refuse"), question(asked, "n")])
    assert not refused.success
    assert refused.data[:4] == ERROR_SELECTOR
    assert b"asked: not now" in refused.data
    assert (other.success, words(other.data)) == (True, [0])


def test_a_function_that_writes__fails_and_writes_nothing(lens: Any, asked: Any) -> None:
    (answer,) = lens.read([question(asked, "write")])
    assert (answer.success, asked.n()) == (False, 0)


def test_whom_a_view_sees__is_the_lens(lens: Any, asked: Any) -> None:
    (answer,) = lens.read([question(asked, "asker")])
    assert words(answer.data) == [int(lens.address, 16)]


def test_a_long_answer__is_cut_at_the_length_that_agents_know(lens: Any, asked: Any) -> None:
    full, cut = lens.read([question(asked, "long", 253), question(asked, "long", 400)])
    assert len(full.data) == MOST_ANSWER - 32
    assert (cut.success, len(cut.data)) == (True, MOST_ANSWER)


def test_where_there_is_no_contract__the_answer_is_empty(lens: Any) -> None:
    (answer,) = lens.read([(boa.env.generate_address(), b"1234")])
    assert (answer.success, answer.data) == (True, b"")


def test_as_many_and_as_long_questions_as_agents_send(lens: Any, asked: Any) -> None:
    longest = asked.address, question(asked, "length", bytes(4_096))[1].ljust(MOST_DATA, b"\0")
    answers = lens.read([longest] * MOST_CALLS)
    assert [words(answer.data) for answer in answers] == [[4_096]] * MOST_CALLS
    with pytest.raises(BoaError):
        lens.read([longest] * (MOST_CALLS + 1))
