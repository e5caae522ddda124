# SPDX-License-Identifier: Apache-2.0
"""One tiny job for all tests of this folder; what a test adds to its store harms no other.

torch is imported where it is needed only: the tests of the runtime and the stores start without it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stage.chain.finished_scored_job import FinishedScoredJob
    from tests.stage.memory.honest_round import ChainFacts, HonestRound
    from tests.stage.memory.mined_round import MinedRound


# The number of threads is part of the determinism class, and the machine is shared. torch reads
# this when it is loaded; rounds that are made once for all tests are made before `one_thread`.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Undo what a test that computes with two threads has left."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    from agents.storage.embedded import EmbeddedStore
    from tests.stage.memory.honest_round import make_honest_round

    return make_honest_round(EmbeddedStore(tmp_path_factory.mktemp("rounds") / "store"))


@pytest.fixture(scope="session")
def mined(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    from agents.storage.embedded import EmbeddedStore
    from tests.stage.memory.mined_round import make_mined_round

    return make_mined_round(EmbeddedStore(tmp_path_factory.mktemp("mined") / "store"))


@pytest.fixture
def facts(tiny: HonestRound) -> ChainFacts:
    from tests.stage.memory.honest_round import ChainFacts

    return ChainFacts(tiny.published)


@pytest.fixture(scope="session")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedScoredJob]:
    """A job that validators' scores pay, on a real chain. Nothing writes to its chain or store."""
    from scripts._net.processes import Supervisor
    from tests.stage.chain.finished_scored_job import make_finished_scored_job

    directory = tmp_path_factory.mktemp("scored")
    with Supervisor(directory / "logs") as supervisor:
        yield make_finished_scored_job(directory, supervisor)
