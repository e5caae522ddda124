# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests, and the one finished job that several folders read.

Random examples may take as long as they need, so that a busy machine makes no test fail:
Hypothesis' own limit is 200 ms of wall time for an example.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from agents.runtime import logs

if TYPE_CHECKING:
    from tests.stage.chain.finished_job import FinishedJob

# Where two threads of torch share a core with other processes, the one that waits would spin for as
# long as the other is not on it: a hundred times the work itself. Read when libraries are loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# Compiled contracts are millions of objects that live as long as the tests. Python would look
# through them again after every few thousand new ones: an eighth of the time of a contract test.
gc.set_threshold(200_000, 20, 50)


@pytest.fixture(autouse=True)
def _secrets_of_this_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What one test makes a secret of, such as the passphrase "wrong", the next one may print."""
    with monkeypatch.context() as patch:
        patch.setattr(logs, "_secrets", set(logs._secrets))
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedJob]:
    """A finished job on a real chain. Nothing writes to its chain, nor changes what its store has.

    torch is imported with it, so that tests of what needs no torch start without.
    """
    from tests.stage.chain.finished_job import make_finished_job
    from tests.stage.chain.made_once import made_once

    with made_once(tmp_path_factory, "finished", make_finished_job) as finished:
        yield finished


def pytest_sessionfinish() -> None:
    """Pytest collects garbage five times at its end, to hear of what could not be closed. What is
    left of the contracts by then is of no interest, and looking through it takes a process eight
    seconds."""
    gc.freeze()
