# SPDX-License-Identifier: Apache-2.0
"""What miners write to each other, and how it is signed.

Rule: a letter is one passage of a sample with its bytes, signed by the sender's operator over the
passage and the bytes' digest. A notice says that a miner of the first stage has all its samples
back. An announcement says where a miner's post is. A collect asks one post for a letter that waits
there. All four are EIP-712 typed data in one domain, so none can be shown at another deployment.

A letter's first `HEAD_BYTES` bytes say everything but how the sample came and the message: magic,
then job, epoch, sample, kind, sender and receiver (uint64 each, big-endian), the epoch's seed (32
bytes), then the signature (65 bytes). So a receiver can refuse it before it reads the rest. The
sample's trail follows (`agents.pipeline.trail`), whose length the receiver's stage tells, then the
message.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eth_utils import keccak

from agents.pipeline import hand_over
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Passage, Signed
from agents.pipeline.miner_log import Kind
from agents.runtime.wallet import Wallet, recover_typed

Domain = Mapping[str, Any]

MAX_URL = 200
SIGNATURE_BYTES = 65
_LETTER = struct.Struct(">18s6Q32s65s")
_LETTER_MAGIC = b"menagerie letter 2"
_NOTICE = struct.Struct(">18s3Q32s65s")
_NOTICE_MAGIC = b"menagerie notice 1"
_COLLECT = struct.Struct(">19s6Q32s32s65s")
_COLLECT_MAGIC = b"menagerie collect 1"
HEAD_BYTES = _LETTER.size
COLLECT_BYTES = _COLLECT.size
NOTICE_BYTES = _NOTICE.size

# Without a path: everybody posts to this address, and a path may be a command of a service that
# only the poster can reach. Kubo's RPC takes what follows a command for its argument.
_URL = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]{1,120}/?")
_DONE_TYPES = {
    "Done": [
        *({"name": name, "type": "uint256"} for name in ("job", "epoch", "sender")),
        {"name": "seed", "type": "bytes32"},
    ],
}
_COLLECT_NUMBERS = ("job", "epoch", "receiver", "at", "counter", "answer")
_COLLECT_TYPES = {
    "Collect": [
        *({"name": name, "type": "uint256"} for name in _COLLECT_NUMBERS),
        {"name": "seed", "type": "bytes32"},
        {"name": "about", "type": "bytes32"},
    ],
}
_ANNOUNCEMENT_TYPES = {
    "Announcement": [
        {"name": "node", "type": "uint256"},
        {"name": "url", "type": "string"},
        {"name": "time", "type": "uint256"},
    ]
}


class LetterError(ValueError):
    """Bytes that are no letter, notice, collect or announcement."""


def domain(chain_id: int, rounds: str) -> Domain:
    """The EIP-712 domain of a deployment; `rounds`: the address of its TrainingRounds."""
    return {
        "name": "Menagerie Pipeline",
        "version": "1",
        "chainId": chain_id,
        "verifyingContract": rounds,
    }


# -- letters ---------------------------------------------------------------------------------------


def sign_passage(wallet: Wallet, where: Domain, passage: Passage, message: bytes) -> bytes:
    """The sender's 65-byte signature over the passage and keccak256 of its message."""
    return wallet.sign_typed(where, hand_over.TYPES, passage.typed(keccak(message)))


def passage_signer(where: Domain, passage: Passage, digest: bytes, signature: bytes) -> str | None:
    """The checksummed address that signed; None for a malformed signature."""
    return recover_typed(where, hand_over.TYPES, passage.typed(digest), signature)


def signed_by(where: Domain, operators: Mapping[int, str]) -> Signed:
    """Whether a passage's sender signed, by the checksummed operator of each miner."""

    def signed(passage: Passage, digest: bytes, signature: bytes) -> bool:
        signer = passage_signer(where, passage, digest, signature)
        return signer is not None and signer == operators.get(passage.sender)

    return signed


@dataclass(frozen=True)
class Letter:
    """One passage with its bytes. `signature`: of the sender's operator. `trail`: of a FORWARD."""

    passage: Passage
    signature: bytes
    message: bytes
    trail: bytes = b""

    @classmethod
    def signed(
        cls, wallet: Wallet, where: Domain, passage: Passage, message: bytes, trail: bytes = b""
    ) -> Letter:
        """The letter that a sender writes."""
        return cls(passage, sign_passage(wallet, where, passage, message), message, trail)

    def to_bytes(self) -> bytes:
        """Head, trail and message."""
        way = self.passage
        numbers = (way.job, way.epoch, way.sample, way.kind, way.sender, way.receiver)
        head = _LETTER.pack(_LETTER_MAGIC, *numbers, way.seed, self.signature)
        return head + self.trail + self.message


def read_head(raw: bytes) -> tuple[Passage, bytes]:
    """Passage and signature of a letter's first `HEAD_BYTES` bytes.

    LetterError for another length, magic or kind, or a sender that is the receiver.
    """
    if len(raw) != HEAD_BYTES:
        raise LetterError(f"A letter's head has {HEAD_BYTES} bytes, not {len(raw)}.")
    magic, job, epoch, sample, kind, sender, receiver, seed, signature = _LETTER.unpack(raw)
    if magic != _LETTER_MAGIC:
        raise LetterError("These bytes are no letter.")
    if kind not in (Kind.FORWARD, Kind.BACKWARD):
        raise LetterError("Only forward and backward passes are sent by letter.")
    if sender == receiver:
        raise LetterError("A miner writes no letter to itself.")
    return Passage(job, epoch, seed, sample, Kind(kind), sender, receiver), signature


# -- notices ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Done:
    """`sender`, of the first stage, has all its samples back, or has given them up."""

    job: int
    epoch: int
    seed: bytes
    sender: int
    signature: bytes

    @classmethod
    def signed(cls, wallet: Wallet, where: Domain, epoch: Epoch, sender: int) -> Done:
        """The notice of a miner."""
        bare = cls(epoch.job, epoch.number, epoch.seed, sender, b"")
        return replace(bare, signature=wallet.sign_typed(where, _DONE_TYPES, bare._said()))

    def signer(self, where: Domain) -> str | None:
        """The checksummed address that signed; None for a malformed signature."""
        return recover_typed(where, _DONE_TYPES, self._said(), self.signature)

    def _said(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("job", "epoch", "sender", "seed")}

    def to_bytes(self) -> bytes:
        """`NOTICE_BYTES` bytes."""
        numbers = self.job, self.epoch, self.sender
        return _NOTICE.pack(_NOTICE_MAGIC, *numbers, self.seed, self.signature)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Done:
        """LetterError for another length or magic."""
        if len(raw) != NOTICE_BYTES:
            raise LetterError(f"A notice has {NOTICE_BYTES} bytes, not {len(raw)}.")
        magic, job, epoch, sender, seed, signature = _NOTICE.unpack(raw)
        if magic != _NOTICE_MAGIC:
            raise LetterError("These bytes are no notice.")
        return cls(job, epoch, seed, sender, signature)


def done_path(epoch: Epoch, miner: int) -> str:
    """Where a post gives a miner's notice of an epoch, if it is its own or came to it."""
    return f"/done/{epoch.job}/{epoch.number}/{epoch.seed.hex()}/{miner}"


# -- collects --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collect:
    """`receiver` asks the post of miner `at` for a letter.

    Attributes:
        counter: above that of every earlier one of this receiver.
        answer: what became of the letter that it was given before: 0 there was none, 1 taken,
            2 refused, 3 not now.
        about: keccak256 of that letter's bytes, 32 zero bytes for none.
    """

    job: int
    epoch: int
    seed: bytes
    receiver: int
    at: int
    counter: int
    answer: int
    about: bytes
    signature: bytes

    @classmethod
    def signed(
        cls,
        wallet: Wallet,
        where: Domain,
        epoch: Epoch,
        receiver: int,
        at: int,
        counter: int,
        answer: int = 0,
        about: bytes = bytes(32),
    ) -> Collect:
        """What a receiver asks."""
        bare = cls(*epoch.key, receiver, at, counter, answer, about, b"")
        return replace(bare, signature=wallet.sign_typed(where, _COLLECT_TYPES, bare._said()))

    def signer(self, where: Domain) -> str | None:
        """The checksummed address that signed; None for a malformed signature."""
        return recover_typed(where, _COLLECT_TYPES, self._said(), self.signature)

    def _said(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*_COLLECT_NUMBERS, "seed", "about")}

    def to_bytes(self) -> bytes:
        """`COLLECT_BYTES` bytes."""
        numbers = (getattr(self, name) for name in _COLLECT_NUMBERS)
        return _COLLECT.pack(_COLLECT_MAGIC, *numbers, self.seed, self.about, self.signature)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Collect:
        """LetterError for another length, magic or answer."""
        if len(raw) != COLLECT_BYTES:
            raise LetterError(f"A collect has {COLLECT_BYTES} bytes, not {len(raw)}.")
        magic, job, epoch, receiver, at, counter, answer, *rest = _COLLECT.unpack(raw)
        if magic != _COLLECT_MAGIC or answer > 3:
            raise LetterError("These bytes are no collect.")
        seed, about, signature = rest
        return cls(job, epoch, seed, receiver, at, counter, answer, about, signature)


# -- announcements ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Announcement:
    """`node` has its post at `url` since `time`, in Unix seconds.

    An empty `url` says that it takes no connections and comes for its letters. LetterError for a
    url that is not http(s)://host[:port], or too long, or a number that is no uint64.
    """

    node: int
    url: str
    time: int
    signature: bytes

    def __post_init__(self) -> None:
        if self.url and (len(self.url) > MAX_URL or not _URL.fullmatch(self.url)):
            raise LetterError(
                f"A post's address is http(s)://host[:port], at most {MAX_URL} characters, no path."
            )
        if not (0 <= self.node < 1 << 64 and 0 <= self.time < 1 << 64):
            raise LetterError("Node and time of an announcement are whole numbers of 64 bits.")
        if len(self.signature) != SIGNATURE_BYTES:
            raise LetterError(f"A signature has {SIGNATURE_BYTES} bytes.")

    @classmethod
    def signed(cls, wallet: Wallet, where: Domain, node: int, url: str, time: int) -> Announcement:
        """What a miner announces. LetterError as the class."""
        said = {"node": node, "url": url, "time": time}
        return cls(node, url, time, wallet.sign_typed(where, _ANNOUNCEMENT_TYPES, said))

    def signer(self, where: Domain) -> str | None:
        """The checksummed address that signed; None for a malformed signature."""
        said = {"node": self.node, "url": self.url, "time": self.time}
        return recover_typed(where, _ANNOUNCEMENT_TYPES, said, self.signature)

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "node": self.node,
            "url": self.url,
            "time": self.time,
            "signature": self.signature.hex(),
        }

    @classmethod
    def from_json(cls, values: Any) -> Announcement:
        """LetterError for anything else than what `to_json` gives."""
        try:
            node, url, time = values["node"], values["url"], values["time"]
            signature = bytes.fromhex(values["signature"])
        except (KeyError, TypeError, ValueError):
            raise LetterError("An announcement has node, url, time and signature.") from None
        if type(node) is not int or type(time) is not int or not isinstance(url, str):
            raise LetterError("An announcement has whole numbers and a text.")
        return cls(node, url, time, signature)
