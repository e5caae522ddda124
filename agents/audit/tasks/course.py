# SPDX-License-Identifier: Apache-2.0
"""A redundant task and its appeal as their events tell them, and the contract's rules on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agents.protocol.numbers import ZERO_DIGEST, LaneState, TaskStatus
from agents.runtime.contracts import Event

LANES = 5
MOST_REVEALS = 3


@dataclass
class Lane:
    """An executor's part. `answer`: its commitment, then its tag; the result where OPENED."""

    node: int
    state: LaneState = LaneState.RUNNING
    answer: bytes = ZERO_DIGEST
    commitment: Event | None = None


@dataclass
class Challenge:
    """The appeal against a task. `weights`: by verifier, of the snapshot. `voices`: what each
    named. `due`: how it must end, once something has begun to end it."""

    appellant: str
    status: TaskStatus
    decided_at: int
    deadline: int
    result: bytes = ZERO_DIGEST
    overturned: bool = False
    objector: str = ""
    weights: dict[int, int] = field(default_factory=dict)
    voices: dict[int, bytes] = field(default_factory=dict)
    convict: bool = True
    carried_out: bool = False
    slashed: list[tuple[str, int, int]] = field(default_factory=list)  # event, node, violation


@dataclass
class Course:
    """A task. `time`: of the request while DRAWING, else the stage's deadline. `sizes`: what the
    pool's size may have been at the request. `due`: events that must come next, in order."""

    task: int
    creator: str
    class_id: int
    spec: bytes
    fee: int
    run_s: int
    born: int
    status: TaskStatus
    time: int
    seed_block: int
    requested: int
    sizes: range
    lanes: list[Lane] = field(default_factory=list)
    drawn: list[int] | None = None  # whom the draw that is due takes
    due: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    appeal: Challenge | None = None

    @property
    def name(self) -> str:
        return f"task {self.task}"

    def count(self, state: LaneState) -> int:
        """How many lanes are in a state."""
        return sum(lane.state == state for lane in self.lanes)

    @property
    def free(self) -> int:
        """Lanes that are empty."""
        return LANES - len(self.lanes)

    @property
    def wanted(self) -> int:
        """Executors that are missing: two results are compared, three where two differed."""
        revealed = self.count(LaneState.REVEALED)
        needed = 2 if revealed < 2 else MOST_REVEALS
        live = revealed + self.count(LaneState.COMMITTED) + self.count(LaneState.RUNNING)
        return max(0, needed - live)

    @property
    def agreed(self) -> tuple[int, int]:
        """The two who agreed, first the one who showed the result; zeros for nobody."""
        found = {lane.state: lane.node for lane in self.lanes}
        return found.get(LaneState.OPENED, 0), found.get(LaneState.AGREED, 0)

    @property
    def held(self) -> list[int]:
        """Nodes whose lanes are open until the task releases them."""
        return [lane.node for lane in self.lanes if lane.state != LaneState.ABORTED]

    def lane(self, number: int, node: int) -> Lane | None:
        """A lane by its number, if that node has it."""
        found = self.lanes[number] if number < len(self.lanes) else None
        return found if found is not None and found.node == node else None
