# SPDX-License-Identifier: Apache-2.0
"""`request_key`: the operator of a node that could work now, once per data key and public key."""

from __future__ import annotations

from typing import Any

import boa
from eth_utils import keccak

from tests.contracts.keys.conftest import JOB, KEY, NEXT_KEY, KeyStage, public_key
from tests.stage.contracts.events import logged
from tests.stage.contracts.system import (
    AGGREGATOR,
    EMPTY,
    TRAINER,
    VERIFIER,
)

NO_REQUEST = (0, EMPTY, EMPTY, 0)


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
