# SPDX-License-Identifier: Apache-2.0
"""A convicted trainer appeals on what its own machine finds right, in whichever class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest
import torch

from agents.protocol.numbers import ReportStatus, Violation
from agents.rounds.reader import RoundReader
from agents.storage.embedded import EmbeddedStore
from agents.training.determinism import determinism_class
from agents.verify import appealing
from agents.verify.appealing import Case, OwnAppeals
from tests.stage.memory.honest_round import DEVICE, NODES, SEED, ChainFacts, make_honest_round

ME = 3


class Convicted(OwnAppeals):
    """The appeals of node 3, whose work in round 1 was found invalid."""

    case: Case

    def _confirmed(self, head: Any, node: int) -> Iterator[Any]:
        yield self.case, Stub(status=ReportStatus.CONFIRMED, deadline=10**12)

    def _take_back(self) -> None:
        pass

    def _appeal(self, case: Case, node: int) -> str:
        return "appealed"


@dataclass
class Trainer:
    """Node 3, and what it says."""

    appeals: Convicted
    said: list[str]

    def steps(self, count: int) -> list[str | None]:
        return [self.appeals.step(Stub(number=1, timestamp=1), ME, True) for _ in range(count)]


def convicted(path: Path, monkeypatch: pytest.MonkeyPatch, moved: float, compiled: bool) -> Trainer:
    """`moved`: by how much a number of its update differs. `compiled`: as its proof says."""
    store = EmbeddedStore(path / "store")
    round_ = make_honest_round(store)
    own = {name: tensor.clone() for name, tensor in round_.works[ME].gradient.items()}
    first = next(iter(own.values())).view(-1)
    first[0] = torch.nextafter(first[0], torch.tensor(9.0)) if compiled else first[0] + moved
    stated = determinism_class(DEVICE, compiled)
    work = replace(
        round_.works[ME],
        proof=round_.works[ME].proof.model_copy(update={"determinism_class": stated}),
        payload=round_.job.codec.encode(own, None, b""),
    )
    work.publish(store)
    facts = ChainFacts(round_.published)
    facts.revealed = {node: round_.reveal(node) for node in NODES} | {ME: work.reveal()}
    view = facts.open(1, SEED)
    monkeypatch.setattr(appealing, "observe", lambda *_: view)
    said: list[str] = []
    log: Any = Stub(error=lambda _, **facts: said.append(facts["why"]))
    metrics = Stub(busy=lambda _: nullcontext(), error=lambda *_: None)
    context: Any = Stub(settings=Stub(trainer=Stub(appeal=True)), log=log, metrics=metrics)
    reader = RoundReader(facts, store, DEVICE)
    appeals = Convicted(facts, context, store, reader, lambda view, node: None)
    appeals.case = Case(b"R" * 32, view.job_id, view.round_id, Violation.INVALID, SEED)
    return Trainer(appeals, said)


def test_right_work_is_appealed_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = convicted(tmp_path, monkeypatch, moved=0.0, compiled=False)
    judged, appealed = trainer.steps(2)
    assert judged is not None and judged.endswith(": ok") and appealed == "appealed"


def test_so_is_work_of_a_class_that_this_process_is_not_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It trained compiled, which rounds otherwise, and judges uncompiled: by tolerance it is right.
    The committee may have no word on it; then the bond comes back and nobody is slashed."""
    trainer = convicted(tmp_path, monkeypatch, moved=0.0, compiled=True)
    judged, appealed = trainer.steps(2)
    assert judged is not None and judged.endswith(": ok") and appealed == "appealed"
    assert trainer.said == []


def test_wrong_work_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = convicted(tmp_path, monkeypatch, moved=1.0, compiled=False)
    judged, appealed = trainer.steps(2)
    assert judged is not None and not judged.endswith(": ok") and appealed is None
    assert "the bond would be lost" in trainer.said[0]
