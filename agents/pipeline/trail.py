# SPDX-License-Identifier: Apache-2.0
"""How a sample came to its sender: every hand-over of it before, each with its signature.

Rule: who sends a sample forward shows the hand-overs from the miner that begins it to itself. A
receiver takes no sample without them. A receiver takes one sample once, so without this rule a
miner could send made-up numbers in the place of samples that were never given to it: their true
senders would then be refused.

A trail is bytes: a hop for each stage before the sender's, each the miner (uint64, big-endian), the
digest that it signed (32 bytes) and the signature (65 bytes). A gradient needs none: only who was
sent a sample may send its gradient.
"""

from __future__ import annotations

import struct

from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Passage, Signed
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Kind

_HOP = struct.Struct(">Q32s65s")


def trail_bytes(stage: int, kind: Kind) -> int:
    """The length of a trail that comes to `stage` with a pass of this kind."""
    return max(0, stage - 1) * _HOP.size if kind is Kind.FORWARD else 0


def trail_from(entry: Entry) -> bytes:
    """The trail of what a miner sends on after it has executed a FORWARD."""
    if not entry.sender:
        return b""  # the sample begins here
    return entry.trail + _HOP.pack(entry.sender, entry.digest, entry.signature)


def broken(epoch: Epoch, passage: Passage, trail: bytes, signed: Signed) -> str:
    """Why a trail does not lead to the sender of a passage, as a sentence; empty if it does.

    Args:
        passage: of the epoch, from a miner of the stage before the receiver's.
        signed: called for each hop.
    """
    stage = epoch.stage_of(passage.receiver)
    assert stage is not None
    if len(trail) != trail_bytes(stage, passage.kind):
        return f"Sample {passage.sample} comes with a trail of another length than its way has."
    hops: list[tuple[int, bytes, bytes]] = list(_HOP.iter_unpack(trail))
    miners = [*(sender for sender, _, _ in hops), passage.sender]
    for to, (sender, digest, signature) in enumerate(hops, start=1):
        receiver = miners[to]
        if not epoch.may_send(passage.sample, Kind.FORWARD, sender, to):
            return f"Miner {sender} can't have handed sample {passage.sample} to stage {to}."
        way = Passage.of(epoch, passage.sample, Kind.FORWARD, sender, receiver)
        if not signed(way, digest, signature):
            return f"Miner {sender} did not hand sample {passage.sample} to miner {receiver}."
    return ""
