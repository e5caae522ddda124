# SPDX-License-Identifier: Apache-2.0
"""Whole agents of several nodes on a test's chain, stepped in turn in this process.

Rule: an agent acts as its loop would have it act; when none has anything to do, time passes until
the next deadline of a running round.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agents.aggregator import Aggregator
from agents.coordinator import Coordinator
from agents.runtime.errors import Reverted
from agents.runtime.loop import Agent
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import StoreError
from agents.trainer import Trainer
from agents.verifier import Verifier
from tests.stage.chain.agents import RunningAgents
from tests.stage.chain.people import FINALIZED, Node, People

KINDS: dict[str, Callable[..., Agent]] = {
    "trainer": Trainer,
    "verifier": Verifier,
    "aggregator": Aggregator,
    "coordinator": Coordinator,
}


class Crowd(RunningAgents):
    """Agents by their nodes' names; they read and write one store."""

    def __init__(
        self, people: People, store: EmbeddedStore, folder: Path, stack: ExitStack
    ) -> None:
        super().__init__(people, folder, stack)
        self.store = store
        self.agents: dict[str, Agent] = {}
        self.did: list[tuple[str, str]] = []
        self._half_waited = 0  # for which deadline

    def join(self, name: str, role: str, **options: Any) -> Any:
        """Start, or restart, a node's agent; no job is configured."""
        fixed = {"job_id": 0, "device": "cpu", "jitter_s": 0.0, "poll_s": 60.0}
        context = self.begin(self.people.nodes[name], role, **{**fixed, **options})
        self.agents[name] = KINDS[role](context, self.store)
        return self.agents[name]

    def join_member(self, number: int, **options: Any) -> None:
        """Start a committee member's agent, as "member 0" and so on."""
        key, name = self.people.members[number], f"member {number}"
        self.people.nodes[name] = Node(name, 0, 0, key, key, key)
        self.join(name, "coordinator", **options)

    def step(self, name: str) -> str | None:
        """One step of one agent."""
        context = self.running[name]
        try:
            with context.chain.look(context.chain.head()) as head:  # as the loop does
                did = self.agents[name].step(head)
        except (Reverted, StoreError):
            return None  # another was faster, or something is still to be published
        if did is not None:
            self.did.append((name, did))
        return did

    def until(self, done: Callable[[], bool], most: int = 400) -> None:
        """Let all agents act, and time pass, until `done`."""
        for _ in range(most):
            if done():
                return
            acted = [self.step(name) for name in self.agents]
            if not any(acted):
                self._wait()
        raise AssertionError(f"not reached; the last deeds: {self.did[-12:]}")

    def finalized(self, job: int) -> int:
        """How many rounds of a job are final."""
        return int(self.people.chain.call(self.people.jobs, "job", job).rounds_done)

    def said(self, name: str) -> str:
        """A node's log."""
        return (self.folder / f"{name}.log").read_text()

    def _wait(self) -> None:
        people, ends = self.people, []
        for job in range(1, int(people.chain.call(people.jobs, "job_count")) + 1):
            number = people.chain.call(people.jobs, "job", job).rounds_opened
            if number:
                state = people.chain.call(people.rounds, "round", job, number)
                if state.phase < FINALIZED:
                    ends.append(int(state.deadline))
        people.chain.mine()
        if ends and (left := min(ends) - people.chain.now) > 0:
            # In two halves: some duties wait for a part of a window.
            whole = self._half_waited == min(ends)
            self._half_waited = min(ends)
            people.chain.warp(left + 1 if whole else left // 2 + 1)
