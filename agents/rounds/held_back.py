# SPDX-License-Identifier: Apache-2.0
"""Results with noise that their proposer has not published yet (`privacy: aggregate`).

Rule: each noised update that others can read costs privacy, and several nodes may propose for one
round at the same time. So a proposer keeps its files on its own disk, proposes their digests, and
publishes them once the chain has that result as the round's. Files of a result that never stands
are read by nobody, and are removed when the round is over.

A proposer that dies between the two publishes after its restart. One that stays away loses the
challenge that says its report can't be had.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, Phase
from agents.protocol.view import View
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore
from agents.storage.durable import write_atomic
from agents.storage.errors import CorruptContent, NotFound, StoreError, StoreUnavailable

_KIND = "held"

_Result = tuple[int, int, bytes]
"""Job, round, digest of the report."""


class HeldBack:
    """Those of one node. `folder`: on its own disk, where nobody else reads."""

    def __init__(self, network: Network, store: ContentStore, folder: Path) -> None:
        self._network = network
        self._store = store
        self._folder = folder
        names = [path.name.split("-")[1:] for path in folder.glob(f"{_KIND}-*-*-*")]
        self._held = {(int(job), int(round_), bytes.fromhex(r)) for job, round_, r in names}
        self._published: set[_Result] = set()

    def keep(self, view: View, files: tuple[bytes, ...]) -> None:
        """Have the files of a result on disk. `files`: its report comes last. Raises OSError."""
        report = digest_of(cid_of_bytes(files[-1]))
        key = view.job_id, view.round_id, report
        place = self._place(key)
        for number, file in enumerate(files):
            write_atomic(place / str(number), file)
        self._held.add(key)

    def step(self, view: View) -> str | None:
        """Publish what stands in the round of `view`; returns what was done.

        Raises StoreUnavailable, NotFound or CorruptContent, and is called again: a daemon may take
        longer to pin what it was just given than it is waited for, such as while it collects
        garbage. Only what can't be read on the own disk is lost.
        """
        held = [key for key in self._held if key[0] == view.job_id]
        for key in held:
            if key[1] < view.round_id or view.round.settled or view.phase == Phase.VOID:
                shutil.rmtree(self._place(key), ignore_errors=True)
                self._held.discard(key)
                self._published.discard(key)
        mine = [key for key in held if key[1] == view.round_id]
        if not mine or view.round.result_hash == ZERO_DIGEST:
            return None
        report = self._network.proposal(view.job_id, view.round_id, view.round).report
        key = view.job_id, view.round_id, report
        if key not in mine or key in self._published:
            return None
        said = f"published: the result of round {view.round_id}, which stands"
        try:
            for path in sorted(self._place(key).iterdir(), key=lambda path: int(path.name)):
                self._store.pin(self._store.put_file(path))
        except (StoreUnavailable, NotFound, CorruptContent):
            raise
        except (StoreError, OSError) as error:
            said = f"lost: the result of round {view.round_id} can't be published: {error}"
        self._published.add(key)
        return said

    def _place(self, key: _Result) -> Path:
        job, round_, report = key
        return self._folder / f"{_KIND}-{job}-{round_}-{report.hex()}"
