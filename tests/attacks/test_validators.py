# SPDX-License-Identifier: Apache-2.0
"""The validators' duty on a real chain, and what others, crashes and reorgs can do to it.

Real keystores, journals and transactions: trainers commit, reveal and show by their own code, and
verifiers evaluate real payloads. Rounds end void here: no result is proposed, so every round starts
from the same model, and records go on all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.gauntlet.record import MAX_RECORD_BYTES, ScoreRecord
from agents.gauntlet.replay import replay
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.median import stake_median
from agents.protocol.scores import Consensus, ScorePhase
from agents.runtime.errors import Stopped
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from agents.verifier import Verifier
from tests.stage.chain.people import AGGREGATE, CHALLENGE, COMMIT, EMPTY, VOID, Node, World
from tests.stage.chain.validators import PASSPHRASE, TERMS, Room
from tests.stage.memory.honest_round import TinyJob

SALT = b"\5" * 32
TRAINERS = ("ann", "bob", "cat")
VERIFIERS = ("vic", "vera", "vito")
PAUSE_OPEN = 2


class Panel(Room):
    """Three trainers and the verifiers that judge them."""

    def __init__(self, world: World, tiny: TinyJob, folder: Path, stack: ExitStack) -> None:
        super().__init__(world, tiny, folder, stack, rounds=4)
        self.trainers: dict[str, Trainer] = {}

    @property
    def options(self) -> Gauntlet:
        assert isinstance(self.job.score, Gauntlet)
        return self.job.score

    def node(self, name: str) -> Node:
        return self.world.nodes[name]

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

    def step(self, verifier: Verifier, name: str) -> str | None:
        return verifier.validator.step(self.view(verifier), self.node(name).node_id)

    def holds(self, verifier: Verifier, name: str) -> bool:
        return verifier.validator.holds(self.view(verifier), self.node(name).node_id)

    def finish(self, panel: dict[str, Verifier]) -> None:
        """Everybody commits, then reveals; those who have committed already only reveal."""
        for name, verifier in panel.items():
            self.step(verifier, name)
        for name, verifier in panel.items():
            assert self.step(verifier, name) == f"scored: round {self.world.round}, revealed"

    def void(self) -> None:
        """Let the round end without a result: neither on duty nor in the fallback window."""
        self.world.pass_phase(AGGREGATE)
        self.world.pass_phase(AGGREGATE)
        assert self.world.phase == VOID

    def record(self, verifier: Verifier, name: str, number: int | None = None) -> ScoreRecord:
        """What a validator revealed in a round (the newest), from the store."""
        place = (self.world.job, number or self.world.round, self.node(name).node_id)
        digest = Consensus(verifier.network).record(*place)
        assert digest != EMPTY
        return ScoreRecord.from_bytes(self.store.get_digest(digest, MAX_RECORD_BYTES))

    def warned(self, name: str, event: str) -> int:
        """How often a node's log says so."""
        return (self.folder / f"{name}.log").read_text().count(f'"event": "{event}"')


@pytest.fixture
def panel(
    world: World, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Panel]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield Panel(world, tiny, tmp_path, stack)


# -- the duty --------------------------------------------------------------------------------------


def test_three_validators_commit_then_reveal_then_anybody_closes(panel: Panel) -> None:
    panel.play()
    crew = {name: panel.verifier(name) for name in VERIFIERS}
    for name, verifier in crew.items():
        assert panel.step(verifier, name) == "scored: round 1, committed"
        if name != VERIFIERS[-1]:
            assert panel.step(verifier, name) is None, "nothing is revealed before all committed"
    for name, verifier in crew.items():
        assert panel.step(verifier, name) == "scored: round 1, revealed"
        assert panel.step(verifier, name) is None

    network, job = crew["vic"].network, panel.world.job
    view, consensus = panel.view(crew["vic"]), Consensus(network)
    snapshot = view.snapshot
    vectors = consensus.vectors(job, 1, int(view.round.opened_block), snapshot)
    records = {name: panel.record(verifier, name) for name, verifier in crew.items()}
    for name, record in records.items():
        assert record.vector() == list(vectors[panel.node(name).node_id].scores.values())
        assert [line.node for line in record.scores] == list(snapshot.nodes)
        assert replay(record, None, panel.options) == []
        silent = panel.node("eve").node_id
        failures = {line.node: line.failure for line in record.scores if line.failure}
        assert failures == {silent: "not committed in time"}
    assert len({record.secret for record in records.values()}) == 3

    stakes = snapshot.verifiers
    median = stake_median(
        [list(vectors[v].scores.values()) for v in stakes],
        list(stakes.values()),
        sum(stakes.values()),
    )
    arrays = (list(snapshot.nodes), list(snapshot.weights), median)
    panel.world.chain.send(panel.world.faucet, panel.world.scores, "close_scoring", job, 1, *arrays)
    assert consensus.scoring(job, 1).phase == ScorePhase.CLOSED


def test_a_node_that_is_no_verifier_of_the_round_has_no_part_in_it(panel: Panel) -> None:
    verifier = panel.verifier("vic")
    panel.play()
    view = panel.view(verifier)
    for name in ("ann", "abe"):
        assert verifier.validator.step(view, panel.node(name).node_id) is None
    assert verifier.context.journal.keys("scores-") == []


# -- waiting ---------------------------------------------------------------------------------------


def test_a_missing_sample_is_waited_for_but_not_for_ever(panel: Panel) -> None:
    panel.play("ann", "bob")
    verifier = panel.verifier("vic")
    assert panel.step(verifier, "vic") is None
    panel.world.chain.warp(TERMS.aggregate_s // 2 + 2)
    assert panel.step(verifier, "vic") == "scored: round 1, committed"
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    assert panel.step(verifier, "vic") == "scored: round 1, revealed"
    lines = {line.node: line for line in panel.record(verifier, "vic").scores}
    mute = lines[panel.node("cat").node_id]
    assert (mute.failure, mute.score, mute.usable) == ("no sync sample posted", 0, True)
    assert lines[panel.node("ann").node_id].failure == ""


def test_a_mute_node_delays_one_round_but_not_the_next(panel: Panel) -> None:
    verifier = panel.verifier("vic")
    panel.play("ann", "bob")
    panel.world.chain.warp(TERMS.aggregate_s // 2 + 2)
    assert panel.step(verifier, "vic") == "scored: round 1, committed"
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    assert panel.step(verifier, "vic") == "scored: round 1, revealed"
    panel.void()
    panel.play("ann", "bob")
    assert panel.step(verifier, "vic") == "scored: round 2, committed"
    panel.void()
    panel.play("ann", "cat")  # who was not mute is waited for
    assert panel.step(verifier, "vic") is None


def test_a_sample_that_comes_meanwhile_counts(panel: Panel) -> None:
    panel.play("ann", "bob")
    verifier = panel.verifier("vic")
    assert panel.step(verifier, "vic") is None
    assert panel.show(panel.trainers["cat"], panel.node("cat")) is not None
    assert panel.step(verifier, "vic") == "scored: round 1, committed"


def test_a_sample_that_is_posted_but_not_in_the_store_yet_is_waited_for(panel: Panel) -> None:
    """Content may take longer from node to node than a transaction, and nobody's fault it is."""
    panel.play()
    verifier = panel.verifier("vic")
    opened = int(panel.view(verifier).round.opened_block)
    posted = Consensus(verifier.network).samples(panel.world.job, 1, opened)
    digest = posted[panel.node("cat").node_id]
    raw = panel.store.get_digest(digest, MAX_RECORD_BYTES)
    (path,) = (panel.folder / "store").rglob(f"{digest.hex()}*")
    path.unlink()
    assert panel.step(verifier, "vic") is None
    panel.store.put_bytes(raw)
    assert panel.step(verifier, "vic") == "scored: round 1, committed"
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    assert panel.step(verifier, "vic") == "scored: round 1, revealed"
    lines = {line.node: line for line in panel.record(verifier, "vic").scores}
    assert lines[panel.node("cat").node_id].failure == ""


def test_who_opens_the_scoring_at_once_hurries_nobody(panel: Panel) -> None:
    """A liar that commits before anyone could show a sample would else make honest validators
    fail honest nodes."""
    panel.play("ann", "bob")
    honest, liar = panel.verifier("vic"), panel.verifier("vera")
    network = liar.network
    liar.context.sender.send(
        network.scores, "commit_scores", panel.world.job, 1, panel.node("vera").node_id, b"\7" * 32
    )
    assert panel.step(honest, "vic") is None
    assert panel.show(panel.trainers["cat"], panel.node("cat")) is not None
    assert panel.step(honest, "vic") == "scored: round 1, committed"


def test_before_half_of_the_commit_window_is_left_it_stops_waiting(panel: Panel) -> None:
    panel.play("ann", "bob")
    verifier, liar = panel.verifier("vic"), panel.verifier("vera")
    liar.context.sender.send(
        liar.network.scores,
        "commit_scores",
        panel.world.job,
        1,
        panel.node("vera").node_id,
        b"\7" * 32,
    )
    left = Consensus(verifier.network).scoring(panel.world.job, 1).commit_deadline
    panel.world.wait_until(left - TERMS.score_commit_s // 2 + 1)
    assert panel.step(verifier, "vic") == "scored: round 1, committed"


def test_an_attestation_is_held_back_for_a_quarter_of_the_window(panel: Panel) -> None:
    panel.play("ann", "bob")
    verifier = panel.verifier("vic")
    assert not panel.holds(verifier, "vic"), "there is nothing to attest in AGGREGATE"
    panel.world.offer({panel.node(name): 1 for name in TRAINERS})
    assert panel.world.phase == CHALLENGE
    assert panel.step(verifier, "vic") is None
    assert panel.holds(verifier, "vic")
    panel.world.chain.warp(TERMS.challenge_s // 4 + 2)
    assert not panel.holds(verifier, "vic")
    assert panel.step(verifier, "vic") == "scored: round 1, committed"
    assert not panel.holds(verifier, "vic")


def test_nothing_is_opened_when_the_phase_is_over(panel: Panel) -> None:
    panel.play()
    verifier = panel.verifier("vic")
    panel.world.wait_until(int(panel.view(verifier).round.deadline))
    assert panel.step(verifier, "vic") is None


def test_a_refusal_by_the_contract_keeps_nobody_from_attesting(panel: Panel) -> None:
    """Scoring is paused: the verifier says so once and goes on."""
    world = panel.world
    world.decide((world.scores, "set_paused", (PAUSE_OPEN,)))
    panel.play()
    verifier = panel.verifier("vic")
    for _ in range(3):
        assert panel.step(verifier, "vic") is None
    assert panel.warned("vic", "cannot_score") == 1
    assert "pausing: paused" in (panel.folder / "vic.log").read_text()


# -- crashes ---------------------------------------------------------------------------------------


def test_killed_between_journal_and_commitment_it_commits_to_the_same(
    panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.play()
    verifier = panel.verifier("vic")

    def stopped(*_: object) -> None:
        raise Stopped("the agent ends here")

    with monkeypatch.context() as patch:
        patch.setattr(verifier.context.sender, "ensure", stopped)
        with pytest.raises(Stopped):
            panel.step(verifier, "vic")
    (name,) = verifier.context.journal.keys("scores-")
    entry = verifier.context.journal.get(name)

    again = panel.verifier("vic")
    assert panel.step(again, "vic") == "scored: round 1, committed"
    assert again.context.journal.keys("scores-") == [name]
    assert again.context.journal.get(name) == entry


def test_killed_between_commitment_and_reveal_it_reveals(panel: Panel) -> None:
    panel.play()
    crew = {name: panel.verifier(name) for name in VERIFIERS}
    for name, verifier in crew.items():
        assert panel.step(verifier, name) == "scored: round 1, committed"
    again = panel.verifier("vic")
    assert panel.step(again, "vic") == "scored: round 1, revealed"
    assert replay(panel.record(again, "vic"), None, panel.options) == []


def test_the_record_is_secret_until_the_reveal(panel: Panel) -> None:
    """It holds the secret of the draw, and the scores that others must not copy."""
    panel.play()
    verifier = panel.verifier("vic")
    assert panel.step(verifier, "vic") == "scored: round 1, committed"
    (name,) = verifier.context.journal.keys("scores-")
    digest = bytes.fromhex(verifier.context.journal.get(name)["record"])
    with pytest.raises(Exception, match="not"):
        panel.store.get_digest(digest, MAX_RECORD_BYTES)
    told = ("fast_evaluation", "loss_score", "rating", "scores")
    assert [panel.warned("vic", event) for event in told] == [0, 0, 0, 0], "nor is it logged"
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    assert panel.step(verifier, "vic") == "scored: round 1, revealed"
    assert panel.store.get_digest(digest, MAX_RECORD_BYTES)
    assert all(panel.warned("vic", event) for event in told) and panel.warned("vic", "scores") == 1


def test_a_record_that_has_changed_on_disk_keeps_no_vector_back(panel: Panel) -> None:
    panel.play()
    verifier = panel.verifier("vic")
    assert panel.step(verifier, "vic") == "scored: round 1, committed"
    (path,) = verifier.context.artefacts.glob("scores-*.record")
    path.write_bytes(path.read_bytes()[:-1])
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    assert panel.step(verifier, "vic") == "scored: round 1, revealed"
    assert panel.warned("vic", "record_lost") == 1


def test_without_its_journal_it_can_only_say_so(panel: Panel) -> None:
    panel.play()
    verifier = panel.verifier("vic")
    assert panel.step(verifier, "vic") == "scored: round 1, committed"
    panel.forget(panel.node("vic"))
    again = panel.verifier("vic")
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    for _ in range(2):
        assert panel.step(again, "vic") is None
    assert panel.warned("vic", "scores_lost") == 1


# -- records over rounds ---------------------------------------------------------------------------


def test_ratings_go_on_from_the_last_revealed_record(panel: Panel) -> None:
    """Over void rounds, rounds it missed, and a restart."""
    verifier = panel.verifier("vic")
    panel.play()
    panel.finish({"vic": verifier} | {name: panel.verifier(name) for name in VERIFIERS[1:]})
    first = panel.record(verifier, "vic")
    panel.void()
    panel.play()  # a round that vic misses
    panel.void()
    panel.play()
    again = panel.verifier("vic")
    assert panel.step(again, "vic") == "scored: round 3, committed"
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    assert panel.step(again, "vic") == "scored: round 3, revealed"
    third = panel.record(again, "vic")
    assert (third.position, third.round, third.renewed) == (1, 3, False)
    assert replay(third, first, panel.options) == []


def test_with_a_new_journal_ratings_go_on_and_the_new_secret_is_declared(panel: Panel) -> None:
    verifier = panel.verifier("vic")
    panel.play()
    panel.finish({"vic": verifier} | {name: panel.verifier(name) for name in VERIFIERS[1:]})
    first = panel.record(verifier, "vic")
    panel.forget(panel.node("vic"))
    panel.void()
    panel.play()
    again = panel.verifier("vic")
    assert panel.step(again, "vic") == "scored: round 2, committed"
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    assert panel.step(again, "vic") == "scored: round 2, revealed"
    second = panel.record(again, "vic")
    assert second.renewed
    assert replay(second, first, panel.options) == []


def test_a_record_that_nobody_has_any_more_means_fresh_ratings(panel: Panel) -> None:
    verifier = panel.verifier("vic")
    panel.play()
    panel.finish({"vic": verifier} | {name: panel.verifier(name) for name in VERIFIERS[1:]})
    first = panel.record(verifier, "vic")
    panel.forget(panel.node("vic"))
    held = [p for p in (panel.folder / "store").rglob("*") if p.is_file()]
    copies = [path for path in held if path.read_bytes() == first.to_bytes()]
    assert copies
    for path in copies:
        path.unlink()
    panel.void()
    panel.play()
    again = panel.verifier("vic")
    assert panel.step(again, "vic") == "scored: round 2, committed"
    assert panel.warned("vic", "ratings_lost") == 1
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    assert panel.step(again, "vic") == "scored: round 2, revealed"
    fresh = panel.record(again, "vic")
    assert (fresh.position, fresh.previous) == (0, None)
    assert fresh.secret != first.secret
    assert replay(fresh, None, panel.options) == []


@pytest.mark.parametrize(
    "junk", [b"not a record", b"[" * 10_000, b""], ids=["text", "nested", "not in the store"]
)
def test_another_validators_record_is_never_read(panel: Panel, junk: bytes) -> None:
    """A liar's vector counts as it stands; its record is for auditors."""
    verifier, liar = panel.verifier("vic"), panel.verifier("vera")
    panel.play()
    digest = digest_of(panel.store.put_bytes(junk)) if junk else b"\7" * 32
    scores = [0] * len(panel.view(liar).snapshot.nodes)
    place = (panel.world.job, 1, panel.node("vera").node_id)
    operator = panel.node("vera").operator.address
    commitment = Consensus(liar.network).digest(*place, operator, scores, digest, SALT)
    liar.context.sender.send(liar.network.scores, "commit_scores", *place, commitment)
    assert panel.step(verifier, "vic") == "scored: round 1, committed"
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    liar.context.sender.send(liar.network.scores, "reveal_scores", *place, scores, digest, SALT)
    assert panel.step(verifier, "vic") == "scored: round 1, revealed"
    first = panel.record(verifier, "vic")
    panel.void()
    panel.play()
    assert panel.step(verifier, "vic") == "scored: round 2, committed"
    panel.world.chain.warp(TERMS.score_commit_s + 1)
    assert panel.step(verifier, "vic") == "scored: round 2, revealed"
    assert replay(panel.record(verifier, "vic"), first, panel.options) == []


# -- reorgs ----------------------------------------------------------------------------------------


def test_a_reorg_that_changes_the_audit_seed_is_scored_anew(panel: Panel) -> None:
    """The draw and the samples are others', so the vector is; each opens its own commitment."""
    chain = panel.world.chain
    for name in TRAINERS:
        panel.trainers[name] = panel.trainer(panel.node(name))
    panel.world.open()
    chain.mine()
    parties = [(panel.trainers[name], panel.node(name)) for name in TRAINERS]
    for trainer, node in parties:
        assert trainer.commit(panel.view(trainer), node.node_id) is not None
    panel.world.pass_phase(COMMIT)
    for trainer, node in parties[:-1]:
        assert trainer.reveal(panel.view(trainer), node.node_id) is not None
    fork = chain.snapshot()

    verifier = panel.verifier("vic")
    seeds = set()
    for blocks in (1, 3):
        chain.revert(fork)
        fork = chain.snapshot()
        for _ in range(blocks):
            chain.mine()
        trainer, node = parties[-1]
        assert trainer.reveal(panel.view(trainer), node.node_id) is not None
        chain.mine()
        for trainer, node in parties:
            assert panel.show(trainer, node) is not None
        assert panel.step(verifier, "vic") == "scored: round 1, committed"
        view = panel.view(verifier)
        seeds.add(verifier.network.seed(view.job_id, view.round, audit=True))
    assert len(seeds) == 2
    assert len(verifier.context.journal.keys("scores-")) == 2
    chain.warp(TERMS.score_commit_s + 1)
    again = panel.verifier("vic")
    assert panel.step(again, "vic") == "scored: round 1, revealed"
    record = panel.record(again, "vic")
    assert bytes.fromhex(record.audit_seed) in seeds
    assert replay(record, None, panel.options) == []
