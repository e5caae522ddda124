# SPDX-License-Identifier: Apache-2.0
"""The work that a job's spec asks of a node, by its role; what keeps a trainer away from a job."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.jobs import offers as module
from agents.jobs.at_stake import AtStake
from agents.jobs.choice import Offer
from agents.jobs.job import JobContext
from agents.jobs.offers import Offers
from agents.jobs.publish import Terms
from agents.jobs.workload import training, verifying
from agents.protocol.numbers import ZOO, Role
from agents.protocol.slashing import DEFAULTS
from agents.runtime.config import AgentSettings
from agents.runtime.logs import open_log
from agents.training.determinism import determinism_class
from tests.stage.memory.honest_round import DEVICE, HonestRound

NODES = 3
OFFER = Offer(1, 1_000 * ZOO, NODES, 300)
STAKES = (100 * ZOO, 100 * ZOO, 200 * ZOO, 900 * ZOO)


class Registry:
    """What is asked of the chain about trainers, and how often."""

    def __init__(self) -> None:
        self.asked = 0
        self.chain = Stub(call=self.call, head=lambda: Stub(number=1))
        self.registry = None

    def call(self, *_: Any) -> list[int]:
        self.asked += 1
        return [1, 2, 3, 4]

    def stakes_at(self, nodes: list[int], _: int) -> dict[int, int]:
        return dict(zip(nodes, STAKES, strict=True))

    def penalties(self) -> Any:
        return DEFAULTS


def made(role: Role, job: JobContext, network: Any, folder: Path) -> Offers:
    settings = AgentSettings.model_construct(device=DEVICE)
    log = open_log("test", path=folder / "log")
    return Offers(network, settings, log, role, lambda _: job)


def listed(done: int = 0, **terms: Any) -> Any:
    """A job on chain after so many rounds."""
    fields = Stub(spec=b"\1" * 32, **vars(Terms.brief(max_nodes=4, **terms)))
    return Stub(terms=fields, rounds_done=done)


@pytest.mark.parametrize("role", [Role.TRAINER, Role.AGGREGATOR])
def test_the_rounds_training_is_what_trainers_share(
    tiny: HonestRound, tmp_path: Path, role: Role
) -> None:
    network = Registry()
    found = made(role, tiny.job, network, tmp_path)._with_spec(OFFER, listed())
    assert found.flop == training(tiny.job) and network.asked == 0


def test_a_verifier_s_work_is_what_it_does_again(tiny: HonestRound, tmp_path: Path) -> None:
    """By the job's terms, the trainers' stakes, and the pay that is retained by now."""
    offers = made(Role.VERIFIER, tiny.job, Registry(), tmp_path)
    sample = tiny.job.spec.audit_sample
    flops = []
    for done, retained in ((0, 0), (2, 2), (9, 4)):
        job = listed(done, retain_rounds=4)
        found = AtStake(STAKES, DEFAULTS).checking(job.terms, sample, retained)
        flops.append(offers._with_spec(OFFER, job).flop)
        assert flops[-1] / NODES == pytest.approx(verifying(tiny.job, found))
    assert flops[0] > flops[1] > flops[2] > 0


def test_stakes_are_read_once_for_all_jobs_until_they_are_old(
    tiny: HonestRound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Registry()
    offers = made(Role.VERIFIER, tiny.job, network, tmp_path)
    for _ in range(5):
        offers._with_spec(OFFER, listed())
    assert network.asked == 1
    monkeypatch.setattr(module, "_STAKES_S", 0.0)
    offers._with_spec(OFFER, listed())
    assert network.asked == 2


def test_a_trainer_leaves_a_job_that_does_not_list_its_class(
    tiny: HonestRound, tmp_path: Path
) -> None:
    """A verifier stays: it may still judge by the tolerances."""

    def refused(role: Role, *classes: str) -> str | None:
        spec = tiny.job.spec.model_copy(update={"classes": classes})
        job = JobContext(spec, tiny.store)
        return made(role, job, Registry(), tmp_path)._with_spec(OFFER, listed()).refused

    assert refused(Role.TRAINER) is None
    assert refused(Role.TRAINER, determinism_class(DEVICE)) is None
    why = refused(Role.TRAINER, "torch=0;device=abacus")
    assert why is not None and "takes work of the determinism classes" in why
    assert refused(Role.VERIFIER, "torch=0;device=abacus") is None
