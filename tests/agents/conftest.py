# SPDX-License-Identifier: Apache-2.0
"""One tiny job for all tests of this folder; what a test adds to its store harms no other."""

from __future__ import annotations

import pytest
import torch

from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.honest_round import ChainFacts, HonestRound, make_honest_round


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """The machine is shared."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    torch.set_num_threads(1)
    return make_honest_round(EmbeddedStore(tmp_path_factory.mktemp("rounds") / "store"))


@pytest.fixture
def facts(tiny: HonestRound) -> ChainFacts:
    return ChainFacts(tiny.published)
