# SPDX-License-Identifier: Apache-2.0
"""The trace of a task: hashes of its steps under one Merkle root, so a lie is found by bisection.

Hash 0 is the state theta_0, the last one the pseudo-gradient. Hash i between them is the state
after step i, or after i times the job's ``trace_every`` steps; the last of these always is theta_H.
Leaf i is keccak(keccak(0x00 || node || i || hash)) with node and i as 32-byte big-endian numbers:
it binds the node, so a trace cannot be handed on. The tree is that of `agents.storage.merkle`.
"""

from __future__ import annotations

from dataclasses import dataclass

from eth_utils import keccak

from agents.storage.canonical import dumps, loads
from agents.storage.merkle import merkle_root
from agents.training.state import PayloadError

MAX_STEPS = 1_000_000


def leaf(node: int, index: int, digest: bytes) -> bytes:
    """The 32-byte leaf of hash ``index`` of ``node``."""
    if len(digest) != 32:
        raise ValueError(f"a trace hash has 32 bytes, got {len(digest)}")
    body = b"\0" + node.to_bytes(32, "big") + index.to_bytes(32, "big") + digest
    return keccak(keccak(body))


@dataclass(frozen=True)
class Trace:
    """A node's hashes, 32 bytes each: two, and one for each of the steps that are shown."""

    node: int
    hashes: tuple[bytes, ...]

    @property
    def steps(self) -> int:
        """Steps that are shown: H, or fewer where not every step has its hash."""
        return len(self.hashes) - 2

    def leaves(self) -> list[bytes]:
        """The leaves in order."""
        return [leaf(self.node, index, digest) for index, digest in enumerate(self.hashes)]

    def root(self) -> bytes:
        """``trace_root``, which the node commits to and reveals."""
        return merkle_root(self.leaves())

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        hashes = [digest.hex() for digest in self.hashes]
        return dumps({"version": 1, "node": self.node, "hashes": hashes})

    @classmethod
    def from_bytes(cls, raw: bytes, node: int, steps: int) -> Trace:
        """Read the trace of ``node`` for a task of which ``steps`` steps are shown.

        Raises:
            PayloadError: too long, malformed, of another node, or not ``steps`` + 2 hashes.
        """
        if len(raw) > max_trace_bytes(steps):
            raise PayloadError(
                f"the trace has {len(raw)} bytes, at most {max_trace_bytes(steps)} are expected"
            )
        try:
            fields = loads(raw)
        except ValueError as error:
            raise PayloadError(f"the trace is not canonical JSON: {error}") from error
        if not isinstance(fields, dict) or set(fields) != {"version", "node", "hashes"}:
            raise PayloadError("the trace needs exactly the keys version, node and hashes")
        if fields["version"] != 1 or type(fields["node"]) is not int or fields["node"] != node:
            raise PayloadError(f"the trace is not version 1 of node {node}")
        hashes = fields["hashes"]
        if not isinstance(hashes, list) or len(hashes) != steps + 2:
            raise PayloadError(f"the trace must hold {steps + 2} hashes for {steps} steps")
        return cls(node, tuple(_digest(item) for item in hashes))


def max_trace_bytes(steps: int) -> int:
    """Upper bound on the length of the trace of ``steps`` steps."""
    return 256 + 67 * (steps + 2)


def _digest(item: object) -> bytes:
    if isinstance(item, str) and len(item) == 64 and not set(item) - set("0123456789abcdef"):
        return bytes.fromhex(item)
    raise PayloadError("a trace hash must be 64 lower-case hexadecimal digits")
