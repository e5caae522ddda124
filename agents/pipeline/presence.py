# SPDX-License-Identifier: Apache-2.0
"""Signs in the store that a miner is at work and comes to the store for its letters.

Rule: a miner signs one for every `SPAN_S` seconds of its epoch, and leaves it in a box that follows
from the epoch, the miner and the time. A letter is left in the store only for a miner that was
there in this span or the one before: one that died would keep its samples waiting. The time is part
of what is signed, so an old sign is worth nothing later.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from agents.pipeline.epoch import Epoch
from agents.pipeline.letters import Domain, LetterError
from agents.runtime.wallet import Wallet, recover_typed

SPAN_S = 20
_MAGIC = b"menagerie present 1"
_FORM = struct.Struct(">19s4Q?32s65s")
PRESENT_BYTES = _FORM.size
_NUMBERS = ("job", "epoch", "miner", "span")
_TYPES = {
    "Present": [
        *({"name": name, "type": "uint256"} for name in _NUMBERS),
        {"name": "alone", "type": "bool"},
        {"name": "seed", "type": "bytes32"},
    ]
}


def span_of(unix_s: float) -> int:
    """The span that a moment lies in."""
    return int(unix_s) // SPAN_S


def box_of(what: str, where: Domain, epoch: Epoch, *numbers: int) -> bytes:
    """The box of the store for something of an epoch: 32 bytes, another for each deployment."""
    place = (where["chainId"], where["verifyingContract"], *epoch.key[:2], epoch.seed.hex())
    return sha256("/".join(map(str, ("menagerie", what, *place, *numbers))).encode()).digest()


@dataclass(frozen=True)
class Present:
    """`miner` is at work in a span. `alone`: no post has answered it, so it has the store only."""

    job: int
    epoch: int
    seed: bytes
    miner: int
    span: int
    alone: bool
    signature: bytes

    @classmethod
    def signed(
        cls, wallet: Wallet, where: Domain, epoch: Epoch, miner: int, span: int, alone: bool
    ) -> Present:
        """What a miner leaves."""
        bare = cls(*epoch.key, miner, span, alone, b"")
        return replace(bare, signature=wallet.sign_typed(where, _TYPES, bare._said()))

    def is_of(
        self, where: Domain, epoch: Epoch, miner: int, span: int, operator: str | None
    ) -> bool:
        """Whether the miner's operator signed it for just this epoch and span."""
        if (self.job, self.epoch, self.seed) != epoch.key or self.miner != miner:
            return False
        signer = recover_typed(where, _TYPES, self._said(), self.signature)
        return self.span == span and signer is not None and signer == operator

    def _said(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*_NUMBERS, "alone", "seed")}

    def to_bytes(self) -> bytes:
        """`PRESENT_BYTES` bytes."""
        numbers = (getattr(self, name) for name in _NUMBERS)
        return _FORM.pack(_MAGIC, *numbers, self.alone, self.seed, self.signature)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Present:
        """LetterError for another length or magic."""
        if len(raw) != PRESENT_BYTES or not raw.startswith(_MAGIC):
            raise LetterError("These bytes are no sign of a miner's presence.")
        _, job, epoch, miner, span, alone, seed, signature = _FORM.unpack(raw)
        return cls(job, epoch, seed, miner, span, alone, signature)
