# SPDX-License-Identifier: Apache-2.0
"""What a validator's record rests on that the chain may yet change.

Rule: a record counts only where the chain still says what it was made from. That is the round's
audit seed, the sync samples that were posted, who was found invalid, and the newest record that its
validator had revealed. The newest block that says something of these is kept with the record, and
the commitment names it or a later one, so that after a reorganisation it counts for nothing.
What is said only later is no matter: a sample that came too late, or a node that was found invalid
after its validator looked.

A record revealed later is one: a record that does not follow the newest is false. No block can
tell of it, so the digest is kept too, and compared when nothing of the validator's own is pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.gauntlet.record_chain import LOOK_BACK
from agents.protocol.numbers import ZERO_DIGEST
from agents.protocol.scores import Consensus
from agents.protocol.view import View
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Event


@dataclass(frozen=True)
class Basis:
    """`block`: the newest one that a record rests on, with its hash. `follows`: digest of the
    newest record that its validator had revealed in the job, 32 zero bytes without one."""

    block: int
    block_hash: bytes
    follows: bytes

    def stands(self, chain: ChainClient) -> bool:
        """Whether the chain still has the block."""
        return chain.newest_hash(self.block) == self.block_hash

    def fields(self) -> dict[str, Any]:
        """As it is journalled."""
        return {
            "block": self.block,
            "block_hash": self.block_hash.hex(),
            "follows": self.follows.hex(),
        }


def basis_in(entry: Mapping[str, Any]) -> Basis | None:
    """What was journalled; None of what an older agent journalled."""
    if "follows" not in entry:
        return None
    return Basis(
        entry["block"], bytes.fromhex(entry["block_hash"]), bytes.fromhex(entry["follows"])
    )


def basis_of(
    chain: ChainClient,
    consensus: Consensus,
    view: View,
    node: int,
    samples: Iterable[Event],
    invalid: bool,
) -> Basis | None:
    """What a record made now rests on; None if the chain has no audit block any more.

    `samples`: the SamplesPosted that were read. `invalid`: whether a node was found invalid, as
    was read before.
    """
    head, first = chain.head(), view.round.audit_block
    known = chain.block_hash(first)
    if known is None:
        return None
    read = [(first, known)]
    said = [*samples, *consensus.revealed_since(view.job_id, node, first)]
    read += [(event.block, event.block_hash) for event in said]
    if invalid:
        read.append((head.number, head.hash))
    follows = newest_revealed(consensus, view.job_id, view.round_id, node)
    return Basis(*max(read), ZERO_DIGEST if follows is None else follows[1])


def newest_revealed(
    consensus: Consensus, job_id: int, round_id: int, verifier: int
) -> tuple[int, bytes] | None:
    """Round and digest of the newest record that a verifier revealed before a round, and that the
    round's record may follow."""
    for number in range(round_id - 1, max(1, round_id - LOOK_BACK) - 1, -1):
        digest = consensus.record(job_id, number, verifier)
        if digest != ZERO_DIGEST:
            return number, digest
    return None
