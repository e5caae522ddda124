# SPDX-License-Identifier: Apache-2.0
"""Which contested verdicts a member looks after: all that it may decide, however many blocks ago
they were contested. It has the dispute window for that, which is seconds: on a chain of four blocks
a second a member that was restarted 3.5 hours after the objection did not see it any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.tasks.dispute import TaskDisputes
from tests.stage.memory.old_event import QuickChain

TASK = 7


class Member(TaskDisputes):
    """One that starts a fortnight after an objection, which may be decided for a minute yet."""

    def __init__(self) -> None:
        self.chain = QuickChain(("VerdictContested", {"task_id": TASK}))
        network: Any = SimpleNamespace(
            chain=self.chain, tasks=None, appeals=None, deployment=SimpleNamespace(block=0)
        )
        context: Any = SimpleNamespace(feed=SimpleNamespace(wake=lambda: None))
        super().__init__(network, context, "cpu")
        self.contested, self.deadline = True, self.chain.head().timestamp + 60
        self.reads = 0
        self.runner: Any = SimpleNamespace(take=lambda: None, want=lambda _: None, running=set())
        self.tasks: Any = SimpleNamespace(appeal=self.appeal, task=lambda number: number)

    def appeal(self, _: int) -> Any:
        self.reads += 1
        return SimpleNamespace(contested=self.contested, deadline=self.deadline)

    def _name(self, task: Any) -> str:
        return f"dispute-{task}"

    def _can(self, task: Any) -> bool:
        return True


@pytest.fixture
def member() -> Member:
    return Member()


def test_an_old_objection_is_decided_on_a_chain_of_quick_blocks_too(member: Member) -> None:
    assert member.step(member.chain.head()) == [(TASK, member.deadline)]


@pytest.mark.parametrize("end", ["decided", "too late"])
def test_one_that_has_ended_is_read_until_no_reorg_can_take_that_back(
    member: Member, end: str
) -> None:
    member.contested = end != "decided"
    member.deadline -= 61 * (end == "too late")
    assert member.step(member.chain.head()) == [] and member.reads == 1
    member.chain.height += 128
    assert member.step(member.chain.head()) == [] and member.reads == 2
    member.chain.height += 1
    assert member.step(member.chain.head()) == [] and member.reads == 2
