# SPDX-License-Identifier: Apache-2.0
"""Who brings its own data to a job that hides nothing of it: nobody who was not asked."""

from __future__ import annotations

from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.jobs.own_data import shown_openly
from agents.runtime.config import AgentSettings, TrainerSettings


def job(access: str = "local", unit: str = "none") -> Any:
    return Stub(spec=Stub(access=access), privacy=Stub(unit=unit))


def settings(job_id: int = 0, **trainer: Any) -> AgentSettings:
    return AgentSettings.model_construct(job_id=job_id, trainer=TrainerSettings(**trainer))


def test_a_job_without_noise_is_left_unless_it_is_named_or_accepted() -> None:
    """A stranger's job that pays a quarter more would else publish the text."""
    why = shown_openly(job(), settings())
    assert why is not None and "set trainer.accept_no_privacy: true" in why
    assert shown_openly(job(), settings(job_id=2)) is None
    assert shown_openly(job(), settings(accept_no_privacy=True)) is None


@pytest.mark.parametrize("named", [0, 2])
def test_who_bounds_its_loss_joins_none_without_an_account(named: int) -> None:
    """Also where the operator names it: the loss has no end there."""
    bounded = settings(job_id=named, max_epsilon=1.0, accept_no_privacy=True)
    why = shown_openly(job(), bounded)
    assert why is not None and "trainer.max_epsilon is 1" in why


@pytest.mark.parametrize("unit", ["example", "node"])
def test_a_job_with_an_account_is_joined(unit: str) -> None:
    assert shown_openly(job(unit=unit), settings(max_epsilon=1.0)) is None


@pytest.mark.parametrize("access", ["public", "encrypted"])
def test_data_of_a_sponsor_is_not_the_node_s(access: str) -> None:
    assert shown_openly(job(access=access), settings(max_epsilon=1.0)) is None
