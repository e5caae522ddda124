# SPDX-License-Identifier: Apache-2.0
"""`request_key`: the operator of a node that could work now, once per data key and public key."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.contracts.keys.conftest import JOB, KEY, NEXT_KEY, Desk, public_key
from tests.stage.contracts.clock import wait
from tests.stage.contracts.events import logged
from tests.stage.contracts.system import (
    AGGREGATOR,
    DAY,
    EMPTY,
    INVALID,
    REPEATED,
    TRAINER,
    UNBONDING,
    VERIFIER,
    Player,
    System,
)

NO_REQUEST = (0, EMPTY, EMPTY, 0)


def _refused(desk: Desk, player: Player, reason: str = "keys: node not eligible") -> None:
    with boa.reverts(reason):
        desk.request(player)
    assert not desk.keys.is_open(JOB, player.node_id)


def test_request_key__every_role__is_kept_and_logged(desk: Desk, keys: Any) -> None:
    roles = ((desk.trainer, TRAINER), (desk.verifier, VERIFIER), (desk.aggregator, AGGREGATOR))
    for player, role in roles:
        node = player.node_id
        assert tuple(keys.request_of(JOB, node)) == NO_REQUEST
        assert not keys.is_open(JOB, node)
        desk.request(player)
        fields = {
            "job_id": JOB,
            "node_id": node,
            "role": role,
            "key_id": KEY,
            "encryption_key": public_key(player),
        }
        assert logged(keys) == [("KeyRequested", fields)]
        stored = (role, KEY, public_key(player), boa.env.timestamp)
        assert tuple(keys.request_of(JOB, node)) == stored
        assert keys.is_open(JOB, node)


def test_request_key__anyone_but_the_operator__reverts(desk: Desk, keys: Any) -> None:
    """The cold key neither: an agent asks, and the answer is for what the agent holds."""
    for sender in (desk.trainer.owner, desk.other.operator, desk.sponsor, desk.stranger):
        with boa.reverts("keys: not operator"):
            keys.request_key(JOB, desk.trainer.node_id, sender=sender)


def test_request_key__unknown_node__reverts(desk: Desk, keys: Any) -> None:
    for node in (0, 99):
        with boa.reverts("keys: not operator"):
            keys.request_key(JOB, node, sender=desk.trainer.operator)


def test_request_key__job_without_key__reverts(desk: Desk) -> None:
    job_id = desk.system.job(desk.sponsor, escrow=0)
    for unknown in (job_id, 99):
        with boa.reverts("keys: no key"):
            desk.request(desk.trainer, unknown)


def test_request_key__no_benchmark__reverts(desk: Desk) -> None:
    idle = desk.system.join("idle", TRAINER)
    _set_public_key(desk.system, idle)
    _refused(desk, idle)


@pytest.mark.parametrize("role", [VERIFIER, AGGREGATOR])
def test_request_key__not_approved__reverts(desk: Desk, role: int) -> None:
    player = desk.verifier if role == VERIFIER else desk.aggregator
    owner = str(desk.system.coordinator.address)
    desk.system.registry.approve_role(player.node_id, role, False, sender=owner)
    _refused(desk, player)


def test_request_key__resting__reverts(desk: Desk) -> None:
    player = desk.trainer
    desk.system.registry.set_active(player.node_id, False, sender=player.operator)
    _refused(desk, player)


def test_request_key__suspended__reverts_until_it_is_over(desk: Desk) -> None:
    desk.slash(desk.trainer, INVALID)
    _refused(desk, desk.trainer)
    wait(7 * DAY)
    desk.request(desk.trainer)


def test_request_key__banned__reverts(desk: Desk) -> None:
    desk.slash(desk.trainer, REPEATED)
    wait(365 * DAY)
    _refused(desk, desk.trainer)


def test_request_key__stake_below_the_minimum__reverts(desk: Desk) -> None:
    registry = desk.system.registry
    raised = list(registry.parameters())
    raised[1] = registry.bonded(desk.trainer.node_id) + 1
    registry.set_parameters(tuple(raised), sender=desk.system.coordinator.address)
    _refused(desk, desk.trainer)


def test_request_key__leaving__reverts(desk: Desk) -> None:
    """Stake that unbonds is not locked; a closed node has no operator."""
    registry, player = desk.system.registry, desk.trainer
    registry.begin_exit(player.node_id, sender=player.owner)
    _refused(desk, player)
    wait(UNBONDING)
    registry.withdraw(player.node_id, sender=player.owner)
    _refused(desk, player, "keys: not operator")


def test_request_key__no_public_key__reverts(desk: Desk) -> None:
    player = desk.trainer
    desk.system.registry.set_encryption_key(player.node_id, EMPTY, sender=player.owner)
    _refused(desk, player, "keys: no encryption key")


def test_request_key__again__reverts_answered_or_not(desk: Desk) -> None:
    desk.request(desk.trainer)
    for _ in range(2):
        with boa.reverts("keys: already requested"):
            desk.request(desk.trainer)
        if desk.keys.is_open(JOB, desk.trainer.node_id):
            desk.release(desk.trainer)
    assert not desk.keys.is_open(JOB, desk.trainer.node_id)


def test_request_key__new_data_key__may_ask_again(desk: Desk, keys: Any) -> None:
    desk.request(desk.trainer)
    keys.set_key(JOB, NEXT_KEY, sender=desk.sponsor)
    assert not keys.is_open(JOB, desk.trainer.node_id)
    desk.request(desk.trainer)
    assert keys.request_of(JOB, desk.trainer.node_id).key_id == NEXT_KEY
    assert keys.is_open(JOB, desk.trainer.node_id)


def test_request_key__new_public_key__may_ask_again(desk: Desk, keys: Any) -> None:
    player, fresh = desk.trainer, keccak(text="fresh public key")
    desk.request(player)
    desk.release(player)
    desk.system.registry.set_encryption_key(player.node_id, fresh, sender=player.operator)
    assert not keys.is_open(JOB, player.node_id)
    desk.request(player)
    assert keys.request_of(JOB, player.node_id).encryption_key == fresh
    assert keys.is_open(JOB, player.node_id)


def test_request_key__both_roles__asks_as_trainer_and_stays_open_as_verifier(
    desk: Desk, keys: Any
) -> None:
    registry, player = desk.system.registry, desk.trainer
    owner = str(desk.system.coordinator.address)
    registry.set_roles(player.node_id, TRAINER | VERIFIER, sender=player.owner)
    registry.approve_role(player.node_id, VERIFIER, True, sender=owner)
    desk.request(player)
    assert keys.request_of(JOB, player.node_id).role == TRAINER
    registry.set_roles(player.node_id, VERIFIER, sender=player.owner)
    assert keys.is_open(JOB, player.node_id)
    registry.approve_role(player.node_id, VERIFIER, False, sender=owner)
    assert not keys.is_open(JOB, player.node_id)


def test_request_key__jobs__do_not_touch_each_other(desk: Desk, keys: Any) -> None:
    other = desk.system.job(desk.sponsor, escrow=0)
    keys.set_key(other, KEY, sender=desk.sponsor)
    desk.request(desk.trainer)
    assert tuple(keys.request_of(other, desk.trainer.node_id)) == NO_REQUEST
    desk.request(desk.trainer, other)


def _set_public_key(system: System, player: Player) -> None:
    registry = system.registry
    registry.set_encryption_key(player.node_id, public_key(player), sender=player.operator)
