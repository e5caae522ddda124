# SPDX-License-Identifier: Apache-2.0
"""What `docs/operators.md` quotes: the bytes that each role's store keeps of one round.

    python -m tests.measure.studies.kept_files

Four trainers do a round of a small model on synthetic text; then each role keeps what its agent
keeps, by the agent's own functions, in a store that counts. `checkpoint` is what a proposer and a
verifier keep besides in every `checkpoint_every`-th round. The rest does not depend on the round.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from agents.rounds.outcome import Outcome
from agents.rounds.reader import RoundReader
from agents.rounds.retention import Retention
from agents.storage.cid import Buffer
from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    SEED,
    ChainFacts,
    HonestRound,
    make_honest_round,
    proposal_of,
)
from tests.stage.memory.tiny_specs import GAUNTLET, signed_steps

_MODEL = {"d_model": 256, "n_layers": 4, "n_heads": 4, "n_kv_heads": 4, "d_ff": 768,
          "max_seq_len": 16}  # fmt: skip
_INNER: dict[str, Any] = {"batch_size": 2, "seq_len": 16, "inner_state": "kept"}
CASES: dict[str, dict[str, Any]] = {
    "dense": {},
    "dense, state kept": {"optimizer": _INNER},
    "sparse": {"codec": "sparse", "merge": "mean"},
    "cells": {"codec": "cells", "merge": "mean"},
    "directions": {"codec": "directions", "merge": "mean"},
    "demo, gauntlet": {**GAUNTLET, "optimizer": signed_steps(2, 16, 0.002, outer_decay=True)},
}


class Counting(EmbeddedStore):
    """A node's view of a store: `kept` has the bytes of what it put or pinned, by CID."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.kept: dict[str, int] = {}

    def put_bytes(self, data: Buffer) -> str:
        cid = super().put_bytes(data)
        self.kept[cid] = self.size(cid)
        return cid

    def pin(self, cid: str) -> None:
        super().pin(cid)
        self.kept[cid] = self.size(cid)

    @property
    def bytes(self) -> int:
        return sum(self.kept.values())


class Played:
    """A round whose result stands, in a store that all share."""

    def __init__(self, tiny: HonestRound) -> None:
        self.tiny, self.facts = tiny, ChainFacts(tiny.published)
        self.facts.revealed = {node: tiny.reveal(node) for node in NODES}
        self.view = self.facts.open(1, SEED)
        self.outcome = self.compute(self.reader(tiny.store))
        self.facts.proposed = proposal_of(self.outcome)

    def reader(self, store: EmbeddedStore) -> RoundReader:
        """Of a job that nobody has scored yet."""
        return RoundReader(self.facts, store, DEVICE, standings=lambda job, number: {})

    def compute(self, reader: RoundReader) -> Outcome:
        found = reader.outcome(self.view, reader.submissions(self.view))
        assert found is not None
        return found

    def trainer(self) -> int:
        work = self.tiny.works[NODES[0]]
        return sum(map(len, (work.payload, work.trace, work.proof.to_bytes())))

    def proposer(self) -> int:
        store = Counting(self.tiny.store.root)
        reader = self.reader(store)
        reader.publish(self.compute(reader))
        return store.bytes

    def verifier(self) -> int:
        store = Counting(self.tiny.store.root)
        assert Retention(self.reader(store)).unkept(self.view) == ""
        return store.bytes


def main() -> None:
    """Print a line for each kind of job, in bytes a parameter of the model."""
    torch.set_num_threads(1)
    heads = ("payload", "trainer", "proposer", "verifier", "checkpoint")
    print(f"{'bytes a parameter, 4 trainers':<32}" + "".join(f"{head:>12}" for head in heads))
    for title, changes in CASES.items():
        with TemporaryDirectory() as folder:
            fields = {"model": _MODEL, "checkpoint_every": 64, **changes}
            tiny = make_honest_round(EmbeddedStore(Path(folder) / "store"), **fields)
            played, count = Played(tiny), tiny.job.parameters
            payload = len(tiny.works[NODES[0]].payload)
            whole = tiny.store.size(tiny.published.checkpoint_cid)
            found = (payload, played.trainer(), played.proposer(), played.verifier(), whole)
            print(f"{title:<32}" + "".join(f"{one / count:>12.3f}" for one in found), flush=True)
    print(f"{count:,} parameters")


if __name__ == "__main__":
    main()
