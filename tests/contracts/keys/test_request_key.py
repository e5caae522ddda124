# SPDX-License-Identifier: Apache-2.0
"""`request_key`: the operator of a node that could work now, once per data key and public key."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.contracts.keys.conftest import JOB, KEY, NEXT_KEY, KeyStage, public_key
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


def _refused(stage: KeyStage, player: Player, reason: str = "keys: node not eligible") -> None:
    with boa.reverts(reason):
        stage.request(player)
    assert not stage.keys.is_open(JOB, player.node_id)


def test_request_key__every_role__is_kept_and_logged(stage: KeyStage, keys: Any) -> None:
    roles = ((stage.trainer, TRAINER), (stage.verifier, VERIFIER), (stage.aggregator, AGGREGATOR))
    for player, role in roles:
        node = player.node_id
        assert tuple(keys.request_of(JOB, node)) == NO_REQUEST
        assert not keys.is_open(JOB, node)
        stage.request(player)
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


def test_request_key__anyone_but_the_operator__reverts(stage: KeyStage, keys: Any) -> None:
    """The cold key neither: an agent asks, and the answer is for what the agent holds."""
    for sender in (stage.trainer.owner, stage.other.operator, stage.sponsor, stage.stranger):
        with boa.reverts("keys: not operator"):
            keys.request_key(JOB, stage.trainer.node_id, sender=sender)


def test_request_key__unknown_node__reverts(stage: KeyStage, keys: Any) -> None:
    for node in (0, 99):
        with boa.reverts("keys: not operator"):
            keys.request_key(JOB, node, sender=stage.trainer.operator)


def test_request_key__job_without_key__reverts(stage: KeyStage) -> None:
    job_id = stage.system.job(stage.sponsor, escrow=0)
    for unknown in (job_id, 99):
        with boa.reverts("keys: no key"):
            stage.request(stage.trainer, unknown)


def test_request_key__no_benchmark__reverts(stage: KeyStage) -> None:
    idle = stage.system.join("idle", TRAINER)
    _set_public_key(stage.system, idle)
    _refused(stage, idle)


@pytest.mark.parametrize("role", [VERIFIER, AGGREGATOR])
def test_request_key__not_approved__reverts(stage: KeyStage, role: int) -> None:
    player = stage.verifier if role == VERIFIER else stage.aggregator
    owner = str(stage.system.coordinator.address)
    stage.system.registry.approve_role(player.node_id, role, False, sender=owner)
    _refused(stage, player)


def test_request_key__resting__reverts(stage: KeyStage) -> None:
    player = stage.trainer
    stage.system.registry.set_active(player.node_id, False, sender=player.operator)
    _refused(stage, player)


def test_request_key__suspended__reverts_until_it_is_over(stage: KeyStage) -> None:
    stage.slash(stage.trainer, INVALID)
    _refused(stage, stage.trainer)
    wait(7 * DAY)
    stage.request(stage.trainer)


def test_request_key__banned__reverts(stage: KeyStage) -> None:
    stage.slash(stage.trainer, REPEATED)
    wait(365 * DAY)
    _refused(stage, stage.trainer)


def test_request_key__stake_below_the_minimum__reverts(stage: KeyStage) -> None:
    registry = stage.system.registry
    raised = list(registry.parameters())
    raised[1] = registry.bonded(stage.trainer.node_id) + 1
    registry.set_parameters(tuple(raised), sender=stage.system.coordinator.address)
    _refused(stage, stage.trainer)


def test_request_key__leaving__reverts(stage: KeyStage) -> None:
    """Stake that unbonds is not locked; a closed node has no operator."""
    registry, player = stage.system.registry, stage.trainer
    registry.begin_exit(player.node_id, sender=player.owner)
    _refused(stage, player)
    wait(UNBONDING)
    registry.withdraw(player.node_id, sender=player.owner)
    _refused(stage, player, "keys: not operator")


def test_request_key__no_public_key__reverts(stage: KeyStage) -> None:
    player = stage.trainer
    stage.system.registry.set_encryption_key(player.node_id, EMPTY, sender=player.owner)
    _refused(stage, player, "keys: no encryption key")


def test_request_key__again__reverts_answered_or_not(stage: KeyStage) -> None:
    stage.request(stage.trainer)
    for _ in range(2):
        with boa.reverts("keys: already requested"):
            stage.request(stage.trainer)
        if stage.keys.is_open(JOB, stage.trainer.node_id):
            stage.release(stage.trainer)
    assert not stage.keys.is_open(JOB, stage.trainer.node_id)


def test_request_key__new_data_key__may_ask_again(stage: KeyStage, keys: Any) -> None:
    stage.request(stage.trainer)
    keys.set_key(JOB, NEXT_KEY, sender=stage.sponsor)
    assert not keys.is_open(JOB, stage.trainer.node_id)
    stage.request(stage.trainer)
    assert keys.request_of(JOB, stage.trainer.node_id).key_id == NEXT_KEY
    assert keys.is_open(JOB, stage.trainer.node_id)


def test_request_key__new_public_key__may_ask_again(stage: KeyStage, keys: Any) -> None:
    player, fresh = stage.trainer, keccak(text="fresh public key")
    stage.request(player)
    stage.release(player)
    stage.system.registry.set_encryption_key(player.node_id, fresh, sender=player.operator)
    assert not keys.is_open(JOB, player.node_id)
    stage.request(player)
    assert keys.request_of(JOB, player.node_id).encryption_key == fresh
    assert keys.is_open(JOB, player.node_id)


def test_request_key__both_roles__asks_as_trainer_and_stays_open_as_verifier(
    stage: KeyStage, keys: Any
) -> None:
    registry, player = stage.system.registry, stage.trainer
    owner = str(stage.system.coordinator.address)
    registry.set_roles(player.node_id, TRAINER | VERIFIER, sender=player.owner)
    registry.approve_role(player.node_id, VERIFIER, True, sender=owner)
    stage.request(player)
    assert keys.request_of(JOB, player.node_id).role == TRAINER
    registry.set_roles(player.node_id, VERIFIER, sender=player.owner)
    assert keys.is_open(JOB, player.node_id)
    registry.approve_role(player.node_id, VERIFIER, False, sender=owner)
    assert not keys.is_open(JOB, player.node_id)


def test_request_key__jobs__do_not_touch_each_other(stage: KeyStage, keys: Any) -> None:
    other = stage.system.job(stage.sponsor, escrow=0)
    keys.set_key(other, KEY, sender=stage.sponsor)
    stage.request(stage.trainer)
    assert tuple(keys.request_of(other, stage.trainer.node_id)) == NO_REQUEST
    stage.request(stage.trainer, other)


def _set_public_key(system: System, player: Player) -> None:
    registry = system.registry
    registry.set_encryption_key(player.node_id, public_key(player), sender=player.operator)
