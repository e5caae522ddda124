# SPDX-License-Identifier: Apache-2.0
"""The constructor, `set_key` and `set_releaser`: the sponsor of the job, and nobody else."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.contracts.keys.conftest import JOB, KEY, NEXT_KEY, KeyStage
from tests.stage.contracts.events import logged
from tests.stage.contracts.system import EMPTY, REWARD, ZERO, Codes, System


@pytest.mark.parametrize("missing", range(2))
def test_constructor__zero_address__reverts(codes: Codes, missing: int) -> None:
    addresses = [str(boa.env.generate_address()) for _ in range(2)]
    addresses[missing] = ZERO
    with boa.reverts("keys: zero address"):
        codes.keys.deploy(*addresses)


def test_constructor__neighbours__are_public(system: System) -> None:
    assert system.keys.registry() == system.registry.address
    assert system.keys.jobs() == system.jobs.address


def test_new_job__has_no_key_and_its_sponsor_releases(stage: KeyStage, keys: Any) -> None:
    job_id = stage.system.job(stage.sponsor, escrow=0)
    assert keys.key_of(job_id) == EMPTY
    assert keys.releaser_of(job_id) == stage.sponsor


def test_unknown_job__has_no_releaser(keys: Any) -> None:
    assert keys.releaser_of(99) == ZERO


def test_set_key__sponsor__is_kept_and_logged(stage: KeyStage, keys: Any) -> None:
    keys.set_key(JOB, NEXT_KEY, sender=stage.sponsor)
    fields = {"job_id": JOB, "old_key_id": KEY, "new_key_id": NEXT_KEY}
    assert logged(keys) == [("KeyChanged", fields)]
    assert keys.key_of(JOB) == NEXT_KEY


def test_set_key__anyone_else__reverts(stage: KeyStage, keys: Any) -> None:
    people = (stage.releaser, stage.stranger, stage.trainer.operator)
    for sender in (*people, str(stage.system.coordinator.address)):
        with boa.reverts("keys: not sponsor"):
            keys.set_key(JOB, NEXT_KEY, sender=sender)


def test_set_key__sponsor_of_another_job__reverts(stage: KeyStage, keys: Any) -> None:
    other = stage.system.person("other sponsor", REWARD)
    stage.system.job(other, escrow=REWARD)
    with boa.reverts("keys: not sponsor"):
        keys.set_key(JOB, NEXT_KEY, sender=other)


def test_set_key__unknown_job__reverts(stage: KeyStage, keys: Any) -> None:
    with boa.reverts("keys: not sponsor"):
        keys.set_key(99, NEXT_KEY, sender=stage.sponsor)


def test_set_key__empty__reverts(stage: KeyStage, keys: Any) -> None:
    with boa.reverts("keys: empty key"):
        keys.set_key(JOB, EMPTY, sender=stage.sponsor)


def test_set_key__same__reverts(stage: KeyStage, keys: Any) -> None:
    with boa.reverts("keys: key unchanged"):
        keys.set_key(JOB, KEY, sender=stage.sponsor)


def test_set_releaser__sponsor__is_kept_and_logged(stage: KeyStage, keys: Any) -> None:
    keys.set_releaser(JOB, stage.stranger, sender=stage.sponsor)
    fields = {"job_id": JOB, "old_releaser": stage.releaser, "new_releaser": stage.stranger}
    assert logged(keys) == [("ReleaserChanged", fields)]
    assert keys.releaser_of(JOB) == stage.stranger


def test_set_releaser__zero__is_the_sponsor_again(stage: KeyStage, keys: Any) -> None:
    keys.set_releaser(JOB, ZERO, sender=stage.sponsor)
    fields = {"job_id": JOB, "old_releaser": stage.releaser, "new_releaser": stage.sponsor}
    assert logged(keys) == [("ReleaserChanged", fields)]
    assert keys.releaser_of(JOB) == stage.sponsor


def test_set_releaser__anyone_else__reverts(stage: KeyStage, keys: Any) -> None:
    """The hot key can't hand its right on."""
    for sender in (stage.releaser, stage.stranger, stage.trainer.operator):
        with boa.reverts("keys: not sponsor"):
            keys.set_releaser(JOB, sender, sender=sender)


def test_set_releaser__unknown_job__reverts(stage: KeyStage, keys: Any) -> None:
    with boa.reverts("keys: not sponsor"):
        keys.set_releaser(99, stage.sponsor, sender=stage.sponsor)
