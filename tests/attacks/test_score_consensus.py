# SPDX-License-Identifier: Apache-2.0
"""A job paid by scores, on a real chain: what a lying verifier, a hasty proposer and a copier win,
and what the agents' reader and upkeep make of it.

Verifiers vic, vera and vito have a third of the stake each; eve is the liar's friend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from eth_utils import keccak

from agents.protocol.median import BPS, SCALE
from agents.protocol.network import Network, Snapshot
from agents.protocol.scores import Consensus, ScorePhase, Scoring, Vector
from agents.protocol.view import View, observe
from agents.rounds.upkeep import Upkeep
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Contract, Deployment
from agents.runtime.errors import Reverted
from agents.runtime.logs import open_log
from tests.stage.chain.chain import Refused
from tests.stage.chain.people import TERMS, VOID, Node, World, trainer_pool, verifier_cut

RECORD, SALT = keccak(text="record"), keccak(text="salt")
VERIFIERS = ("vic", "vera", "vito")
TRUTH = {"ann": 30_000, "bob": 20_000, "cat": 15_535, "eve": 0}
LIE = {"ann": 0, "bob": 0, "cat": 0, "eve": SCALE}
EQUAL = 1_000_000


class Hand:
    """The part of a Sender that upkeep needs, with a key of the test."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.address = world.faucet.address
        self.sent: list[str] = []

    def send(self, contract: Contract, function: str, *args: Any) -> None:
        """Refuses before sending, as the agents' sender does."""
        try:
            self.world.chain.send(self.world.faucet, contract, function, *args)
        except Refused as error:
            raise Reverted(str(error)) from None
        self.sent.append(function)


@dataclass
class Scene:
    """The adopted job, read as an agent reads it."""

    world: World
    network: Network
    consensus: Consensus

    def node(self, name: str) -> Node:
        return self.world.nodes[name]

    @property
    def snapshot(self) -> Snapshot:
        opened = int(self.world.state.opened_block)
        return self.network.snapshot(self.world.job, self.world.round, opened)

    def row(self, scores: Mapping[str, int]) -> list[int]:
        """Scores by name in the order of the snapshot."""
        of = {self.node(name).node_id: score for name, score in scores.items()}
        return [of[node] for node in self.snapshot.nodes]

    def digest(self, name: str, scores: Mapping[str, int]) -> bytes:
        node = self.node(name)
        return self.consensus.digest(
            self.world.job,
            self.world.round,
            node.node_id,
            node.operator.address,
            self.row(scores),
            RECORD,
            SALT,
        )

    def commit(self, name: str, digest: bytes) -> None:
        node, world = self.node(name), self.world
        place = (world.job, world.round, node.node_id)
        world.chain.send(node.operator, world.scores, "commit_scores", *place, digest)

    def opening(self, name: str, scores: Mapping[str, int]) -> tuple[Any, ...]:
        place = (self.world.job, self.world.round, self.node(name).node_id)
        return (*place, self.row(scores), RECORD, SALT)

    def reveal(self, name: str, scores: Mapping[str, int]) -> None:
        self.world.chain.send(
            self.node(name).operator,
            self.world.scores,
            "reveal_scores",
            *self.opening(name, scores),
        )

    def score(self, given: Mapping[str, Mapping[str, int]]) -> None:
        """Everybody in `given` commits and reveals; the others' window passes."""
        for name, scores in given.items():
            self.commit(name, self.digest(name, scores))
        if len(given) < len(VERIFIERS):
            self.world.wait_until(self.scoring.commit_deadline)
        for name, scores in given.items():
            self.reveal(name, scores)

    @property
    def scoring(self) -> Scoring:
        return self.consensus.scoring(self.world.job, self.world.round)

    def upkeep(self) -> str | None:
        """What somebody without patience does next."""
        view = observe(self.network, self.world.job, self.network.chain.head())
        return Upkeep(self.network, Hand(self.world), 0.0, 0.0).step(view, first=True)  # type: ignore[arg-type]

    def view(self) -> View:
        return observe(self.network, self.world.job, self.network.chain.head())

    def train(self) -> None:
        self.world.train(*(self.node(name) for name in TRUTH))

    def offer(self) -> tuple[list[int], list[int]]:
        return self.world.offer({self.node(name): EQUAL for name in TRUTH})

    def pay(self, attesters: int = 3) -> dict[str, int]:
        """What the truth pays, when every attester has its whole cut."""
        rest = TERMS.reward_per_round - TERMS.reward_per_round * TERMS.aggregator_bps // BPS
        rest -= attesters * verifier_cut(attesters)
        return {name: rest * score // SCALE for name, score in TRUTH.items()}


@pytest.fixture
def scene(world: World) -> Scene:
    world.chain.send(world.sponsor, world.scores, "adopt", world.job, *TERMS.score_windows)
    client = ChainClient(world.chain._url, open_log("attack test", "warning", True, None))
    deployment = Deployment("attack test", 31_337, 0, dict(world.contracts))
    network = Network(client, deployment)
    return Scene(world, network, Consensus(network))


def test_reader__follows_a_round_from_samples_to_shares(scene: Scene) -> None:
    """Everything an agent reads, beside what was sent."""
    world, consensus = scene.world, scene.consensus
    job = world.job
    assert consensus.adopted(job) and not consensus.adopted(job + 1)
    assert consensus.windows(job) == TERMS.score_windows
    scene.train()
    round_id, opened = world.round, int(world.state.opened_block)
    assert scene.scoring == Scoring(ScorePhase.NONE, 0, 0, 0, 0, 0, False, False)
    for name in ("eve", "ann"):
        node = scene.node(name)
        place = (job, round_id, node.node_id)
        digest = keccak(text=name)
        world.chain.send(node.operator, world.scores, "post_samples", *place, digest)
    assert consensus.samples(job, round_id, opened) == {
        scene.node(name).node_id: keccak(text=name) for name in ("ann", "eve")
    }
    vic, vera = scene.node("vic").node_id, scene.node("vera").node_id
    assert consensus.committed(job, round_id, vic) == bytes(32)
    scene.commit("vic", scene.digest("vic", TRUTH))
    assert consensus.committed(job, round_id, vic) == scene.digest("vic", TRUTH)
    # As the contract computes it, which an agent never asks for.
    node = scene.node("vic")
    arguments = (job, round_id, vic, node.operator.address, scene.row(TRUTH), RECORD, SALT)
    asked = bytes(world.chain.call(world.scores, "scores_digest", *arguments))
    assert asked == scene.digest("vic", TRUTH)
    assert scene.scoring.phase == ScorePhase.COMMIT
    assert consensus.vectors(job, round_id, opened, scene.snapshot) == {}
    scene.commit("vera", scene.digest("vera", TRUTH))
    scene.commit("vito", scene.digest("vito", LIE))
    assert scene.scoring.phase == ScorePhase.REVEAL and not scene.scoring.closable
    scene.reveal("vera", TRUTH)
    assert consensus.record(job, round_id, vic) == bytes(32)
    scene.reveal("vic", TRUTH)
    by_node = {scene.node(name).node_id: score for name, score in TRUTH.items()}
    assert consensus.vectors(job, round_id, opened, scene.snapshot) == {
        verifier: Vector(verifier, by_node, RECORD) for verifier in sorted((vic, vera))
    }
    assert consensus.record(job, round_id, vic) == RECORD
    scene.reveal("vito", LIE)
    assert scene.scoring.closable
    assert consensus.standing(job, round_id + 1) == {}
    assert scene.upkeep() == "close_scoring"
    shares = {node: score for node, score in by_node.items() if score}
    found = scene.scoring
    assert (found.phase, found.total, found.scored) == (ScorePhase.CLOSED, SCALE, True)
    assert consensus.shares(job, round_id) == shares
    assert consensus.last_scored(job) == round_id
    assert consensus.standing(job, round_id + 1) == shares
    # The round itself is not standing on its own scores.
    assert consensus.standing(job, round_id) == {}
    assert [consensus.trust(job, scene.node(name).node_id) for name in VERIFIERS] == [BPS, BPS, 0]


def test_standing__of_an_old_round__is_what_it_was_then(scene: Scene) -> None:
    """An auditor asks later and gets the same answer, also across a round without scores."""
    world, consensus = scene.world, scene.consensus
    other = {"ann": 0, "bob": 0, "cat": SCALE, "eve": 0}
    wanted = [{}]
    for scores in (TRUTH, None, other):
        scene.train()
        if scores is not None:
            scene.score(dict.fromkeys(VERIFIERS, scores))
            assert scene.upkeep() == "close_scoring"
        arrays = scene.offer()
        world.attest(*VERIFIERS)
        world.finalize(arrays)
        got = scores and {scene.node(n).node_id: score for n, score in scores.items() if score}
        wanted.append(got if got is not None else wanted[-1])
        assert consensus.standing(world.job, world.round + 1) == wanted[-1]
    assert [consensus.standing(world.job, place) for place in (1, 2, 3, 4)] == wanted
    assert wanted[2] == wanted[1] != wanted[3]


def test_upkeep__leaves_the_result_alone_while_scores_are_open(scene: Scene) -> None:
    world = scene.world
    scene.train()
    scene.commit("vic", scene.digest("vic", TRUTH))
    scene.offer()
    world.attest(*VERIFIERS)
    assert scene.upkeep() is None
    world.wait_until(scene.scoring.commit_deadline)
    scene.reveal("vic", TRUTH)
    assert scene.upkeep() == "close_scoring"
    assert scene.upkeep() == "finalize"
    assert not scene.scoring.scored


def test_upkeep__closes_what_nobody_revealed(scene: Scene) -> None:
    scene.train()
    scene.commit("vito", scene.digest("vito", LIE))
    scene.world.wait_until(scene.scoring.reveal_deadline)
    assert scene.upkeep() == "close_scoring"
    assert scene.scoring.total == 0


def test_upkeep__closes_before_it_lets_a_round_go_void(scene: Scene) -> None:
    """Nobody proposes: what was scored still says who stands best."""
    world = scene.world
    scene.train()
    scene.score(dict.fromkeys(VERIFIERS, TRUTH))
    world.wait_until(int(world.state.deadline))
    world.chain.send(world.faucet, world.rounds, "advance", world.job)
    world.wait_until(int(world.state.deadline))
    assert scene.upkeep() == "close_scoring"
    assert scene.upkeep() == "advance"
    assert world.phase == VOID
    assert len(scene.consensus.standing(world.job, world.round + 1)) == 3


def test_lying_verifier__its_friend_gains_nothing_and_it_loses_its_cut(scene: Scene) -> None:
    """vito gives everything to eve, round after round, and even attests."""
    world = scene.world
    for _ in range(2):
        scene.train()
        scene.score({"vic": TRUTH, "vera": TRUTH, "vito": LIE})
        assert scene.upkeep() == "close_scoring"
        arrays = scene.offer()
        world.attest(*VERIFIERS)
        world.finalize(arrays)
    eve, vito = scene.node("eve"), scene.node("vito")
    assert world.gain(eve) == world.gain(vito) == 0
    assert world.gain(scene.node("vic")) == 2 * verifier_cut(3)
    paid = scene.pay()
    # What vito lost went to those that the truth pays.
    for name in ("ann", "bob", "cat"):
        rest = TERMS.reward_per_round - TERMS.reward_per_round * TERMS.aggregator_bps // BPS
        rest -= 2 * verifier_cut(3)
        assert world.gain(scene.node(name)) == 2 * (rest * TRUTH[name] // SCALE) > 2 * paid[name]


def test_copied_commitment__wins_nothing(scene: Scene) -> None:
    """vito sends vic's commitment from the mempool, and then its opening."""
    world = scene.world
    scene.train()
    stolen = scene.digest("vic", TRUTH)
    scene.commit("vito", stolen)
    scene.commit("vic", stolen)
    scene.commit("vera", scene.digest("vera", TRUTH))
    scene.reveal("vic", TRUTH)
    scene.reveal("vera", TRUTH)
    opening = scene.opening("vito", TRUTH)
    vito = scene.node("vito").operator
    world.chain.refuse("scores: bad opening", vito, world.scores, "reveal_scores", *opening)
    world.wait_until(scene.scoring.reveal_deadline)
    assert scene.upkeep() == "close_scoring"
    arrays = scene.offer()
    world.attest(*VERIFIERS)
    world.finalize(arrays)
    assert world.gain(scene.node("vito")) == 0


def test_proposer_that_favours_a_friend__moves_no_money(scene: Scene) -> None:
    world = scene.world
    scene.train()
    scene.score(dict.fromkeys(VERIFIERS, TRUTH))
    assert scene.upkeep() == "close_scoring"
    pay = {scene.node(name): 1 for name in TRUTH} | {scene.node("eve"): 2**127}
    arrays = world.offer(pay)
    world.attest(*VERIFIERS)
    world.finalize(arrays)
    assert {name: world.gain(scene.node(name)) for name in TRUTH} == scene.pay()


def test_last_second_scoring__holds_the_round_for_two_windows_only(scene: Scene) -> None:
    """vito waits for the end of the challenge window; the round ends unscored, with his cut."""
    world = scene.world
    scene.train()
    arrays = scene.offer()
    world.attest("vic", "vera", "vito")
    scene.commit("vito", scene.digest("vito", LIE))
    world.chain.refuse("scores: open", world.faucet, world.rounds, "finalize", world.job, *arrays)
    opened = world.chain.now
    world.wait_until(scene.scoring.reveal_deadline)
    assert world.chain.now - opened <= sum(TERMS.score_windows) + 1
    assert scene.upkeep() == "close_scoring"
    assert scene.upkeep() == "finalize"
    assert world.gain(scene.node("vito")) == 0
    # Nobody scored: everybody that was accepted is paid alike, the verifiers nothing.
    rest = TERMS.reward_per_round - TERMS.reward_per_round * TERMS.aggregator_bps // BPS
    assert world.gain(scene.node("eve")) == rest // 4
    assert trainer_pool() < rest
