# SPDX-License-Identifier: Apache-2.0
"""From genesis to the newest model by published files, whole or one stage of it, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agents.jobs.model_files import (
    Index,
    WrongModel,
    changed,
    hash_of,
    pack_change,
    read_model,
    stage_of,
)
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome, compute
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent
from agents.training.state import PayloadError, model_hash, numbers_in, save_state
from agents.training.update import pack_update
from tests.stage.memory.honest_round import DEVICE, JOB, ChainFacts
from tests.stage.memory.mined_round import MinedRound

ROUNDS = 3  # with a checkpoint after the third
STAGES = range(3)


@pytest.fixture(scope="module")
def history(mined: MinedRound) -> tuple[ChainFacts, list[Outcome]]:
    """Three finalized rounds, of the same payloads."""
    facts, outcomes, state = ChainFacts(mined.published), list[Outcome](), mined.before
    for number in range(1, ROUNDS + 1):
        plan = replace(mined.plan, step=number - 1)
        outcomes.append(compute(mined.job, JOB, number, plan, state, mined.honest(), DEVICE))
        state = outcomes[-1].state
        facts.record(number, outcomes[-1], mined.store)
    return facts, outcomes


def test_the_files_lead_from_genesis_to_every_model(
    mined: MinedRound, history: tuple[ChainFacts, list[Outcome]]
) -> None:
    facts, outcomes = history
    assert [outcome.checkpoint is not None for outcome in outcomes] == [False, False, True]
    for outcome in outcomes:
        whole = Models(facts, mined.store).at(JOB, outcome.model)
        assert hash_of(mined.job, whole) == outcome.model
        assert model_hash(whole) == model_hash(outcome.state)


@pytest.mark.parametrize("stage", STAGES)
def test_a_miner_needs_the_files_of_its_own_stage_only(
    mined: MinedRound,
    history: tuple[ChainFacts, list[Outcome]],
    stage: int,
    tmp_path: Path,
) -> None:
    """A store with nothing else; the third model is a checkpoint, the second two updates."""
    facts, outcomes = history
    store, published = EmbeddedStore(tmp_path / "store"), mined.published
    named = [published.spec_cid, published.spec.data, published.checkpoint_cid]
    named += [outcome.report.update for outcome in outcomes[:2]]
    named += [cid_of_bytes(outcome.report.to_bytes()) for outcome in outcomes]
    named += [outcomes[2].report.checkpoint or ""]
    for cid in named:
        raw = mined.store.get(cid, 1 << 24)
        store.put_bytes(raw)
        if raw.startswith(b'{"stages"'):
            file = Index.from_bytes(raw, len(STAGES)).stages[stage].file
            store.put_bytes(mined.store.get(file, 1 << 24))
    for outcome in outcomes[1:]:
        models = Models(facts, store)
        found = models.at(JOB, outcome.model, stage)
        assert models.largest == numbers_in(found) < numbers_in(outcome.state)
        assert model_hash(found) == model_hash(stage_of(mined.job, outcome.state, stage))


def test_the_files_of_another_model_are_refused(
    mined: MinedRound, history: tuple[ChainFacts, list[Outcome]]
) -> None:
    _, outcomes = history
    index = digest_of(mined.published.checkpoint_cid)
    with pytest.raises(WrongModel, match="the model is"):
        read_model(mined.job, mined.store, index, outcomes[0].model)
    with pytest.raises(WrongModel, match="the model is"):
        update = outcomes[1].report.update
        changed(mined.job, mined.store, update, mined.before, 1.0, outcomes[0].model)


def with_file(index: Index, stage: int, file: str) -> Index:
    lines = list(index.stages)
    lines[stage] = lines[stage].model_copy(update={"file": file})
    return index.model_copy(update={"stages": tuple(lines)})


def test_a_file_that_is_not_the_stage_that_the_index_says_is_refused(mined: MinedRound) -> None:
    published = mined.published
    wrong = {name: t + 1 for name, t in stage_of(mined.job, mined.before, 1).items()}
    index = Index.from_bytes(mined.store.get(published.checkpoint_cid, 1 << 20), len(STAGES))
    lie = with_file(index, 1, mined.store.put_bytes(save_state(wrong)))
    digest = digest_of(mined.store.put_bytes(lie.to_bytes()))
    for asked in (None, 1):
        with pytest.raises(WrongModel, match="stage 1 of the model"):
            read_model(mined.job, mined.store, digest, published.model, asked)
    assert read_model(mined.job, mined.store, digest, published.model, 0)


def test_an_update_that_leads_elsewhere_is_refused_by_whoever_follows_the_stage(
    mined: MinedRound, history: tuple[ChainFacts, list[Outcome]]
) -> None:
    _, outcomes = history
    outcome = outcomes[0]
    wrong = {name: t + 1 for name, t in stage_of(mined.job, outcome.merged, 2).items()}
    index = Index.from_bytes(outcome.update, len(STAGES))
    lie = with_file(index, 2, mined.store.put_bytes(pack_update(wrong)))
    cid = mined.store.put_bytes(lie.to_bytes())
    for asked in (None, 2):
        with pytest.raises(WrongModel, match="stage 2 of the model"):
            changed(mined.job, mined.store, cid, mined.before, 1.0, outcome.model, asked)


def test_a_lying_update_behind_the_ledger_is_corrupt(mined: MinedRound) -> None:
    facts, outcome = ChainFacts(mined.published), mined.compute(mined.honest())
    other = {name: tensor + 1 for name, tensor in outcome.merged.items()}
    files = pack_change(mined.job, other, mined.before)
    report = outcome.report.model_copy(update={"update": cid_of_bytes(files.main)})
    lie = replace(outcome, update=files.main, parts=files.parts, report=report)
    facts.record(1, lie, mined.store)
    for stage in (None, 0):
        with pytest.raises(CorruptContent, match="not what the chain records"):
            Models(facts, mined.store).at(JOB, outcome.model, stage)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: b"no index",
        lambda raw: raw + b" ",
        lambda raw: raw.replace(b'"version":1', b'"version":2'),
        lambda raw: Index(stages=Index.from_bytes(raw, 3).stages[:2]).to_bytes(),
    ],
)
def test_an_index_that_can_not_be_read_is_an_error(
    mined: MinedRound, spoil: Callable[[bytes], bytes]
) -> None:
    raw = mined.store.get(mined.published.checkpoint_cid, 1 << 20)
    digest = digest_of(mined.store.put_bytes(spoil(raw)))
    with pytest.raises(PayloadError, match="index of stages"):
        read_model(mined.job, mined.store, digest, mined.published.model)
