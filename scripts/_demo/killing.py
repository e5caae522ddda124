# SPDX-License-Identifier: Apache-2.0
"""Kills agents of a demo in the middle of a round's work, and starts them again.

A round's work is under way when a miner's file of entries has grown. The first of a round's seats
is that miner. All of them are killed at that moment as by a power cut. The miner starts again after
`_AWAY_S`, the others when somebody else has proposed the round's result.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from scripts._net.localnet import Localnet
from scripts._net.processes import Supervisor
from scripts._report.story import Story
from scripts._report.verdict import Check

_AWAY_S = 2.0
_GROWN = 2_000  # bytes of entries: some samples are done, and others are not


class Killing:
    """What becomes of the seats that a scenario has killed. `killed`: seats by round."""

    def __init__(
        self, net: Localnet, supervisor: Supervisor, killed: Mapping[int, Sequence[str]]
    ) -> None:
        self._net, self._supervisor = net, supervisor
        self._to_kill = dict(killed)
        self._back: dict[str, float] = {}  # when a miner starts again
        self._gone: dict[str, int] = {}  # the round whose result others must propose
        self._done: dict[str, int] = {}  # the round in which each was killed

    def look(self, job_id: int, story: Story) -> list[str]:
        """Kill or start again what is due; a sentence for each."""
        said = []
        for number, seats in list(self._to_kill.items()):
            if not self._under_way(seats[0], job_id, number):
                continue
            del self._to_kill[number]
            for name in seats:
                self._supervisor[name].kill()
                if name == seats[0]:
                    self._back[name] = time.monotonic() + _AWAY_S
                else:
                    self._gone[name] = number
                self._done[name] = number
                said.append(f"{name} was killed in the middle of round {number}'s work")
        now = time.monotonic()
        due = [name for name, when in self._back.items() if now >= when]
        due += [name for name, number in self._gone.items() if _proposers(story, number)]
        for name in due:
            self._back.pop(name, None)
            self._gone.pop(name, None)
            self._net.start_agent(name)
            said.append(f"{name} is started again")
        return said

    def _under_way(self, name: str, job_id: int, number: int) -> bool:
        folder = self._net.directory / "agents" / name / "artefacts"
        files = folder.glob(f"epoch-{job_id}-{number}-*.entries")
        return any(file.stat().st_size >= _GROWN for file in files)

    def checks(self, story: Story) -> list[Check]:
        """Each seat was killed. A miner revealed its work of that round all the same, and in the
        place of the others somebody else proposed its result."""
        found = [
            Check(False, f"{seats[0]} was not at work in round {number}, so nobody was killed")
            for number, seats in self._to_kill.items()
        ]
        ids = {node.name: node.node_id for node in story.nodes.values()}
        for name, number in self._done.items():
            killed = f"{name} was killed in the middle of round {number}'s work"
            if name.startswith("trainer"):
                went_on = ids[name] in story.rounds[number].revealed
                found.append(
                    Check(
                        went_on,
                        f"{killed}, started again "
                        f"and {'revealed it' if went_on else 'did NOT reveal it'}",
                    )
                )
                continue
            proposers = _proposers(story, number)
            replaced = bool(proposers) and ids[name] not in proposers
            names = ", ".join(story.nodes[node].name for node in proposers) or "nobody"
            found.append(Check(replaced, f"{killed}; {names} proposed its result"))
        return found


def _proposers(story: Story, number: int) -> list[int]:
    """Who has proposed a result of a round so far."""
    known = story.rounds.get(number)
    return [] if known is None else known.proposers
