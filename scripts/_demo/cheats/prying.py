# SPDX-License-Identifier: Apache-2.0
"""Tries to read text that it was given no key of; trains honestly otherwise.

Once a round it tries every sealed shard with all that it can get at: the keys that it was given,
every public number that might serve as a key, and the boxes that were sealed to others. It tries
without its own keys too, as somebody would who was given none. What opened it writes down.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path

from agents.jobs.disclosed import Disclosures
from agents.protocol.view import View
from agents.runtime.context import Context
from agents.runtime.wallet import Identity
from agents.storage.errors import StoreError
from agents.storage.key_release import ReleaseError, node_reader
from agents.storage.sealed import SealError, sealed_size, shard_key, unseal
from agents.storage.several import open_stores
from agents.trainer import Trainer
from agents.training.data import MAX_MANIFEST_BYTES, Dataset
from agents.training.spec import SpecError

NOTES = "pried.jsonl"  # in the node's own folder


class Prying(Trainer):
    """Wants to see more than it was assigned."""

    def pry(self, view: View, node: int) -> None:
        """Try everything, and write down what opened."""
        spec = self.models.spec(view.job_id)
        dataset = Dataset.from_bytes(self.store.get(spec.data, MAX_MANIFEST_BYTES))
        public = self._public(view.job_id, dataset)
        held = self.access.keys_of_shards(view.job_id, node)
        boxes, opened_boxes = self._boxes(view.job_id, node)
        note = {
            "round": view.round_id,
            "shards": len(dataset.shards),
            "held": sorted(held),
            "without": self._opened(dataset, public),
            "with": self._opened(dataset, [*public, *held.values()]),
            "boxes": boxes,
            "boxes_opened": opened_boxes,
        }
        with (self._folder / NOTES).open("a") as notes:
            notes.write(json.dumps(note) + "\n")

    @property
    def _folder(self) -> Path:
        return Path(self.context.settings.data_dir)

    def commit(self, view: View, node: int) -> str | None:
        """As everybody; then it pries."""
        did = super().commit(view, node)
        if did is not None and did.startswith("committed"):
            try:
                self.pry(view, node)
            except (StoreError, SpecError) as error:
                self.context.log.warning("cannot_pry", why=str(error))
        return did

    def _public(self, job_id: int, dataset: Dataset) -> list[bytes]:
        """What everybody knows and might take for a key, for its secret or for its salt."""
        announced = self.context.chain.call(self.network.deployment["DataKeys"], "key_of", job_id)
        salt = bytes.fromhex(dataset.key_salt or "00" * 32)
        guesses = [bytes(32), bytes(announced), salt, Identity(self.context.wallet).public]
        return [*guesses, *(shard_key(guess, salt, 0) for guess in guesses)]

    def _opened(self, dataset: Dataset, keys: Iterable[bytes]) -> list[int]:
        """Which shards open with any of these keys."""
        itemsize = {"uint8": 1, "uint16": 2, "uint32": 4}[dataset.dtype]
        known = list(keys)
        found = []
        for index, shard in enumerate(dataset.shards):
            raw = self.store.get(shard.cid, sealed_size(shard.tokens * itemsize))
            if any(_opens(raw, key, index) for key in known):
                found.append(index)
        return found

    def _boxes(self, job_id: int, node: int) -> tuple[int, int]:
        """How many boxes were sealed to others, and how many of them this node can open."""
        identity = Identity(self.context.wallet)
        tried = opened = 0
        for one in Disclosures(self.network, self.store, job_id).read():
            for entry in one.release.readers:
                if entry.reader == node_reader(node):
                    continue
                tried += 1
                try:
                    one.release.open(entry.reader, identity.open_box)
                    opened += 1
                except ReleaseError:
                    continue
        return tried, opened


def _opens(raw: bytes, key: bytes, index: int) -> bool:
    try:
        unseal(io.BytesIO(raw), io.BytesIO(), key, index)
    except SealError:
        return False
    return True


def build(context: Context) -> Prying:
    """The cheat of a started agent."""
    return Prying(context, open_stores(context.settings.store))
