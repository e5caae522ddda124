# SPDX-License-Identifier: Apache-2.0
"""A miner that leaves backward passes out and states another class than the verifier's.

Only the first stage can: every other one owes its neighbour the gradient of each pass. It lets the
step's other pass count twice, so that its update is as long as it was. In bf16 the tolerances let
some of the last be left out, so there a job has to list the classes that it takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Kind
from agents.pipeline.stage import Passed
from agents.pipeline.work import StageWork
from agents.protocol.numbers import Violation
from agents.storage.embedded import EmbeddedStore
from agents.training.determinism import determinism_class
from agents.training.spec import SpecError
from agents.verify.spot_checks import malformed, reexecute
from tests.stage.memory.honest_round import DEVICE
from tests.stage.memory.mined_round import MINERS, OTHER_CLASS, make_mined_round

FIRST = 5
SAMPLES = 60  # of which the miner has 27: thirteen steps of two passes and one of one
BF16 = {"precision": "bf16", "optimizer": {"batch_size": 2, "seq_len": 16, "lr": 1e-3}}
OWN_CLASS = determinism_class(DEVICE)


class Skipping(StageWork):
    """Leaves the second pass of some steps out."""

    skipped: range

    def do(self, entry: Entry) -> Passed:
        if (self.miner, entry.kind, self.passes) != (FIRST, Kind.BACKWARD, 1):
            return super().do(entry)
        once = self._runner.net.grads.clone()
        passed = super().do(entry)
        if self.steps in self.skipped:
            self._runner.net.grads.copy_(once).mul_(2.0)
        return passed


def verdicts(
    folder: Path, skipped: range, stated: str = OTHER_CLASS, **spec: Any
) -> dict[int, Violation | None]:
    """Of all miners, where the first stage's leaves a pass out in some steps and states a class."""
    work = type("Skipping", (Skipping,), {"skipped": skipped})
    mined = make_mined_round(EmbeddedStore(folder), work=work, batches_per_round=SAMPLES, **spec)
    assert len(mined.works[FIRST].log.steps) == 14
    one = mined.submit(FIRST, determinism=stated)
    inputs = mined.inputs([one, *mined.honest(without=(FIRST,))])
    bad = {finding.node: finding.violation for finding in malformed(inputs)}
    return bad | {
        node: reexecute(inputs, node, DEVICE, mined.store).violation
        for node in MINERS
        if node not in bad
    }


@pytest.mark.parametrize(
    "steps", [range(1), range(12, 13), range(13)], ids=["first", "last", "all"]
)
def test_not_one_pass_of_27_can_be_left_out(tmp_path: Path, steps: range) -> None:
    """Nor can its neighbours be blamed for it. After an early step its codes are others; a late one
    moves its update by more than the tolerance."""
    found = verdicts(tmp_path, steps)
    assert found == dict.fromkeys(MINERS) | {FIRST: Violation.INVALID}


def test_who_leaves_none_out_passes(tmp_path: Path) -> None:
    assert verdicts(tmp_path, range(0)) == dict.fromkeys(MINERS)


def test_in_bf16_without_a_list_of_classes__the_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="in bf16 three of 27"):
        verdicts(tmp_path, range(10, 13), **BF16)


@pytest.mark.parametrize("stated", [OTHER_CLASS, OWN_CLASS], ids=["unlisted", "listed"])
def test_in_bf16_with_the_verifiers_class_alone_none_can(tmp_path: Path, stated: str) -> None:
    """Who states another class than those of the list is INVALID for that, and who states a listed
    one is compared to the bit."""
    found = verdicts(tmp_path, range(12, 13), stated, **BF16, classes=[OWN_CLASS])
    assert found == dict.fromkeys(MINERS) | {FIRST: Violation.INVALID}


def test_where_no_verifier_runs_a_listed_class__some_of_the_last_can(tmp_path: Path) -> None:
    """There honest miners of two classes differ by as much. Thirteen are found."""
    listed = {**BF16, "classes": [OTHER_CLASS, OWN_CLASS]}
    assert verdicts(tmp_path / "three", range(10, 13), **listed) == dict.fromkeys(MINERS)
    assert verdicts(tmp_path / "thirteen", range(13), **listed)[FIRST] is Violation.INVALID
