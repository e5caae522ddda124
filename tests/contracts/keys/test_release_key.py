# SPDX-License-Identifier: Apache-2.0
"""`release_key`: the releaser, to an open request, with the keys of now."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.contracts.keys.conftest import ENVELOPE, JOB, KEY, NEXT_KEY, KeyStage, public_key
from tests.stage.contracts.clock import wait
from tests.stage.contracts.events import logged
from tests.stage.contracts.system import EMPTY, ZERO

NO_RELEASE = (EMPTY, EMPTY, 0)


@pytest.fixture
def asked(stage: KeyStage) -> KeyStage:
    """The trainer's request is open."""
    stage.request(stage.trainer)
    return stage


def test_release_key__open_request__is_kept_and_logged(asked: KeyStage, keys: Any) -> None:
    node = asked.trainer.node_id
    assert tuple(keys.released(JOB, node)) == NO_RELEASE
    wait(60)
    asked.release(asked.trainer)
    sealed_to = public_key(asked.trainer)
    fields = {
        "job_id": JOB,
        "node_id": node,
        "key_id": KEY,
        "encryption_key": sealed_to,
        "envelope": ENVELOPE,
        "by": asked.releaser,
    }
    assert logged(keys) == [("KeyReleased", fields)]
    assert tuple(keys.released(JOB, node)) == (KEY, sealed_to, boa.env.timestamp)
    assert not keys.is_open(JOB, node)


def test_release_key__sponsor_by_default(asked: KeyStage, keys: Any) -> None:
    keys.set_releaser(JOB, ZERO, sender=asked.sponsor)
    asked.release(asked.trainer, sender=asked.sponsor)
    assert keys.released(JOB, asked.trainer.node_id).key_id == KEY


def test_release_key__largest_envelope__is_logged_whole(asked: KeyStage, keys: Any) -> None:
    asked.release(asked.trainer, envelope=bytes(range(256)))
    assert logged(keys)[0][1]["envelope"] == bytes(range(256))


def test_release_key__key_changed_back__request_is_open_again(asked: KeyStage, keys: Any) -> None:
    keys.set_key(JOB, NEXT_KEY, sender=asked.sponsor)
    keys.set_key(JOB, KEY, sender=asked.sponsor)
    assert keys.is_open(JOB, asked.trainer.node_id)
    asked.release(asked.trainer)


def test_release_key__new_key__is_released_in_its_turn(asked: KeyStage, keys: Any) -> None:
    asked.release(asked.trainer)
    keys.set_key(JOB, NEXT_KEY, sender=asked.sponsor)
    asked.request(asked.trainer)
    asked.release(asked.trainer, NEXT_KEY)
    assert keys.released(JOB, asked.trainer.node_id).key_id == NEXT_KEY
