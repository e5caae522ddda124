# SPDX-License-Identifier: Apache-2.0
"""A real embedded store with a tiny model's checkpoint, data and prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.task_inputs import TaskInputs


@pytest.fixture
def inputs(tmp_path: Path) -> TaskInputs:
    """Its own store for each test."""
    return TaskInputs.build(EmbeddedStore(tmp_path / "store"))
