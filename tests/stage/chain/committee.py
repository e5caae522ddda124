# SPDX-License-Identifier: Apache-2.0
"""The committee's agents on a test's chain: each member with its key, without a board."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from agents.coordinator import Coordinator, Deed
from agents.storage.embedded import EmbeddedStore
from agents.verify.rulings import Ruling
from tests.stage.chain.agents import RunningAgents
from tests.stage.chain.people import Node, People


def seated(people: People, folder: Path, stack: ExitStack, jitter_s: float) -> list[Coordinator]:
    """An agent for each member. `stack` closes them; MENAGERIE_PASSPHRASE is set."""
    store = EmbeddedStore(folder / "store")
    agents = RunningAgents(people, folder, stack)
    seats = [Node(f"member {i}", 0, 0, *[key] * 3) for i, key in enumerate(people.members)]
    settings = {"device": "cpu", "jitter_s": jitter_s}
    made = [agents.begin(seat, "coordinator", **settings) for seat in seats]
    return [Coordinator(one, store) for one in made]


def deeds(committee: Sequence[Coordinator], ruling: Ruling) -> list[tuple[Coordinator, Deed]]:
    """What members would send now, all of them before one does."""
    looked = [(m, m._deed(ruling, m.context.chain.head())) for m in committee]
    return [(member, deed) for member, deed in looked if deed is not None]
