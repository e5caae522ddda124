# SPDX-License-Identifier: Apache-2.0
"""Journals that roles wrote before `agents.runtime.commitments` was: a node with an open commitment
opens it under the new version.

`runtime/journals/<duty>` was written by the agents of commit efcfe79, each with two secrets of one
round (or task), as a reorg leaves them. `commitments.json` has their keys and the commitments that
those agents would have sent.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest
from eth_utils import keccak

from agents.executor import Executor
from agents.gauntlet.replay import digest_of_record
from agents.gauntlet.validator import Validator
from agents.protocol.numbers import Phase, TaskStatus
from agents.protocol.scores import Consensus
from agents.runtime.commitments import Commitments
from agents.runtime.journal import Journal
from agents.storage.cid import cid_of_bytes, digest_of
from agents.tasks.contract import Task, Tasks
from agents.trainer import Trainer

OPERATOR = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
CONTRACT = Stub(address="0x5FbDB2315678afecb367f032d93F642f64180aa3")
CHAIN_ID = 31337


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[str, bytes], tuple[Stub, Stub]]:
    """Copies a duty's recorded folder and opens it: an agent's context, and a network on which
    the node's commitment is the one given."""

    def open_(duty: str, commitment: bytes) -> tuple[Stub, Stub]:
        folder = tmp_path / duty
        shutil.copytree(Path(__file__).parent / "runtime/journals" / duty, folder)
        (path,) = folder.glob("*.journal")
        chain = Stub(call=lambda *_: commitment)
        context = Stub(
            journal=Journal(path),
            artefacts=folder / "artefacts",
            wallet=Stub(address=OPERATOR),
            chain=chain,
        )
        deployment = Stub(chain_id=CHAIN_ID)
        network = Stub(
            chain=chain, deployment=deployment, rounds=CONTRACT, scores=CONTRACT, tasks=CONTRACT
        )
        return context, network

    return open_


def recorded(duty: str) -> list[Any]:
    folder = Path(__file__).parent / "runtime/journals" / duty
    rows = json.loads((folder / "commitments.json").read_text())
    assert len(rows) == 2
    return [pytest.param(r["name"], bytes.fromhex(r["commitment"]), id=r["name"]) for r in rows]


@pytest.mark.parametrize(("name", "commitment"), recorded("trainer"))
def test_a_trainer_finds_the_secret_of_its_round(opened: Any, name: str, commitment: bytes) -> None:
    trainer = Trainer.__new__(Trainer)
    trainer.context, trainer.network = opened("trainer", commitment)
    context = trainer.context
    trainer.commitments = Commitments(context.journal, context.artefacts, "trainer")
    found = trainer._secret_of(Stub(job_id=3, round_id=7), 5)
    assert found is not None
    assert found[0] == name
    for artefact, digest in (("payload", "content"), ("proof", "proof"), ("memory", "memory")):
        content = trainer.commitments.path(name, artefact).read_bytes()
        assert digest_of(cid_of_bytes(content)).hex() == found[1][digest]


def test_a_trainer_brings_to_its_end_what_it_began_in_whichever_job(opened: Any) -> None:
    trainer = Trainer.__new__(Trainer)
    trainer.context, trainer.network = opened("trainer", bytes(32))
    trainer.network.round = lambda *place: Stub(phase=Phase.REVEAL if place == (3, 7) else None)
    context, trainer._over = trainer.context, {}
    trainer.commitments = Commitments(context.journal, context.artefacts, "trainer")
    assert trainer.begun(Stub(number=99), 5) == [3]
    assert context.journal.get("job-followed", 0) == 0


@pytest.mark.parametrize(("name", "commitment"), recorded("validator"))
def test_a_validator_finds_its_rounds_vector(opened: Any, name: str, commitment: bytes) -> None:
    validator = Validator.__new__(Validator)
    context, network = opened("validator", commitment)
    validator._context, validator._consensus = context, Consensus(network)
    validator._commitments = Commitments(context.journal, context.artefacts, "validator")
    found = validator._entry_of(Stub(job_id=3, round_id=7), 9)
    assert found is not None
    assert found[0] == name
    raw = validator._own_copy(3, 7, bytes.fromhex(found[1]["record"]))
    assert raw is not None
    assert digest_of_record(raw).hex() == found[1]["record"]
    # A record of that version says what this one doesn't know. It is revealed all the same.
    validator._told = None
    validator._tell(Stub(job_id=3, round_id=7), raw)


@pytest.mark.parametrize(("name", "commitment"), recorded("executor"))
def test_an_executor_finds_its_tasks_secret(opened: Any, name: str, commitment: bytes) -> None:
    executor = Executor.__new__(Executor)
    executor.context, network = opened("executor", commitment)
    context = executor.context
    executor.tasks, executor.node_id = Tasks(network), 5
    executor.commitments = Commitments(context.journal, context.artefacts, "executor")
    task = {fork: _task(keccak(text=f"spec {fork}")) for fork in ("one", "two")}
    found = [executor.secret_behind(task[fork], commitment) for fork in task]
    (secret,) = [secret for secret in found if secret is not None]
    assert secret.name == name
    fork = "two" if secret.refusal else "one"
    assert executor.secret(task[fork]) == secret
    content = executor.commitments.path(name, "payload").read_bytes()
    assert secret.result == keccak(content)
    assert executor.commitments.numbers("task-") == {12}


def _task(spec: bytes) -> Task:
    """The recorded task 12, with this spec."""
    place = (12, TaskStatus.RUNNING, OPERATOR, 0)
    return Task(*place, spec, 10**18, 60, 1_700_000_000, 100, 0, (), (), (), 0)
