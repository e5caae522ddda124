# SPDX-License-Identifier: Apache-2.0
"""The ledger in Python: lists of entries. A method returns the reason the contract refuses with, or
None after having changed the model; lineage is found by a search, not by stored places."""

from __future__ import annotations

from dataclasses import dataclass, field

from eth_abi import encode
from eth_utils import keccak

EMPTY = bytes(32)
MOST = 64


@dataclass(frozen=True)
class Entry:
    """An entry in the order of the interface's struct."""

    round_id: int
    prev_model: bytes
    new_model: bytes
    contributors_root: bytes
    scores_root: bytes
    report: bytes
    head: bytes
    timestamp: int
    reward: int
    index: int

    def fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)


@dataclass
class LedgerModel:
    """Histories by job; attestations by job, model and attester."""

    results: str
    coordinator: str
    now: int = 0
    histories: dict[int, list[Entry]] = field(default_factory=dict)
    rewards: dict[tuple[int, int], int] = field(default_factory=dict)
    attested: dict[tuple[int, bytes, str], tuple[bytes, bytes, int]] = field(default_factory=dict)

    def history(self, job: int) -> list[Entry]:
        return self.histories.setdefault(job, [])

    def head(self, job: int) -> bytes:
        return self.history(job)[-1].head if self.history(job) else EMPTY

    def record(
        self, sender: str, job: int, round_id: int, models: tuple[bytes, bytes], roots: list[bytes]
    ) -> str | None:
        """`models` are the previous and the new one; `roots` contributors, scores, report."""
        if sender != self.results:
            return "ledger: not results"
        if EMPTY in models:
            return "ledger: empty model"
        past = self.history(job)
        if past and past[-1].new_model != models[0]:
            return "ledger: broken chain"
        if past and past[-1].round_id >= round_id:
            return "ledger: round order"
        reward = self.rewards.get((job, round_id), 0)
        kinds = ["bytes32", "uint256", "uint256"] + ["bytes32"] * 5 + ["uint256"] * 2
        values = [self.head(job), job, round_id, *models, *roots, reward, self.now]
        head = keccak(encode(kinds, values))
        past.append(Entry(round_id, *models, *roots, head, self.now, reward, len(past)))
        return None

    def models(self, job: int) -> set[bytes]:
        return {entry.new_model for entry in self.history(job)}

    def attest(
        self, sender: str, job: int, model: bytes, checkpoint: bytes, statement: bytes
    ) -> str | None:
        if model not in self.models(job):
            return "ledger: unknown model"
        if checkpoint == EMPTY:
            return "ledger: empty checkpoint"
        if (job, model, sender) in self.attested:
            return "ledger: already attested"
        self.attested[job, model, sender] = (checkpoint, statement, self.now)
        return None

    def lineage(self, job: int, model: bytes) -> list[Entry]:
        """Every entry up to the last that ended with the model, newest first; empty if none did."""
        kept = self.history(job)
        while kept and kept[-1].new_model != model:
            kept = kept[:-1]
        return kept[::-1]
