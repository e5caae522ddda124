# SPDX-License-Identifier: Apache-2.0
"""`DataKeys.disclose_keys` and `set_reader_key`: what is put on record, and under whose name."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.contracts.keys.conftest import JOB, KeyStage
from tests.stage.contracts.events import logged

DIGEST = keccak(text="digest of a file of keys")
OWN_KEY = keccak(text="public key of a committee member")
NOTHING = bytes(32)


@pytest.mark.parametrize("who", ["sponsor", "releaser", "stranger"])
def test_disclose_keys__anybody__is_logged_under_its_own_name(
    stage: KeyStage, keys: Any, who: str
) -> None:
    sender = getattr(stage, who)
    keys.disclose_keys(JOB, 7, DIGEST, sender=sender)
    fields = {"job_id": JOB, "round_id": 7, "digest": DIGEST, "by": sender}
    assert logged(keys) == [("KeysDisclosed", fields)]


def test_disclose_keys__answers_no_request(stage: KeyStage, keys: Any) -> None:
    stage.request(stage.trainer)
    keys.disclose_keys(JOB, 1, DIGEST, sender=stage.releaser)
    assert keys.is_open(JOB, stage.trainer.node_id)
    assert keys.released(JOB, stage.trainer.node_id).at == 0


def test_disclose_keys__no_such_job__reverts(stage: KeyStage, keys: Any) -> None:
    for job in (0, 99):
        with boa.reverts("keys: no job"):
            keys.disclose_keys(job, 1, DIGEST, sender=stage.sponsor)


def test_disclose_keys__empty_digest__reverts(stage: KeyStage, keys: Any) -> None:
    with boa.reverts("keys: empty digest"):
        keys.disclose_keys(JOB, 1, NOTHING, sender=stage.releaser)


def test_set_reader_key__is_kept_by_account(stage: KeyStage, keys: Any) -> None:
    keys.set_reader_key(OWN_KEY, sender=stage.stranger)
    fields = {"account": stage.stranger, "old_key": NOTHING, "new_key": OWN_KEY}
    assert logged(keys) == [("ReaderKeyChanged", fields)]
    assert keys.reader_key_of(stage.stranger) == OWN_KEY
    assert keys.reader_key_of(stage.sponsor) == NOTHING
    with boa.reverts("keys: reader key unchanged"):
        keys.set_reader_key(OWN_KEY, sender=stage.stranger)
    with boa.reverts("keys: no encryption key"):
        keys.set_reader_key(NOTHING, sender=stage.stranger)
    keys.set_reader_key(DIGEST, sender=stage.stranger)
    assert keys.reader_key_of(stage.stranger) == DIGEST
