# SPDX-License-Identifier: Apache-2.0
"""The validators' duty on a real chain, and what others, crashes and reorgs can do to it.

Real keystores, journals and transactions: trainers commit, reveal and show by their own code, and
verifiers evaluate real payloads. Rounds end void here: no result is proposed, so every round starts
from the same model, and records go on all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.gauntlet.record import MAX_RECORD_BYTES, NodeScore, ScoreRecord
from agents.gauntlet.replay import replay
from agents.gauntlet.validator import Validator
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.median import stake_median
from agents.protocol.numbers import ScorePhase
from agents.protocol.scores import Consensus
from agents.runtime.errors import Stopped
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from agents.verifier import Verifier
from tests.stage.chain import validators
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.people import AGGREGATE, CHALLENGE, COMMIT, EMPTY, VOID, Node, People
from tests.stage.chain.validators import TERMS, ValidatedJob
from tests.stage.memory.honest_round import TinyJob

SALT = b"\5" * 32
TRAINERS = ("ann", "bob", "cat")
VERIFIERS = ("vic", "vera", "vito")
PAUSE_OPEN = 2
COMMIT_TIME = TERMS.aggregate_s + TERMS.score_commit_s  # from the end of the reveals on


class ScoredJob(ValidatedJob):
    """Three trainers and the verifiers that judge them."""

    def __init__(self, people: People, tiny: TinyJob, folder: Path, stack: ExitStack) -> None:
        super().__init__(people, tiny, folder, stack, rounds=4)
        self.trainers: dict[str, Trainer] = {}

    @property
    def options(self) -> Gauntlet:
        assert isinstance(self.job.score, Gauntlet)
        return self.job.score

    def node(self, name: str) -> Node:
        return self.people.nodes[name]

    def verifier(self, name: str) -> Verifier:
        """Starts, or restarts, a verifier."""
        context = self.begin(self.node(name), "verifier")
        return Verifier(context, EmbeddedStore(self.folder / "store"))

    def play(self, *shown: str) -> None:
        """A round up to AGGREGATE; `shown` (everybody by default) post their sync samples."""
        for name in TRAINERS:
            if name not in self.trainers:
                self.trainers[name] = self.trainer(self.node(name))
        self.reveal(*((self.trainers[name], self.node(name)) for name in TRAINERS))
        for name in shown or TRAINERS:
            assert self.show(self.trainers[name], self.node(name)) is not None

    def began(self, *shown: str) -> Verifier:
        """A round up to AGGREGATE, and vic's verifier."""
        self.play(*shown)
        return self.verifier("vic")

    def committed(self) -> Verifier:
        """The same, once vic has committed."""
        verifier = self.began()
        assert self.step(verifier, "vic") == "scored: round 1, committed"
        return verifier

    def line(self, verifier: Verifier, name: str) -> NodeScore:
        """What vic's newest record says of a node."""
        node = self.node(name).node_id
        return next(x for x in self.record(verifier, "vic").scores if x.node == node)

    def commit_anything(self, name: str) -> None:
        """A verifier opens the scoring at once, with a commitment to nothing."""
        liar, place = self.verifier(name), (self.people.job, 1, self.node(name).node_id)
        liar.context.sender.send(liar.network.scores, "commit_scores", *place, b"\7" * 32)

    def step(self, verifier: Verifier, name: str) -> str | None:
        return self.of(verifier).step(self.view(verifier), self.node(name).node_id)

    def of(self, verifier: Verifier) -> Validator:
        """A verifier's duty as a validator of the job."""
        return verifier.jobs.in_job(self.people.job).validator

    def score(self, verifier: Verifier, name: str, number: int) -> None:
        """One validator commits and, when the others' time is over, reveals."""
        did = self.step(verifier, name)
        assert did == f"scored: round {number}, committed", f"{name} should commit, and did {did}"
        self.people.chain.warp(COMMIT_TIME + 1)
        did = self.step(verifier, name)
        assert did == f"scored: round {number}, revealed", f"{name} should reveal, and did {did}"

    def finish(self, vic: Verifier) -> ScoreRecord:
        """All validators commit, then reveal; what vic revealed."""
        verifiers = {"vic": vic} | {name: self.verifier(name) for name in VERIFIERS[1:]}
        for name, verifier in verifiers.items():
            self.step(verifier, name)
        for name, verifier in verifiers.items():
            assert self.step(verifier, name) == f"scored: round {self.people.round}, revealed"
        return self.record(vic, "vic")

    def void(self) -> None:
        """Let the round end without a result: neither on duty nor in the fallback window."""
        self.people.pass_phase(AGGREGATE)
        self.people.pass_phase(AGGREGATE)
        assert self.people.phase == VOID

    def record(self, verifier: Verifier, name: str, number: int | None = None) -> ScoreRecord:
        """What a validator revealed in a round (the newest), from the store."""
        place = (self.people.job, number or self.people.round, self.node(name).node_id)
        digest = Consensus(verifier.network).record(*place)
        assert digest != EMPTY
        return ScoreRecord.from_bytes(self.store.get_digest(digest, MAX_RECORD_BYTES))

    def warned(self, name: str, event: str) -> int:
        """How often a node's log says so."""
        return (self.folder / f"{name}.log").read_text().count(f'"event": "{event}"')


@pytest.fixture
def scored(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ScoredJob]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield ScoredJob(people, tiny, tmp_path, stack)


# -- the duty --------------------------------------------------------------------------------------


def test_three_validators_commit_then_reveal_then_anybody_closes(scored: ScoredJob) -> None:
    scored.play()
    scorers = {name: scored.verifier(name) for name in VERIFIERS}
    for name, verifier in scorers.items():
        assert scored.step(verifier, name) == "scored: round 1, committed"
        if name != VERIFIERS[-1]:
            assert scored.step(verifier, name) is None, "nothing is revealed before all committed"
    for name, verifier in scorers.items():
        assert scored.step(verifier, name) == "scored: round 1, revealed"
        assert scored.step(verifier, name) is None

    network, job = scorers["vic"].network, scored.people.job
    view, consensus = scored.view(scorers["vic"]), Consensus(network)
    snapshot = view.snapshot
    vectors = consensus.vectors(job, 1, int(view.round.opened_block), snapshot)
    records = {name: scored.record(verifier, name) for name, verifier in scorers.items()}
    for name, record in records.items():
        assert record.vector() == list(vectors[scored.node(name).node_id].scores.values())
        assert [line.node for line in record.scores] == list(snapshot.nodes)
        assert replay(record, None, scored.options) == []
        silent = scored.node("eve").node_id
        failures = {line.node: line.failure for line in record.scores if line.failure}
        assert failures == {silent: "not committed in time"}
    assert len({tuple(record.vector()) for record in records.values()}) == 1

    stakes = snapshot.verifiers
    median = stake_median(
        [list(vectors[v].scores.values()) for v in stakes],
        list(stakes.values()),
        sum(stakes.values()),
    )
    arrays = (list(snapshot.nodes), list(snapshot.weights), median)
    scored.people.chain.send(
        scored.people.faucet, scored.people.scores, "close_scoring", job, 1, *arrays
    )
    assert consensus.scoring(job, 1).phase == ScorePhase.CLOSED


def test_a_node_that_is_no_verifier_of_the_round_has_no_part_in_it(scored: ScoredJob) -> None:
    verifier = scored.verifier("vic")
    scored.play()
    view = scored.view(verifier)
    for name in ("ann", "abe"):
        assert scored.of(verifier).step(view, scored.node(name).node_id) is None
    assert verifier.context.journal.keys("scores-") == []


# -- waiting ---------------------------------------------------------------------------------------


def test_a_missing_sample_is_waited_for_but_not_for_ever(scored: ScoredJob) -> None:
    verifier = scored.began("ann", "bob")
    assert scored.step(verifier, "vic") is None
    scored.people.chain.warp(TERMS.aggregate_s // 2 + 2)
    scored.score(verifier, "vic", 1)
    mute = scored.line(verifier, "cat")
    assert (mute.failure, mute.score, mute.usable) == ("no sync sample posted", 0, True)
    assert scored.line(verifier, "ann").failure == ""


def test_a_mute_node_delays_one_round_but_not_the_next(scored: ScoredJob) -> None:
    verifier = scored.verifier("vic")
    scored.play("ann", "bob")
    scored.people.chain.warp(TERMS.aggregate_s // 2 + 2)
    scored.score(verifier, "vic", 1)
    scored.void()
    scored.play("ann", "bob")
    scored.people.chain.warp(TERMS.aggregate_s // 10 + 2)
    assert scored.step(verifier, "vic") == "scored: round 2, committed"
    scored.void()
    scored.play("ann", "cat")  # who was not mute is waited for
    assert scored.step(verifier, "vic") is None


def test_a_sample_that_comes_meanwhile_counts(scored: ScoredJob) -> None:
    verifier = scored.began("ann", "bob")
    assert scored.step(verifier, "vic") is None
    assert scored.show(scored.trainers["cat"], scored.node("cat")) is not None
    assert scored.step(verifier, "vic") == "scored: round 1, committed"


def test_a_sample_that_is_posted_but_not_in_the_store_yet_is_waited_for(scored: ScoredJob) -> None:
    """Content may take longer from node to node than a transaction, and nobody's fault it is."""
    verifier = scored.began()
    opened = int(scored.view(verifier).round.opened_block)
    posted = Consensus(verifier.network).samples(scored.people.job, 1, opened)
    digest = posted[scored.node("cat").node_id]
    raw = scored.store.get_digest(digest, MAX_RECORD_BYTES)
    (path,) = (scored.folder / "store").rglob(f"{digest.hex()}*")
    path.unlink()
    assert scored.step(verifier, "vic") is None
    scored.store.put_bytes(raw)
    scored.score(verifier, "vic", 1)
    assert scored.line(verifier, "cat").failure == ""


def test_who_opens_the_scoring_at_once_hurries_nobody(scored: ScoredJob) -> None:
    """A liar that commits before anyone could show a sample would else make honest validators
    fail honest nodes."""
    honest = scored.began("ann", "bob")
    scored.commit_anything("vera")
    assert scored.step(honest, "vic") is None
    assert scored.show(scored.trainers["cat"], scored.node("cat")) is not None
    assert scored.step(honest, "vic") == "scored: round 1, committed"


def test_a_result_that_comes_early_hurries_nobody(scored: ScoredJob) -> None:
    """Nor does it end the round: that waits for the scores."""
    verifier = scored.began("ann", "bob")
    scored.people.offer({scored.node(name): 1 for name in TRAINERS})
    assert scored.people.phase == CHALLENGE
    assert scored.step(verifier, "vic") is None
    scored.people.chain.warp(TERMS.aggregate_s // 2 + 2)
    assert scored.step(verifier, "vic") == "scored: round 1, committed"


def test_nothing_is_committed_when_the_time_is_over(scored: ScoredJob) -> None:
    verifier = scored.began()
    scored.people.wait_until(
        Consensus(verifier.network).scoring(scored.people.job, 1).commit_deadline
    )
    assert scored.step(verifier, "vic") is None


def test_a_refusal_by_the_contract_keeps_nobody_from_attesting(scored: ScoredJob) -> None:
    """Scoring is paused: the verifier says so once and goes on."""
    people = scored.people
    people.decide((people.scores, "set_paused", (PAUSE_OPEN,)))
    verifier = scored.began()
    for _ in range(3):
        assert scored.step(verifier, "vic") is None
    assert scored.warned("vic", "cannot_score") == 1
    assert "pausing: paused" in (scored.folder / "vic.log").read_text()


# -- crashes ---------------------------------------------------------------------------------------


def test_killed_between_journal_and_commitment_it_commits_to_the_same(
    scored: ScoredJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = scored.began()

    def stopped(*_: object, **__: object) -> None:
        raise Stopped("the agent ends here")

    with monkeypatch.context() as patch:
        patch.setattr(verifier.context.sender, "ensure", stopped)
        with pytest.raises(Stopped):
            scored.step(verifier, "vic")
    (name,) = verifier.context.journal.keys("scores-")
    entry = verifier.context.journal.get(name)

    again = scored.verifier("vic")
    assert scored.step(again, "vic") == "scored: round 1, committed"
    assert again.context.journal.keys("scores-") == [name]
    assert again.context.journal.get(name) == entry


def test_killed_between_commitment_and_reveal_it_reveals(scored: ScoredJob) -> None:
    scored.play()
    scorers = {name: scored.verifier(name) for name in VERIFIERS}
    for name, verifier in scorers.items():
        assert scored.step(verifier, name) == "scored: round 1, committed"
    again = scored.verifier("vic")
    assert scored.step(again, "vic") == "scored: round 1, revealed"
    assert replay(scored.record(again, "vic"), None, scored.options) == []


def test_the_record_is_secret_until_the_reveal(scored: ScoredJob) -> None:
    """It holds the scores that others must not copy."""
    verifier = scored.committed()
    (name,) = verifier.context.journal.keys("scores-")
    digest = bytes.fromhex(verifier.context.journal.get(name)["record"])
    with pytest.raises(Exception, match="not"):
        scored.store.get_digest(digest, MAX_RECORD_BYTES)
    told = ("fast_evaluation", "loss_score", "rating", "scores")
    assert [scored.warned("vic", event) for event in told] == [0, 0, 0, 0], "nor is it logged"
    scored.people.chain.warp(COMMIT_TIME + 1)
    assert scored.step(verifier, "vic") == "scored: round 1, revealed"
    assert scored.store.get_digest(digest, MAX_RECORD_BYTES)
    assert (
        all(scored.warned("vic", event) for event in told) and scored.warned("vic", "scores") == 1
    )


def test_a_record_that_has_changed_on_disk_keeps_its_vector_back(scored: ScoredJob) -> None:
    """Members take a vector whose record nobody can have for false: 200 of 1,000 ZOO. Silence costs
    the round's cut. (Until 2026-11-30 the vector was revealed all the same.) It is revealed once
    the file is put back."""
    verifier = scored.committed()
    (path,) = verifier.context.artefacts.glob("scores-*.record")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    scored.people.chain.warp(COMMIT_TIME + 1)
    for _ in range(2):
        assert scored.step(verifier, "vic") is None
    assert scored.warned("vic", "record_lost") == 1
    path.write_bytes(whole)
    assert scored.step(verifier, "vic") == "scored: round 1, revealed"


def test_a_record_that_is_in_the_store_alone_is_revealed(scored: ScoredJob) -> None:
    verifier = scored.committed()
    (path,) = verifier.context.artefacts.glob("scores-*.record")
    scored.store.put_bytes(path.read_bytes())
    path.unlink()
    scored.people.chain.warp(COMMIT_TIME + 1)
    assert scored.step(verifier, "vic") == "scored: round 1, revealed"


def test_a_record_that_is_gone_before_its_commitment_is_made_again(
    scored: ScoredJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = scored.began()

    def stopped(*_: object, **__: object) -> None:
        raise Stopped("the agent ends here")

    with monkeypatch.context() as patch:
        patch.setattr(verifier.context.sender, "ensure", stopped)
        with pytest.raises(Stopped):
            scored.step(verifier, "vic")
    (path,) = verifier.context.artefacts.glob("scores-*.record")
    path.unlink()
    scored.score(scored.verifier("vic"), "vic", 1)


def test_without_its_journal_it_can_only_say_so(scored: ScoredJob) -> None:
    scored.committed()
    scored.forget(scored.node("vic"))
    again = scored.verifier("vic")
    scored.people.chain.warp(COMMIT_TIME + 1)
    for _ in range(2):
        assert scored.step(again, "vic") is None
    assert scored.warned("vic", "scores_lost") == 1


# -- records over rounds ---------------------------------------------------------------------------


def test_ratings_go_on_from_the_last_revealed_record(scored: ScoredJob) -> None:
    """Over void rounds, rounds it missed, and a restart."""
    verifier = scored.verifier("vic")
    scored.play()
    first = scored.finish(verifier)
    scored.void()
    scored.play()  # a round that vic misses
    scored.void()
    again = scored.began()
    scored.score(again, "vic", 3)
    third = scored.record(again, "vic")
    assert (third.position, third.round) == (1, 3)
    assert replay(third, first, scored.options) == []


def test_with_a_new_journal_ratings_go_on(scored: ScoredJob) -> None:
    verifier = scored.verifier("vic")
    scored.play()
    first = scored.finish(verifier)
    scored.forget(scored.node("vic"))
    scored.void()
    again = scored.began()
    scored.score(again, "vic", 2)
    second = scored.record(again, "vic")
    assert (second.position, second.round) == (1, 2)
    assert replay(second, first, scored.options) == []


def test_a_record_that_nobody_has_any_more_means_fresh_ratings(scored: ScoredJob) -> None:
    verifier = scored.verifier("vic")
    scored.play()
    first = scored.finish(verifier)
    scored.forget(scored.node("vic"))
    held = [p for p in (scored.folder / "store").rglob("*") if p.is_file()]
    copies = [path for path in held if path.read_bytes() == first.to_bytes()]
    assert copies
    for path in copies:
        path.unlink()
    scored.void()
    again = scored.began()
    scored.score(again, "vic", 2)
    assert scored.warned("vic", "ratings_lost") == 1
    fresh = scored.record(again, "vic")
    assert (fresh.position, fresh.previous) == (0, None)
    assert replay(fresh, None, scored.options) == []


def test_an_older_reveal_that_is_mined_late__is_followed(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool held the reveal of a round that is void by now. A record that did not follow it
    would be false."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    monkeypatch.setattr(validators, "TERMS", replace(TERMS, score_reveal_s=7_200))
    with ExitStack() as stack:
        scored = ScoredJob(people, tiny, tmp_path, stack)
        verifier, held = scored.committed(), []
        people.chain.warp(COMMIT_TIME + 1)

        def pooled(_: object, *call: Any, **__: object) -> None:
            held.append(call)
            raise Stopped("the agent ends here")

        with monkeypatch.context() as patch:
            patch.setattr(verifier.context.sender, "ensure", pooled)
            with pytest.raises(Stopped):
                scored.step(verifier, "vic")
        scored.void()
        again = scored.began()
        send = again.context.sender.ensure

        def mined(*args: Any, **options: Any) -> Any:
            people.chain.send(scored.node("vic").operator, *held[0])
            people.chain._nonces.clear()
            return send(*args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(again.context.sender, "ensure", mined)
            assert scored.step(again, "vic") is None
        people.chain.mine()  # the commitment names the reveal's block
        first = scored.record(again, "vic", 1)
        scored.score(again, "vic", 2)
        assert replay(scored.record(again, "vic"), first, scored.options) == []


@pytest.mark.parametrize(
    "junk", [b"not a record", b"[" * 10_000, b""], ids=["text", "nested", "not in the store"]
)
def test_another_validators_record_is_never_read(scored: ScoredJob, junk: bytes) -> None:
    """A liar's vector counts as it stands; its record is for auditors."""
    verifier, liar = scored.verifier("vic"), scored.verifier("vera")
    scored.play()
    digest = digest_of(scored.store.put_bytes(junk)) if junk else b"\7" * 32
    scores = [0] * len(scored.view(liar).snapshot.nodes)
    place = (scored.people.job, 1, scored.node("vera").node_id)
    operator = scored.node("vera").operator.address
    commitment = Consensus(liar.network).digest(*place, operator, scores, digest, SALT)
    liar.context.sender.send(liar.network.scores, "commit_scores", *place, commitment)
    assert scored.step(verifier, "vic") == "scored: round 1, committed"
    scored.people.chain.warp(COMMIT_TIME + 1)
    liar.context.sender.send(liar.network.scores, "reveal_scores", *place, scores, digest, SALT)
    assert scored.step(verifier, "vic") == "scored: round 1, revealed"
    first = scored.record(verifier, "vic")
    scored.void()
    scored.play()
    scored.score(verifier, "vic", 2)
    assert replay(scored.record(verifier, "vic"), first, scored.options) == []


# -- reorgs ----------------------------------------------------------------------------------------


def test_a_reorg_that_changes_the_audit_seed_is_scored_anew(scored: ScoredJob) -> None:
    """The draw and the samples are others', so the vector is; each opens its own commitment."""
    chain = scored.people.chain
    for name in TRAINERS:
        scored.trainers[name] = scored.trainer(scored.node(name))
    scored.people.open()
    chain.mine()
    parties = [(scored.trainers[name], scored.node(name)) for name in TRAINERS]
    for trainer, node in parties:
        assert trainer.commit(scored.view(trainer), node.node_id) is not None
    scored.people.pass_phase(COMMIT)
    for trainer, node in parties[:-1]:
        assert trainer.reveal(scored.view(trainer), node.node_id) is not None
    fork = chain.snapshot()

    verifier = scored.verifier("vic")
    seeds = set()
    for blocks in (1, 3):
        chain.revert(fork)
        fork = chain.snapshot()
        for _ in range(blocks):
            chain.mine()
        trainer, node = parties[-1]
        assert trainer.reveal(scored.view(trainer), node.node_id) is not None
        chain.mine()
        for trainer, node in parties:
            assert scored.show(trainer, node) is not None
        assert scored.step(verifier, "vic") == "scored: round 1, committed"
        view = scored.view(verifier)
        seeds.add(verifier.network.seed(view.job_id, view.round_id, view.round, audit=True))
    assert len(seeds) == 2
    assert len(verifier.context.journal.keys("scores-")) == 2
    chain.warp(COMMIT_TIME + 1)
    again = scored.verifier("vic")
    assert scored.step(again, "vic") == "scored: round 1, revealed"
    record = scored.record(again, "vic")
    assert bytes.fromhex(record.audit_seed) in seeds
    assert replay(record, None, scored.options) == []
