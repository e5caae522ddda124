# SPDX-License-Identifier: Apache-2.0
"""`release_key`: the releaser, to an open request, with the keys of now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.contracts.keys.conftest import ENVELOPE, JOB, KEY, NEXT_KEY, KeyStage, public_key
from tests.stage.contracts.clock import wait
from tests.stage.contracts.events import logged
from tests.stage.contracts.system import DAY, EMPTY, INVALID, ZERO

NO_RELEASE = (EMPTY, EMPTY, 0)
FRESH = keccak(text="fresh public key")


@pytest.fixture
def asked(stage: KeyStage) -> KeyStage:
    """The trainer's request is open."""
    stage.request(stage.trainer)
    return stage


def _refused(stage: KeyStage, reason: str, release: Callable[[], None]) -> None:
    """Nothing goes on record."""
    before = tuple(stage.keys.released(JOB, stage.trainer.node_id))
    with boa.reverts(reason):
        release()
    assert tuple(stage.keys.released(JOB, stage.trainer.node_id)) == before


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


def test_release_key__anyone_but_the_releaser__reverts(asked: KeyStage) -> None:
    """The sponsor neither, once it has named somebody."""
    for sender in (asked.sponsor, asked.stranger, asked.trainer.operator, asked.verifier.operator):
        _refused(
            asked,
            "keys: not releaser",
            lambda sender=sender: asked.release(asked.trainer, sender=sender),  # type: ignore[misc]
        )


def test_release_key__former_releaser__reverts(asked: KeyStage, keys: Any) -> None:
    keys.set_releaser(JOB, asked.stranger, sender=asked.sponsor)
    _refused(asked, "keys: not releaser", lambda: asked.release(asked.trainer))
    asked.release(asked.trainer, sender=asked.stranger)


def test_release_key__empty_envelope__reverts(asked: KeyStage) -> None:
    _refused(asked, "keys: empty envelope", lambda: asked.release(asked.trainer, envelope=b""))


def test_release_key__largest_envelope__is_logged_whole(asked: KeyStage, keys: Any) -> None:
    asked.release(asked.trainer, envelope=bytes(range(256)))
    assert logged(keys)[0][1]["envelope"] == bytes(range(256))


def test_release_key__no_request__reverts(stage: KeyStage) -> None:
    _refused(stage, "keys: no request", lambda: stage.release(stage.trainer))


def test_release_key__request_in_another_job__reverts(asked: KeyStage, keys: Any) -> None:
    other = asked.system.job(asked.sponsor, escrow=0)
    keys.set_key(other, KEY, sender=asked.sponsor)
    with boa.reverts("keys: no request"):
        asked.release(asked.trainer, job_id=other, sender=asked.sponsor)


def test_release_key__not_the_current_key__reverts(asked: KeyStage, keys: Any) -> None:
    _refused(asked, "keys: not the current key", lambda: asked.release(asked.trainer, NEXT_KEY))
    keys.set_key(JOB, NEXT_KEY, sender=asked.sponsor)
    _refused(asked, "keys: not the current key", lambda: asked.release(asked.trainer))


def test_release_key__request_for_the_key_before__reverts(asked: KeyStage, keys: Any) -> None:
    keys.set_key(JOB, NEXT_KEY, sender=asked.sponsor)
    _refused(
        asked, "keys: request is for another key", lambda: asked.release(asked.trainer, NEXT_KEY)
    )


def test_release_key__key_changed_back__request_is_open_again(asked: KeyStage, keys: Any) -> None:
    keys.set_key(JOB, NEXT_KEY, sender=asked.sponsor)
    keys.set_key(JOB, KEY, sender=asked.sponsor)
    assert keys.is_open(JOB, asked.trainer.node_id)
    asked.release(asked.trainer)


def test_release_key__sealed_to_another_key__reverts(asked: KeyStage) -> None:
    for sealed_to in (FRESH, EMPTY, public_key(asked.other)):
        _refused(
            asked,
            "keys: stale encryption key",
            lambda key=sealed_to: asked.release(asked.trainer, sealed_to=key),  # type: ignore[misc]
        )


def test_release_key__public_key_changed_since__reverts_for_both(asked: KeyStage) -> None:
    """The one of the request is not the node's now; the one of now nobody asked for."""
    player = asked.trainer
    asked.system.registry.set_encryption_key(player.node_id, FRESH, sender=player.owner)
    for sealed_to in (public_key(player), FRESH):
        _refused(
            asked,
            "keys: stale encryption key",
            lambda key=sealed_to: asked.release(player, sealed_to=key),  # type: ignore[misc]
        )
    asked.request(player)
    asked.release(player, sealed_to=FRESH)


def test_release_key__again__reverts(asked: KeyStage) -> None:
    asked.release(asked.trainer)
    _refused(asked, "keys: already released", lambda: asked.release(asked.trainer))


def test_release_key__suspended_since__waits(asked: KeyStage, keys: Any) -> None:
    asked.slash(asked.trainer, INVALID)
    assert not keys.is_open(JOB, asked.trainer.node_id)
    _refused(asked, "keys: node not eligible", lambda: asked.release(asked.trainer))
    wait(7 * DAY)
    assert keys.is_open(JOB, asked.trainer.node_id)
    asked.release(asked.trainer)


def test_release_key__leaving_since__reverts(asked: KeyStage) -> None:
    asked.system.registry.begin_exit(asked.trainer.node_id, sender=asked.trainer.owner)
    _refused(asked, "keys: node not eligible", lambda: asked.release(asked.trainer))


def test_release_key__new_key__is_released_in_its_turn(asked: KeyStage, keys: Any) -> None:
    asked.release(asked.trainer)
    keys.set_key(JOB, NEXT_KEY, sender=asked.sponsor)
    asked.request(asked.trainer)
    asked.release(asked.trainer, NEXT_KEY)
    assert keys.released(JOB, asked.trainer.node_id).key_id == NEXT_KEY
