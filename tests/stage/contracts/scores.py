# SPDX-License-Identifier: Apache-2.0
"""A job that adopted ScoreConsensus, verifiers of given stakes, and what they do with scores.

Digests are computed from their definition; the consensus by an exhaustive search, which shares
nothing with the contract or with `agents/protocol/median.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import boa
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.clock import mine
from tests.stage.contracts.rounds import RoundStage, make_people
from tests.stage.contracts.system import (
    REWARD,
    STAKE,
    TERMS,
    VOICE,
    Player,
    System,
    terms_tuple,
)

SCALE = 65_535
BPS = 10_000
COMMIT_S, REVEAL_S = 200, 100
# Seconds to commit scores, from the end of the reveals on.
COMMIT_TIME = TERMS["aggregate_s"] + COMMIT_S
SCORE_DOMAIN = keccak(text="menagerie.ScoreConsensus.commit.v1")
NO_SCORES, SCORE_COMMIT, SCORE_REVEAL, SCORE_CLOSED = range(4)
RECORD, SALT = keccak(text="record"), keccak(text="salt")
SAMPLES = keccak(text="samples")


def median(rows: Sequence[Sequence[int]], stakes: Sequence[int], total: int) -> list[int]:
    """For each place the largest c with 2 * stake(score >= c) > total, by two rows at least, tried
    among all scores."""

    def best(place: int) -> int:
        fit = [0]
        for candidate in {row[place] for row in rows}:
            above = [s for row, s in zip(rows, stakes, strict=True) if row[place] >= candidate]
            if 2 * sum(above) > total and len(above) > 1:
                fit.append(candidate)
        return max(fit)

    return [best(place) for place in range(len(rows[0]))] if rows else []


def scores_digest(
    chain_id: int,
    contract: str,
    job_id: int,
    round_id: int,
    node_id: int,
    operator: str,
    scores: Sequence[int],
    record: bytes,
    salt: bytes,
) -> bytes:
    """A verifier's commitment to its scores, from its definition."""
    return keccak(
        encode(
            ["bytes32", "uint256", "address"]
            + ["uint256"] * 3
            + ["address", "uint256[]", "bytes32", "bytes32"],
            [
                SCORE_DOMAIN,
                chain_id,
                contract,
                job_id,
                round_id,
                node_id,
                operator,
                list(scores),
                record,
                salt,
            ],
        )
    )


@dataclass
class ScoreStage:
    """An adopted job among its people."""

    job: RoundStage
    weights: dict[int, int]

    @property
    def system(self) -> System:
        return self.job.system

    @property
    def scores(self) -> Any:
        return self.system.scores

    @property
    def job_id(self) -> int:
        return self.job.job_id

    @property
    def verifiers(self) -> list[Player]:
        return self.job.verifiers

    def snapshot(self, round_id: int) -> tuple[list[int], list[int]]:
        """Nodes and weights of RoundOpened."""
        return self.system.snapshots[self.job_id, round_id]

    def in_order(self, round_id: int, values: Sequence[int]) -> list[int]:
        """Values of trainers 0, 1, ... in the order of the snapshot, which turns every round."""
        of = dict(zip(self.job.ids, values, strict=True))
        return [of[node] for node in self.snapshot(round_id)[0]]

    def digest(
        self,
        round_id: int,
        player: Player,
        scores: Sequence[int],
        record: bytes = RECORD,
        salt: bytes = SALT,
        job_id: int | None = None,
        operator: str | None = None,
    ) -> bytes:
        """The commitment, from its definition."""
        return scores_digest(
            boa.env.evm.patch.chain_id,
            self.scores.address,
            self.job_id if job_id is None else job_id,
            round_id,
            player.node_id,
            operator or player.operator,
            scores,
            record,
            salt,
        )

    def commit(self, round_id: int, player: Player, scores: Sequence[int]) -> None:
        self.send_commitment(round_id, player, self.digest(round_id, player, scores))

    def commit_all(self, round_id: int, row: Sequence[int], *players: Player) -> None:
        """The same row by these verifiers, by all unless told."""
        for player in players or self.verifiers:
            self.commit(round_id, player, row)

    def reveal_all(self, round_id: int, row: Sequence[int], *players: Player) -> None:
        for player in players or self.verifiers:
            self.reveal(round_id, player, row)

    def send_commitment(self, round_id: int, player: Player, commitment: bytes) -> None:
        self.scores.commit_scores(
            self.job_id, round_id, player.node_id, commitment, sender=player.operator
        )

    def reveal(
        self,
        round_id: int,
        player: Player,
        scores: Sequence[int],
        record: bytes = RECORD,
        salt: bytes = SALT,
        sender: str | None = None,
    ) -> None:
        self.scores.reveal_scores(
            self.job_id,
            round_id,
            player.node_id,
            list(scores),
            record,
            salt,
            sender=sender or player.operator,
        )

    def state(self, round_id: int) -> Any:
        return self.scores.scoring(self.job_id, round_id)

    def past_commits(self, round_id: int) -> None:
        self._past(self.state(round_id).commit_deadline)

    def past_reveals(self, round_id: int) -> None:
        self._past(self.state(round_id).reveal_deadline)

    def _past(self, deadline: int) -> None:
        mine(1, max(0, deadline + 1 - boa.env.timestamp))

    def consensus(self, rows: Mapping[int, Sequence[int]]) -> list[int]:
        """The right consensus of the rows that were revealed, by verifier id."""
        if not rows:
            return [0] * len(self.job.ids)
        weights = [self.weights[verifier] for verifier in rows]
        return median(list(rows.values()), weights, sum(self.weights.values()))

    def close(self, round_id: int, consensus: Sequence[int]) -> None:
        self.scores.close_scoring(
            self.job_id,
            round_id,
            *self.snapshot(round_id),
            list(consensus),
            sender=self.job.stranger,
        )

    def score(
        self, round_id: int, rows: Sequence[Sequence[int] | None], silent: Sequence[int] = ()
    ) -> list[int]:
        """A whole scoring: row i by verifier i, None for one that does not commit, places in
        `silent` for those that don't reveal. Returns the consensus."""
        acting = [(i, p, rows[i]) for i, p in enumerate(self.verifiers) if rows[i] is not None]
        for _, player, row in acting:
            self.commit(round_id, player, row or [])
        if any(row is None for row in rows):
            self.past_commits(round_id)
        revealed = {}
        for i, player, row in acting:
            if i not in silent:
                self.reveal(round_id, player, row or [])
                revealed[player.node_id] = row or []
        if silent:
            self.past_reveals(round_id)
        consensus = self.consensus(revealed)
        self.close(round_id, consensus)
        return consensus

    def to_scored(self, *rows: Sequence[int]) -> int:
        """A round in AGGREGATE that is scored by these rows, or by agreement on the trainers'
        places."""
        round_id = self.job.to_aggregate()
        places = range(len(self.job.ids))
        given = rows or [[1_000 * (place + 1) for place in places]] * len(self.verifiers)
        self.score(round_id, given)
        return round_id

    def finish(self, round_id: int, *attesters: Player, contributions: Sequence[int] = ()) -> None:
        """Proposes unless somebody did, attests, finalizes once no score can come any more."""
        shares = list(contributions) or [1_000_000] * len(self.job.ids)
        if self.system.phase(self.job_id, round_id) == 3:
            self.job.propose(round_id, contributions=shares)
        self.job.attest(round_id, *attesters)
        if not self.system.results.can_finalize(self.job_id, round_id):
            self.system.wait_out(self.job_id, round_id)
        if self.state(round_id).phase == SCORE_COMMIT:
            self.past_commits(round_id)
        self.system.results.finalize(self.job_id, round_id, self.job.ids, shares)


def make_scores(
    system: System,
    stakes: Sequence[int] = (STAKE,) * 3,
    trainers: int = 3,
    adopt: bool = True,
    funded: int = 10,
    **terms: int,
) -> ScoreStage:
    """Everybody registered; the job is created, adopted, then funded, as the scripts do it."""
    job = make_people(system, trainers, stakes, ["aggregator"], 1_000 * REWARD)
    job.job_id = int(system.jobs.create_job(terms_tuple(**terms), sender=job.sponsor))
    if adopt:
        system.scores.adopt(job.job_id, COMMIT_S, REVEAL_S, sender=job.sponsor)
    system.fund(job.job_id, funded * REWARD, job.sponsor)
    pairs = zip(job.verifiers, stakes, strict=True)
    by_id = {p.node_id: min(stake, VOICE) for p, stake in pairs}
    return ScoreStage(job, by_id)
