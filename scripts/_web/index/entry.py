# SPDX-License-Identifier: Apache-2.0
"""What a fold is given: one event, decoded, with the time of its block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.runtime.contracts import Event
from scripts._web.index.rows import Rows
from scripts._web.index.words import hexed


@dataclass(frozen=True)
class Entry:
    """An event. `contract`: the name of who logged it. `time`: of its block, chain seconds."""

    event: Event
    contract: str
    time: int

    @property
    def args(self) -> dict[str, Any]:
        """The event's fields by name."""
        return self.event.args

    @property
    def block(self) -> int:
        """The number of its block."""
        return self.event.block

    @property
    def tx(self) -> str:
        """The hash of its transaction."""
        return hexed(self.event.tx_hash)

    @property
    def place(self) -> tuple[int, int]:
        """The job and the round that it is about."""
        return self.args["job_id"], self.args["round_id"]


Fold = Callable[[Rows, Entry], None]
Folds = Mapping[str, Fold]
