# SPDX-License-Identifier: Apache-2.0
"""What ScoreConsensus says: who committed and revealed which scores, and what came of them.

Rule: everything is read from the chain when it is asked for. What is asked about a round that is
over has one answer for good: the contract closes no scoring of a round once the next one is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from eth_abi import encode
from eth_utils import keccak

from agents.protocol.network import Network, Snapshot

SCORE_DOMAIN = keccak(text="menagerie.ScoreConsensus.commit.v1")


class ScorePhase(IntEnum):
    """Phases of a round's scoring, as ScoreConsensus numbers them."""

    NONE = 0
    COMMIT = 1
    REVEAL = 2
    CLOSED = 3


@dataclass(frozen=True)
class Scoring:
    """A round's scoring as of the head. `total` and `scored` mean something once it is closed.

    `reveal_deadline` is provisional in COMMIT. `closable`: nobody is waited for any more.
    """

    phase: ScorePhase
    commit_deadline: int
    reveal_deadline: int
    committed: int
    revealed: int
    total: int
    scored: bool
    closable: bool


@dataclass(frozen=True)
class Vector:
    """What a verifier revealed: a score for each node of the snapshot, and its record's digest."""

    verifier: int
    scores: dict[int, int]
    record: bytes


class Consensus:
    """Typed reads of ScoreConsensus."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._contract = network.scores

    def adopted(self, job_id: int) -> bool:
        """Whether a job is paid by its validators' consensus."""
        return bool(self._call("adopted", job_id))

    def windows(self, job_id: int) -> tuple[int, int]:
        """Seconds to commit scores and to reveal them; zeros when the job isn't adopted."""
        commit_s, reveal_s = self._call("windows_of", job_id)
        return int(commit_s), int(reveal_s)

    def scoring(self, job_id: int, round_id: int) -> Scoring:
        """The scoring of a round."""
        found = self._call("scoring", job_id, round_id)
        return Scoring(
            phase=ScorePhase(found.phase),
            commit_deadline=int(found.commit_deadline),
            reveal_deadline=int(found.reveal_deadline),
            committed=int(found.committed),
            revealed=int(found.revealed),
            total=int(found.total),
            scored=bool(found.scored),
            closable=bool(found.closable),
        )

    def last_scored(self, job_id: int) -> int:
        """The newest round with a consensus above zero, 0 if there is none."""
        return int(self._call("last_scored", job_id))

    def shares(self, job_id: int, round_id: int) -> dict[int, int]:
        """The consensus of a closed round by node id, without zeros.

        Raises ChainMoved in the middle of a reorg.
        """
        network = self._network
        opened = int(network.round(job_id, round_id).opened_block)
        nodes = sorted(network.snapshot(job_id, round_id, opened).nodes)
        scores = self._call("shares", job_id, round_id, nodes)
        return {node: int(score) for node, score in zip(nodes, scores, strict=True) if score}

    def standing(self, job_id: int, before_round: int) -> dict[int, int]:
        """The consensus of the newest scored round before `before_round`; {} if there is none.

        Once round `before_round` is open the answer never changes. Raises ChainMoved in the
        middle of a reorg.
        """
        newest = min(self.last_scored(job_id), before_round - 1)
        for round_id in range(newest, 0, -1):
            if self.scoring(job_id, round_id).scored:
                return self.shares(job_id, round_id)
        return {}

    def samples(self, job_id: int, round_id: int, opened_block: int) -> dict[int, bytes]:
        """Digests that nodes posted of their model's values, by ascending node id."""
        events = self._events("SamplesPosted", job_id, round_id, opened_block)
        found = {int(e.args["node_id"]): bytes(e.args["digest"]) for e in events}
        return dict(sorted(found.items()))

    def vectors(
        self, job_id: int, round_id: int, opened_block: int, snapshot: Snapshot
    ) -> dict[int, Vector]:
        """What was revealed so far, by ascending verifier id."""
        found = {}
        for event in self._events("ScoresRevealed", job_id, round_id, opened_block):
            verifier = int(event.args["verifier_id"])
            scores = dict(zip(snapshot.nodes, map(int, event.args["scores"]), strict=True))
            found[verifier] = Vector(verifier, scores, bytes(event.args["record"]))
        return dict(sorted(found.items()))

    def committed(self, job_id: int, round_id: int, verifier: int) -> bytes:
        """A verifier's commitment, 32 zero bytes when there is none."""
        return bytes(self._call("score_commitment_of", job_id, round_id, verifier))

    def record(self, job_id: int, round_id: int, verifier: int) -> bytes:
        """Digest of the record behind a verifier's revealed scores, zero before its reveal."""
        return bytes(self._call("record_of", job_id, round_id, verifier))

    def trust(self, job_id: int, verifier: int) -> int:
        """A verifier's agreement with a job's consensus, in 1/10,000."""
        return int(self._call("trust_of", job_id, verifier))

    def digest(
        self,
        job_id: int,
        round_id: int,
        verifier: int,
        operator: str,
        scores: Sequence[int],
        record: bytes,
        salt: bytes,
    ) -> bytes:
        """The commitment to `scores`, which are in the order of the round's snapshot.

        Made here and not by the contract's view: whoever serves the chain would read the scores.
        """
        return scores_digest(
            self._network.deployment.chain_id,
            self._contract.address,
            (job_id, round_id, verifier),
            operator,
            scores,
            record,
            salt,
        )

    def _call(self, function: str, *args: Any) -> Any:
        return self._network.chain.call(self._contract, function, *args)

    def _events(self, name: str, job_id: int, round_id: int, first: int) -> list[Any]:
        chain = self._network.chain
        where = {"job_id": job_id, "round_id": round_id}
        return chain.events(self._contract, name, first, chain.head().number, where)


def scores_digest(
    chain_id: int,
    contract: str,
    place: tuple[int, int, int],
    operator: str,
    scores: Sequence[int],
    record: bytes,
    salt: bytes,
) -> bytes:
    """ScoreConsensus.scores_digest; `place` is job, round and verifier."""
    kinds = ["bytes32", "uint256", "address", "uint256", "uint256", "uint256", "address"]
    return bytes(
        keccak(
            encode(
                [*kinds, "uint256[]", "bytes32", "bytes32"],
                [SCORE_DOMAIN, chain_id, contract, *place, operator, list(scores), record, salt],
            )
        )
    )
