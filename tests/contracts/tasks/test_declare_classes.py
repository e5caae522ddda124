# SPDX-License-Identifier: Apache-2.0
"""declare_classes: an operator says in which classes it runs tasks again; no vote rests on it."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import event
from tests.stage.contracts.system import System, refuses
from tests.stage.contracts.tasks import CPU, CUDA, RIGHT, WRONG, TaskStage


def test_declare_classes__replaces_what_was_said(stage: TaskStage, appeals: Any) -> None:
    verifier, other = stage.verifiers[:2]
    assert appeals.declared_classes(verifier.node_id) == 0
    for classes in (1 << CPU, 1 << CPU | 1 << CUDA, 1 << CUDA, 0):
        moved, events = stage.effects(
            appeals,
            lambda classes=classes: appeals.declare_classes(
                verifier.node_id, classes, sender=verifier.operator
            ),
        )
        assert moved == {}
        assert events == [event("ClassesDeclared", node_id=verifier.node_id, classes=classes)]
        assert appeals.declared_classes(verifier.node_id) == classes
        assert appeals.declared_classes(other.node_id) == 0


@pytest.mark.parametrize("who", ["owner", "payout", "another", "coordinator", "stranger"])
def test_declare_classes__by_anybody_but_the_operator__reverts(
    stage: TaskStage, appeals: Any, who: str
) -> None:
    verifier = stage.verifiers[0]
    callers = {
        "owner": verifier.owner,
        "payout": verifier.payout,
        "another": stage.verifiers[1].operator,
        "coordinator": stage.owner,
        "stranger": stage.stranger,
    }
    with refuses("appeals: not the operator"):
        appeals.declare_classes(verifier.node_id, 1, sender=callers[who])
    for unknown in (0, 99, 2**256 - 1):
        with refuses("appeals: not the operator"):
            appeals.declare_classes(unknown, 1, sender=callers[who])


def test_declare_classes__of_a_convicted_node__reverts(
    system: System, stage: TaskStage, appeals: Any
) -> None:
    """Whoever is suspended has no say: two executors who agreed on a fake are."""
    number = stage.play(WRONG, WRONG)
    stage.appeal(number)
    stage.judge(number, RIGHT)
    liar = stage.runners(number)[0]
    assert system.registry.acting_operator(liar.node_id) == "0x" + 40 * "0"
    with refuses("appeals: not the operator"):
        appeals.declare_classes(liar.node_id, 1, sender=liar.operator)


def test_declare_classes__that_do_not_exist__reverts(stage: TaskStage, appeals: Any) -> None:
    verifier = stage.verifiers[0]
    known = len(stage.tasks.classes())
    for beyond in (known, known + 1, 254, 255):
        with refuses("appeals: unknown class"):
            appeals.declare_classes(verifier.node_id, 1 | 1 << beyond, sender=verifier.operator)
    stage.tasks.add_class(b"cuda:another".ljust(32, b"\0"), sender=stage.owner)
    appeals.declare_classes(verifier.node_id, 1 << known, sender=verifier.operator)
    assert appeals.declared_classes(verifier.node_id) == 1 << known


def test_declare_classes__binds_no_vote(stage: TaskStage, appeals: Any) -> None:
    """A verifier that declared another class, or none, attests as before."""
    stage.appeals.declare_classes(
        stage.verifiers[0].node_id, 1 << CUDA, sender=stage.verifiers[0].operator
    )
    number = stage.play(RIGHT, RIGHT)
    stage.appeal(number)
    with boa.env.anchor():
        for verifier in stage.verifiers[:2]:
            stage.attest(number, verifier, WRONG)
        assert appeals.appeal_of(number).result == WRONG
