# SPDX-License-Identifier: Apache-2.0
"""In which order a committee member judges its cases, and which it begins last.

A stranger's job may be evaluated on as much text as its sponsor likes: its cases and its models
must keep no member from a case of another job whose deadline passes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from agents import coordinator
from agents.coordinator import Coordinator
from agents.protocol.numbers import Phase
from agents.runtime.config import CoordinatorSettings
from agents.runtime.logs import open_log
from agents.verify.long_cases import LongCases
from agents.verify.own_speed import OwnSpeed

DAY = 86_400
HEAD: Any = SimpleNamespace(number=1, timestamp=0)


class Member(Coordinator):
    """A member as far as the order of its work goes. `takes`: by job with a challenged result,
    the seconds that recomputing it takes at the usual speed, by a clock of the test. `appeals`: the
    same by job with an appeal. `stuck`: jobs whose cases end without a verdict. `fast`: how many
    times the usual speed this member has. `refused`: jobs that all agents leave."""

    def __init__(
        self,
        takes: dict[int, float],
        appeals: dict[int, float] | None = None,
        stuck: Collection[int] = (),
        fast: float = 1.0,
        refused: Collection[int] = (),
    ) -> None:
        self.fast, self.refused = fast, refused
        self.takes, self.appeals, self.stuck, self.now = takes, appeals or {}, stuck, 0.0
        self.did, self.ruled = list[str](), list[str]()
        self.access = SimpleNamespace(step=lambda job_id: None)  # type: ignore[assignment]
        settings = SimpleNamespace(coordinator=CoordinatorSettings())
        self.seated, self._member = True, None
        self.context = SimpleNamespace(  # type: ignore[assignment]
            settings=settings,
            log=open_log("member", "error", True, None),
            wallet=SimpleNamespace(address="0xA"),
            chain=SimpleNamespace(call=lambda contract, name, address: self.seated),
            sender=SimpleNamespace(send_all=lambda orders: []),
        )
        self.network = SimpleNamespace(  # type: ignore[assignment]
            coordinator=None,
            deployment=SimpleNamespace(block=0),
            disputed=lambda: [(job, 1) for job in takes],
            appealed=self.appeals,
        )
        self.disputes = SimpleNamespace(step=lambda head: [], result=None)  # type: ignore[assignment]
        self.benchmarks = SimpleNamespace(step=self._noting("benchmarks"))  # type: ignore[assignment]
        self._false_scores = self._noting("scores")  # type: ignore[method-assign]
        self._attestations = self._noting("attestations")  # type: ignore[method-assign]
        self._said, self._error = set(), None
        self._reckoned, self._cases = {}, LongCases(lambda: self.now)
        self._speed = OwnSpeed(lambda: self.now)

    def _noting(self, what: str) -> Any:
        return lambda *_: self.did.append(what) or []  # type: ignore[func-returns-value]

    def judge(self, job_id: int) -> Any:
        def errors(view: Any, patient: bool) -> list[str] | None:
            self.did.append(f"challenge {job_id}")
            self.now += self.takes[job_id] / self.fast
            return None if job_id in self.stuck else []

        def innocent(view: Any, node: int) -> bool | None:
            self.did.append(f"appeal {job_id}")
            self.now += self.appeals[job_id]
            return None if job_id in self.stuck else True

        return SimpleNamespace(
            takes_s=lambda view: self.takes[job_id],
            is_refused=lambda view: job_id in self.refused,
            result_errors=errors,
            is_innocent=innocent,
        )

    def look(self) -> list[str]:
        """What one step does, in order, when nothing has to be sent."""
        self.did, self.now = [], self.now + 1.0
        self._cases.begin()
        self.ruled = [one.why for rulings in self._rulings(HEAD) for one in rulings]
        return self.did


@pytest.fixture(autouse=True)
def chain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every round is disputed for three days, of which none is over."""

    def observed(network: Any, job_id: int, head: Any, number: int) -> Any:
        terms = SimpleNamespace(dispute_s=3 * DAY)
        of = SimpleNamespace(result_hash=bytes(32), deadline=3 * DAY, seed=bytes(32))
        return SimpleNamespace(
            job_id=job_id,
            round_id=number,
            phase=Phase.DISPUTED,
            now=0,
            job=SimpleNamespace(terms=terms),
            round=of,
        )

    def ruling(network: Any, view: Any, is_wrong: Any) -> Any:
        wrong = is_wrong()
        return None if wrong is None else SimpleNamespace(why=f"challenge {view.job_id}")

    def appeals(network: Any, head: Any, is_innocent: Any) -> Iterator[Any]:
        for job_id in network.appealed:
            report = SimpleNamespace(job_id=job_id, round_id=1, node_id=1)
            verdict = is_innocent(bytes([job_id]), report)
            if verdict is not None:
                yield SimpleNamespace(why=f"appeal {job_id} upheld={verdict}")

    monkeypatch.setattr(coordinator, "observe", observed)
    monkeypatch.setattr(coordinator, "challenge_ruling", ruling)
    monkeypatch.setattr(coordinator, "appeal_rulings", appeals)
    monkeypatch.setattr(coordinator, "role_rulings", lambda *_: iter(()))
    yield


def test_attestations_come_last() -> None:
    assert Member({}).look() == ["benchmarks", "scores", "attestations"]


def test_what_takes_least_is_judged_first() -> None:
    member = Member({1: 50, 2: 3, 3: 20})
    assert member.look()[:3] == ["challenge 2", "challenge 3", "challenge 1"]


def test_a_long_case_ends_the_step_and_is_judged_once() -> None:
    """What came up meanwhile is looked at before the next one."""
    member = Member({1: 5_000, 2: 4_000})
    assert member.look() == ["challenge 2"]
    member.takes[3] = 7
    assert member.look() == ["challenge 3", "challenge 1"]
    assert member.look() == ["challenge 3", "benchmarks", "scores", "attestations"]


def test_a_result_that_takes_days_is_begun_last_and_holds_nobody_up() -> None:
    """It is not left for ever: whoever registers trainers could make any result take days."""
    member = Member({1: 1.6 * DAY, 2: 10, 3: 4_000})
    assert member.look() == ["challenge 2", "challenge 3"], "the step is over"
    rest = ["challenge 2", "benchmarks", "scores", "attestations"]
    assert member.look() == [*rest, "challenge 1"]
    assert member._said == {
        "the challenged result of round 1 takes 38.4 hours to recompute, and is disputed for 72: "
        "it is begun last"
    }
    member.takes[4] = 5_000
    assert member.look() == ["challenge 2", "challenge 4"]
    assert "challenge 1" in member.ruled, "its verdict waits for nothing"
    assert member.look() == rest, "and is not worked out again"


def test_one_of_a_job_that_all_agents_leave_is_not_begun() -> None:
    """Its sponsor works in it alone, and would hold each member up for days. A member that is fast
    enough judges it."""
    member = Member({1: 1.6 * DAY, 2: 1_000}, refused=[1])
    for _ in range(3):
        assert "challenge 1" not in member.look()
    (said,) = member._said
    assert said.endswith("it is not begun, since all agents leave such a job")
    member = Member({1: 1.6 * DAY, 2: 1_000}, fast=1_000.0, refused=[1])
    assert member.look()[:2] == ["challenge 2", "challenge 1"], "the first one showed its speed"


def test_results_that_take_days_and_end_without_a_verdict_hold_nobody_up() -> None:
    member = Member({1: 1.6 * DAY, 2: 1.7 * DAY}, {3: 5.0}, stuck=[1, 2])
    looks = [member.look() for _ in range(3)]
    assert looks[0][0] == "appeal 3" and all("attestations" in did for did in looks)
    begun = [one for did in looks for one in did if one.startswith("challenge")]
    assert begun == ["challenge 1", "challenge 2"], "none twice before all others"


def test_a_fast_member_goes_by_what_it_took_itself() -> None:
    """A GPU takes minutes for what is reckoned at days, and does not put it off."""
    member = Member({1: 1.6 * DAY, 2: 1_000}, fast=1_000.0)
    assert member.look()[-1] == "challenge 1", "nothing was recomputed yet"
    member.takes[3] = 2.9 * DAY
    assert member.look()[:2] == ["challenge 2", "challenge 3"]


@pytest.mark.parametrize("stuck", [2, 6])
@pytest.mark.parametrize("kind", ["challenges", "appeals"])
def test_cases_without_a_verdict_hold_no_later_one_up(kind: str, stuck: int) -> None:
    """Each takes longer than a step may. Six are more than models are kept of."""
    lost = dict.fromkeys(range(1, stuck + 1), 61.0)
    plain = {99: 5.0}
    if kind == "challenges":
        member = Member(lost, plain, stuck=lost)
    else:
        member = Member({}, lost | plain, stuck=lost)
    for _ in range(stuck):
        assert "appeal 99" not in member.look()
    did = member.look()
    assert "appeal 99" in did and did[-3:] == ["benchmarks", "scores", "attestations"]


def test_a_long_appeal_ends_the_step_and_is_judged_once() -> None:
    member = Member({}, {1: 61.0, 2: 5.0})
    assert member.look() == ["appeal 1"]
    assert member.look()[:1] == ["appeal 2"]
    assert not any(one.startswith("appeal") for one in member.look())


class Told:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def info(self, event: str, **fields: str) -> None:
        self.lines.append((event, " ".join(fields.values())))

    warning = info


def test_who_is_no_member_judges_nothing_and_is_told_once() -> None:
    """Else it would work a case out, and propose what the contract refuses, again and again."""
    member, told = Member({}), Told()
    member.context.log = told  # type: ignore[assignment]
    member.seated = False
    assert member.step(HEAD) is member.step(HEAD) is None
    assert not member.did
    ((event, why),) = told.lines
    assert event == "not_a_member" and "ape run committee propose members --add 0xA" in why
    member.seated = True
    member.step(HEAD)
    member.step(HEAD)
    assert member.did == 2 * ["benchmarks", "scores", "attestations"]
    assert told.lines[1:] == [("member", "0xA")]
    member.seated = False
    member.step(HEAD)
    assert told.lines[-1][0] == "not_a_member", "it was removed"
