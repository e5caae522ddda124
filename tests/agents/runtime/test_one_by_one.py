# SPDX-License-Identifier: Apache-2.0
"""Of several agents that may send the same, one after the other."""

from __future__ import annotations

import pytest

from agents.runtime.one_by_one import OneByOne

MEMBERS = ["0x" + f"{number:02X}" * 20 for number in range(0xA1, 0xA6)]
APART_S = 2.0
EVENT = b"an operation".ljust(32, b"\0")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr("agents.runtime.one_by_one.time.monotonic", lambda: now[0])
    return now


def turns(clock: list[float], event: bytes, block_s: float = 1.0) -> list[str]:
    """The members in the order in which their turns come, by asking each in every second."""
    agents = {member: OneByOne(member, APART_S) for member in MEMBERS}
    order: list[str] = []
    for _ in range(200):
        mine = [m for m in MEMBERS if agents[m].is_mine(event, "relay", MEMBERS, block_s)]
        order += [m for m in mine if m not in order]
        clock[0] += 1.0
    return order


def test_the_first_goes_at_once_and_each_other_two_blocks_after_the_one_before(
    clock: list[float],
) -> None:
    order = turns(clock, EVENT)
    assert sorted(order) == sorted(MEMBERS)
    for place, member in enumerate(order):
        one, began = OneByOne(member, APART_S), clock[0]
        while not one.is_mine(EVENT, "relay", MEMBERS, 1.0):
            clock[0] += 0.5
        assert clock[0] - began == 2 * place


def test_on_a_slow_chain_they_leave_as_many_blocks(clock: list[float]) -> None:
    last = OneByOne(turns(clock, EVENT)[-1], APART_S)
    assert not last.is_mine(EVENT, "relay", MEMBERS, 12.0)
    clock[0] += 12.0 * 2 * 4 - 0.1
    assert not last.is_mine(EVENT, "relay", MEMBERS, 12.0)
    clock[0] += 0.2
    assert last.is_mine(EVENT, "relay", MEMBERS, 12.0)


def test_each_event_has_an_order_of_its_own(clock: list[float]) -> None:
    firsts = {turns(clock, bytes([number]) * 32)[0] for number in range(40)}
    assert firsts == set(MEMBERS)


def test_what_is_to_be_sent_next_is_waited_for_anew(clock: list[float]) -> None:
    """Else all would have their turn at once for all that comes later."""
    last = OneByOne(turns(clock, EVENT)[-1], APART_S)
    assert not last.is_mine(EVENT, "relay", MEMBERS, 1.0)
    clock[0] += 8.0
    assert last.is_mine(EVENT, "relay", MEMBERS, 1.0)
    assert not last.is_mine(EVENT, "execute", MEMBERS, 1.0)


def test_addresses_are_the_same_however_they_are_written(clock: list[float]) -> None:
    order = turns(clock, EVENT)
    first = OneByOne(order[0].lower(), APART_S)
    assert first.is_mine(EVENT, "relay", [member.lower() for member in MEMBERS], 1.0)


def test_who_is_alone_waits_for_nobody(clock: list[float]) -> None:
    assert OneByOne(MEMBERS[0], APART_S).is_mine(EVENT, "relay", MEMBERS[:1], 12.0)
    assert OneByOne(MEMBERS[0], APART_S).is_mine(EVENT, "relay", [], 12.0)


def test_who_leaves_no_time_waits_for_nobody(clock: list[float]) -> None:
    assert all(OneByOne(one, 0.0).is_mine(EVENT, "relay", MEMBERS, 12.0) for one in MEMBERS)


def test_many_events_at_once_put_off_none(clock: list[float]) -> None:
    """All of 2,000 are asked for in each second. Those that are over are forgotten."""
    events = [number.to_bytes(32, "big") for number in range(2_000)]
    one, others = OneByOne(MEMBERS[0], APART_S), MEMBERS[1:]
    waits, went = len(others) * APART_S, set[bytes]()
    end = clock[0] + waits + 1.0
    while clock[0] <= end:
        went |= {each for each in events if one.is_mine(each, "relay", MEMBERS, 1.0)}
        clock[0] += 1.0
    assert went == {*events}
    clock[0] += 3_601.0
    one.is_mine(EVENT, "relay", MEMBERS, 1.0)
    assert len(one._seen) == 1_024
