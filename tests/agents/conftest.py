# SPDX-License-Identifier: Apache-2.0
"""One tiny job for all tests of this folder; what a test adds to its store harms no other."""

from __future__ import annotations

import pytest
import torch

from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.honest_round import ChainFacts, Desk, make_desk


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """The machine is shared."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    torch.set_num_threads(1)
    return make_desk(EmbeddedStore(tmp_path_factory.mktemp("rounds") / "store"))


@pytest.fixture
def facts(desk: Desk) -> ChainFacts:
    return ChainFacts(desk.published)
