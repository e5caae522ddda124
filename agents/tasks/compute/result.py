# SPDX-License-Identifier: Apache-2.0
"""The result of a task, without torch, so that a process that computes nothing can handle it."""

from __future__ import annotations

from dataclasses import dataclass

from agents.storage.cid import cid_of_bytes


@dataclass(frozen=True)
class TaskResult:
    """What a node commits to and publishes.

    Attributes:
        digest: 32 bytes, the digest of the payload's CID.
        payload: what the digest names; to be put in the store.
        refusal: why there is nothing else, a key of `agents.tasks.compute.errors.REASONS`, or None.
        detail: the refusal as a sentence, for logs; no part of the result.
    """

    digest: bytes
    payload: bytes
    refusal: str | None = None
    detail: str = ""

    @property
    def cid(self) -> str:
        """The payload's CID."""
        return cid_of_bytes(self.payload)
