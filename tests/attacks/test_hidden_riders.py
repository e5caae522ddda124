# SPDX-License-Identifier: Apache-2.0
"""Attack 19 under noise: eve trains nothing and sends noise alone where work is done again.

Rule: a verifier that does not know a node's noise asks whether the payload may be the update with
noise on it. Noise alone may be, unless it is much shorter than the update. Being drawn then costs
nothing, so no draw deters it: agents leave such a job.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from agents.jobs.hidden_riders import riders_hidden
from agents.jobs.riders import riders_paid
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.privacy.parts import noise
from agents.protocol.numbers import Violation
from agents.runtime.config import TrainerSettings
from agents.storage.embedded import EmbeddedStore
from agents.verify.spot_checks import Finding, reexecute
from tests.stage.memory.honest_round import DEVICE, NODES, HonestRound, make_honest_round

EVE = NODES[0]
CLIP = 0.1  # every honest update of the tiny job is longer
SEMANTIC = {"codec": "semantic", "codec_options": {"dimension": 1024}}


def round_of(folder: Path, multiplier: float, **fields: Any) -> HonestRound:
    options = {"clip": CLIP, "noise_multiplier": multiplier, "max_epsilon": 1e6}
    job = {"privacy": "gaussian", "privacy_options": options, "merge": "mean", "score": "batches"}
    return make_honest_round(EmbeddedStore(folder / "store"), **job, **fields)


def ride(made: HonestRound) -> tuple[Finding, dict[int, int]]:
    """What a verifier that has drawn eve finds, and what everybody is paid by."""
    nothing = {name: torch.zeros(shape) for name, shape in made.job.shapes.items()}
    privacy = made.job.privacy
    assert isinstance(privacy, Gaussian)
    sent = [made.submit(EVE, noise.add(nothing, privacy.sigma, None))]
    sent += [made.submit(node) for node in NODES[1:]]
    found = reexecute(made.inputs(sent), EVE, DEVICE, made.store)
    return found, made.compute(sent).paid()


@pytest.mark.parametrize("fields", [{}, SEMANTIC], ids=["dense", "semantic"])
@pytest.mark.parametrize("multiplier", [4.0, 0.5])
def test_noise_alone_is_right_work_and_paid__trainers_leave_the_job(
    tmp_path: Path, multiplier: float, fields: dict[str, Any]
) -> None:
    made = round_of(tmp_path, multiplier, **fields)
    found, paid = ride(made)
    assert found.violation is None, "drawn, and nothing is found"
    batches = made.plan.manifest.of(EVE)
    assert batches is not None
    assert paid[EVE] == 1_000_000 * batches.batches, "as much as honest work is paid"
    assert riders_paid(made.job.spec, TrainerSettings()) is None, "its work is done again"
    why = riders_hidden(made.job, TrainerSettings())
    assert why is not None and "0.0% are found" in why
    assert riders_hidden(made.job, TrainerSettings(accept_riders=True)) is None


def test_noise_that_is_much_shorter_than_the_update__finds_the_rider(tmp_path: Path) -> None:
    made = round_of(tmp_path, 0.02)
    assert ride(made)[0].violation == Violation.INVALID
    assert riders_hidden(made.job, TrainerSettings()) is None


def test_a_codec_that_projects_shortens_the_update_and_not_the_noise(tmp_path: Path) -> None:
    """1,024 of 6,064 numbers keep 0.41 of its length."""
    made = round_of(tmp_path, 0.02, **SEMANTIC)
    assert riders_hidden(made.job, TrainerSettings()) is not None


def test_without_noise__nothing_is_hidden(tmp_path: Path) -> None:
    made = make_honest_round(EmbeddedStore(tmp_path / "store"))
    assert riders_hidden(made.job, TrainerSettings()) is None
