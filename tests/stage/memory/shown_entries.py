# SPDX-License-Identifier: Apache-2.0
"""What a miner shows as received: other entries than those of its epoch, signed or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.letters import sign_passage
from agents.rounds.mined import Mined
from tests.stage.memory.honest_round import JOB, ROUND, SEED
from tests.stage.memory.mined_round import WALLETS, WHERE, MinedRound

NODE = 3
"""The miner: of the middle stage, so everything comes from others."""


def with_entries(mined: MinedRound, entries: Sequence[Entry]) -> Mined:
    return mined.submit(NODE, inbox=Inbox(tuple(entries)).to_bytes())


def resigned(
    entry: Entry, sender: int, message: bytes, receiver: int = NODE, seed: bytes = SEED
) -> Entry:
    """The entry as `sender` would hand it on to `receiver`, with another message."""
    passage = Passage(JOB, ROUND, seed, entry.sample, entry.kind, sender, receiver)
    signature = sign_passage(WALLETS[sender], WHERE, passage, message)
    return replace(entry, sender=sender, signature=signature, message=message)
