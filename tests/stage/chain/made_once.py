# SPDX-License-Identifier: Apache-2.0
"""A finished job on a real chain, made once for all test processes of a run.

One process makes it and keeps its chain running. The others read what that process knows of it, and
talk to the same chain. Nobody writes to the chain, nor changes what the store has. The process that
made it ends the chain when the last of the others has let go of it.

No two processes wait for each other: who reads one job while making another began to read it first.
"""

from __future__ import annotations

import copyreg
import fcntl
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from scripts._net.compiled import alone
from scripts._net.processes import Supervisor
from tests.stage.chain.finished_job import Stage


def _account(key: bytes) -> Any:
    return Account.from_key(key)


# An account refers to a module, which cannot be written to a file.
copyreg.pickle(LocalAccount, lambda account: (_account, (bytes(account.key),)))


@contextmanager
def made_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path, Supervisor], Stage]
) -> Iterator[Stage]:
    """The job that `make` makes in a folder. `name`: the same in all processes."""
    own = factory.getbasetemp()
    # Each process of pytest-xdist has a folder in one that is the run's.
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    facts, being_made = shared / f"{name}.pickle", shared / f"{name}.lock"
    with (shared / f"{name}.readers").open("a") as readers, Supervisor(own / name) as supervisor:
        with alone(being_made):
            is_mine = not facts.is_file()
            if is_mine:
                made = make(factory.mktemp(name), supervisor)
                facts.write_bytes(pickle.dumps(made))
            else:
                fcntl.flock(readers, fcntl.LOCK_SH)
                made = pickle.loads(facts.read_bytes())
        yield made
        if is_mine:
            with alone(being_made):  # who comes now makes another
                facts.unlink()
                fcntl.flock(readers, fcntl.LOCK_EX)
