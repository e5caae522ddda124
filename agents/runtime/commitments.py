# SPDX-License-Identifier: Apache-2.0
"""What a node's commitments hide, kept until nothing can ask for it any more.

A commitment is a hash on chain. Whoever sent it must show later what it was made from, or loses
stake. So the secret is on disk before the commitment is sent, in this order: the files (a payload,
a record) first, then one journal entry with the fields and a salt. An entry is written once, and is
forgotten before its files are. Where a crash leaves files without an entry, nothing was committed
to, and the work is done again, or all of it is over.

A key of the journal is a prefix, numbers, and a part of what made this case this one, such as
"submission-3-7-83c1ab69de9cd0e9" for round 7 of job 3 under one round seed. A reorg that changes
the seed makes a second entry under "submission-3-7-". The commitment on chain decides which of them
to open (`behind`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agents.runtime.errors import JournalFull
from agents.runtime.faults import crashpoint
from agents.runtime.journal import Journal
from agents.storage.durable import copy_atomic, drop_parts, write_atomic

Entry = dict[str, Any]


class Commitments:
    """The commitments of one duty of a node. Files lie in `artefacts` as `<name>.<artefact>`.

    `duty` is trainer, validator, executor or verifier: it names the crash point
    `<duty>-before-journal`.
    """

    def __init__(self, journal: Journal, artefacts: Path, duty: str) -> None:
        self._journal = journal
        self._artefacts = artefacts
        self._duty = duty
        drop_parts(artefacts)

    def keep(
        self, name: str, fields: Mapping[str, Any], files: Mapping[str, bytes | Path | None]
    ) -> Entry:
        """Put files and fields on disk under `name`, with a fresh salt; return the entry.

        Only then may the commitment be sent. `fields` is plain JSON; `files` are bytes by artefact,
        or the path of a file to copy, None for one that there is not. If there is an entry, it is
        returned and nothing is written. The entry's `salt` is 32 random bytes as hex. Raises
        JournalFull when the disk refuses, and there is neither entry nor file then, or files only
        that `sweep` finds.
        """
        kept = self.get(name)
        if kept is not None:
            return kept
        written: list[Path] = []
        for artefact, content in files.items():
            if content is not None:
                written.append(self.path(name, artefact))
                self._write(written, content)
        entry = {**fields, "salt": secrets.token_hex(32)}
        crashpoint(f"{self._duty}-before-journal")
        self._journal.put(name, entry)
        return entry

    @staticmethod
    def _write(paths: list[Path], content: bytes | Path) -> None:
        """Write the last of a commitment's files; all of them are dropped when that fails."""
        path = paths[-1]
        try:
            if isinstance(content, Path):
                copy_atomic(path, content)
            else:
                write_atomic(path, content)
        except OSError as error:
            for written in paths:
                _drop(written)
            raise JournalFull(
                f"{path} could not be written: {error}. Free disk space or fix the permissions; "
                "the agent does not commit to work that it might lose."
            ) from error

    def get(self, name: str) -> Entry | None:
        """The entry of that name, if there is one."""
        found: Entry | None = self._journal.get(name)
        return found

    def behind(
        self, prefix: str, wanted: bytes, digest: Callable[[Entry], bytes]
    ) -> tuple[str, Entry] | None:
        """Name and entry of the secret that the commitment `wanted` (32 bytes) was made from.

        It is looked for under all keys that start with `prefix`. `digest` gives the commitment to
        an entry. None: the secret is lost.
        """
        for name in self._journal.keys(prefix):
            entry: Entry = self._journal.get(name)
            if digest(entry) == wanted:
                return name, entry
        return None

    def path(self, name: str, artefact: str) -> Path:
        """Where a file of a commitment lies."""
        return self._artefacts / f"{name}.{artefact}"

    def names(self, prefix: str) -> list[str]:
        """The keys that start with `prefix`, sorted."""
        return self._journal.keys(prefix)

    def numbers(self, prefix: str) -> set[int]:
        """The numbers after `prefix` in the keys: {7} for "scores-3-" and "scores-3-7-4e2e"."""
        return {int(name.removeprefix(prefix).split("-")[0]) for name in self.names(prefix)}

    def forget(self, prefix: str) -> None:
        """Drop entries and files of all keys that start with `prefix`, such as "task-12-".

        What a full disk refuses to forget stays, with its files, until a later call: no duty has
        to wait for that.
        """
        for name in self.names(prefix):
            try:
                self._journal.delete(name)
            except JournalFull:
                return
            for path in self._artefacts.glob(f"{name}.*"):
                _drop(path)

    def sweep(self, prefix: str, but: str) -> None:
        """Drop files of keys that start with `prefix` and have no entry: whoever wrote them died
        before it committed. `but`: the key that is worked on now."""
        kept = {*self.names(prefix), but}
        for path in self._artefacts.glob(f"{prefix}*"):
            if path.name.partition(".")[0] not in kept:
                _drop(path)

    def forget_until(self, prefix: str, last: int) -> None:
        """Drop those whose number after `prefix` is at most `last`: old rounds of a job."""
        for number in self.numbers(prefix):
            if number <= last:
                self.forget(f"{prefix}{number}-")


def _drop(path: Path) -> None:
    with suppress(OSError):  # nobody asks for it any more: it only takes room
        path.unlink(missing_ok=True)
