# SPDX-License-Identifier: Apache-2.0
"""Judging a proposed result: what is missing gives no verdict, what came late no guilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.protocol.numbers import Phase
from agents.rounds.models import Models
from agents.rounds.reader import RoundReader
from agents.storage.cid import cid_from_digest, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.determinism import determinism_class
from agents.verify import judging
from agents.verify.judging import Judge, result_errors
from agents.verify.spot_checks import reexecute
from tests.stage.memory.honest_round import (
    AGGREGATE_S,
    DEVICE,
    NODES,
    SEED,
    ChainFacts,
    HonestRound,
    make_honest_round,
    proposal_of,
    scaled,
)
from tests.stage.memory.tiny_specs import SEALED_PAYLOADS

LATE = 5


class LateRound:
    """One aggregator and one verifier around a store of their own; node 5 publishes late."""

    def __init__(self, tiny: HonestRound, facts: ChainFacts, folder: Path) -> None:
        self.tiny, self.facts = tiny, facts
        self.store = EmbeddedStore(folder)
        job = tiny.job
        shards = [shard.cid for shard in job.data.dataset.shards]
        for cid in (tiny.published.spec_cid, tiny.published.checkpoint_cid, job.spec.data, *shards):
            self.store.put_bytes(tiny.store.get(cid, 1 << 24))
        own = replace(tiny, store=self.store)
        self.late = tiny.reveal(LATE)
        facts.revealed = {n: self.late if n == LATE else own.reveal(n) for n in NODES}
        self.view = facts.open(1, SEED)

    def publish_late(self) -> None:
        cid = cid_from_digest(self.late.content)
        self.store.put_bytes(self.tiny.store.get(cid, 1 << 20))

    def reader(self) -> RoundReader:
        """A process of its own."""
        return RoundReader(self.facts, self.store, DEVICE)

    def propose(self) -> None:
        """By an aggregator that takes what the store has now."""
        reader = self.reader()
        outcome = reader.outcome(self.view, reader.submissions(self.view))
        reader.publish(outcome)
        self.facts.proposed = proposal_of(outcome)

    def judge(
        self, reader: RoundReader, patient: bool = False, protests: bool = True
    ) -> list[str] | None:
        """A verdict in CHALLENGE."""
        view = SimpleNamespace(**{**vars(self.view), "phase": Phase.CHALLENGE})
        return result_errors(reader, view, patient, protests)


@pytest.fixture
def late_round(tiny: HonestRound, facts: ChainFacts, tmp_path: Path) -> LateRound:
    return LateRound(tiny, facts, tmp_path / "store")


def test_an_honest_result_is_right(late_round: LateRound) -> None:
    late_round.publish_late()
    late_round.propose()
    assert late_round.judge(late_round.reader()) == []


def test_there_is_no_verdict_while_a_payload_is_missing(late_round: LateRound) -> None:
    late_round.propose()
    assert late_round.judge(late_round.reader(), patient=True) is None
    assert late_round.judge(late_round.reader(), patient=False) == []


def test_publishing_after_the_proposal_does_not_make_it_wrong(late_round: LateRound) -> None:
    """Else a trainer could have an honest aggregator slashed, and earn the reporter's share."""
    verifier = late_round.reader()
    assert any(s.unavailable for s in verifier.submissions(late_round.view))
    late_round.propose()
    late_round.publish_late()
    assert late_round.judge(verifier) == []
    assert late_round.judge(late_round.reader()) == []  # a committee member, who was not there


def test_who_had_the_payload_in_time_does_not_attest_its_omission(late_round: LateRound) -> None:
    """At first: who never did would leave the verifiers' cut to a friend of the proposer's."""
    late_round.propose()  # claims that the payload is unavailable
    late_round.publish_late()
    verifier = late_round.reader()
    verifier.submissions(late_round.view)  # AGGREGATE is still on: it is there in time
    assert late_round.judge(verifier) is None
    assert late_round.judge(verifier, protests=False) == []
    late_round.facts.proposed = replace(late_round.facts.proposed, model=b"other".rjust(32))
    assert late_round.judge(verifier, protests=False), "a wrong result is wrong all the same"


class PublishesMeanwhile(EmbeddedStore):
    """While it searches for the late payload the first time, `meanwhile` happens."""

    def __init__(self, late_round: LateRound, meanwhile: Callable[[], None]) -> None:
        super().__init__(late_round.store.root)
        self.wanted, self.meanwhile = late_round.late.content, meanwhile
        self.begun = False

    def get_digest(self, digest: bytes, most: int) -> bytes:
        if digest == self.wanted and not self.begun:
            self.begun = True
            self.meanwhile()
        return super().get_digest(digest, most)


@pytest.mark.parametrize("late", [False, True])
def test_what_a_search_brings_after_the_proposer_gave_up_came_too_late(
    late_round: LateRound, late: bool
) -> None:
    """Else a trainer that publishes then has no honest verifier attest an honest result, and who
    attests alone has all of the verifiers' cut. The search began in time."""

    def publish_then() -> None:
        late_round.facts.now = AGGREGATE_S // 2 - (0 if late else 1)
        late_round.propose()
        late_round.publish_late()

    store = PublishesMeanwhile(late_round, publish_then)
    verifier = RoundReader(late_round.facts, store, DEVICE)
    assert not any(s.unavailable for s in verifier.submissions(late_round.view))
    assert late_round.judge(verifier) == ([] if late else None)


def test_what_is_found_in_the_last_half_of_the_window_is_not_had_in_time(
    late_round: LateRound,
) -> None:
    verifier, view = late_round.reader(), late_round.view
    late_round.publish_late()
    late_round.facts.now = view.now = AGGREGATE_S * 3 // 4
    found = verifier.submissions(view)
    assert not any(verifier.had_in_time(view, s) for s in found)
    view.round.deadline += AGGREGATE_S  # the window of those who propose after the aggregator
    found = verifier.submissions(view)
    assert all(verifier.had_in_time(view, s) for s in found)


def test_a_claim_of_unavailability_excuses_nothing_else(late_round: LateRound) -> None:
    late_round.propose()
    late_round.publish_late()
    proposed = late_round.facts.proposed
    late_round.facts.proposed = replace(proposed, contributions=(1,) * len(proposed.nodes))
    assert late_round.judge(late_round.reader())


def test_a_refusal_under_another_pretext_is_wrong(late_round: LateRound) -> None:
    late_round.propose()
    late_round.publish_late()
    report = Models(late_round.facts, late_round.store).report(late_round.facts.proposed.report)
    lines: list[Any] = [
        line.model_copy(update={"reason": "bad payload: so I say"}) if line.node == LATE else line
        for line in report.nodes
    ]
    forged = report.model_copy(update={"nodes": lines}).to_bytes()

    digest = digest_of(late_round.store.put_bytes(forged))
    late_round.facts.proposed = replace(late_round.facts.proposed, report=digest)
    assert late_round.judge(late_round.reader())


def test_a_lost_report_counts_against_its_author_in_the_end(late_round: LateRound) -> None:
    late_round.publish_late()
    late_round.propose()
    late_round.facts.proposed = replace(late_round.facts.proposed, report=b"\7" * 32)
    assert late_round.judge(late_round.reader(), patient=True) is None
    assert late_round.judge(late_round.reader(), patient=False)


def test_a_noised_update_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    """Nobody else can compute it. One failed look at it is no reason for a challenge, nor is it
    remembered; once time is short it is."""
    round_ = make_honest_round(EmbeddedStore(tmp_path), **SEALED_PAYLOADS)
    facts = ChainFacts(round_.published)
    facts.revealed = {node: round_.reveal(node) for node in NODES}
    view = facts.open(1, SEED)
    opened = SimpleNamespace(opener=lambda view: lambda raw: raw)
    proposer, verifier, hasty = (
        RoundReader(facts, round_.store, DEVICE, sealing=opened) for _ in range(3)
    )
    outcome = proposer.outcome(view, proposer.submissions(view))
    assert outcome is not None
    facts.proposed = proposal_of(outcome)
    round_.store.put_bytes(outcome.report.to_bytes())
    assert result_errors(verifier, view, patient=True) is None
    (wrong,) = result_errors(hasty, view, patient=False) or [""]
    assert wrong.startswith("the noised update can't be used")
    round_.store.put_bytes(outcome.update)
    assert result_errors(verifier, view, patient=True) == []


def test_nodes_found_invalid_since_the_proposal_change_nothing(late_round: LateRound) -> None:
    late_round.publish_late()
    late_round.propose()
    late_round.facts.invalid = {(1, 3)}
    assert late_round.judge(late_round.reader()) == []


def scaled_payload(round_: HonestRound, factor: float) -> bytes:
    """Node 3's work, longer by a factor."""
    return round_.job.codec.encode(scaled(round_.works[3].gradient, factor), None, b"")


def test_who_is_not_of_the_stated_class_clears_nobody_by_tolerance(tmp_path: Path) -> None:
    """Whether the job lists classes or not: verifiers of that class compared to the bit."""
    own, other = determinism_class(DEVICE), "torch=0;device=abacus"
    found = {}
    for name, classes in {"without": [], "with": [own, other]}.items():
        store = EmbeddedStore(tmp_path / name)
        round_ = make_honest_round(store, classes=classes)
        facts = ChainFacts(round_.published)
        view = facts.open(1, SEED)
        near = scaled_payload(round_, 1.001)
        stated = {"determinism_class": other}
        facts.revealed = {
            3: round_.reveal(3, near, **stated),
            5: round_.reveal(5, **stated),
            8: round_.reveal(8, scaled_payload(round_, 1.5), **stated),
            9: round_.reveal(9),
        }
        told: list[str] = []
        judge = Judge(facts, store, DEVICE, told.append)
        for _ in range(2):
            found[name] = [judge.is_innocent(view, node) for node in NODES]
        (why,) = told
        assert why.startswith("node 3 in round 1 can't be cleared here") and other in why
        alone = judge.finding(view, 3)
        assert alone is not None and alone.violation is None and other in alone.unsure
    assert found == {name: [None, True, False, True] for name in found}


def test_a_work_without_a_word_is_not_done_again_by_the_next_judge_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member keeps the models of a few jobs, and makes another judge when a job's turn comes."""
    store = EmbeddedStore(tmp_path / "store")
    round_ = make_honest_round(store)
    facts = ChainFacts(round_.published)
    view = facts.open(1, SEED)
    other = {"determinism_class": "torch=0;device=abacus"}
    facts.revealed = {node: round_.reveal(node, **other) for node in NODES}
    facts.revealed[3] = round_.reveal(3, scaled_payload(round_, 1.001), **other)
    done: list[int] = []

    def counted(inputs: Any, node: int, *rest: Any) -> Any:
        done.append(node)
        return reexecute(inputs, node, *rest)

    monkeypatch.setattr(judging, "reexecute", counted)
    no_word: dict[Any, bool] = {}
    for _ in range(3):
        judge = Judge(facts, store, DEVICE, no_word=no_word)
        assert judge.is_innocent(view, 3) is None
    assert done == [3]
