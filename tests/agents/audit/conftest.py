# SPDX-License-Identifier: Apache-2.0
"""The finished tasks, shared by all tests of this folder. Nothing writes to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stage.chain.finished_tasks import FinishedTasks, make_finished_tasks
from tests.stage.chain.made_once import made_once


@pytest.fixture(scope="session")
def tasked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedTasks]:
    with made_once(tmp_path_factory, "tasked", make_finished_tasks) as tasked:
        yield tasked
