# SPDX-License-Identifier: Apache-2.0
"""Bad input on the command line: one sentence that names the remedy, a non-zero exit, no trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from eth_account import Account

from agents.runtime.wallet import create_keystore
from scripts._net.anvil import Anvil, start_anvil
from scripts._net.compiled import ROOT
from scripts._net.localnet import PASSPHRASE, write_agent_config
from scripts._net.ports import free_port
from scripts._net.processes import Supervisor

TIMEOUT_S = 90.0
WORD = "correct horse battery staple"
WRONG_WORD = "incorrect horse"


@dataclass(frozen=True)
class BareChain:
    """A chain without contracts, and settings that would be right but for that."""

    folder: Path
    anvil: Anvil

    def config(self, name: str, **changes: object) -> Path:
        values = {
            "rpc_url": self.anvil.url,
            "chain_id": 31_337,
            "deployment": self.folder / "deployment.json",
            "keystore": self.folder / "key.json",
            "store": self.folder / "store",
            "data_dir": self.folder / "data",
        }
        return write_agent_config(self.folder / f"{name}.yaml", **{**values, **changes})

    def deployment(self, chain_id: int) -> Path:
        """A deployment file whose one contract has no code."""
        path = self.folder / f"deployment-{chain_id}.json"
        contracts = {"TrainingRounds": {"address": "0x" + "11" * 20, "abi": []}}
        path.write_text(json.dumps({"chain_id": chain_id, "block": 0, "contracts": contracts}))
        return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareChain]:
    """A running chain and a key."""
    folder = tmp_path_factory.mktemp("bare")
    with Supervisor(folder / "logs", ROOT) as supervisor:
        create_keystore(folder / "key.json", WORD, bytes(Account.create().key), iterations=1_024)
        yield BareChain(folder, start_anvil(supervisor, folder))


@dataclass(frozen=True)
class Mistake:
    """One wrong thing, and what the error says of it. `changes` are settings in the file."""

    says: tuple[str, ...]
    changes: Mapping[str, object] = field(default_factory=dict)
    deployed_on: int | None = 31_337  # chain id in the deployment file, None for no file
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    passphrase: str = WORD
    config: str | None = None  # another settings file

    def make(self, bare: BareChain, name: str) -> subprocess.CompletedProcess[str]:
        """Start an agent with it, and wait for its end."""
        changes = dict(self.changes)
        if self.deployed_on is not None:
            changes["deployment"] = bare.deployment(self.deployed_on)
        config = self.config or str(bare.config(name, **changes))
        return subprocess.run(
            [sys.executable, "-m", "agents", "coordinator", "--config", config, *self.arguments],
            cwd=ROOT,
            env={**os.environ, PASSPHRASE: self.passphrase, **self.environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )


MISTAKES = {
    "wrong passphrase": Mistake(
        ("passphrase does not open the keystore", "key.json"), passphrase=WRONG_WORD
    ),
    "passphrase variable not set": Mistake(
        ("NO_SUCH_WORD", "is not set"), {"passphrase_env": "NO_SUCH_WORD"}
    ),
    "missing keystore": Mistake(
        ("no keystore", "none.json", "Create one"), {"keystore": "none.json"}
    ),
    "missing keystore, and nobody to ask": Mistake(
        ("no keystore", "none.json"), {"keystore": "none.json", "passphrase_env": None}
    ),
    "missing deployment": Mistake(
        ("no deployment file", "deployment.json", "Deploy first"), deployed_on=None
    ),
    "deployment of another chain": Mistake(("31337", "chain 1"), deployed_on=1),
    "node of another chain": Mistake(("31337",), {"chain_id": 1}, deployed_on=1),
    "contracts without code": Mistake(("TrainingRounds", "0x" + "11" * 20)),
    "unknown setting in the file": Mistake(
        ("jitters", "jitter_s", "Known settings"), {"jitters": 3}
    ),
    "unknown setting on the command line": Mistake(
        ("trainer.speed", "the command line"), arguments=("--set", "trainer.speed=9")
    ),
    "unknown setting in the environment": Mistake(
        ("$MENAGERIE_JOBS",), environment={"MENAGERIE_JOBS": "1"}
    ),
    "setting out of range": Mistake(("poll_s", "greater than 0"), {"poll_s": -1}),
    "missing settings file": Mistake(("no settings file", "none.yaml"), config="none.yaml"),
}


@pytest.fixture(scope="module")
def ended(bare: BareChain) -> Iterator[dict[str, Future[subprocess.CompletedProcess[str]]]]:
    """How the agent ended for each mistake; two at a time."""
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(m.make, bare, name) for name, m in MISTAKES.items()}


@pytest.mark.parametrize("name", MISTAKES)
def test_refused_with_one_sentence(
    ended: dict[str, Future[subprocess.CompletedProcess[str]]], name: str
) -> None:
    """It ends with an error code and a line that names what was wrong; no secret, no traceback."""
    done = ended[name].result(TIMEOUT_S)
    said = (done.stdout + done.stderr).strip()
    assert done.returncode > 0, said  # negative: killed
    lines = [line for line in said.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, said
    assert lines[0].endswith(".")
    for part in MISTAKES[name].says:
        assert part in lines[0]
    assert WORD not in said
    assert WRONG_WORD not in said


def test_unreachable_node_is_waited_for(bare: BareChain) -> None:
    """An outage is no mistake of the operator's: said once, waited for, ended by SIGTERM."""
    url = f"http://127.0.0.1:{free_port()}"
    config = bare.config("unreachable", rpc_url=url, deployment=bare.deployment(31_337))
    process = subprocess.Popen(
        [sys.executable, "-m", "agents", "coordinator", "--config", str(config)],
        cwd=ROOT,
        env={**os.environ, PASSPHRASE: WORD},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert url in first
    assert process.returncode == 0
    assert "Traceback" not in first + rest
