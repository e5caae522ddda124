# SPDX-License-Identifier: Apache-2.0
"""The errors of stored bytes: a caller sees one of these and no other.

Agents branch on the class (a missing payload is the sender's fault, an unreachable store is not),
so the classes mean the same for the embedded and the IPFS store.
"""


class StoreError(Exception):
    """Base of every error a content store raises."""


class NotFound(StoreError):
    """The store answered, and it does not have (or cannot find) the content."""


class CorruptContent(StoreError):
    """The store returned bytes that are not the content the CID names."""


class NoSuchFile(CorruptContent):
    """The blocks are those that were asked for, and no file has them: whoever made them lied about
    its size or its form. `blocks`: that show it."""

    def __init__(self, why: str, blocks: tuple[bytes, ...] = ()) -> None:
        super().__init__(why)
        self.blocks = blocks


class InvalidCid(StoreError, ValueError):
    """The text or digest is not a CID of this network (CIDv1, base32, sha2-256, raw or dag-pb)."""


class StoreUnavailable(StoreError):
    """The store itself failed: unreachable daemon, full disk, missing permission."""


class TooLarge(StoreError):
    """The content is larger than the caller's bound; at most the bound was read. `blocks`: that
    show it, where the content was read by blocks."""

    def __init__(self, why: str, blocks: tuple[bytes, ...] = ()) -> None:
        super().__init__(why)
        self.blocks = blocks
