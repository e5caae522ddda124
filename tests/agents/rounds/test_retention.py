# SPDX-License-Identifier: Apache-2.0
"""What a verifier keeps before it attests: all that a later round may be judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.rounds.codec_memory import Memories
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome
from agents.rounds.plan import Plans
from agents.rounds.reader import RoundReader
from agents.rounds.retention import Retention, looks_back
from agents.storage.cid import PROFILE, cid_from_digest, cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.storage.ipfs import IpfsStore
from agents.training.state import model_hash
from scripts._net.kubo import KuboServer
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    NODES,
    SEED,
    ChainFacts,
    HonestRound,
    make_honest_round,
    make_tiny_job,
    proposal_of,
)
from tests.stage.memory.honest_run import HonestRun
from tests.stage.memory.mined_round import MINERS, PIPELINE, MinedRound, make_mined_job
from tests.stage.memory.mined_run import run
from tests.stage.memory.tiny_specs import GAUNTLET, signed_steps
from tests.stage.served import serving

SPARSE: dict[str, Any] = {
    "codec": "sparse",
    "codec_options": {"memory_rounds": 2},
    "merge": "mean",
    "checkpoint_every": 1,
}
KEPT: dict[str, Any] = {
    "optimizer": {
        "batch_size": 2,
        "seq_len": 16,
        "inner": "muon",
        "inner_state": "kept",
        "inner_state_rounds": 4,
    },
    "checkpoint_every": 1,
}


class Pins(EmbeddedStore):
    """A store that says what was pinned, and has lost what is in `lost`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.pinned: list[str] = []
        self.lost: set[str] = set()

    def pin(self, cid: str) -> None:
        if cid in self.lost:
            raise NotFound(f"{cid} is taken down")
        super().pin(cid)
        self.pinned.append(cid)


class Judged:
    """A round whose result stands, and the verifier that found it right."""

    def __init__(
        self,
        tiny: HonestRound | MinedRound,
        facts: ChainFacts,
        view: Any,
        late: int = 0,
        report_only: bool = False,
    ) -> None:
        self.facts, self.view, self.store = facts, view, Pins(tiny.store.root)
        self.reader = RoundReader(facts, self.store, DEVICE)
        submissions = self.reader.submissions(view)
        proposed = [
            replace(one, gradient=None, reason="unavailable: late") if n.node == late else one
            for one in submissions
            for n in [one.reveal]
        ]
        self.outcome: Outcome = self.reader.outcome(view, proposed)
        if report_only:
            tiny.store.put_bytes(self.outcome.report.to_bytes())
        else:
            RoundReader(facts, tiny.store, DEVICE).publish(self.outcome)
        facts.proposed = proposal_of(self.outcome)
        self.retention = Retention(self.reader)

    @property
    def pinned(self) -> set[str]:
        return set(self.store.pinned)

    def payloads(self, *nodes: int) -> set[str]:
        revealed = self.facts.reveals(JOB, 1, self.view.round.opened_block)
        return {cid_from_digest(revealed[node].content) for node in nodes}

    def result(self) -> set[str]:
        """Update, checkpoint and report."""
        made = self.outcome.update, self.outcome.checkpoint, self.outcome.report.to_bytes()
        return {cid_of_bytes(one) for one in made if one is not None}


Judge = Callable[..., Judged]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    def judged(late: int = 0, junk: int = 0, **changes: Any) -> Judged:
        tiny = make_honest_round(EmbeddedStore(tmp_path / "store"), **changes)
        facts = ChainFacts(tiny.published)
        facts.revealed = {node: tiny.reveal(node) for node in NODES}
        if junk:
            facts.revealed[junk] = tiny.reveal(junk, b"junk")
        return Judged(tiny, facts, facts.open(1, SEED), late)

    return judged


@pytest.mark.parametrize("changes", [SPARSE, KEPT], ids=["codec", "inner state"])
def test_what_later_rounds_are_judged_by_is_kept(judge: Judge, changes: dict[str, Any]) -> None:
    judged = judge(junk=5, **changes)
    assert judged.outcome.checkpoint is not None
    assert judged.retention.unkept(judged.view) == ""
    assert judged.pinned == judged.payloads(3, 8, 9) | judged.result()


def test_of_a_split_model_what_counts_beside_the_payloads_is_kept_too(tmp_path: Path) -> None:
    made = run(tmp_path / "store", (MINERS,))
    mined, facts = made.rounds[0], made.facts
    facts.entries.clear()
    facts.model = b""  # its one round is not final yet
    judged = Judged(mined, facts, facts.open(1, mined.plan.manifest.seed, MINERS))
    assert judged.retention.unkept(judged.view) == ""
    shown = [mined.shown(node) for node in MINERS]
    beside = {cid_of_bytes(raw) for one in shown for raw in (one.trace, one.inbox)}
    parts = {cid_of_bytes(part) for part in judged.outcome.parts}
    assert beside and parts
    assert judged.payloads(*MINERS) | beside | parts | judged.result() <= judged.pinned


@pytest.mark.parametrize(
    "changes",
    [{}, {**SPARSE, "codec_options": {"memory_rounds": 1}}],
    ids=["no memory", "a memory of one round"],
)
def test_the_result_alone_is_kept_where_no_earlier_round_is_asked_for(
    judge: Judge, changes: dict[str, Any]
) -> None:
    judged = judge(**changes)
    assert not looks_back(judged.reader.models.job(JOB))
    assert judged.retention.unkept(judged.view) == ""
    assert judged.pinned == judged.result()


@pytest.mark.parametrize("late", [0, 5], ids=["", "one payload came late"])
def test_an_update_that_its_proposer_keeps_at_home_is_there_all_the_same(
    tmp_path: Path, late: int
) -> None:
    """Its report is published, and right. Who attests it has made the update, and publishes it."""
    tiny = make_honest_round(EmbeddedStore(tmp_path / "store"))
    facts = ChainFacts(tiny.published)
    facts.revealed = {node: tiny.reveal(node) for node in NODES}
    judged = Judged(tiny, facts, facts.open(1, SEED), late, report_only=True)
    outcome = judged.outcome
    facts.model = outcome.model
    facts.entries.append(
        SimpleNamespace(
            round_id=1,
            prev_model=bytes.fromhex(outcome.report.prev_model),
            new_model=outcome.model,
            report=facts.proposed.report,
        )
    )
    with pytest.raises(NotFound):
        Models(facts, tiny.store).at(JOB, outcome.model)
    assert judged.retention.unkept(judged.view) == ""
    assert model_hash(Models(facts, tiny.store).at(JOB, outcome.model)) == outcome.model


def test_who_can_not_have_the_update_does_not_attest(judge: Judge) -> None:
    judged = judge(**SPARSE)
    judged.store.lost = {cid_of_bytes(judged.outcome.update)}
    assert judged.retention.unkept(judged.view) and judged.retention.lacks_result
    judged.store.lost = judged.payloads(5)
    assert judged.retention.unkept(judged.view) and not judged.retention.lacks_result


def test_where_nobody_redoes_work_no_earlier_round_is_asked_for(tmp_path: Path) -> None:
    changes = {**GAUNTLET, "optimizer": signed_steps(2, 16, 0.002, outer_decay=True)}
    assert not looks_back(make_tiny_job(EmbeddedStore(tmp_path), **changes).job)


@pytest.mark.parametrize(("codec", "owed"), [("sparse", True), ("dense", False)])
def test_of_a_split_model_only_what_is_owed_is_a_reason(
    tmp_path: Path, codec: str, owed: bool
) -> None:
    pipeline = {**PIPELINE, "sharing": {"full_every": 3, "codec": codec}}
    tiny, _ = make_mined_job(EmbeddedStore(tmp_path / "store"), pipeline=pipeline)
    assert looks_back(tiny.job) is owed


def test_what_is_gone_keeps_nothing_else_from_being_kept(judge: Judge) -> None:
    judged = judge(**SPARSE)
    (lost,) = judged.store.lost = judged.payloads(5)
    assert lost in judged.retention.unkept(judged.view)
    assert lost in judged.retention.unkept(judged.view)
    assert judged.pinned == judged.payloads(3, 8, 9) | judged.result()
    judged.store.lost.clear()
    assert judged.retention.unkept(judged.view) == ""
    assert lost in judged.pinned


def test_one_search_at_a_time(judge: Judge) -> None:
    """Each may take a store a minute, and the window is not long."""
    judged = judge(**SPARSE)
    judged.store.lost = judged.payloads(*NODES)
    tried = [judged.retention.unkept(judged.view).split()[0] for _ in NODES]
    assert set(tried) == judged.store.lost
    assert judged.pinned == judged.result()


def test_a_result_is_kept_once_and_another_one_again(judge: Judge) -> None:
    judged = judge(**SPARSE)
    for _ in range(2):
        assert judged.retention.unkept(judged.view) == ""
    assert len(judged.store.pinned) == len(judged.pinned)
    judged.view.round.result_hash = b"\2" * 32
    assert judged.retention.unkept(judged.view) == ""
    assert len(judged.store.pinned) == 2 * len(judged.pinned)


def test_a_payload_that_the_proposer_did_not_get_is_not_of_the_result(judge: Judge) -> None:
    judged = judge(late=5, **SPARSE)
    assert judged.outcome.report.accepted() == {3, 8, 9}
    assert judged.retention.unkept(judged.view) == ""
    assert judged.pinned == judged.payloads(3, 8, 9) | judged.result()


@pytest.fixture
def daemon() -> Iterator[KuboServer]:
    with serving(KuboServer()) as server:
        yield server


def test_a_daemon_pins_it(judge: Judge, daemon: KuboServer) -> None:
    """What it only read it may forget; nothing else is pinned there. The update, as large as the
    model, is put there and not fetched."""
    judged = judge(**SPARSE)
    options = {"chunker": f"size-{PROFILE.chunk_size}", "raw-leaves": "true", "cid-version": "1"}
    for path in judged.store._objects.rglob("*.*"):
        daemon.add(path.read_bytes(), {**options, "pin": "false"})
    store = IpfsStore(daemon.address, attempts=1)
    retention = Retention(RoundReader(judged.facts, store, DEVICE))
    assert daemon.pins == set()
    assert retention.unkept(judged.view) == ""
    assert daemon.pins == judged.payloads(*NODES) | judged.result()
    asked = {options["arg"] for call, options in daemon.calls if call in ("cat", "block/get")}
    assert judged.payloads(*NODES) <= asked
    assert judged.outcome.report.update not in asked
    store.close()


def test_what_was_kept_is_enough_to_judge_the_next_round(tmp_path: Path) -> None:
    """A store with the job and with what one verifier kept gives memory and model to the bit."""
    tiny = make_honest_round(EmbeddedStore(tmp_path / "store"), **SPARSE)
    honest = HonestRun(tiny)
    honest.facts.revealed = {node: tiny.reveal(node) for node in NODES}
    honest.facts.entries.clear()
    honest.facts.model = b""
    judged = Judged(tiny, honest.facts, honest.facts.open(1, SEED))
    assert judged.retention.unkept(judged.view) == ""
    honest.facts.record(1, judged.outcome, tiny.store)
    dataset = tiny.job.data.dataset
    founding = (tiny.published.spec_cid, tiny.published.checkpoint_cid, tiny.job.spec.data)
    alone = EmbeddedStore(tmp_path / "alone")
    for cid in (*founding, *(shard.cid for shard in dataset.shards), *judged.pinned):
        alone.put_bytes(tiny.store.get(cid, 1 << 24))
    plan = honest.next()
    models = Models(honest.facts, alone)
    found = Memories(honest.facts, alone, models, Plans(honest.facts, models), DEVICE)
    for node in NODES:
        mine, theirs = found.before(JOB, plan, node), honest.memories().before(JOB, plan, node)
        assert mine is not None and theirs is not None
        assert model_hash(mine) == model_hash(theirs)
    assert model_hash(models.current(JOB)) == judged.outcome.model
