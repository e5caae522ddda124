# SPDX-License-Identifier: Apache-2.0
"""Fixtures of these attacks."""

from __future__ import annotations

import pytest

from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.mined_round import MinedRound, make_mined_round


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    """Everybody is honest."""
    store = EmbeddedStore(tmp_path_factory.mktemp("clasp") / "store")
    return make_mined_round(store, range(2, 11), batches_per_round=45, score="clasp")
