# SPDX-License-Identifier: Apache-2.0
"""Structs: what a call answers becomes typed fields, or a sentence; each is the contract's own."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from agents.protocol import structs
from agents.protocol.numbers import JobStatus, Phase
from agents.protocol.scores import Scoring
from agents.protocol.slashing import Row
from agents.runtime.errors import ConfigError
from agents.tasks.contract import Appeal, Seat, Task, TaskTerms
from scripts._net.compiled import compile_contracts

# The struct, the view that answers it, and its fields that nothing reads or no answer holds.
STRUCTS = [
    (structs.Job, "job", set()),
    (structs.Round, "round", set()),
    (structs.LedgerEntry, "entry", set()),
    (structs.Node, "node", set()),
    (structs.Benchmark, "benchmark", set()),
    (structs.Report, "report_of", set()),
    (Row, "penalty", set()),
    (Scoring, "scoring", {"missing_stake"}),
    (structs.KeyRequest, "request_of", set()),
    (structs.KeyRelease, "released", set()),
    (Task, "task", {"task_id"}),
    (TaskTerms, "terms", set()),
    (Seat, "executor", set()),
    (Appeal, "appeal_of", set()),
    (structs.Operation, "operation", set()),
]
KINDS = {"uint256": int, "bytes32": bytes, "bytes": bytes, "address": str, "bool": bool}


@dataclass(frozen=True)
class Inner:
    digest: bytes


@dataclass(frozen=True)
class Outer:
    count: int
    inner: Inner
    phase: Phase
    nodes: tuple[int, ...]


def answer(**values: Any) -> Any:
    return namedtuple("Answer", values)(**values)


def whole(**changed: Any) -> Any:
    values = {"count": 3, "inner": answer(digest=b"\1" * 32), "phase": 2, "nodes": [4, 5]}
    return answer(**{**values, **changed})


def test_read__a_struct__is_typed_all_the_way_down():
    found = structs.read(Outer, whole())
    assert found == Outer(3, Inner(b"\1" * 32), Phase.REVEAL, (4, 5))
    assert isinstance(found.phase, Phase)


def test_read__a_struct_of_two_answers__takes_each_field_from_the_first_that_has_it():
    one, two = answer(count=1, phase=7), answer(count=9, inner=answer(digest=b"x"), nodes=[])
    assert structs.read(Outer, one, two) == Outer(1, Inner(b"x"), Phase.VOID, ())


def test_read__a_field_that_no_answer_holds__is_given():
    rest = answer(inner=answer(digest=b""), phase=0, nodes=[])
    assert structs.read(Outer, rest, count=8).count == 8


def test_read__an_answer_with_more_fields__is_taken_for_what_it_holds():
    assert structs.read(Inner, answer(digest=b"x", extra=1)) == Inner(b"x")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"count": "3"}, "Outer.count is '3', which is no int"),
        ({"count": True}, "Outer.count is True, which is no int"),
        ({"inner": answer(digest="0x")}, "Outer.inner.digest is '0x', which is no bytes"),
        ({"inner": answer(other=b"")}, "Outer.inner has no field 'digest'"),
        ({"phase": 8}, "Outer.phase is 8, which is no Phase"),
        ({"nodes": 7}, "Outer.nodes is 7"),
        ({"nodes": ["a"]}, "Outer.nodes is 'a', which is no int"),
    ],
)
def test_read__another_contracts_answer__is_refused_by_name(changed: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        structs.read(Outer, whole(**changed))


def test_read__a_plain_answer__is_checked():
    assert structs.read(int, 5) == 5
    assert structs.read(JobStatus, 1) is JobStatus.ACTIVE
    with pytest.raises(ConfigError, match="is b'', which is no int"):
        structs.read(int, b"")


def test_no_round__is_what_the_contract_answers_for_a_round_that_is_not():
    assert structs.NO_ROUND.phase == Phase.NONE
    zeros = (0, False, bytes(32), "0x" + "00" * 20)
    assert all(value in zeros for value in vars(structs.NO_ROUND).values())


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Any]]:
    """What every function of the contracts answers, by the function's name."""
    found: dict[str, list[Any]] = {}
    for artefact in compile_contracts().values():
        for item in artefact.abi:
            if item["type"] == "function":
                found.setdefault(item["name"], []).append(item["outputs"])
    return found


@pytest.mark.parametrize(
    ("struct", "view", "unread"), STRUCTS, ids=[struct.__name__ for struct, _, _ in STRUCTS]
)
def test_each_struct__has_the_fields_of_the_contracts_in_their_types(
    answers: dict[str, list[Any]], struct: Any, view: str, unread: set[str]
):
    shapes = [
        {item["name"]: item for item in output["components"]}
        for outputs in answers[view]
        for output in outputs
        if output["type"] == "tuple"
    ]
    wanted = {field.name for field in fields(struct)} ^ unread
    [shape] = [found for found in shapes if set(found) == wanted]
    check(struct, shape)


def check(struct: Any, shape: dict[str, Any]) -> None:
    """Every field of `struct` that the contract has is of a type that can hold the contract's."""
    hints = get_type_hints(struct)
    for name in shape.keys() & hints.keys():
        hint, item = hints[name], shape[name]
        if is_dataclass(hint):
            inner = {part["name"]: part for part in item["components"]}
            assert set(inner) == {field.name for field in fields(hint)}
            check(hint, inner)
        elif item["type"].endswith("]"):
            kind = item["type"].split("[")[0]
            assert issubclass(get_args(hint)[0], KINDS[kind]), name
        else:
            assert issubclass(hint, KINDS[item["type"]]), name
