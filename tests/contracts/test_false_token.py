# SPDX-License-Identifier: Apache-2.0
"""A token that answers False moves nothing: neither does the contract. What was owed stays owed, so
the same call succeeds once the token moves money again."""

from __future__ import annotations

import boa
import pytest

from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.refusals import Act, by, node
from tests.stage.contracts.registry import address_of
from tests.stage.contracts.sources import REFUSING_TOKEN
from tests.stage.contracts.system import (
    COPIED,
    EMPTY,
    REWARD,
    STAKE,
    TERMS,
    TRAINER,
    UNBONDING,
    ZOO,
    System,
    refuses,
)
from tests.stage.contracts.tasks import CPU, FEE, RIGHT, RUN_S, SPEC, TaskStage, make_tasks

NODE = node("node 0")
NEWCOMER = (address_of("newcomer"), address_of("payout"), TRAINER, STAKE, EMPTY, b"")
SPONSOR = address_of("sponsor")


def people(stage: TaskStage) -> None:
    """With money: a newcomer, a sponsor of a funded job, and the owner of a node."""
    for name in ("newcomer", "sponsor", "node 0 owner"):
        stage.system.person(name, 10 * REWARD)
    stage.system.job(SPONSOR, escrow=REWARD)


def nothing(stage: TaskStage) -> None:
    """Beside that."""


def exited(stage: TaskStage) -> None:
    stage.registry.begin_exit(NODE(stage), sender=stage.nodes[0].owner)
    wait(UNBONDING)


def slashed(stage: TaskStage) -> None:
    rounds = stage.system.rounds.address
    stage.registry.slash(NODE(stage), COPIED, now(), address_of("reporter"), sender=rounds)


def paid(stage: TaskStage) -> None:
    """Node 0 has earned the cut of a round."""
    results = {"sender": stage.system.results.address}
    stage.system.pool.reserve(1, 1, REWARD, **results)
    stage.system.pool.start_distribution(1, 1, [], 0, [NODE(stage)], [ZOO], **results)


def cancelled(stage: TaskStage) -> None:
    stage.system.jobs.cancel_job(1, sender=SPONSOR)


def agreed(stage: TaskStage) -> None:
    stage.play(RIGHT, RIGHT)


def winner(stage: TaskStage) -> str:
    return stage.runners(1)[0].payout


# Each call that moves tokens, and what happens before.
CALLS: list[tuple[str, Act, Act]] = [
    ("registry", by("newcomer", "registry.register_node", *NEWCOMER), nothing),
    ("registry", by("node 0 owner", "registry.add_stake", NODE, ZOO), nothing),
    ("registry", by("node 0 owner", "registry.withdraw", NODE), exited),
    ("registry", by("reporter", "registry.claim_bounty"), slashed),
    ("pool", by("sponsor", "pool.fund", 1, SPONSOR, TERMS["spec"], ZOO), nothing),
    ("pool", by("node 0 payout", "pool.claim"), paid),
    ("pool", by("sponsor", "pool.refund", 1), cancelled),
    ("bonds", by("newcomer", "results.announce_challenge", SPEC), nothing),
    ("bonds", by("creator", "tasks.create_task", CPU, SPEC, FEE, RUN_S), nothing),
    ("bonds", by(winner, "tasks.withdraw_bond"), agreed),
    ("bonds", by("appellant", "appeals.appeal", 1), agreed),
]


@pytest.mark.parametrize(
    ("module", "call", "before"), CALLS, ids=[call.__name__ for _, call, _ in CALLS]
)
def test_transfer__refused__can_be_repeated(
    system: System, module: str, call: Act, before: Act
) -> None:
    stage = make_tasks(system)
    people(stage)
    before(stage)
    token, owed = system.token.address, system.owed()
    good, bad = boa.env.get_code(token), boa.env.get_code(boa.loads(REFUSING_TOKEN).address)
    boa.env.set_code(token, bad)
    with refuses(f"{module}: transfer failed"):
        call(stage)
    assert system.owed() == owed
    boa.env.set_code(token, good)
    call(stage)
    assert system.owed() == system.balances() != owed
