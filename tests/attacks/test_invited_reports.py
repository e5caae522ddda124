# SPDX-License-Identifier: Apache-2.0
"""A node wants to be reported: it does what a verifier of its class finds wrong and a member of
the committee can't see, and appeals. Were it cleared, each reporter would lose a fifth of its
stake, and half of that would be the node's. So a member that could not compare all of it has no
word, and what was reported can't be taken down. No chain is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from agents.protocol.numbers import Violation
from agents.rounds.submissions import Submission, fetch
from agents.storage.cid import cid_of_bytes, parse_cid
from agents.training.determinism import determinism_class
from agents.training.state import State
from agents.training.trace import Trace
from agents.verify import spot_checks
from agents.verify.exhibits import keep
from agents.verify.judging import Judge
from agents.verify.proofs import Proofs
from agents.verify.spot_checks import malformed, reexecute
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    SEED,
    ChainFacts,
    HonestRound,
    HonestWork,
    make_honest_round,
    noise,
)
from tests.stage.memory.pins import Pins

CHEAT = 3
OWN, OTHER = "this machine's", "torch=0;device=abacus"


def named(one: str) -> str:
    """A class as a proof states it; that of this machine depends on what ran before here."""
    return determinism_class(DEVICE) if one == OWN else one


class PinningStore(Pins):
    """A store whose content goes away with whom it came from, unless somebody pins it."""

    def take_down(self, raw: bytes) -> None:
        cid = cid_of_bytes(raw)
        if cid not in self.pinned:
            self._path(parse_cid(cid)).unlink()


def false_trace(work: HonestWork, steps: int) -> HonestWork:
    """The same payload, under the root of a trace with one false hash."""
    hashes = list(Trace.from_bytes(work.trace, CHEAT, steps).hashes)
    trace = Trace(CHEAT, (*hashes[:1], bytes(32), *hashes[2:]))
    named = {"trace": cid_of_bytes(trace.to_bytes()), "trace_root": trace.root().hex()}
    proof = work.proof.model_copy(update=named)
    return replace(work, trace=trace.to_bytes(), trace_root=trace.root(), proof=proof)


def one_ulp(state: State) -> State:
    """Its first number moved by the least that there is."""
    moved = {name: tensor.clone() for name, tensor in state.items()}
    numbers = next(iter(moved.values())).view(-1)
    numbers[0] = torch.nextafter(numbers[0], torch.tensor(9.0))
    return moved


@dataclass
class Case:
    """One round in which the cheat's work is replaced."""

    store: PinningStore
    round: HonestRound
    work: HonestWork

    def submissions(self) -> list[Submission]:
        self.work.publish(self.store)
        reveals = {CHEAT: self.work.reveal()}
        reveals |= {node: self.round.reveal(node) for node in NODES if node != CHEAT}
        return [fetch(reveal, self.round.job, self.store) for reveal in reveals.values()]

    def convicted(self) -> bool:
        """Whether a verifier of this machine's class finds it wrong; if so, it keeps what shows
        that."""
        inputs = self.round.inputs(self.submissions())
        found = {finding.node: finding for finding in malformed(inputs)}
        finding = found.get(CHEAT) or reexecute(inputs, CHEAT, DEVICE, self.store)
        guilty = finding.violation == Violation.INVALID
        if guilty:
            (mine,) = (s for s in inputs.submissions if s.reveal.node == CHEAT)
            told = Proofs(self.store).of(inputs, [CHEAT])[CHEAT]
            assert keep(mine, told, self.store) == []
        return guilty

    def member(self) -> Judge:
        facts = ChainFacts(self.round.published)
        facts.revealed = {CHEAT: self.work.reveal()}
        facts.revealed |= {node: self.round.reveal(node) for node in NODES if node != CHEAT}
        self.view = facts.open(1, SEED)
        self.told: list[str] = []
        return Judge(facts, self.store, DEVICE, self.told.append)

    def says(self, judge: Judge) -> bool | None:
        return judge.is_innocent(self.view, CHEAT)


Make = Callable[..., Case]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(
        change: Callable[[HonestRound, HonestWork], HonestWork], classes: Sequence[str] = ()
    ) -> Case:
        store = PinningStore(tmp_path / "store")
        round_ = make_honest_round(store, classes=[named(one) for one in classes])
        return Case(store, round_, change(round_, round_.works[CHEAT]))

    return made


def lying(round_: HonestRound, work: HonestWork) -> HonestWork:
    return false_trace(work, round_.job.trace_steps(work.proof.steps))


def nudged(round_: HonestRound, work: HonestWork) -> HonestWork:
    return replace(work, payload=round_.job.codec.encode(one_ulp(work.gradient), None, b""))


def made_up(round_: HonestRound, work: HonestWork) -> HonestWork:
    return replace(work, payload=round_.job.codec.encode(noise(round_.before), None, b""))


CHEATS = {"a false hash in its trace": lying, "a number moved by one bit": nudged}


@pytest.mark.parametrize("classes", [[], [OWN, OTHER]], ids=["no list", "a list"])
@pytest.mark.parametrize("how", CHEATS)
def test_a_member_of_another_class__does_not_clear_what_reporters_saw(
    make: Make, how: str, classes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make(CHEATS[how], classes=classes)
    assert case.convicted()
    assert case.says(case.member()) is False, "a member of the node's class sees it"
    own = named(OWN)
    monkeypatch.setattr(spot_checks, "determinism_class", lambda device: OTHER)
    assert case.says(case.member()) is None
    assert own in case.told[0] and "only a member of that class can tell" in case.told[0]


@pytest.mark.parametrize("classes", [[], [OWN]], ids=["no list", "a list"])
@pytest.mark.parametrize("what", ["trace", "proof"])
@pytest.mark.parametrize("how", CHEATS)
def test_what_is_taken_down_after_a_report__is_still_there(
    make: Make, how: str, what: str, classes: list[str]
) -> None:
    case = make(CHEATS[how], classes=classes)
    assert case.convicted()
    case.store.take_down(case.work.trace if what == "trace" else case.work.proof.to_bytes())
    assert case.says(case.member()) is False


def test_without_its_trace__a_member_has_no_word_until_it_can_read_it(make: Make) -> None:
    """Nobody kept it, and the payload is right to the bit."""
    case = make(lying, classes=[OWN])
    case.submissions()
    case.store.take_down(case.work.trace)
    judge = case.member()
    assert [case.says(judge) for _ in range(2)] == [None, None]
    assert len(case.told) == 1 and "no usable proof of computation" in case.told[0]
    case.work.publish(case.store)
    assert case.says(judge) is False


def test_a_payload_that_is_taken_down__is_still_judged(make: Make) -> None:
    """Its proposer, who should have kept it, may be a friend."""
    case = make(made_up)
    assert case.convicted()
    case.store.take_down(case.work.payload)
    assert case.says(case.member()) is False


def test_bytes_that_are_no_payload__are_kept_too(make: Make) -> None:
    case = make(lambda _, work: replace(work, payload=b"junk"))
    assert case.convicted()
    case.store.take_down(case.work.payload)
    assert case.says(case.member()) is False


@pytest.mark.parametrize("member", [OWN, OTHER])
def test_who_is_framed__is_cleared_by_who_sees_the_same_bits(
    make: Make, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its class or not: payload and trace are those of the member's own replay."""
    case = make(lambda _, work: work)
    assert not case.convicted()
    stated = named(member)
    monkeypatch.setattr(spot_checks, "determinism_class", lambda device: stated)
    assert case.says(case.member()) is True
    assert case.told == []
