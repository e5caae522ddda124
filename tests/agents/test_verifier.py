# SPDX-License-Identifier: Apache-2.0
"""In what order a verifier looks at a round's nodes. The round is real, chain and committee are
stubs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.protocol.numbers import Phase
from agents.rounds.report import RoundReport
from agents.rounds.submissions import Submission, fetch
from agents.storage.errors import NotFound
from agents.verifier import VerifierInJob
from agents.verify.proofs import Proofs
from tests.stage.memory.honest_round import DEVICE, HonestRound, noise

VERIFIER = 7
WINDOW_S = 1_800


class Distant:
    """A store that searches a minute for what nobody serves; its clock is counted."""

    def __init__(self, store: Any) -> None:
        self._store, self.now = store, 0.0

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
        self.now = 0
        self.report: RoundReport | None = None
        inputs = tiny.inputs(submissions, sample=sample)
        one = object.__new__(VerifierInJob)
        one.store = cast(Any, self.store)
        one.device, one.proofs = DEVICE, Proofs(one.store)
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

    def step(self) -> str | None:
        view = SimpleNamespace(
            job_id=1,
            round_id=1,
            overdue=False,
            phase=Phase.CHALLENGE,
            now=self.now,
            round=SimpleNamespace(deadline=WINDOW_S),
            job=SimpleNamespace(terms=SimpleNamespace(challenge_s=WINDOW_S, dispute_s=WINDOW_S)),
        )
        return self.verifier.verify(cast(Any, view), VERIFIER)

    def _read_report(self, digest: bytes) -> RoundReport:
        if self.report is None:
            raise NotFound("nobody serves the report")
        return self.report

    def _say(self, what: str, nodes: list[int]) -> str:
        self.said.append((self.store.now, what, nodes))
        return what

    def _announce(self, view: Any, node: int, found: list[Any]) -> str | None:
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
