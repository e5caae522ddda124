# SPDX-License-Identifier: Apache-2.0
"""Fixtures of these attacks: inputs, one process that runs tasks, and agents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.storage.embedded import EmbeddedStore
from agents.tasks.compute.classes import CPU
from agents.tasks.process import TaskProcess
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.executors import Executors
from tests.stage.chain.tasks import Tasks
from tests.stage.memory.task_inputs import TaskInputs


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> TaskInputs:
    return TaskInputs.build(EmbeddedStore(tmp_path_factory.mktemp("inputs") / "store"))


@pytest.fixture(scope="session")
def process(inputs: TaskInputs) -> Iterator[TaskProcess]:
    running = TaskProcess(inputs.store.location, "cpu")
    assert running.label() == CPU
    yield running
    running.close()


@pytest.fixture
def executors(
    tasks: Tasks,
    inputs: TaskInputs,
    process: TaskProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Executors]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield Executors(tasks, inputs, process, tmp_path, stack)
