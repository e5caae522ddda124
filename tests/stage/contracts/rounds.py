# SPDX-License-Identifier: Apache-2.0
"""A funded job with three trainers, three verifiers and two aggregators, and the way to any phase
of its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import boa
from eth_utils import keccak

from agents.protocol import formulas
from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import (
    AGGREGATOR,
    REWARD,
    STAKE,
    TERMS,
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
# Of an announcement: the most that a finder can earn, which is half of a whole stake.
DEPOSIT = STAKE // 2


@dataclass
class RoundStage:
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

    def commit_all(self, round_id: int, *players: Player) -> None:
        for player in players:
            self.system.commit(self.job_id, round_id, player, self.work(player, round_id))

    def reveal_all(self, round_id: int, *players: Player) -> None:
        for player in players:
            self.system.reveal(self.job_id, round_id, player, self.work(player, round_id))

    def to_commit(self) -> int:
        return self.system.open(self.job_id)

    def to_reveal(self, committers: Sequence[Player] | None = None) -> int:
        """A round in REVEAL; fewer committers than trainers wait for the deadline."""
        round_id = self.to_commit()
        self.commit_all(round_id, *(self.trainers if committers is None else committers))
        if self.system.phase(self.job_id, round_id) == 1:
            self.system.time_out(self.job_id, round_id)
        return round_id

    def to_aggregate(self, revealers: Sequence[Player] | None = None) -> int:
        """A round in AGGREGATE; fewer revealers than trainers wait for the deadline."""
        round_id = self.to_reveal()
        self.reveal_all(round_id, *(self.trainers if revealers is None else revealers))
        if self.system.phase(self.job_id, round_id) == 2:
            self.system.time_out(self.job_id, round_id)
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

    def announcement(
        self, contract: Any, round_id: int, what: int, finder: int, evidence: bytes = EVIDENCE
    ) -> bytes:
        """What ViolationReports or TrainingResults must be told before a report or a challenge."""
        chain_id = int(boa.env.evm.patch.chain_id)
        place = (self.job_id, round_id)
        return formulas.announcement(chain_id, contract.address, place, what, finder, evidence)

    def announce_challenge(self, round_id: int, sender: str, evidence: bytes = EVIDENCE) -> bytes:
        """Somebody announces that a round has a wrong result, and a block passes; the digest."""
        results = self.system.results
        result = self.system.rounds.round(self.job_id, round_id).result_hash
        what, who = int.from_bytes(result, "big"), int(sender, 16)
        digest = self.announcement(results, round_id, what, who, evidence)
        results.announce_challenge(digest, sender=sender)
        mine(1)
        return digest

    def to_disputed(self) -> int:
        round_id = self.to_challenge()
        self.challenge(round_id)
        return round_id

    def to_last_half(self, round_id: int) -> None:
        """When two thirds of the weight are enough."""
        state = self.system.rounds.round(self.job_id, round_id)
        wait = state.deadline - TERMS["challenge_s"] // 2 - boa.env.evm.patch.timestamp
        if wait > 0:
            mine(1, wait)

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
        return self.report_id(round_id, node, violation)

    def announce(
        self,
        round_id: int,
        node: Player,
        *by: Player,
        evidence: bytes = EVIDENCE,
        deposit: int = DEPOSIT,
    ) -> bytes:
        """Verifiers announce that they have found a node, each in a block of its own; the last
        digest."""
        reports = self.system.reports
        for player in by:
            digest = self.announcement(reports, round_id, node.node_id, player.node_id, evidence)
            reports.announce_report(
                self.job_id, round_id, player.node_id, digest, deposit, sender=player.operator
            )
            mine(1)
        return digest

    def find(self, round_id: int, node: Player, violation: int, *by: Player) -> bytes:
        """Announcements, then reports, by some verifiers; returns the report id."""
        self.announce(round_id, node, *by)
        return self.report(round_id, node, violation, *by)

    def report_id(self, round_id: int, node: Player, violation: int) -> bytes:
        return bytes(
            self.system.reports.report_id_of(self.job_id, round_id, node.node_id, violation)
        )


def make_people(
    system: System, trainers: int, stakes: Sequence[int], aggregators: Sequence[str], money: int
) -> RoundStage:
    """Everybody registered and benchmarked, verifiers of these stakes, and a sponsor with `money`;
    there is no job yet."""
    verifiers = [system.join(f"verifier {i}", VERIFIER, stake) for i, stake in enumerate(stakes)]
    for player in verifiers:
        system.person(player.name, 100 * DEPOSIT)
    merging = [system.join(name, AGGREGATOR) for name in aggregators]
    team = []
    for i in range(trainers):
        team.append(system.join(f"trainer {i}", TRAINER))
        system.benchmark(team[i], verifiers[0])
    sponsor = system.person("sponsor", money)
    others = [system.person(name, STAKE) for name in ("challenger", "stranger")]
    system.mature()
    return RoundStage(system, sponsor, *others, team, verifiers, merging, 0)


def make_rounds(system: System, trainers: int = 3, **terms: int) -> RoundStage:
    """Three verifiers, two aggregators and a funded job, job 1 of a fresh system."""
    names = [f"aggregator {i}" for i in range(2)]
    stage = make_people(system, trainers, [STAKE] * 3, names, 100 * REWARD)
    stage.job_id = system.job(stage.sponsor, **terms)
    return stage
