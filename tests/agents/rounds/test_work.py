# SPDX-License-Identifier: Apache-2.0
"""What a trainer logs, measures and states about its work, with privacy and without."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.jobs.job import JobContext
from agents.jobs.publish import publish_job
from agents.rounds.carried import Carried, Kept
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation
from agents.rounds.work import Producer, Work
from agents.runtime.journal import Journal
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import assign
from agents.training.documents import DataError
from agents.training.norms import norm
from agents.training.state import State, load_state, model_hash
from tests.stage.chain.finished_job import SPEC
from tests.stage.memory.honest_round import DEVICE, JOB, NODES, ROUND, SEED

TEXT = [b"line %d of a private corpus, cubed %d\n" % (i, i**3) for i in range(200)]
GAUSSIAN = {"privacy": "gaussian", "privacy_options": {"noise_multiplier": 4.0}, "merge": "mean"}
UNTIED = {**SPEC["model"], "tie_embeddings": False}
OWN = {**GAUSSIAN, "access": "local", "verify": "screening", "model": UNTIED}
EXAMPLES = {"privacy": "dp_sgd", "access": "local", "verify": "screening", "merge": "mean"}


@dataclass
class Done:
    """A node's work on a tiny job, the lines of its log and its metric of loss."""

    job: JobContext
    work: Work
    lines: list[dict[str, Any]]
    loss: float

    @property
    def proof(self) -> ProofOfComputation:
        return ProofOfComputation.from_bytes(self.work.proof)


def done(
    folder: Path,
    spoil: Callable[[State], object] = id,
    text: bytes = b"".join(TEXT),
    **changes: Any,
) -> Done:
    """What a node with this text of its own makes of a job. `spoil` changes the first model."""
    store = EmbeddedStore(folder / "store")
    published = publish_job(store, TEXT, {**SPEC, **changes})
    job = JobContext(published.spec, store)
    before = load_state(store.get(published.checkpoint_cid, 1 << 20), job.shapes)
    spoil(before)
    plan = Plan(assign(SEED, NODES, (10,) * len(NODES), job.spec), 0, (), 0)
    local = folder / "own"
    local.mkdir()
    (local / "own.txt").write_bytes(text)
    trainer = SimpleNamespace(local_data=local, compile=False, attestation=None)
    round_ = SimpleNamespace(prev_model=model_hash(before), deadline=2**40)
    metrics = Metrics("trainer")
    with Journal(folder / "journal") as journal:
        context: Any = SimpleNamespace(
            settings=SimpleNamespace(trainer=trainer),
            log=open_log("trainer", "debug", path=folder / "log"),
            metrics=metrics,
            journal=journal,
        )
        memories: Any = SimpleNamespace(carried=lambda *_: Carried())
        shop = Producer(context, memories, SimpleNamespace(), DEVICE)  # type: ignore[arg-type]
        view: Any = SimpleNamespace(job_id=JOB, round_id=ROUND, round=round_)
        kept: Kept = lambda *_: None  # noqa: E731
        work = shop.produce(job, view, plan, NODES[0], before, lambda update, _: update, kept)
    assert work is not None
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    loss = metrics.registry.get_sample_value("menagerie_loss")
    assert loss is not None
    return Done(job, work, lines, loss)


def produced(folder: Path, **changes: Any) -> tuple[list[dict[str, Any]], float, int]:
    """Of a node's work: the lines of its log, its metric of loss, the stated time."""
    found = done(folder, **changes)
    return found.lines, found.loss, found.proof.compute_time_ms


def test_an_open_job_shows_its_losses_and_what_its_codec_cost(tmp_path: Path) -> None:
    lines, loss, _ = produced(tmp_path)
    steps = [line for line in lines if line["event"] == "step"]
    assert len(steps) == 2 and all(line["loss"] > 0 for line in steps)
    assert round(loss, 4) == steps[-1]["loss"]
    (payload,) = [line for line in lines if line["event"] == "payload"]
    assert payload["codec"] == "dense" and payload["bytes"] > 0
    assert payload["cosine"] == 1 and 0 <= payload["encode_s"] < 60


@pytest.mark.parametrize("changes", [GAUSSIAN, EXAMPLES])
def test_a_private_job_shows_no_loss(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Not in the debug log and not as a metric; steps are still counted."""
    lines, loss, stated_ms = produced(tmp_path, **changes)
    assert len([line for line in lines if line["event"] == "step"]) == 2
    assert loss == 0 and not any("loss" in line for line in lines)
    if changes is EXAMPLES:
        assert stated_ms > 0 and stated_ms % 1000 == 0


def test_a_job_that_this_node_has_no_data_for_does_not_end_the_agent(tmp_path: Path) -> None:
    """Nor does a round that hands it no batch, which costs nothing."""
    store = EmbeddedStore(tmp_path / "store")
    job = JobContext(publish_job(store, TEXT, {**SPEC, **EXAMPLES}).spec, store)
    settings = SimpleNamespace(trainer=SimpleNamespace(local_data=None))
    context: Any = SimpleNamespace(settings=settings)
    shop = Producer(context, SimpleNamespace(), SimpleNamespace(), DEVICE)  # type: ignore[arg-type]
    few = job.spec.model_copy(update={"batches_per_round": 1})
    for spec, idle in ((job.spec, ()), (few, NODES[1:])):
        plan = Plan(assign(SEED, NODES, (30, 1, 1, 1), spec), 0, (), 0)
        for node in NODES:
            if node in idle:
                assert shop.charge(job, plan, node) is None
            else:
                with pytest.raises(DataError, match="local_data"):
                    shop.charge(job, plan, node)


def trap(state: State) -> None:
    """Weights of a sponsor, all finite, with which a text that has a Z makes training overflow."""
    state["embedding.weight"][ord("Z")] = 3e38


@pytest.mark.parametrize("has_it", [False, True])
def test_a_text_that_makes_training_overflow_is_not_told_by_a_missing_payload(
    tmp_path: Path, has_it: bool
) -> None:
    """Until 2026-12-01 the node with a Z did not commit: a sponsor asked what it liked about the
    text, and the answer cost no privacy."""
    text = b"plainZtextZofZno interest\n" if has_it else b"plain text of no interest\n"
    plain = OWN | {"privacy": "none", "privacy_options": {}}
    if has_it:  # the trap works, and a job that promises nothing is still left
        with pytest.raises(FloatingPointError):
            done(tmp_path / "open", trap, text * 100, **plain)
    found = done(tmp_path, trap, text * 100, **OWN)
    update = found.job.codec.decode(found.work.payload, found.job.shapes, SEED)
    size = sum(tensor.numel() for tensor in update.values())
    sigma = found.job.privacy.sigma  # type: ignore[attr-defined]
    assert norm(update) == pytest.approx(sigma * size**0.5, rel=0.2)


@pytest.mark.parametrize("promise", ["none", "gaussian", "dp_sgd"])
def test_how_much_text_a_node_has_is_told_only_where_an_auditor_needs_it(
    tmp_path: Path, promise: str
) -> None:
    """Where any other data set is a neighbour, its size told them apart until 2026-12-01."""
    changes = OWN | {"privacy": promise}
    if promise != "gaussian":
        changes |= {"privacy_options": {}}
    proof = done(tmp_path, **changes).proof
    assert proof.dataset is not None
    count = (len(b"".join(TEXT)) + 1) // (SPEC["optimizer"]["seq_len"] + 1)
    assert proof.examples == (count if promise == "dp_sgd" else None)
