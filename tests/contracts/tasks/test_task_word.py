# SPDX-License-Identifier: Apache-2.0
"""The task word: every change touches its own bits only, against a plain record of the fields."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import boa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LANES = 5
STATES = st.integers(1, 6)
WIDTHS = {"status": 4, "time": 32, "target": 36, "size": 24, "run_s": 20, "spare": 4}

HARNESS = """
# pragma version ~=0.4.3
from contracts.modules import task_word

struct Fields:
    status: uint256
    time: uint256
    target: uint256
    size: uint256
    run_s: uint256
    spare: uint256
    nodes: uint256[5]
    states: uint256[5]

@external
@pure
def fields(word: uint256) -> Fields:
    nodes: uint256[5] = empty(uint256[5])
    states: uint256[5] = empty(uint256[5])
    for lane: uint256 in range(5):
        nodes[lane] = task_word._node(word, lane)
        states[lane] = task_word._state(word, lane)
    return Fields(
        status=task_word._status(word),
        time=task_word._time(word),
        target=task_word._block(word),
        size=task_word._size(word),
        run_s=task_word._run_s(word),
        spare=word >> 116 & 15,
        nodes=nodes,
        states=states,
    )

@external
@pure
def count(word: uint256, state: uint256) -> uint256:
    return task_word._count(word, state)

@external
@pure
def enter(word: uint256, status: uint256, time: uint256) -> uint256:
    return task_word._enter(word, status, time)

@external
@pure
def request(
    word: uint256, status: uint256, time: uint256, target: uint256, size: uint256
) -> uint256:
    return task_word._request(word, status, time, target, size)

@external
@pure
def with_run_s(word: uint256, run_s: uint256) -> uint256:
    return task_word._with_run_s(word, run_s)

@external
@pure
def with_node(word: uint256, lane: uint256, node_id: uint256) -> uint256:
    return task_word._with_node(word, lane, node_id)

@external
@pure
def with_state(word: uint256, lane: uint256, state: uint256) -> uint256:
    return task_word._with_state(word, lane, state)
"""


@dataclass(frozen=True)
class Fields:
    """What a word holds, unpacked."""

    status: int
    time: int
    target: int
    size: int
    run_s: int
    spare: int
    nodes: tuple[int, ...] = field(default=(0,) * LANES)
    states: tuple[int, ...] = field(default=(0,) * LANES)

    def pack(self) -> int:
        """The word, by the table in the module's notice."""
        word, at = 0, 0
        for name, width in WIDTHS.items():
            word |= getattr(self, name) << at
            at += width
        for node_id, state in zip(self.nodes, self.states, strict=True):
            word |= (node_id | state << 24) << at
            at += 27
        assert at == 255
        return word


def numbers(bits: int) -> Any:
    """Mostly the ends, where a field would spill into its neighbour."""
    return st.one_of(st.sampled_from([0, 1, 2**bits - 1]), st.integers(0, 2**bits - 1))


words = st.builds(
    Fields,
    **{name: numbers(width) for name, width in WIDTHS.items()},
    nodes=st.tuples(*[numbers(24)] * LANES),
    states=st.tuples(*[st.integers(0, 7)] * LANES),
)


@pytest.fixture(scope="module")
def packed() -> Any:
    return boa.loads(HARNESS)


def unpacked(packed: Any, word: int) -> Fields:
    got = packed.fields(word)
    return Fields(*got[:6], nodes=tuple(got[6]), states=tuple(got[7]))


def swapped(values: tuple[int, ...], lane: int, value: int) -> tuple[int, ...]:
    return (*values[:lane], value, *values[lane + 1 :])


few = settings(max_examples=60, deadline=None)


@few
@given(fields=words)
def test_word__reads_every_field(packed: Any, fields: Fields) -> None:
    assert unpacked(packed, fields.pack()) == fields
    for state in range(8):
        assert packed.count(fields.pack(), state) == fields.states.count(state)


@few
@given(fields=words, status=numbers(4), time=numbers(32))
def test_enter__changes_status_and_time(
    packed: Any, fields: Fields, status: int, time: int
) -> None:
    after = unpacked(packed, packed.enter(fields.pack(), status, time))
    assert after == replace(fields, status=status, time=time)


@few
@given(fields=words, status=numbers(4), time=numbers(32), target=numbers(36), size=numbers(24))
def test_request__changes_the_draw(
    packed: Any, fields: Fields, status: int, time: int, target: int, size: int
) -> None:
    after = unpacked(packed, packed.request(fields.pack(), status, time, target, size))
    assert after == replace(fields, status=status, time=time, target=target, size=size)


@few
@given(fields=words, run_s=numbers(20))
def test_with_run_s__fills_an_empty_field(packed: Any, fields: Fields, run_s: int) -> None:
    word = replace(fields, run_s=0).pack()
    assert unpacked(packed, packed.with_run_s(word, run_s)) == replace(fields, run_s=run_s)


@few
@given(fields=words, lane=st.integers(0, LANES - 1), node_id=numbers(24))
def test_with_node__fills_an_empty_lane(
    packed: Any, fields: Fields, lane: int, node_id: int
) -> None:
    bare = replace(
        fields, nodes=swapped(fields.nodes, lane, 0), states=swapped(fields.states, lane, 0)
    )
    after = unpacked(packed, packed.with_node(bare.pack(), lane, node_id))
    assert after.nodes == swapped(fields.nodes, lane, node_id)
    assert after.states == swapped(fields.states, lane, 1)
    assert replace(after, nodes=bare.nodes, states=bare.states) == bare


@few
@given(fields=words, lane=st.integers(0, LANES - 1), state=STATES)
def test_with_state__changes_one_lane(packed: Any, fields: Fields, lane: int, state: int) -> None:
    after = unpacked(packed, packed.with_state(fields.pack(), lane, state))
    assert after == replace(fields, states=swapped(fields.states, lane, state))
