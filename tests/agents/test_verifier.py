# SPDX-License-Identifier: Apache-2.0
"""In what order a verifier looks at a round's nodes, and what it does before it says something. The
round is real, chain and committee are stubs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents import verifier
from agents.protocol.numbers import Phase, Violation
from agents.rounds.report import RoundReport
from agents.rounds.submissions import Submission, fetch
from agents.storage.errors import NotFound
from agents.verifier import VerifierInJob
from agents.verify.proofs import Proofs
from agents.verify.spot_checks import Finding
from tests.stage.memory.honest_round import DEVICE, HonestRound, noise

VERIFIER = 7
WINDOW_S = 1_800
BOND = 50


class Distant:
    """A store that searches a minute for what nobody serves; its clock is counted. `pinned`: what
    is kept, in order."""

    def __init__(self, store: Any) -> None:
        self._store, self.now = store, 0.0
        self.pinned: list[str] = []

    def pin(self, cid: str) -> None:
        self.pinned.append(cid)
        self._store.pin(cid)

    def get_digest(self, digest: bytes, most: int) -> bytes:
        try:
            return self._store.get_digest(digest, most)
        except NotFound:
            self.now += 60.0
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Desk:
    """A verifier in CHALLENGE, and what it said, with the second."""

    def __init__(self, tiny: HonestRound, submissions: list[Submission], sample: int = 0) -> None:
        self.store = Distant(tiny.store)
        self.submissions = submissions
        self.said: list[tuple[float, str, list[int]]] = []
        self.announced: set[int] = set()
        self.reported: set[int] = set()
        self.kept: list[str] = []  # when it first announced something
        self.now = 0
        self.report: RoundReport | None = None
        inputs = tiny.inputs(submissions, sample=sample)
        one = object.__new__(VerifierInJob)
        one.store = cast(Any, self.store)
        one.device, one.proofs = DEVICE, Proofs(one.store)
        find, self.asked = one.proofs.of, list[set[int]]()
        one.proofs.of = lambda inputs, nodes: (  # type: ignore[method-assign]
            self.asked.append({*nodes}) or find(inputs, nodes)  # type: ignore[func-returns-value]
        )
        one._asked, one._findings, one._exhibited = {}, {}, set()
        quiet = SimpleNamespace(debug=_nothing, info=_nothing, warning=_nothing)
        settings = SimpleNamespace(verifier=SimpleNamespace(audit_all=False))
        one.context = cast(
            Any,
            SimpleNamespace(
                log=quiet,
                settings=settings,
                metrics=SimpleNamespace(busy=lambda what: nullcontext()),
                wallet=SimpleNamespace(address="0xv"),
            ),
        )
        one.access = cast(Any, SimpleNamespace(may_check=lambda *place: True))
        one.network = cast(
            Any,
            SimpleNamespace(
                attesters=lambda *place: set(),
                acting_operator=lambda node: "0xv",
                proposal=lambda *place: SimpleNamespace(report=b"its digest"),
            ),
        )
        one.reader = cast(
            Any,
            SimpleNamespace(
                models=SimpleNamespace(report=self._read_report),
                submissions=lambda view: self.submissions,
                counted=lambda view, submissions: submissions,
                proposed=lambda view, found: None,
                outcome=lambda view, found, report: object(),
                inputs=lambda view, found, outcome, patient: inputs,
            ),
        )
        swapped: dict[str, Callable[..., Any]] = {
            "_reported": lambda view, node, finding: finding.node in self.reported,
            "_is_urgent": lambda view: False,
            "_announce": self._announce,
            "_report": self._report,
            "_judge": lambda view, node: self._say("attested", []),
        }
        for name, swap in swapped.items():
            setattr(one, name, swap)
        self.verifier = one

    def view(self) -> Any:
        terms = SimpleNamespace(challenge_s=WINDOW_S, dispute_s=WINDOW_S, challenge_bond=BOND)
        return SimpleNamespace(
            job_id=1,
            round_id=1,
            overdue=False,
            phase=Phase.CHALLENGE,
            now=self.now,
            round=SimpleNamespace(deadline=WINDOW_S, result_hash=b"its hash"),
            job=SimpleNamespace(terms=terms),
        )

    def step(self) -> str | None:
        return self.verifier.verify(cast(Any, self.view()), VERIFIER)

    def _read_report(self, digest: bytes) -> RoundReport:
        if self.report is None:
            raise NotFound("nobody serves the report")
        return self.report

    def _say(self, what: str, nodes: list[int]) -> str:
        self.said.append((self.store.now, what, nodes))
        return what

    def _announce(self, view: Any, node: int, found: list[Any]) -> str | None:
        self.kept = self.kept or [*self.store.pinned]
        fresh = [finding.node for finding in found if finding.node not in self.announced]
        self.announced |= {*fresh}
        return self._say("announced", fresh) if fresh else None

    def _report(self, view: Any, node: int, found: list[Any]) -> str:
        self.reported |= {finding.node for finding in found}
        return self._say("reported", [finding.node for finding in found])


def _nothing(*args: Any, **facts: Any) -> None:
    """A line of a log."""


def mute(tiny: HonestRound, node: int, lies: bool = False) -> Submission:
    """A node whose proof nobody serves; its payload is noise if it `lies`."""
    seed = tiny.plan.codec_seed(tiny.job.codec, node)
    payload = tiny.job.codec.encode(noise(tiny.before), None, seed) if lies else None
    revealed = replace(tiny.reveal(node, payload), proof=bytes([node]) * 32)
    return fetch(revealed, tiny.job, tiny.store, seed)


@pytest.fixture
def liars(tiny: HonestRound) -> list[Submission]:
    """Node 3 sends noise, which screening sees; 5 and 8 serve no proof."""
    seed = tiny.plan.codec_seed(tiny.job.codec, 3)
    payload = tiny.job.codec.encode(noise(tiny.before), None, seed)
    lie = fetch(tiny.reveal(3, payload), tiny.job, tiny.store, seed)
    return [lie, mute(tiny, 5), mute(tiny, 8), tiny.submit(9)]


def test_lies_that_a_sign_shows_are_reported_before_any_search_for_proofs(
    tiny: HonestRound, liars: list[Submission]
) -> None:
    desk = Desk(tiny, liars)
    assert [desk.step() for _ in range(3)] == ["announced", "reported", "attested"]
    assert desk.said[:2] == [(0.0, "announced", [3]), (0.0, "reported", [3])]


def test_proofs_that_nobody_serves_are_looked_for_once_in_all_steps(tiny: HonestRound) -> None:
    """Also where the node lies and is reported: neither doing its work again, nor keeping what it
    revealed, looks for its proof a second time."""
    desk = Desk(tiny, [mute(tiny, 3, lies=True), mute(tiny, 5), tiny.submit(8), tiny.submit(9)])
    assert [desk.step() for _ in range(3)] == ["announced", "reported", "attested"]
    assert desk.store.now == 2 * 60.0, "one search for each of the two"
    assert desk.reported == {3}


def test_who_keeps_another_from_being_judged_is_looked_at_without_being_drawn(
    tiny: HonestRound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so is who keeps that one from it; each is looked at once, in a circle too."""
    desk, ask = Desk(tiny, [*tiny.honest(), mute(tiny, 3)][1:]), {3: (5,), 5: (3, 8), 8: (3,)}
    looked_at: list[int] = []

    def look(inputs: Any, node: int, *rest: Any) -> Finding:
        looked_at.append(node)
        guilt = Violation.INVALID if node == 8 else None
        return Finding(node, guilt, "as it is", b"{}", ask=ask[node])

    monkeypatch.setattr(verifier, "reexecute", look)
    assert desk.step() == "announced" and desk.announced == {8}
    assert looked_at == [3, 5, 8]


def test_a_payload_that_the_result_leaves_out_too_puts_off_no_check(tiny: HonestRound) -> None:
    """Only what the result counts, and is missing here, is waited for, until half of the window."""
    nowhere = fetch(replace(tiny.reveal(9), content=b"\7" * 32), tiny.job, tiny.store)
    honest = [tiny.submit(node) for node in (3, 5, 8)]
    lie = tiny.submit(3, noise(tiny.before))
    desk = Desk(tiny, [lie, *honest[1:], nowhere])
    assert desk.step() is None, "the report may still say what is missing"
    desk.report = tiny.compute(tiny.honest()).report
    assert desk.step() is None, "the result counts what is missing here"
    desk.report = tiny.compute([*honest, nowhere]).report
    assert desk.step() == "announced" and desk.announced == {3}


def test_after_half_of_the_window_nothing_is_waited_for(tiny: HonestRound) -> None:
    nowhere = fetch(replace(tiny.reveal(9), content=b"\7" * 32), tiny.job, tiny.store)
    desk = Desk(tiny, [tiny.submit(3, noise(tiny.before)), tiny.submit(5), tiny.submit(8), nowhere])
    desk.now = WINDOW_S // 2
    assert desk.step() == "announced"


def test_what_the_guilty_revealed_is_kept_before_anything_is_said_of_them(
    tiny: HonestRound, liars: list[Submission]
) -> None:
    """They could take it down as soon as they are announced."""
    desk = Desk(tiny, liars)
    assert desk.step() == "announced"
    assert tiny.store.resolve(liars[0].reveal.content) in desk.kept
    for _ in range(2):
        desk.step()
    assert len(desk.store.pinned) == len({*desk.store.pinned}), "once each"
    assert tiny.store.resolve(liars[-1].reveal.content) not in desk.store.pinned, "it is honest"


def test_proofs_of_all_that_is_done_again_are_looked_for_side_by_side(tiny: HonestRound) -> None:
    """One after the other, twenty liars whose proofs nobody serves would take the window."""
    liars = [mute(tiny, node, lies=True) for node in (3, 5)]
    desk = Desk(tiny, [*liars, tiny.submit(8), tiny.submit(9)])
    assert desk.step() == "announced" and desk.announced == {3, 5}
    assert desk.asked[0] >= {3, 5}


def test_what_contracts_owe_is_taken_out_before_a_round_is_looked_at(tiny: HonestRound) -> None:
    """Else the next challenge may lack its bond."""
    desk = Desk(tiny, [])
    asked: list[int] = []

    def collect(least: int) -> str:
        asked.append(least)
        return "withdrawn"

    one = cast(Any, desk.verifier)
    one.access = SimpleNamespace(
        step=_nothing, ready=lambda job, node: True, seals=lambda job: False
    )
    one.proposer = SimpleNamespace(publish=_nothing)
    one.validator = SimpleNamespace(step=_nothing)
    one.announcements = SimpleNamespace(settle=_nothing)
    one.purse = SimpleNamespace(collect=collect)
    assert one.step(desk.view(), VERIFIER) == "withdrawn" and asked == [BOND]


@pytest.mark.parametrize(
    ("unkept", "lacks_result", "late", "attests"),
    [
        ("", False, False, True),
        ("gone", False, False, False),
        ("gone", True, False, False),
        ("gone", False, True, True),
        ("gone", True, True, False),
    ],
)
def test_what_is_attested_is_kept(
    tiny: HonestRound,
    monkeypatch: pytest.MonkeyPatch,
    unkept: str,
    lacks_result: bool,
    late: bool,
    attests: bool,
) -> None:
    """Where time is short, the result itself at least."""
    desk = Desk(tiny, [])
    desk.now = WINDOW_S // 2 if late else 0
    sent: list[Any] = []
    one = cast(Any, desk.verifier)
    one.retention = SimpleNamespace(unkept=lambda view: unkept, lacks_result=lacks_result)
    one.network.results = "results"
    one.network.is_challenged = lambda job, number: False
    one.context.sender = SimpleNamespace(send=lambda *order: sent.append(order))
    monkeypatch.setattr(verifier, "result_errors", lambda reader, view, *how: [])
    VerifierInJob._judge(one, desk.view(), VERIFIER)
    assert sent == ([("results", "attest", 1, 1, VERIFIER, b"its hash")] if attests else [])


@pytest.mark.parametrize(("part", "protests"), [(0.0, True), (0.7, True), (0.8, False)])
def test_a_protest_ends_in_the_last_quarter_of_the_window(
    tiny: HonestRound, monkeypatch: pytest.MonkeyPatch, part: float, protests: bool
) -> None:
    """Who never attested what leaves others out would leave its pay to who does."""
    desk = Desk(tiny, [])
    desk.now = round(part * WINDOW_S)
    asked: list[bool] = []

    def judge(reader: Any, view: Any, patient: bool, protests: bool) -> None:
        asked.append(protests)

    monkeypatch.setattr(verifier, "result_errors", judge)
    VerifierInJob._judge(cast(Any, desk.verifier), desk.view(), VERIFIER)
    assert asked == [protests]
