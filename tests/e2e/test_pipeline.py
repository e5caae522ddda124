# SPDX-License-Identifier: Apache-2.0
"""A model in two stages that five nodes train: miners die at work, one for good, and two cheat.

The first keeps no activations and does its blocks again (`recompute`). The fourth takes no
connections, and collects its letters at the posts of the others. Stages are merged by a butterfly,
with momentum, every second round is a full synchronisation, and paths are drawn by what the rounds
before showed of miners.

One network, in this order: two miners are killed at the worst moments and go on; one is killed and
stays away; one that never worked and one that misstated its shards are found and slashed, where one
step of a drawn miner is done again. A stranger's audit does the first and the last jobs again.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from agents.audit.replay import audit_job
from agents.mechanisms.score.backward_passes import PPM
from agents.models.pull import pull
from agents.models.text import Reader
from agents.pipeline.butterfly import valid_fraction, valid_shards
from agents.pipeline.pace import FULL, START
from agents.protocol.numbers import Phase, Violation
from agents.rounds.models import Models
from agents.rounds.plan import Plans
from agents.storage.canonical import loads
from agents.tasks.compute.classes import CPU_CLASS
from scripts._net.localnet import LocalnetSettings
from scripts._report.history import History
from scripts._report.verdict import check_attested, check_cheats
from tests.e2e.conftest import AGENT_ROLES, AGENTS, SHORT_BENCHMARK
from tests.stage.memory.tiny_specs import tiny_model
from tests.stage.network import TERMS, LocalNetwork

STAGES, SAMPLES = 2, 12
SPEC: dict[str, Any] = {
    "mode": "pipeline",
    "score": "backward_passes",
    "score_options": {"gamma": 2},
    "merge": "mean",
    "batches_per_round": SAMPLES,
    "classes": [CPU_CLASS],
    "model": {**tiny_model(16, 32, 16, layers=STAGES), "tie_embeddings": False},
    "pipeline": {
        "layers": [1] * STAGES,
        "boundary_options": {"width": 4, "code": "fp6", "gradient": "fp4"},
        "local_batch": 2,
        "outer": {"rate": 0.7, "momentum": 0.9},
        "all_reduce": "butterfly",
        "least_valid": 0.3,
        "sharing": {"full_every": 2, "codec": "sparse", "codec_options": {"per_chunk": 256}},
        "paths": "measured",
    },
}
# One step of a drawn miner is done again. Miners owe nothing in such a job.
CUT: dict[str, Any] = {
    **SPEC,
    "pipeline": {
        **{name: value for name, value in SPEC["pipeline"].items() if name != "sharing"},
        "segment": 1,
    },
}
# A killed miner is waited for: on a busy machine it is half a minute until it is back, and one that
# came back to an epoch that is over would have no passes.
TIMES = {**SHORT_BENCHMARK, "answer_s": 3.0, "linger_s": 40.0, "gather_s": 30.0}
SETTINGS = LocalnetSettings(
    trainers=5,
    verifiers=2,
    aggregators=1,
    agent={**AGENTS, "trainer": TIMES},
    trainer={"trainer-1": {"recompute": False}, "trainer-4": {"post_listen": False}},
)
MINERS = tuple(f"trainer-{number}" for number in range(1, 6))
MEMBERS = tuple(f"coordinator-{number}" for number in range(1, SETTINGS.threshold + 1))
MINER_POINTS = (
    *("miner-entry-written", "miner-entry-executed", "trainer-before-journal"),
    *("trainer-before-commit", "trainer-after-commit"),
    *("trainer-before-reveal", "trainer-after-reveal", "trainer-before-shards"),
)
DYING = {
    ("trainer-1",): MINER_POINTS,
    MINERS: MINER_POINTS,
    ("aggregator-1",): ("aggregator-before-propose", "aggregator-after-propose"),
    ("verifier-1", "verifier-2"): (
        "verifier-auditing",
        "verifier-before-attest",
        "verifier-after-attest",
    ),
}
KILLED_IN = (Phase.COMMIT, Phase.REVEAL, Phase.AGGREGATE, Phase.CHALLENGE)


@pytest.fixture(scope="module")
def network(build: Callable[[LocalnetSettings], LocalNetwork]) -> LocalNetwork:
    local = build(SETTINGS)
    local.start(*local.names(*AGENT_ROLES))
    local.wait_eligible(local.names(*AGENT_ROLES))
    return local


@pytest.fixture
def pipeline(network: LocalNetwork) -> LocalNetwork:
    """All agents honest and running."""
    network.settle(*network.names(*AGENT_ROLES))
    return network


@pytest.fixture
def members(pipeline: LocalNetwork) -> Iterator[tuple[str, ...]]:
    """As many of the committee as it needs, at work in this test alone."""
    pipeline.start(*MEMBERS)
    yield MEMBERS
    pipeline.stop(*MEMBERS)


def wait_attested(pipeline: LocalNetwork, job: int) -> None:
    """Wait until the members have recomputed the job's model and attested it."""
    network, models = pipeline.network, Models(pipeline.network, pipeline.store)
    pipeline.until(lambda: check_attested(network, models, job).holds, "the model is attested")


def records(pipeline: LocalNetwork, history: History) -> list[dict[str, Any]]:
    """What each stage's butterfly came to, in every round."""
    reports = [story.report for story in history.rounds.values() if story.report is not None]
    raw = [pipeline.store.get(report.shards, 1 << 20) for report in reports if report.shards]
    assert len(raw) == len(reports), "each round's report should name a record of shards"
    return [line for one in raw for line in loads(one)["stages"]]


def assert_replays(pipeline: LocalNetwork, job: int) -> None:
    """A stranger does everything again, each miner's epochs too, and finds no difference."""
    found = audit_job(pipeline.network, pipeline.store, job, deep=True)
    assert [str(difference) for difference in found.differences] == [] and found.holds


def assert_measured(pipeline: LocalNetwork, job: int, history: History, slow: str) -> None:
    """The second round's paths follow from what the first one's report says, and not from the seed
    alone. That all posts agreed on them shows in that its samples count.

    One of a stage's three is slow, if the seed has put it there: it is drawn less than a miner that
    is as fast as is usual and fails nobody. Its mates may have failed somebody: two miners are
    killed at work, and all beside a break answer for it. In a stage of two pace tells nobody
    apart."""
    (_, first), (number, _) = sorted(history.rounds.items())
    assert first.report is not None and first.report.weights is not None
    plans = Plans(pipeline.network, Models(pipeline.network, pipeline.store))
    epoch = plans.past(job, number).epoch
    assert epoch is not None and list(epoch.weights) == first.report.weights
    print(f"weights after a round: {dict(epoch.weights)}")
    weights, node = dict(epoch.weights), pipeline.node_id(slow)
    (mates,) = ({*stage} - {node} for stage in epoch.stages if node in stage)
    if len(mates) == 2:
        assert weights[node] < (3 * START + FULL) // 4
        alike = replace(epoch, weights=())
        assert any(alike.route(sample) != epoch.route(sample) for sample in epoch.samples)


def passes(history: History) -> list[int]:
    """Those that count, by node, of every round."""
    reports = [story.report for story in history.rounds.values()]
    return [line.batches for report in reports if report is not None for line in report.nodes]


def test_miners_that_are_killed_at_work_go_on_and_every_pass_counts(
    pipeline: LocalNetwork, tmp_path: Path
) -> None:
    """One dies when an entry is on its disk, another when it is executed and not sent. A third one
    is slow.

    The model that comes of it is put together from its stages, and writes.
    """
    slow = "trainer-3"
    pipeline.stop(slow)
    pipeline.start(slow, program=("tests.e2e.dishonest", "trainer", "tests.e2e.slow_miner"))
    pipeline.arm({"miner-entry-written": ("trainer-1",), "miner-entry-executed": ("trainer-2",)})
    job = pipeline.job(rounds=2, **SPEC)
    history = pipeline.finish(job)
    pipeline.stop(slow)
    assert {"trainer-1", "trainer-2"} <= set(pipeline.crashed)
    pipeline.assert_whole(job)
    for merge in records(pipeline, history):
        assert merge["accepted"] and not merge["lost"] and not merge["liars"]
        assert len(merge["statements"]) == len(merge["owners"])
    assert_replays(pipeline, job)
    assert_measured(pipeline, job, history, slow)
    assert sum(passes(history)) > 2 * STAGES * SAMPLES * 0.5, "what was passed by counts for nobody"
    first, second = (
        {line.node: line for line in story.report.nodes}
        for story in history.rounds.values()
        if story.report is not None
    )
    for node, line in second.items():
        paid = line.batches + first[node].batches
        assert line.contribution == paid * PPM, "a pass should be paid in two rounds"
    folder = pull(pipeline.network, pipeline.store, job, tmp_path / "model").folder
    assert folder.provenance.model == pipeline.network.job(job).model.hex()
    assert folder.provenance.rounds == 2 and folder.provenance.contributors
    assert "".join(Reader(folder, "cpu").write("the ", 8, temperature=1.0))


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("names", "point"), [(names, point) for names, points in DYING.items() for point in points]
)
def test_whoever_dies_at_any_point_comes_back(
    pipeline: LocalNetwork, names: tuple[str, ...], point: str
) -> None:
    """All that are named die there, at the same time or one after the other."""
    pipeline.arm({point: names})
    job = pipeline.job(**SPEC)
    pipeline.finish(job)
    pipeline.until(lambda: bool(set(names) & set(pipeline.crashed)), f"somebody died at {point}")
    pipeline.assert_whole(job)


def test_those_at_work_are_killed_in_every_phase(pipeline: LocalNetwork) -> None:
    """From outside, wherever they are: owners and the proposer while shards are merged, too.

    Miners publish their states, and what they wrote before they were killed is the same after it.
    """
    job = pipeline.job(**CUT)
    plan = {
        Phase.COMMIT: MINERS[:1],
        Phase.REVEAL: MINERS[1:3],
        Phase.AGGREGATE: (*MINERS[3:], "aggregator-1"),
        Phase.CHALLENGE: ("verifier-1", "verifier-2"),
    }
    pipeline.kill_in(job, plan)
    pipeline.finish(job)
    pipeline.assert_whole(job)


def test_what_counts_for_nobody_is_the_treasurys(pipeline: LocalNetwork) -> None:
    """Five miners at two stages, and `multi_krum` merges three and not two. The passes of the stage
    of two are paid all the same, in each of the two rounds in which a pass is paid.

    One miner has worked when it dies, and is away until the time to commit is over. Its passes
    count for nobody, and neither they nor others that don't count, as are seen on a busy machine,
    are paid to the others. Had it committed, it would be slashed, and it sits in later tests too.
    """
    alone = {name: SPEC["pipeline"][name] for name in ("layers", "boundary_options", "local_batch")}
    # So many that each of three is drawn for several: one without a pass that counts is not merged.
    samples = 2 * SAMPLES
    spec = {**SPEC, "merge": "multi_krum", "pipeline": alone, "batches_per_round": samples}
    pool = pipeline.net.contract("RewardPool")
    treasury = pipeline.net.contract("NodeRegistry").functions.parameters().call()[-1]
    before = int(pool.functions.pending(treasury).call())
    away = MINERS[0]
    pipeline.arm({"trainer-before-commit": (away,)})
    job = pipeline.job(rounds=3, terms=replace(TERMS, commit_s=90), **spec)
    pipeline.until(lambda: away in pipeline.crashed, f"{away} has worked and died")
    pipeline.stop(away)
    pipeline.until(lambda: pipeline.phase(job) > Phase.COMMIT, "the others go on without it")
    pipeline.start(away)
    history = pipeline.finish(job)
    first = history.rounds[1].report
    assert first is not None and pipeline.node_id(away) not in [line.node for line in first.nodes]
    due, both = 0, 0
    for number, story in history.rounds.items():
        assert story.report is not None
        paid = sum(line.contribution for line in story.report.nodes)
        handed_out = min(number, SPEC["score_options"]["gamma"]) * STAGES * samples * PPM
        assert paid <= handed_out
        both += paid > handed_out // STAGES
        fields = [
            part["name"]
            for part in pool.get_function_by_name("pool").abi["outputs"][0]["components"]
        ]
        found = dict(zip(fields, pool.functions.pool(job, number).call(), strict=True))
        assert found["total_contribution"] == handed_out
        due += found["trainer_amount"] * (handed_out - paid) // handed_out
    assert both, "in no round was more than one stage paid"
    assert history.unclaimed == due > 0
    assert int(pool.functions.pending(treasury).call()) - before == due
    assert [check.sentence for check in pipeline.books(job) if not check.holds] == []
    assert_replays(pipeline, job)


def test_valid_shards_are_the_formulas_where_owners_are_killed_for_good(
    pipeline: LocalNetwork,
) -> None:
    """Three of five miners, so two at least of one stage, die with their shards merged and unsaid.

    Nobody is slashed, all are paid, and a stranger's audit agrees.
    """
    dead = MINERS[:3]
    pipeline.arm({"trainer-before-shards": dead})
    job = pipeline.job(**SPEC)

    def stay_dead() -> None:
        for name in dead:
            if name in pipeline.crashed and name not in gone:
                pipeline.stop(name)
                gone.append(name)

    gone: list[str] = []
    history = pipeline.finish(job, stay_dead)
    assert sorted(gone) == list(dead)
    pipeline.assert_whole(job)
    lines, killed = records(pipeline, history), 0
    for merge in lines:
        miners, lost = len(merge["owners"]), len(merge["lost"])
        away = miners - len(merge["statements"])
        pairs = miners * (miners - 1) // 2
        print(f"{miners} owners, {away} killed: {pairs - lost} of {pairs} shards are valid")
        assert pairs - lost == valid_shards(miners, away)
        assert Fraction(pairs - lost, pairs) == valid_fraction(miners, away)
        assert merge["accepted"] == (valid_fraction(miners, away) >= Fraction("0.3"))
        killed += away
    assert killed == len(dead) and any(merge["lost"] for merge in lines)
    assert_replays(pipeline, job)


def gas(pipeline: LocalNetwork, job: int) -> list[int]:
    """What each trainer's transactions used between a job's first round and its last block."""
    head = pipeline.network.chain.head().number
    ask = pipeline.network.chain.request
    senders = {seat.operator.address.lower(): 0 for seat in pipeline.net.of_role("trainer")}
    for number in range(int(pipeline.round(job).opened_block), head + 1):
        for sent in ask("eth_getBlockByNumber", hex(number), True)["transactions"]:
            if sent["from"].lower() in senders:
                receipt = ask("eth_getTransactionReceipt", sent["hash"])
                senders[sent["from"].lower()] += int(receipt["gasUsed"], 16)
    return list(senders.values())


def test_a_miners_epoch_costs_the_gas_of_any_nodes_round_whatever_its_samples(
    pipeline: LocalNetwork,
) -> None:
    kinds = {
        "few samples": SPEC,
        "many samples": {**SPEC, "batches_per_round": 4 * SAMPLES},
        "data parallel": {},
    }
    used = {}
    for kind, spec in kinds.items():  # one after the other, so that no job pays for another
        job = pipeline.job(**spec)
        pipeline.finish(job)
        pipeline.assert_whole(job)
        used[kind] = gas(pipeline, job)
    print(f"gas of each trainer: {used}")
    # Who comes first or last in a block pays more or less for the same call; all together do not.
    few, many, other = (statistics.mean(used[kind]) for kind in kinds)
    assert abs(many - few) <= 0.01 * few, used
    assert abs(few - other) <= 0.2 * other, used


@pytest.mark.chaos
@pytest.mark.parametrize("phase", KILLED_IN)
@pytest.mark.parametrize("roles", [*([role] for role in AGENT_ROLES), AGENT_ROLES], ids="+".join)
def test_whole_roles_are_killed_in(pipeline: LocalNetwork, roles: list[str], phase: Phase) -> None:
    job = pipeline.job(**SPEC)
    pipeline.kill_in(job, {phase: tuple(pipeline.names(*roles))})
    pipeline.finish(job)
    pipeline.assert_whole(job)


@pytest.mark.chaos
def test_members_are_killed_in_every_phase(
    pipeline: LocalNetwork, members: tuple[str, ...]
) -> None:
    """None can be spared: whoever stayed away would keep the model from being attested."""
    job = pipeline.job(**SPEC)
    pipeline.kill_in(job, dict.fromkeys(KILLED_IN, members))
    pipeline.finish(job)
    pipeline.assert_whole(job)
    wait_attested(pipeline, job)


def test_others_do_the_samples_of_a_miner_that_is_gone(pipeline: LocalNetwork) -> None:
    """It has committed to nothing, so it loses nothing; its round is merged without it.

    If most samples were drawn for it, the few others may all go to one miner of its next stage. The
    other two commit to empty logs.
    """
    pipeline.stop("trainer-3")
    job = pipeline.job(**SPEC)

    def nobody_else_will_commit() -> None:
        now = pipeline.round(job)
        if now.phase == Phase.COMMIT and now.n_committed >= len(MINERS) - 1:
            pipeline.skip_deadline(job)

    history = pipeline.finish(job, nobody_else_will_commit)
    (last,) = history.rounds.values()
    others = [
        name for name in pipeline.names("trainer") if pipeline.node_id(name) in last.committed
    ]
    assert others == [name for name in MINERS if name != "trainer-3"]
    pipeline.assert_whole(job, accepted=others)
    assert sum(passes(history)) > 0


def test_a_miner_that_answers_with_random_codes_and_one_that_misstates_its_shards_are_slashed(
    pipeline: LocalNetwork,
) -> None:
    for name, cheat in (("trainer-5", "loafer"), ("trainer-2", "misstater")):
        pipeline.stop(name)
        pipeline.start(name, program=("scripts._demo.cheats", cheat))
    job = pipeline.job(**CUT)
    history = pipeline.finish(job)
    pipeline.skip(TERMS.appeal_s)
    pipeline.until(lambda: len(pipeline.history(job).slashes) == 2, "both are slashed")
    blame = {"trainer-5": Violation.INVALID, "trainer-2": Violation.INVALID}
    penalties = pipeline.network.penalties()
    broken = [
        check.sentence
        for check in check_cheats(pipeline.history(job), blame, penalties)
        if not check.holds
    ]
    assert broken == []
    assert_replays(pipeline, job)
    (line,) = [
        line
        for story in history.rounds.values()
        if story.report is not None
        for line in story.report.nodes
        if line.node == pipeline.node_id("trainer-5")
    ]
    assert line.accepted, "its states fit its log: only doing a segment again finds it"
