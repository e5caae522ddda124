# SPDX-License-Identifier: Apache-2.0
"""Artefacts named by their content: CIDs, canonical JSON and the content stores."""

from agents.storage.content_store import ContentStore, open_store
from agents.storage.errors import (
    CorruptContent,
    InvalidCid,
    NotFound,
    StoreError,
    StoreUnavailable,
    TooLarge,
)

__all__ = [
    "ContentStore",
    "CorruptContent",
    "InvalidCid",
    "NotFound",
    "StoreError",
    "StoreUnavailable",
    "TooLarge",
    "open_store",
]
