# SPDX-License-Identifier: Apache-2.0
"""What ScoreConsensus says: who committed and revealed which scores, and what came of them.

Rule: everything is read from the chain when it is asked for. What is asked about a round that is
over has one answer for good: the contract closes no scoring of a round once the next one is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.protocol.formulas import score_commitment
from agents.protocol.network import Network
from agents.protocol.numbers import ScorePhase
from agents.protocol.structs import Snapshot, read
from agents.runtime.contracts import Event


@dataclass(frozen=True)
class Scoring:
    """A round's scoring as of the head. `total` and `scored` mean something once it is closed.

    NONE: nobody has committed, and nobody can. `commit_deadline` is known from the end of the
    round's reveals on, `reveal_deadline` is provisional in COMMIT. `closable`: nobody is waited for
    any more.
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


def digests_in(samples: Sequence[Event]) -> dict[int, bytes]:
    """What `SamplesPosted` events say, by ascending node id."""
    found = {event.args["node_id"]: event.args["digest"] for event in samples}
    return dict(sorted(found.items()))


class Consensus:
    """Typed reads of ScoreConsensus."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._contract = network.scores

    def adopted(self, job_id: int) -> bool:
        """Whether a job is paid by its validators' consensus."""
        return read(bool, self._call("adopted", job_id))

    def windows(self, job_id: int) -> tuple[int, int]:
        """Seconds to commit scores and to reveal them; zeros when the job isn't adopted."""
        commit_s, reveal_s = self._call("windows_of", job_id)
        return commit_s, reveal_s

    def scoring(self, job_id: int, round_id: int) -> Scoring:
        """The scoring of a round."""
        return read(Scoring, self._call("scoring", job_id, round_id))

    def last_scored(self, job_id: int) -> int:
        """The newest round with a consensus above zero, 0 if there is none."""
        return read(int, self._call("last_scored", job_id))

    def shares(self, job_id: int, round_id: int) -> dict[int, int]:
        """The consensus of a closed round by node id, without zeros.

        Raises ChainMoved in the middle of a reorg.
        """
        network = self._network
        round_ = network.round(job_id, round_id)
        nodes = sorted(network.snapshot(job_id, round_id, round_).nodes)
        scores = self._call("shares", job_id, round_id, nodes)
        return {node: score for node, score in zip(nodes, scores, strict=True) if score}

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
        return digests_in(self.samples_posted(job_id, round_id, opened_block))

    def samples_posted(self, job_id: int, round_id: int, opened_block: int) -> list[Event]:
        """The same as the chain's events, in chain order."""
        return self._events("SamplesPosted", job_id, round_id, opened_block)

    def revealed_since(self, job_id: int, verifier: int, block: int) -> list[Event]:
        """What a verifier revealed in a job from a block on, in chain order, of whichever round."""
        chain = self._network.chain
        where = {"job_id": job_id, "verifier_id": verifier}
        last = chain.head().number
        return chain.events(self._contract, "ScoresRevealed", block, last, where)

    def vectors(
        self, job_id: int, round_id: int, opened_block: int, snapshot: Snapshot
    ) -> dict[int, Vector]:
        """What was revealed so far, by ascending verifier id."""
        found = {}
        for event in self._events("ScoresRevealed", job_id, round_id, opened_block):
            args = event.args
            scores = dict(zip(snapshot.nodes, args["scores"], strict=True))
            found[args["verifier_id"]] = Vector(args["verifier_id"], scores, args["record"])
        return dict(sorted(found.items()))

    def committed(self, job_id: int, round_id: int, verifier: int) -> bytes:
        """A verifier's commitment, 32 zero bytes when there is none."""
        return read(bytes, self._call("score_commitment_of", job_id, round_id, verifier))

    def record(self, job_id: int, round_id: int, verifier: int) -> bytes:
        """Digest of the record behind a verifier's revealed scores, zero before its reveal."""
        return read(bytes, self._call("record_of", job_id, round_id, verifier))

    def trust(self, job_id: int, verifier: int) -> int:
        """A verifier's agreement with a job's consensus, in 1/10,000."""
        return read(int, self._call("trust_of", job_id, verifier))

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
        """The commitment to `scores`, which are in the order of the round's snapshot."""
        return score_commitment(
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

    def _events(self, name: str, job_id: int, round_id: int, first: int) -> list[Event]:
        chain = self._network.chain
        where = {"job_id": job_id, "round_id": round_id}
        return chain.events(self._contract, name, first, chain.head().number, where)
