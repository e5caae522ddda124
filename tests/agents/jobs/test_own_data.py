# SPDX-License-Identifier: Apache-2.0
"""Who brings its own data to a job that hides nothing of it: nobody who was not asked."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.jobs.job import JobContext
from agents.jobs.own_data import shown_openly
from agents.runtime.config import AgentSettings, TrainerSettings
from agents.storage.embedded import EmbeddedStore
from agents.training.data import pack
from agents.training.local_data import LocalData
from agents.training.spec import JobSpec
from tests.agents.training.conftest import TINY_MODEL, word_tokenizer


def job(access: str = "local", unit: str = "none", tokenizer: str | None = None) -> Any:
    return Stub(spec=Stub(access=access), privacy=Stub(unit=unit), tokenizer=tokenizer)


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


def test_a_tokenizer_asks_what_it_likes_of_a_text_and_is_read_by_whom_it_was_named() -> None:
    """Also what follows from the size of a data set alone is an answer to it."""
    stranger = job(unit="example", tokenizer="bafk")
    why = shown_openly(stranger, settings(max_epsilon=1.0))
    assert why is not None and "set trainer.accept_tokenizer: true" in why
    assert shown_openly(stranger, settings(job_id=2)) is None
    assert shown_openly(stranger, settings(accept_tokenizer=True)) is None
    assert shown_openly(job("public", "node", "bafk"), settings()) is None
    assert shown_openly(job(tokenizer="bafk"), settings(accept_no_privacy=True)) is None


def test_the_number_of_examples_counts_a_word_for_the_sponsor(tmp_path: Path) -> None:
    """dp_sgd has each node publish it. The file keeps one word and drops all others."""
    word = {"type": "Split", "pattern": {"String": "w7"}, "behavior": "Removed", "invert": True}
    raw = json.dumps(json.loads(word_tokenizer(40)) | {"pre_tokenizer": word}).encode()
    store = EmbeddedStore(tmp_path / "store")
    fields = {
        "data": pack([b"w7 " * 400], store, tokenizer=raw, separator=40),
        "model": TINY_MODEL,
        "optimizer": {"batch_size": 1, "seq_len": 1},
        "batches_per_round": 2,
        "access": "local",
        "verify": "screening",
        "merge": "mean",
        "privacy": "dp_sgd",
    }
    asked = JobContext(JobSpec.from_dict(fields), store)
    counted = []
    for times in (21, 61):
        folder = tmp_path / str(times)
        folder.mkdir()
        (folder / "a.txt").write_text("w7 " * times + "w8 " * (100 - times))
        counted.append(LocalData(folder, asked.spec, asked.data).examples)
    assert counted == [11, 31]  # two tokens an example, with one that ends the text
    assert shown_openly(asked, settings()) is not None
