# SPDX-License-Identifier: Apache-2.0
"""A trainer brings what it began to its end, whatever a node of the chain says in between, and
keeps no file that it never committed to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.protocol.numbers import ZERO_DIGEST, Phase
from agents.runtime.commitments import Commitments
from agents.runtime.journal import Journal
from agents.trainer import Trainer


@pytest.fixture
def trainer(tmp_path: Path) -> Any:
    """It has journalled work of round 5 of job 3. `phases`: what the chain says of that round."""
    made: Any = Trainer.__new__(Trainer)
    made.commitments = Commitments(Journal(tmp_path / "journal"), tmp_path, "trainer")
    made.commitments.keep("submission-3-5-aaaa", {}, {"payload": b"p"})
    made._over, made.phase, made.late = {}, Phase.COMMIT, []
    made.network = Stub(round=lambda *place: Stub(phase=made.phase), rounds=None)
    made.context = Stub(chain=Stub(call_many=lambda calls: [ZERO_DIGEST for _ in calls]))
    made.following = Stub(was_late=lambda *late: made.late.append(late))
    return made


def test_a_round_that_a_node_does_not_know_yet_is_not_over(trainer: Any) -> None:
    """Of several nodes behind one address, one lags behind the block that the round is in."""
    trainer.phase = Phase.NONE
    assert trainer.begun(Stub(number=1000), 7) == []
    trainer.phase = Phase.REVEAL
    for number in (1001, 1065, 5000):
        assert trainer.begun(Stub(number=number), 7) == [3]
    assert trainer.late == []


@pytest.mark.parametrize("over", [Phase.FINALIZED, Phase.VOID])
def test_a_round_that_is_over_is_looked_at_until_no_reorg_brings_it_back(
    trainer: Any, over: Phase
) -> None:
    trainer.phase = over
    assert trainer.begun(Stub(number=1000), 7) == []
    trainer.phase = Phase.REVEAL
    assert trainer.begun(Stub(number=1001), 7) == [3]
    trainer.phase = over
    assert trainer.begun(Stub(number=1002), 7) == []
    trainer.phase = Phase.REVEAL
    assert trainer.begun(Stub(number=1067), 7) == []
    assert trainer.late == [(3, [5], [5])] * 2


def test_what_was_never_committed_to_is_swept_before_work_in_any_job(
    trainer: Any, tmp_path: Path
) -> None:
    for name in ("submission-3-5-bbbb.payload", "submission-3-6-0000.payload"):
        (tmp_path / name).write_bytes(b"of a process that died before it committed")
    plan = Stub(manifest=Stub(seed=b"\1" * 32))
    trainer.plans, trainer.network.seen = Stub(of=lambda view: plan), lambda *_: b"seen"
    trainer.access = Stub(may_train=lambda *_: True)
    trainer._commitment, trainer._refusal = lambda *_: ZERO_DIGEST, lambda _: None
    trainer._affords, trainer._leave = lambda *_: True, lambda *_: "left"
    trainer.produce = lambda *_: None
    view = Stub(job_id=3, round_id=7, overdue=False, block=1, round=Stub(seed_block=1))
    view.snapshot = Stub(nodes=[7])
    assert trainer.commit(view, 7) == "left"
    assert [path.name for path in tmp_path.glob("submission-*")] == ["submission-3-5-aaaa.payload"]
