# SPDX-License-Identifier: Apache-2.0
"""The constructor, `set_key` and `set_releaser`: the sponsor of the job, and nobody else."""

from __future__ import annotations

from typing import Any

from tests.contracts.keys.conftest import JOB, KEY, NEXT_KEY, KeyStage
from tests.stage.contracts.events import logged
from tests.stage.contracts.system import EMPTY, ZERO


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
