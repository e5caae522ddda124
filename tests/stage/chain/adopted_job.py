# SPDX-License-Identifier: Apache-2.0
"""A job paid by scores, on a real chain, with actors who score by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eth_utils import keccak

from agents.protocol.network import Network
from agents.protocol.numbers import BPS, SCALE
from agents.protocol.scores import Consensus, Scoring
from agents.protocol.structs import Snapshot
from agents.protocol.view import View, observe
from agents.rounds.upkeep import Upkeep
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Deployment
from agents.runtime.errors import Reverted
from agents.runtime.logs import open_log
from agents.runtime.transaction import Order
from tests.stage.chain.chain import Refused
from tests.stage.chain.people import TERMS, Node, People, verifier_cut

RECORD, SALT = keccak(text="record"), keccak(text="salt")
VERIFIERS = ("vic", "vera", "vito")
TRUTH = {"ann": 30_000, "bob": 20_000, "cat": 15_535, "eve": 0}
LIE = {"ann": 0, "bob": 0, "cat": 0, "eve": SCALE}
EQUAL = 1_000_000
# A round's pay without the aggregator's cut.
REST = TERMS.reward_per_round - TERMS.reward_per_round * TERMS.aggregator_bps // BPS


class DirectSender:
    """The part of a Sender that upkeep needs, with a key of the test."""

    def __init__(self, people: People) -> None:
        self.people = people
        self.address = people.faucet.address
        self.block_s = 0.0
        self.sent: list[str] = []

    def send_all(self, orders: list[Order]) -> list[Reverted | None]:
        """Refuses before sending, as the agents' sender does."""
        return [self.refusal(order) for order in orders]

    def refusal(self, order: Order) -> Reverted | None:
        try:
            self.people.chain.send(self.people.faucet, order.contract, order.function, *order.args)
        except Refused as error:
            return Reverted(str(error))
        self.sent.append(order.function)
        return None


@dataclass
class AdoptedJob:
    """The adopted job, read as an agent reads it."""

    people: People
    network: Network
    consensus: Consensus

    def node(self, name: str) -> Node:
        return self.people.nodes[name]

    @property
    def snapshot(self) -> Snapshot:
        round_ = self.network.round(*self.people.place)
        return self.network.snapshot(*self.people.place, round_)

    def row(self, scores: Mapping[str, int]) -> list[int]:
        """Scores by name in the order of the snapshot; who isn't named has none."""
        of = {self.node(name).node_id: score for name, score in scores.items()}
        return [of.get(node, 0) for node in self.snapshot.nodes]

    def digest(self, name: str, scores: Mapping[str, int]) -> bytes:
        node = self.node(name)
        return self.consensus.digest(
            *self.people.place, node.node_id, node.operator.address, self.row(scores), RECORD, SALT
        )

    def commit(self, name: str, digest: bytes) -> None:
        node, people = self.node(name), self.people
        call = (people.scores, "commit_scores", *people.place, node.node_id, digest)
        people.chain.send(node.operator, *call)

    def opening(self, name: str, scores: Mapping[str, int]) -> tuple[Any, ...]:
        place = (*self.people.place, self.node(name).node_id)
        return (*place, self.row(scores), RECORD, SALT)

    def reveal(self, name: str, scores: Mapping[str, int]) -> None:
        self.people.chain.send(
            self.node(name).operator,
            self.people.scores,
            "reveal_scores",
            *self.opening(name, scores),
        )

    def score(self, given: Mapping[str, Mapping[str, int]]) -> None:
        """Everybody in `given` commits and reveals; the others' window passes."""
        for name, scores in given.items():
            self.commit(name, self.digest(name, scores))
        if len(given) < len(VERIFIERS):
            self.people.wait_until(self.scoring.commit_deadline)
        for name, scores in given.items():
            self.reveal(name, scores)

    @property
    def scoring(self) -> Scoring:
        return self.consensus.scoring(*self.people.place)

    def upkeep(self) -> str | None:
        """What somebody without patience does next."""
        view = observe(self.network, self.people.job, self.network.chain.head())
        return Upkeep(self.network, DirectSender(self.people), 0.0, 0.0).step(view, first=True)  # type: ignore[arg-type]

    def view(self) -> View:
        return observe(self.network, self.people.job, self.network.chain.head())

    def train(self) -> None:
        self.people.train(*(self.node(name) for name in TRUTH))

    def offer(self) -> tuple[list[int], list[int]]:
        return self.people.offer({self.node(name): EQUAL for name in TRUTH})

    def pay(self, attesters: int = 3) -> dict[str, int]:
        """What the truth pays, when every attester has its whole cut."""
        rest = REST - attesters * verifier_cut(attesters)
        return {name: rest * score // SCALE for name, score in TRUTH.items()}


def adopt(people: People) -> AdoptedJob:
    """Let the sponsor have the people's job paid by scores."""
    people.chain.send(people.sponsor, people.scores, "adopt", people.job, *TERMS.score_windows)
    client = ChainClient(people.chain._url, open_log("adopted job", "warning", True, None))
    deployment = Deployment("adopted job", 31_337, 0, dict(people.contracts))
    network = Network(client, deployment)
    return AdoptedJob(people, network, Consensus(network))
