# SPDX-License-Identifier: Apache-2.0
"""The ledger in Python: lists of entries. A method changes the model, or raises `Refused` with the
reason the contract refuses with; lineage is found by a search, not by stored places."""

from __future__ import annotations

from dataclasses import dataclass, field

from eth_abi import encode
from eth_utils import keccak

from tests.contracts.stateful.machine import need

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
    ) -> None:
        """`models` are the previous and the new one; `roots` contributors, scores, report."""
        need(sender == self.results, "ledger: not results")
        need(EMPTY not in models, "ledger: empty model")
        past = self.history(job)
        need(not past or past[-1].new_model == models[0], "ledger: broken chain")
        need(not past or past[-1].round_id < round_id, "ledger: round order")
        reward = self.rewards.get((job, round_id), 0)
        kinds = ["bytes32", "uint256", "uint256"] + ["bytes32"] * 5 + ["uint256"] * 2
        values = [self.head(job), job, round_id, *models, *roots, reward, self.now]
        head = keccak(encode(kinds, values))
        past.append(Entry(round_id, *models, *roots, head, self.now, reward, len(past)))

    def models(self, job: int) -> set[bytes]:
        return {entry.new_model for entry in self.history(job)}

    def attest(
        self, sender: str, job: int, model: bytes, checkpoint: bytes, statement: bytes
    ) -> None:
        need(model in self.models(job), "ledger: unknown model")
        need(checkpoint != EMPTY, "ledger: empty checkpoint")
        need((job, model, sender) not in self.attested, "ledger: already attested")
        self.attested[job, model, sender] = (checkpoint, statement, self.now)

    def lineage(self, job: int, model: bytes) -> list[Entry]:
        """Every entry up to the last that ended with the model, newest first; empty if none did."""
        kept = self.history(job)
        while kept and kept[-1].new_model != model:
            kept = kept[:-1]
        return kept[::-1]
