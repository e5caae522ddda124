# SPDX-License-Identifier: Apache-2.0
"""The work that a job's spec asks of a node, by its role; what keeps a node away from a job."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.jobs import at_stake as module
from agents.jobs import judgeable
from agents.jobs.at_stake import AtStake
from agents.jobs.choice import Offer
from agents.jobs.job import JobContext
from agents.jobs.offers import Offers
from agents.jobs.publish import Terms
from agents.jobs.riders import riders_paid
from agents.jobs.workload import training, verifying
from agents.mechanisms import verify
from agents.protocol.numbers import BPS, ZOO, JobStatus, Role, Violation
from agents.protocol.slashing import DEFAULTS, Row
from agents.protocol.structs import Bounds
from agents.runtime.chain import Head
from agents.runtime.config import AgentSettings, TrainerSettings
from agents.runtime.errors import RpcDown
from agents.runtime.logs import open_log
from agents.storage.errors import NotFound, StoreUnavailable
from agents.training.determinism import determinism_class
from agents.training.spec import JobSpec, SpecError
from tests.stage.memory.honest_round import DEVICE, HonestRound
from tests.stage.memory.tiny_specs import EIGHTH

NODES = 3
GAUNTLET = {
    "verify": "gauntlet",
    "score": "gauntlet",
    "score_options": {"eval_batches": 1},
    "codec": "demo",
    "codec_options": EIGHTH,
    "merge": "demo_sign",
    "optimizer": {"batch_size": 2, "seq_len": 16, "inner": "gradient"},
}
OFFER = Offer(1, 1_000 * ZOO, NODES, 300)
STAKES = (100 * ZOO, 100 * ZOO, 200 * ZOO, 900 * ZOO)


class Registry:
    """What is asked of the chain about trainers, and how often. `table`: the slashing table.
    `scored`: jobs that adopted ScoreConsensus."""

    def __init__(self, table: Mapping[int, Row] = DEFAULTS, scored: Collection[int] = ()) -> None:
        self.table = table
        self.scored = scored
        self.asked = 0
        self.chain = Stub(call=self.call, head=lambda: Stub(number=1))
        self.registry = None

    def call(self, *_: Any) -> list[int]:
        self.asked += 1
        return [1, 2, 3, 4]

    def stakes_at(self, nodes: list[int], _: int) -> dict[int, int]:
        return dict(zip(nodes, STAKES, strict=True))

    def penalties(self) -> Any:
        return self.table

    def is_scored(self, job_id: int) -> bool:
        return job_id in self.scored


def made(role: Role, job: JobContext, network: Any, folder: Path, **trainer: Any) -> Offers:
    settings = AgentSettings.model_construct(device=DEVICE, trainer=TrainerSettings(**trainer))
    log = open_log("test", path=folder / "log")
    return Offers(network, settings, log, role, lambda _: job, lambda _: None)


def stub_of(jobs: dict[int, Any]) -> Any:
    """Live jobs without a round that are all asked about."""
    return Stub(jobs=jobs, ending=(), ask=lambda _: list(jobs), rounds=lambda *_: ((), None))


def listed(done: int = 0, **terms: Any) -> Any:
    """A job on chain after so many rounds."""
    fields = Stub(spec=b"\1" * 32, **vars(Terms.brief(max_nodes=4, **terms)))
    return Stub(terms=fields, rounds_done=done)


@pytest.mark.parametrize("role", [Role.TRAINER, Role.AGGREGATOR])
def test_the_rounds_training_is_what_trainers_share(
    tiny: HonestRound, tmp_path: Path, role: Role
) -> None:
    """Whoever asks: of its own role there may be more or fewer. In a gauntlet each of the four that
    have a seat is assigned no more than is measured."""
    measured = JobSpec.from_dict({**tiny.job.spec.model_dump(mode="json"), **GAUNTLET})
    for job in (tiny.job, JobContext(measured, tiny.store)):
        found = made(role, job, Registry(), tmp_path)._with_spec(OFFER, listed())
        assert found.refused is None and found.flop == training(job, len(STAKES))
    assert training(job, len(STAKES)) < training(tiny.job, len(STAKES))


@pytest.mark.parametrize("role", [Role.TRAINER, Role.VERIFIER, Role.AGGREGATOR])
def test_nobody_works_where_scores_that_no_rule_gives_may_pay(
    tiny: HonestRound, tmp_path: Path, role: Role
) -> None:
    """A sponsor adopts ScoreConsensus for a job that is paid by shares. With half of the verifiers'
    weight its friends reveal scores, and these give all of the pay to one of them."""
    scored = Registry(scored={OFFER.job_id})
    found = made(role, tiny.job, scored, tmp_path)._with_spec(OFFER, listed())
    assert "can reveal any scores" in str(found.refused)
    measured = JobSpec.from_dict({**tiny.job.spec.model_dump(mode="json"), **GAUNTLET})
    job = JobContext(measured, tiny.store)
    assert made(role, job, scored, tmp_path)._with_spec(OFFER, listed()).refused is None


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


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (SpecError("data: too little"), "data: too little"),
        (ZeroDivisionError("no batches"), "ZeroDivisionError: no batches"),
        (MemoryError("of a stranger's model"), "MemoryError: of a stranger's model"),
    ],
)
def test_whatever_comes_of_a_spec_refuses_its_job_alone(
    tiny: HonestRound, tmp_path: Path, error: Exception, why: str
) -> None:
    """One that came through ended the look at all jobs, at each step of the node."""
    offers = made(Role.VERIFIER, tiny.job, Registry(), tmp_path)

    def read(_: int) -> JobContext:
        raise error

    offers._job_of = read
    assert offers._with_spec(OFFER, listed()).refused == f"its spec can't be used: {why}"


@pytest.mark.parametrize("error", [StoreUnavailable("it is down"), RpcDown("it is down")])
def test_an_outage_refuses_no_job(tiny: HonestRound, tmp_path: Path, error: Exception) -> None:
    offers = made(Role.VERIFIER, tiny.job, Registry(), tmp_path)

    def read(_: int) -> JobContext:
        raise error

    offers._job_of = read
    with pytest.raises(type(error)):
        offers._with_spec(OFFER, listed())


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


INVALID = DEFAULTS[Violation.INVALID]
TAKE_NOTHING = (replace(INVALID, bps=0), replace(INVALID, reporter_bps=BPS))
WHY = (
    "its terms don't deter cheats: a finding of INVALID takes nothing for good from some trainers' "
    "stakes, so they lose nothing by a lie"
)


@pytest.mark.parametrize("row", TAKE_NOTHING, ids=["no slash", "all for the finder"])
@pytest.mark.parametrize("role", [Role.TRAINER, Role.VERIFIER, Role.AGGREGATOR])
def test_nobody_works_where_a_lie_costs_nothing(
    tiny: HonestRound, tmp_path: Path, role: Role, row: Row
) -> None:
    """Pay that the job has retained by now changes nothing: a newcomer has none."""
    network = Registry({**DEFAULTS, Violation.INVALID: row})
    offers = made(role, tiny.job, network, tmp_path)
    for job in (listed(), listed(9, retain_rounds=4)):
        assert offers._with_spec(OFFER, job).refused == WHY


@pytest.mark.parametrize("sample", [0, 1, 8])
@pytest.mark.parametrize("reward", [ZOO, 100 * ZOO, 10**6 * ZOO])
def test_with_a_slash_a_lie_costs_something_at_any_sample_and_reward(
    tiny: HonestRound, tmp_path: Path, sample: int, reward: int
) -> None:
    """The draw makes up for both (docs/deterrence.md)."""
    spec = tiny.job.spec.model_copy(update={"audit_sample": sample})
    offers = made(Role.VERIFIER, JobContext(spec, tiny.store), Registry(), tmp_path)
    found = offers._with_spec(OFFER, listed(reward_per_round=reward))
    assert found.refused is None and found.flop > 0


@pytest.mark.parametrize("role", [Role.TRAINER, Role.VERIFIER, Role.AGGREGATOR])
def test_nobody_works_where_no_result_can_be_recomputed_in_time(
    tiny: HonestRound, tmp_path: Path, role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = made(role, tiny.job, Registry(), tmp_path)
    monkeypatch.setattr(judgeable, "USUAL_SPEED", 1.0)
    why = offers._with_spec(OFFER, listed()).refused
    assert why is not None and why.startswith("a result with max_nodes 4 takes a committee member")


SCREENED = {"access": "local", "verify": "screening"}


def screened(tiny: HonestRound, role: Role, folder: Path, **settings: Any) -> str | None:
    """Why a node refuses a job in which no work is done again. `settings`: the trainer's."""
    job = JobContext(tiny.job.spec.model_copy(update=SCREENED), tiny.store)
    own = {"local_data": folder, "accept_no_privacy": True}
    offers = made(role, job, Registry({}), folder, **{**own, **settings})
    return offers._with_spec(OFFER, listed()).refused


def test_where_nothing_is_done_again_no_slash_is_asked_for(
    tiny: HonestRound, tmp_path: Path
) -> None:
    assert screened(tiny, Role.TRAINER, tmp_path, accept_riders=True) is None


def test_a_trainer_shows_its_own_data_to_nobody_who_hides_nothing_of_it(
    tiny: HonestRound, tmp_path: Path
) -> None:
    """Whatever the job pays. Verifiers and aggregators have no data of their own."""
    asked = {"accept_riders": True, "accept_no_privacy": False}
    why = screened(tiny, Role.TRAINER, tmp_path, **asked)
    assert why is not None and "it hides nothing of it" in why
    assert screened(tiny, Role.VERIFIER, tmp_path, **asked) is None
    assert screened(tiny, Role.AGGREGATOR, tmp_path, **asked) is None


def test_a_trainer_leaves_a_job_that_pays_riders_until_its_operator_accepts_them(
    tiny: HonestRound, tmp_path: Path
) -> None:
    """Verifiers and aggregators serve it: they are paid the same whoever rides."""
    assert screened(tiny, Role.TRAINER, tmp_path) == (
        "nobody does its work again, so who trains nothing earns up to 1.26 of an honest node's "
        "pay (1.4 by score shares), and up to 5.4 of it under noise like DP's; set "
        "trainer.accept_riders: true to train in it all the same"
    )
    assert screened(tiny, Role.VERIFIER, tmp_path) is None
    assert screened(tiny, Role.AGGREGATOR, tmp_path) is None


@pytest.mark.parametrize("name", verify.names())
def test_riders_are_paid_where_neither_verifiers_nor_validators_look_at_work(
    tiny: HonestRound, name: str
) -> None:
    spec = tiny.job.spec.model_copy(update={"verify": name})
    paid = riders_paid(spec, TrainerSettings()) is not None
    assert paid == (name == "screening")
    assert riders_paid(spec, TrainerSettings(accept_riders=True)) is None


def test_the_log_says_once_why_a_job_is_refused(
    tiny: HonestRound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says it again after the job has been taken meanwhile."""
    network: Any = Registry({})
    network.bounds = lambda: Bounds(0, 10**30, 0, 0)
    network.node = lambda _: Stub(benchmark_score=0)
    offers = made(Role.TRAINER, tiny.job, network, tmp_path)
    offers._settings = AgentSettings.model_construct(device=DEVICE, max_jobs=1, least_pay=0.0)
    job = listed()
    job.status, job.rounds_opened = JobStatus.ACTIVE, 0
    offers._live = stub_of({1: job})
    monkeypatch.setattr(offers, "_nodes", lambda: NODES)
    monkeypatch.setattr(module, "_STAKES_S", 0.0)

    def taken(number: int, table: Mapping[int, Row]) -> list[int]:
        network.table = table
        head = Head(number, bytes([number]) * 32, bytes(32), 100 + number)
        return [one.job_id for one in offers.rated(head, 1)]

    def said() -> int:
        lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        return sum(line.get("why") == WHY and line["event"] == "job_refused" for line in lines)

    assert taken(1, {}) == taken(2, {}) == [] and offers.reasons == {1: WHY} and said() == 1
    assert taken(3, DEFAULTS) == [1] and offers.reasons == {}
    assert taken(4, {}) == [] and said() == 2


SEARCH = 60.0  # seconds that a distant store searches for what nobody has


class Baits:
    """A job that was read before beside some whose specs nobody has, and a node's looks at them."""

    def __init__(self, tiny: HonestRound, folder: Path, count: int, role: Role) -> None:
        self.now = 1_000.0
        self.absent = set(range(2, 2 + count))
        self.searched: list[int] = []
        self.tiny = tiny
        network: Any = Registry()
        network.bounds = lambda: Bounds(0, 10**30, 0, 0)
        network.node = lambda _: Stub(benchmark_score=0)
        settings = AgentSettings.model_construct(
            device=DEVICE, trainer=TrainerSettings(), max_jobs=8, least_pay=0.0
        )
        log = open_log("test", path=folder / "log")
        read = self.job_of, self.fetch
        offers: Any = Offers(network, settings, log, role, *read, lambda: self.now)
        jobs = {number: listed() for number in range(1, 2 + count)}
        for number, job in jobs.items():
            job.status, job.rounds_opened = JobStatus.ACTIVE, 0
            job.terms.spec = bytes([number]) * 32
        offers._live = stub_of(jobs)
        offers._nodes = lambda: NODES
        self.offers: Offers = offers

    def fetch(self, spec: bytes) -> None:
        if spec[0] in self.absent:
            self.searched.append(spec[0])
            self.now += SEARCH
            raise NotFound("nobody has it")

    def job_of(self, number: int) -> JobContext:
        assert number not in self.absent
        return self.tiny.job

    def look(self, number: int, *keep: int) -> list[int]:
        """The jobs that it may work on. Raises nothing; a search moves the clock."""
        head = Head(number, number.to_bytes(32), bytes(32), 100)
        return [one.job_id for one in self.offers.rated(head, 1, keep)]


@pytest.mark.parametrize("role", [Role.TRAINER, Role.VERIFIER, Role.AGGREGATOR])
def test_a_look_searches_for_one_spec_that_nobody_has(
    tiny: HonestRound, tmp_path: Path, role: Role
) -> None:
    """What was read before is offered all the while."""
    baits = Baits(tiny, tmp_path, 50, role)
    for number in range(1, 60):
        before = baits.now
        assert baits.look(number, 1) == [1]
        assert baits.now - before <= SEARCH
    assert set(baits.searched) == baits.absent


def test_specs_that_nobody_has_take_a_small_part_of_the_time(
    tiny: HonestRound, tmp_path: Path
) -> None:
    baits = Baits(tiny, tmp_path, 11, Role.VERIFIER)
    number = 0
    # Each is searched for ten times by then, and waits for as long as it ever will after four.
    while baits.now < 50_000:
        number += 1
        baits.look(number, 1)
        baits.now += 12
    made, began = len(baits.searched), baits.now
    while baits.now < began + 100_000:
        number += 1
        baits.look(number, 1)
        baits.now += 12
    assert (len(baits.searched) - made) * SEARCH < (baits.now - began) / 6


def test_a_job_that_took_long_to_read_and_is_refused_is_not_read_at_each_look(
    tiny: HonestRound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one with a large manifest that is not fit for the node."""
    baits = Baits(tiny, tmp_path, 11, Role.TRAINER)
    reads: list[int] = []

    def job_of(number: int) -> JobContext:
        if number != 1:
            reads.append(number)
            baits.now += 1.0
        return tiny.job if number == 1 else other

    other = JobContext(tiny.job.spec.model_copy(update=SCREENED), tiny.store)
    there = set(baits.absent)
    baits.absent.clear()
    monkeypatch.setattr(baits.offers, "_job_of", job_of)
    for number in range(1, 20):
        assert baits.look(number, 1) == [1]
        assert len(reads) <= number
    assert set(reads) == there


@pytest.mark.parametrize("role", [Role.TRAINER, Role.VERIFIER, Role.AGGREGATOR])
def test_a_spec_that_comes_slowly_holds_up_nobody(
    tiny: HonestRound, tmp_path: Path, role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files have 16 MiB each, and are served at 64 KiB a second. What was read before is
    offered all the while, and so is what comes at once."""
    baits, comes = Baits(tiny, tmp_path, 3, role), threading.Event()
    baits.absent.clear()
    monkeypatch.setattr(baits.offers, "_fetch", lambda spec: spec[0] in (2, 3) and comes.wait(60))
    looks = [sorted(baits.look(number, 1)) for number in range(1, 6)]
    assert looks[-1] == [1, 4] and not comes.is_set()
    assert baits.offers.reasons[2] == baits.offers.reasons[3]
    assert "is still coming" in baits.offers.reasons[2]
    comes.set()
    for number in range(6, 600):
        if len(baits.look(number, 1)) == 4:
            return
        time.sleep(0.05)
    raise AssertionError("what has come is not read")


def test_a_spec_that_comes_late_is_read(tiny: HonestRound, tmp_path: Path) -> None:
    baits = Baits(tiny, tmp_path, 1, Role.TRAINER)
    assert baits.look(1) == [1]
    baits.absent.clear()
    assert baits.look(2) == [1] and len(baits.searched) == 1
    baits.now += SEARCH
    assert sorted(baits.look(3)) == [1, 2]
