# SPDX-License-Identifier: Apache-2.0
"""A funded job with three trainers, three verifiers and two aggregators, and the way to any phase
of its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eth_utils import keccak

from tests.stage.contracts.system import (
    AGGREGATOR,
    REWARD,
    STAKE,
    TRAINER,
    VERIFIER,
    Player,
    System,
    Work,
)

MODEL = keccak(text="model")
UPDATE = keccak(text="update")
REPORT = keccak(text="report")
EVIDENCE = keccak(text="evidence")


@dataclass
class Field:
    """One job among its people."""

    system: System
    sponsor: str
    challenger: str
    stranger: str
    trainers: list[Player]
    verifiers: list[Player]
    aggregators: list[Player]
    job_id: int

    @property
    def ids(self) -> list[int]:
        return [p.node_id for p in self.trainers]

    def work(self, player: Player, round_id: int = 1) -> Work:
        return Work.of(f"{player.name} {round_id}")

    def to_commit(self) -> int:
        return self.system.open(self.job_id)

    def to_reveal(self, committers: Sequence[Player] | None = None) -> int:
        """A round in REVEAL; fewer committers than trainers wait for the deadline."""
        round_id = self.to_commit()
        for player in self.trainers if committers is None else committers:
            self.system.commit(self.job_id, round_id, player, self.work(player, round_id))
        if self.system.phase(self.job_id, round_id) == 1:
            self.system.wait_out(self.job_id, round_id)
            self.system.advance(self.job_id, round_id)
        return round_id

    def to_aggregate(self, revealers: Sequence[Player] | None = None) -> int:
        """A round in AGGREGATE; fewer revealers than trainers wait for the deadline."""
        round_id = self.to_reveal()
        for player in self.trainers if revealers is None else revealers:
            self.system.reveal(self.job_id, round_id, player, self.work(player, round_id))
        if self.system.phase(self.job_id, round_id) == 2:
            self.system.wait_out(self.job_id, round_id)
            self.system.advance(self.job_id, round_id)
        return round_id

    def propose(
        self,
        round_id: int,
        player: Player | None = None,
        nodes: Sequence[int] | None = None,
        contributions: Sequence[int] | None = None,
        model: bytes = MODEL,
    ) -> bytes:
        """Proposes by the aggregator on duty unless told; returns the result hash."""
        proposer = player or self.system.on_duty(self.job_id, round_id)
        self.system.results.propose_result(
            self.job_id,
            round_id,
            proposer.node_id,
            model,
            UPDATE,
            REPORT,
            self.ids if nodes is None else nodes,
            self.shares if contributions is None else contributions,
            sender=proposer.operator,
        )
        return bytes(self.system.rounds.round(self.job_id, round_id).result_hash)

    @property
    def shares(self) -> list[int]:
        """The contributions that `propose` brings unless told: 1, 2, 3, ..."""
        return list(range(1, len(self.trainers) + 1))

    def to_challenge(self) -> int:
        round_id = self.to_aggregate()
        self.propose(round_id)
        return round_id

    def attest(self, round_id: int, *verifiers: Player) -> None:
        result = self.system.rounds.round(self.job_id, round_id).result_hash
        for player in verifiers or self.verifiers:
            self.system.results.attest(
                self.job_id, round_id, player.node_id, result, sender=player.operator
            )

    def challenge(self, round_id: int) -> None:
        result = self.system.rounds.round(self.job_id, round_id).result_hash
        self.system.results.challenge(
            self.job_id, round_id, result, EVIDENCE, sender=self.challenger
        )

    def to_disputed(self) -> int:
        round_id = self.to_challenge()
        self.challenge(round_id)
        return round_id

    def finalize(self) -> None:
        """Finalizes the newest round with what `propose` brings unless told."""
        round_id = self.system.jobs.rounds_opened(self.job_id)
        self.system.results.finalize(self.job_id, round_id, self.ids, self.shares)

    def to_finalized(self) -> int:
        round_id = self.to_challenge()
        self.attest(round_id)
        self.finalize()
        return round_id

    def report(self, round_id: int, node: Player, violation: int, *by: Player) -> bytes:
        """Reports by some verifiers; returns the report id."""
        for player in by:
            self.system.reports.report(
                self.job_id,
                round_id,
                player.node_id,
                node.node_id,
                violation,
                EVIDENCE,
                sender=player.operator,
            )
        return bytes(
            self.system.reports.report_id_of(self.job_id, round_id, node.node_id, violation)
        )


def make_field(system: System, trainers: int = 3, **terms: int) -> Field:
    """Everybody registered, benchmarked and funded; the job is job 1 of a fresh system."""
    verifiers = [system.join(f"verifier {i}", VERIFIER) for i in range(3)]
    aggregators = [system.join(f"aggregator {i}", AGGREGATOR) for i in range(2)]
    team = []
    for i in range(trainers):
        team.append(system.join(f"trainer {i}", TRAINER))
        system.benchmark(team[i], verifiers[0])
    sponsor = system.person("sponsor", 100 * REWARD)
    challenger = system.person("challenger", STAKE)
    stranger = system.person("stranger", STAKE)
    system.mature()
    job_id = system.job(sponsor, **terms)
    return Field(system, sponsor, challenger, stranger, team, verifiers, aggregators, job_id)
