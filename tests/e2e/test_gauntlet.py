# SPDX-License-Identifier: Apache-2.0
"""A job scored by Gauntlet, by real processes: three honest trainers and one that sends noise.

One network, one story, in this order:
1. Three honest validators: what is merged and what is paid follow their consensus, from the second
   round on without the noise.
2. The third validator holds 30 % of the validators' stake and gives every round to the noise. The
   noise earns next to nothing all the same, and nobody but the liar loses.

Validators that die between commit and reveal are in test_validators.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agents.audit.replay import audit_job
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.numbers import SCALE, ZOO, Phase
from agents.protocol.scores import Consensus
from agents.storage.content_store import open_store
from scripts._net.localnet import LocalnetSettings
from scripts._report.history import History
from scripts._report.standing import standing_of
from scripts._report.story import losses
from tests.e2e.conftest import AGENTS
from tests.e2e.favouring import FAVOURITE
from tests.stage.network import TERMS, LocalNetwork

ROUNDS = 3
TOP = 3
HONEST = ("trainer-1", "trainer-2", "trainer-3")
NOISE = "trainer-4"
LIAR = "verifier-3"
STAKE = 1_000 * ZOO  # of the liar
MORE = 167 * ZOO  # that each honest validator has beyond it: 1000 of 3334 is 30 %
BPS = 10_000
# Of what all trainers earn: chance may show a little work in a round's noise.
CHANCE = 0.05
JOB: dict[str, Any] = {
    "codec": "demo",
    "codec_options": {"per_chunk": 512, "decay": 0.5},
    "merge": "demo_sign",
    "score": "gauntlet",
    "verify": "gauntlet",
    "batches_per_round": 16,
    "score_options": {"evaluated": 4, "eval_batches": 16, "top": TOP, "gamma": 0.9},
    "optimizer": {
        "inner": "gradient",
        "batch_size": 4,
        "seq_len": 16,
        "outer_lr": 4e-3,
        "outer_decay": True,
    },
}


@dataclass(frozen=True)
class Story:
    """The network, and one of its jobs from beginning to end."""

    local: LocalNetwork
    job: int
    history: History

    def cut_per_stake(self, name: str) -> float:
        """What a verifier earned in the job, per unit of its stake."""
        node = self.local.node_id(name)
        stake = int(self.local.network.node(node).stake)
        return self.history.nodes[node].earned / stake

    def part(self, name: str) -> float:
        """The part of what all trainers earned in the job."""
        earned = {n: self.history.nodes[self.local.node_id(n)].earned for n in (*HONEST, NOISE)}
        return earned[name] / sum(earned.values())

    def trust(self, name: str) -> float:
        """A validator's trust after the job."""
        last = max(self.history.rounds)
        return self.history.rounds[last].trusts[self.local.node_id(name)]


@pytest.fixture(scope="module")
def honest(build: Callable[[LocalnetSettings], LocalNetwork]) -> Story:
    """Part 1."""
    settings = LocalnetSettings(
        trainers=4, verifiers=3, aggregators=1, verifier_stake=STAKE, agent=AGENTS
    )
    local = build(settings)
    add_stake(local, *(name for name in local.names("verifier") if name != LIAR))
    for name in (*local.names("verifier", "aggregator"), *HONEST):
        local.net.start_agent(name)
    local.net.start_agent(
        NOISE, ("scripts._demo.cheats", "poisoner"), env={"CHEAT_ATTACK": "noise"}
    )
    local.wait_eligible(local.names("trainer", "verifier", "aggregator"))
    job = local.job(ROUNDS, **JOB)
    return Story(local, job, local.finish(job))


@pytest.fixture(scope="module")
def lied(honest: Story) -> Story:
    """Part 2."""
    local = honest.local
    local.stop(LIAR)
    local.net.start_agent(
        LIAR,
        ("tests.e2e.dishonest", "verifier", "tests.e2e.favouring"),
        env={FAVOURITE: str(local.node_id(NOISE))},
    )
    job = local.job(ROUNDS, **JOB)
    return Story(local, job, local.finish(job))


def add_stake(local: LocalNetwork, *names: str) -> None:
    """Let these seats' owners stake more."""
    registry, token = local.net.contract("NodeRegistry"), local.net.contract("ZooToken")
    batch = local.net.batch()
    for name in names:
        seat = local.net.seats[name]
        batch.add(local.net.faucet, token.functions.transfer(seat.owner.address, MORE))
        batch.add(seat.owner, token.functions.approve(registry.address, MORE))
        batch.add(seat.owner, registry.functions.add_stake(seat.node_id, MORE))
    batch.settle()


def assert_paid_by_consensus(story: Story) -> None:
    """Every round is scored, and each trainer's pay is its share of the consensus."""
    pool = TERMS.reward_per_round * (BPS - TERMS.verifier_bps - TERMS.aggregator_bps) // BPS
    for number, told in story.history.rounds.items():
        assert told.phase == Phase.FINALIZED
        total, paid = sum(told.consensus.values()), sum(told.paid.values())
        # A median has at least half of the weight at or above it, and nobody gives more than SCALE.
        assert 0 < total <= 2 * SCALE, f"round {number} was not scored"
        assert paid >= pool - len(told.nodes)
        for node, share in told.consensus.items():
            exact = paid * share / total
            assert abs(told.paid.get(node, 0) - exact) <= len(told.nodes) + 1e-12 * paid


def assert_merged_by_consensus(story: Story) -> None:
    """Each round merges the best of the newest scored one before it."""
    consensus = Consensus(story.local.network)
    rule = Gauntlet(**JOB["score_options"])
    for number, told in story.history.rounds.items():
        assert told.report is not None
        standing = consensus.standing(story.job, number)
        assert told.report.merged() == set(rule.select(told.nodes, standing))
        newest = [n for n in story.history.rounds if n < number]
        before = story.history.rounds[max(newest)].consensus if newest else {}
        assert standing == {node: share for node, share in before.items() if share}


def differences(story: Story) -> list[str]:
    """Nobody was slashed and every token is somewhere; returns what a stranger finds wrong."""
    local = story.local
    assert story.history.slashes == []
    assert [check.sentence for check in local.books(story.job) if not check.holds] == []
    found = audit_job(local.network, open_store(str(local.net.store)), story.job, deep=True)
    return [str(difference) for difference in found.differences]


def test_model_and_pay_follow_the_consensus(honest: Story) -> None:
    """The noise is in the first merge, when nobody is known, and in none after it."""
    assert_paid_by_consensus(honest)
    assert_merged_by_consensus(honest)
    noise = honest.local.node_id(NOISE)
    merged = [told.report.merged() for told in honest.history.rounds.values() if told.report]
    assert [noise in nodes for nodes in merged] == [True] + [False] * (ROUNDS - 1)
    assert honest.part(NOISE) < CHANCE
    curve = losses(honest.history)
    assert curve == sorted(curve, reverse=True), "the loss fell in every round"
    assert differences(honest) == []


def test_the_report_tells_where_everybody_stands(honest: Story) -> None:
    """The curves are the records' and the chain's; the noise is at the bottom of each."""
    standing = standing_of(honest.history)
    assert standing is not None
    nodes = {honest.local.node_id(name) for name in (*HONEST, NOISE)}
    noise = honest.local.node_id(NOISE)
    for curves in (standing.loss_scores, standing.ratings, standing.mus, standing.payouts):
        assert curves.keys() == nodes
        assert all([n for n, _ in curve] == [1, 2, 3] for curve in curves.values())
    for curves in (standing.loss_scores, standing.ratings):
        last = {node: curve[-1][1] for node, curve in curves.items()}
        assert min(last, key=lambda node: last[node]) == noise
    rounds = [{n: c[i][1] for n, c in standing.peer_scores.items()} for i in range(ROUNDS)]
    for scores in rounds:
        assert min(scores, key=lambda node: scores[node]) == noise
    # One random direction may agree with the mean gradient for a round, and not for three.
    assert sum(s[noise] for s in rounds) < CHANCE * sum(sum(s.values()) for s in rounds)


def test_a_favourite_gains_nothing(honest: Story, lied: Story) -> None:
    """Less than half of the stake moves no median: the noise is paid next to nothing,
    and what is merged is what the honest validators say."""
    noise, liar = lied.local.node_id(NOISE), lied.local.node_id(LIAR)
    for told in lied.history.rounds.values():
        record = told.records[liar]
        assert {line.node: line.score for line in record.scores if line.score} == {noise: SCALE}
        assert told.consensus[noise] < CHANCE * SCALE
    assert lied.part(NOISE) < CHANCE
    assert_paid_by_consensus(lied)
    assert_merged_by_consensus(lied)


def test_a_liar_loses_trust_and_pay(honest: Story, lied: Story) -> None:
    """Next to nothing it said is in the consensus, so its trust and its cut are gone. The honest
    keep both."""
    network = lied.local.network
    stakes = [int(network.node(lied.local.node_id(n)).stake) for n in lied.local.names("verifier")]
    assert 0.299 < STAKE / sum(stakes) < 0.301
    assert honest.trust(LIAR) > 0.5 and honest.cut_per_stake(LIAR) > 0
    others = [name for name in lied.local.names("verifier") if name != LIAR]
    assert lied.trust(LIAR) < CHANCE
    assert lied.cut_per_stake(LIAR) < CHANCE * honest.cut_per_stake(LIAR)
    for name in others:
        assert lied.trust(name) > 0.5
        assert lied.cut_per_stake(name) > 0


def test_an_audit_names_the_lie(lied: Story) -> None:
    """The liar's records show what it measured, and the scores don't follow from that. Nothing
    else is wrong."""
    found = differences(lied)
    assert len(found) == ROUNDS
    who = f"verifier {lied.local.node_id(LIAR)}: its record: the score of"
    assert all(who in difference for difference in found)
