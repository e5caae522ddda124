# SPDX-License-Identifier: Apache-2.0
"""The committee's rulings: one case, one operation, whoever derives it; no case, none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from eth_abi import decode, encode
from eth_utils import keccak, to_checksum_address

from agents.nodes.benchmark_disputes import FalseVerdict
from agents.protocol.numbers import Phase, ReportStatus, Role
from agents.verify.rulings import (
    appeal_rulings,
    benchmark_rulings,
    challenge_ruling,
    role_rulings,
    salt_of,
    task_rulings,
)

OWNER = "0x" + "Aa" * 20
STRANGER = "0x" + "bB" * 20
RESULT = b"\5" * 32
SETTLED, HOUR = 1_000, 3_600  # chain seconds
IDS = [keccak(text="report 1"), keccak(text="report 2")]


@dataclass(frozen=True)
class Target:
    """A contract's address and encoder; arguments are encoded by their Python types."""

    address: str

    def function(self, name: str, count: int) -> Any:
        types = {int: "uint256", bytes: "bytes32", bool: "bool", list: "uint256[]"}

        def call(args: tuple[Any, ...]) -> bytes:
            assert len(args) == count
            return keccak(text=name)[:4] + encode([types[type(a)] for a in args], args)

        return SimpleNamespace(encode=call)


@dataclass
class Facts:
    """What the chain says: nodes by id, reports by id."""

    nodes: dict[int, Any] = field(default_factory=dict)
    found: dict[bytes, Any] = field(default_factory=dict)
    registry: Target = Target("0x" + "11" * 20)
    results: Target = Target("0x" + "22" * 20)
    reports: Target = Target("0x" + "33" * 20)
    appeals: Target = Target("0x" + "44" * 20)
    benchmarks: Target = Target("0x" + "55" * 20)

    def nodes_of(self, owners: list[str]) -> list[int]:
        return sorted(self.nodes)

    def node(self, node_id: int) -> Any:
        return self.nodes[node_id]

    def routine_delay_s(self) -> int:
        return 24 * HOUR

    def open_reports(self) -> list[bytes]:  # the committee decides in every job
        return list(self.found)

    def report(self, report_id: bytes) -> Any:
        return self.found[report_id]


def at(timestamp: int) -> Any:
    return SimpleNamespace(timestamp=timestamp)


def node(
    owner: str = OWNER,
    roles: int = 6,
    approved: int = 0,
    banned: bool = False,
    registered_at: int = SETTLED,
) -> Any:
    return SimpleNamespace(
        owner=to_checksum_address(owner),
        roles=roles,
        approved_roles=approved,
        banned=banned,
        registered_at=registered_at,
    )


def view(phase: Phase = Phase.DISPUTED, deadline: int = 100, now: int = 50) -> Any:
    round_ = SimpleNamespace(result_hash=RESULT, deadline=deadline)
    return SimpleNamespace(
        job_id=1, round_id=2, round=round_, phase=phase, now=now, block=9, overdue=now > deadline
    )


# -- salts -----------------------------------------------------------------------------------------


def test_salts_are_a_function_of_the_case_alone() -> None:
    assert salt_of("role", 3, 2) == salt_of("role", 3, 2) == keccak(text="menagerie/role:3:2")


def test_no_two_cases_share_a_salt() -> None:
    cases: list[tuple[Any, ...]] = [
        *[("role", 1, 23), ("role", 12, 3), ("role", 1, 2, 3), ("role", 123)],
        *[("challenge", 1, 23), *(("challenge", 1, 2, RESULT, end) for end in (100, 101))],
        *(("appeal", report_id) for report_id in IDS),
    ]
    assert len({salt_of(*case) for case in cases}) == len(cases)


# -- roles -----------------------------------------------------------------------------------------


def test_each_requested_role_of_a_trusted_owner_is_one_operation() -> None:
    facts = Facts({4: node(roles=7)})
    found = list(role_rulings(facts, [OWNER], at(SETTLED + HOUR)))
    assert [decode(["uint256", "uint256", "bool"], r.data[4:]) for r in found] == [
        (4, int(Role.VERIFIER), True),
        (4, int(Role.AGGREGATOR), True),
    ]
    assert {r.target for r in found} == {facts.registry.address}
    assert len({r.salt for r in found}) == 2


@pytest.mark.parametrize(
    "other",
    [node(owner=STRANGER), node(banned=True), node(approved=6), node(roles=int(Role.TRAINER))],
)
def test_nothing_is_approved_for_strangers_the_banned_and_the_approved(other: Any) -> None:
    assert list(role_rulings(Facts({4: other}), [OWNER.lower()], at(SETTLED + HOUR))) == []


def test_a_role_of_a_young_node_waits() -> None:
    """After a reorganisation its number may be that of somebody else's."""
    facts = Facts({4: node(registered_at=SETTLED + 1)})
    assert list(role_rulings(facts, [OWNER], at(SETTLED + HOUR))) == []
    assert len(list(role_rulings(facts, [OWNER], at(SETTLED + HOUR + 1)))) == 2


# -- challenges ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "upheld"), [(["the model is wrong"], True), ([], False)])
def test_a_challenge_is_decided_by_recomputation(wrong: list[str], upheld: bool) -> None:
    ruling = challenge_ruling(Facts(), view(), lambda: wrong)
    types = ["uint256", "uint256", "bytes32", "bool"]
    assert decode(types, ruling.data[4:]) == (1, 2, RESULT, upheld)
    assert ruling.target == Facts().results.address


def never() -> list[str] | None:
    raise AssertionError("nothing to recompute")


@pytest.mark.parametrize(
    ("seen", "judge"),
    [
        (view(Phase.CHALLENGE), never),
        (view(Phase.FINALIZED), never),
        (view(now=101), never),
        (view(), lambda: None),
    ],
)
def test_no_ruling_without_a_case_or_while_it_cannot_be_judged(
    seen: Any, judge: Callable[[], list[str] | None]
) -> None:
    assert challenge_ruling(Facts(), seen, judge) is None


def test_a_second_challenge_of_a_result_is_another_operation() -> None:
    first = challenge_ruling(Facts(), view(deadline=100), list)
    second = challenge_ruling(Facts(), view(deadline=170), list)
    assert first.data == second.data and first.salt != second.salt


# -- appeals ---------------------------------------------------------------------------------------


def report(status: ReportStatus, deadline: int = 100) -> Any:
    return SimpleNamespace(status=status, deadline=deadline, job_id=1, round_id=2, node_id=7)


HEAD: Any = SimpleNamespace(number=9, timestamp=50)


@pytest.mark.parametrize("innocent", [True, False])
def test_an_appeal_is_decided_by_re_execution(innocent: bool) -> None:
    asked = []

    def judge(report_id: bytes, found: Any) -> bool:
        asked.append((found.job_id, found.round_id, found.node_id))
        return innocent

    facts = Facts(found={IDS[0]: report(ReportStatus.APPEALED)})
    (ruling,) = appeal_rulings(facts, HEAD, judge)
    assert decode(["bytes32", "bool"], ruling.data[4:]) == (IDS[0], innocent)
    assert ruling.target == facts.reports.address
    assert asked == [(1, 2, 7)]


@pytest.mark.parametrize(
    "found", [*(report(s) for s in ReportStatus if s != ReportStatus.APPEALED),
              report(ReportStatus.APPEALED, deadline=49)]
)  # fmt: skip
def test_only_open_appeals_are_decided(found: Any) -> None:
    facts = Facts(found={IDS[0]: found})
    assert list(appeal_rulings(facts, HEAD, lambda i, r: True)) == []


def test_an_appeal_that_cannot_be_judged_holds_up_no_other() -> None:
    facts = Facts(found={i: report(ReportStatus.APPEALED) for i in IDS})
    facts.found[IDS[0]].node_id = 6
    verdicts = {6: None, 7: True}
    (ruling,) = appeal_rulings(facts, HEAD, lambda i, r: verdicts[r.node_id])
    assert ruling.salt == salt_of("appeal", IDS[1])


def test_contested_task__ruled_by_its_result__once_a_member_has_run_it() -> None:
    facts = Facts()
    found = {7: RESULT, 8: None}
    (ruling,) = task_rulings(facts, [(7, 100), (8, 100)], found.get)  # type: ignore[arg-type]
    assert ruling.target == facts.appeals.address
    assert ruling.data == keccak(text="resolve")[:4] + encode(["uint256", "bytes32"], [7, RESULT])
    assert ruling.salt == salt_of("task", 7, 100)


# -- benchmarks ------------------------------------------------------------------------------------


def test_false_verdicts_of_one_attempt__are_operations_of_their_own() -> None:
    facts = Facts()
    cases = [
        FalseVerdict(7, 2, True, (4, 5), "Chunk 3 of the benchmark is wrong."),
        FalseVerdict(7, 2, True, (6,), "the same, of whom the first left no room"),
        FalseVerdict(7, 2, False, (4, 5), "all right"),
        FalseVerdict(7, 3, True, (4, 5), "another attempt"),
    ]
    found = list(benchmark_rulings(facts, cases))
    types = ["uint256", "uint256", "bool", "uint256[]"]
    assert decode(types, found[0].data[4:]) == (7, 2, True, (4, 5))
    assert found[0].data[:4] == keccak(text="overrule")[:4]
    assert {ruling.target for ruling in found} == {facts.benchmarks.address}
    assert len({ruling.salt for ruling in found}) == len(cases)
