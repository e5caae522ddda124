# SPDX-License-Identifier: Apache-2.0
"""Publishes what a commitment hid, beside the loop: opening it needs digests only.

A store that is down holds up no reveal. The artefacts go out as soon as a store takes them. Who has
not published when the round is merged is neither merged nor paid, and loses nothing else.

A file that is gone, or is not what the journal says was committed to, is not published: the round
is unpaid unless the file is put back.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from agents.pipeline.checkpoint import States
from agents.runtime.background import Background
from agents.runtime.commitments import Commitments
from agents.runtime.context import Context
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore

STATES = "state-"  # what the artefacts of a miner's states begin with
_JOURNALLED = {"payload": "content", "proof": "proof"}  # the field of an artefact's digest
_PROBE = b"menagerie: whether this store takes content "


class _Lost(Exception):
    """A file of a commitment is gone, or holds other bytes."""


class Publication:
    """The submissions of one node. `artefacts`: which files of a submission are published; so are
    a miner's states, of which there are any number."""

    def __init__(
        self,
        context: Context,
        store: ContentStore,
        commitments: Commitments,
        artefacts: Sequence[str],
    ) -> None:
        self._log = context.log
        self._store = store
        self._commitments = commitments
        self._artefacts = tuple(artefacts)
        self._beside = Background(context.feed.wake, self._failed)
        self._wanted: set[str] = set()
        self._done: set[str] = set()
        self._said: set[str] = set()  # submissions of which a file was reported lost

    def want(self, name: str) -> None:
        """Publish a submission's artefacts, if that has not been done since the start."""
        if name not in self._done:
            self._wanted.add(name)

    def again(self, name: str) -> None:
        """Publish a submission's artefacts again: a store may have lost them."""
        self._done.discard(name)
        self._wanted.add(name)

    def step(self) -> None:
        """Start what is wanted, and take note of what has been published."""
        while (ended := self._beside.take()) is not None:
            self._done.add(ended[0])
            self._wanted.discard(ended[0])
            self._log.info("published", submission=ended[0])
        self._beside.want({name: partial(self._put, name) for name in sorted(self._wanted)})

    def check(self) -> None:
        """Raise StoreError unless a store takes content now. Asked before a commitment is sent.

        The content is new each time: a store need not write what it has, so a full disk takes that.
        """
        self._store.put_bytes(_PROBE + secrets.token_bytes(16))

    def _put(self, name: str) -> None:
        entry = self._commitments.get(name)
        if entry is None:
            return  # of a round so old that it was cleared away
        for artefact in self._artefacts:
            path = self._commitments.path(name, artefact)
            if artefact in _JOURNALLED and _JOURNALLED[artefact] in entry:
                content = self._content(path, entry[_JOURNALLED[artefact]])
                self._store.pin(self._store.put_bytes(content))
            elif path.exists():  # a miner's entries may be more than memory holds
                self._store.pin(self._store.put_file(path))
        for path in States(self._commitments.path(name, STATES)).paths():
            self._store.pin(self._store.put_file(path))

    def _content(self, path: Path, digest: str) -> bytes:
        """A file's bytes. `digest`: what the journal says of it."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise _Lost(f"{path} is gone") from None
        # Before it goes out: it may be what another node has not revealed yet.
        if digest_of(cid_of_bytes(content)).hex() != digest:
            raise _Lost(f"{path} is not what was committed to")
        return content

    def _failed(self, name: str, error: Exception) -> None:
        if not isinstance(error, _Lost):
            self._log.warning("cannot_publish_yet", submission=name, why=str(error))
        elif name not in self._said:
            self._said.add(name)
            self._log.error("artefact_lost", submission=name, why=str(error))
