# SPDX-License-Identifier: Apache-2.0
"""Miners that merge their stage's shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.mined_round import (
    PIPELINE,
    MinedRound,
    make_mined_job,
    make_mined_round,
)
from tests.stage.memory.sharing_miners import (
    NINE,
    Miners,
    at_their_posts,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    pipeline = {**PIPELINE, "all_reduce": "butterfly", "least_valid": 0.5}
    store = EmbeddedStore(tmp_path_factory.mktemp("shared") / "store")
    return make_mined_round(store, NINE, batches_per_round=18, pipeline=pipeline)


@pytest.fixture(scope="module")
def trimming(shared: MinedRound) -> MinedRound:
    """The same work, in a job whose merge is the trimmed mean."""
    fields = {"batches_per_round": 18, "merge": "trimmed_mean"}
    pipeline = shared.job.spec.pipeline
    assert pipeline is not None
    tiny, plan = make_mined_job(
        shared.store, NINE, pipeline=pipeline.model_dump(exclude_unset=True), **fields
    )
    return MinedRound(shared.store, tiny.published, tiny.job, tiny.before, plan, shared.works)


@pytest.fixture
def trimmers(trimming: MinedRound) -> Iterator[Miners]:
    yield from at_their_posts(trimming)


@pytest.fixture
def miners(shared: MinedRound) -> Iterator[Miners]:
    yield from at_their_posts(shared)
