# SPDX-License-Identifier: Apache-2.0
"""What an owner of shards reads of a payload: the numbers that lie in its shards, and no others.

Rule: the job fixes a payload's size and where each number lies in it, so an owner reads neither
header nor the numbers of others' shards. What it reads is checked as in a whole payload: size of
the file, and each number finite and not too large. A fault elsewhere is found by those who merge
whole payloads: the proposer and all who attest. A payload in another codec than `dense` has no
place for each number and is read whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agents.jobs.job import JobContext
from agents.mechanisms.codec.dense import Dense
from agents.mechanisms.codec.parts.container import header
from agents.pipeline.butterfly import Span
from agents.pipeline.shards import flat
from agents.protocol.structs import Reveal
from agents.rounds.payload import check_numbers, read_payload
from agents.rounds.plan import Plan
from agents.rounds.report import UNAVAILABLE
from agents.storage.content_store import ContentStore
from agents.storage.errors import NoSuchFile, StoreError, StoreUnavailable, TooLarge
from agents.training.state import PayloadError

_REASON = 300
_TOO_LARGE = "too large: "


@dataclass(frozen=True)
class Pieces:
    """A miner's numbers. `row`: fp32 [numbers of the stage], zero outside of the spans that were
    asked for; None for a reason. `fetched`: bytes that came from the store. `blocks`: that they
    were read from; none if it was the whole file."""

    row: Tensor | None
    fetched: int = 0
    reason: str = ""
    blocks: tuple[bytes, ...] = ()

    @property
    def unavailable(self) -> bool:
        """Whether the store simply doesn't have them (yet)."""
        return self.reason.startswith(UNAVAILABLE)

    @property
    def too_large(self) -> bool:
        """Whether the file has more bytes than a payload, or says so."""
        return self.reason.startswith(_TOO_LARGE)


def _has_places(codec: object) -> bool:
    return isinstance(codec, Dense)


def fetch_pieces(
    reveal: Reveal,
    job: JobContext,
    store: ContentStore,
    plan: Plan,
    stage: int,
    spans: Sequence[Span],
) -> Pieces:
    """The numbers of a payload in these spans. Raises StoreUnavailable when the store is down."""
    codec, shapes = job.codec_at(plan.step), job.stage_shapes(stage)
    size, blocks = codec.wire_size(shapes), tuple[bytes, ...]()
    try:
        if not _has_places(codec):
            raw = store.get_digest(reveal.content, size)
            change = read_payload(raw, codec, shapes, plan.codec_seed(codec, reveal.node))
            return Pieces(flat(change), len(raw))
        start = len(header(codec.layout(shapes)))
        places = [(start + 4 * first, start + 4 * last) for first, last in spans]
        found = store.get_spans(reveal.content, places, size)
        blocks = found.blocks
        if found.size != size:
            raise PayloadError(f"The payload has {found.size} bytes, not {size}.")
        row = torch.zeros((size - start) // 4)
        for (first, last), part in zip(spans, found.parts, strict=True):
            check_numbers(f"numbers {first} to {last}", "F32", memoryview(part))
            row[first:last] = torch.from_numpy(np.frombuffer(part, "<f4").astype(np.float32))
    except StoreUnavailable:
        raise
    except TooLarge as error:
        return Pieces(None, reason=f"{_TOO_LARGE}{error}"[:_REASON], blocks=error.blocks)
    except NoSuchFile as error:
        return Pieces(None, reason=f"bad payload: {error}"[:_REASON], blocks=error.blocks)
    except StoreError as error:
        return Pieces(None, reason=f"{UNAVAILABLE}{error}"[:_REASON])
    except PayloadError as error:
        return Pieces(None, reason=f"bad payload: {error}"[:_REASON], blocks=blocks)
    return Pieces(row, found.fetched, blocks=blocks)
