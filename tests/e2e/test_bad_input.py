# SPDX-License-Identifier: Apache-2.0
"""Bad input on the command line: one sentence that names the remedy, a non-zero exit, no trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_account import Account

from agents.runtime.wallet import create_keystore
from scripts._anvil import Anvil, start_anvil
from scripts._contracts import ROOT
from scripts._localnet import PASSPHRASE, write_agent_config
from scripts._processes import Supervisor, free_port

TIMEOUT_S = 90.0
WORD = "correct horse battery staple"


@dataclass(frozen=True)
class Desk:
    """A chain without contracts, and settings that would be right but for that."""

    folder: Path
    anvil: Anvil

    def config(self, **changes: object) -> Path:
        """A settings file."""
        values = {
            "rpc_url": self.anvil.url,
            "chain_id": 31_337,
            "deployment": self.folder / "deployment.json",
            "keystore": self.folder / "key.json",
            "store": self.folder / "store",
            "data_dir": self.folder / "data",
        }
        return write_agent_config(self.folder / "config.yaml", **{**values, **changes})

    def deployment(self, chain_id: int) -> Path:
        """A deployment file whose one contract has no code."""
        path = self.folder / f"deployment-{chain_id}.json"
        contracts = {"TrainingRounds": {"address": "0x" + "11" * 20, "abi": []}}
        path.write_text(json.dumps({"chain_id": chain_id, "block": 0, "contracts": contracts}))
        return path


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A running chain and a key."""
    folder = tmp_path_factory.mktemp("desk")
    with Supervisor(folder / "logs", ROOT) as supervisor:
        create_keystore(folder / "key.json", WORD, bytes(Account.create().key), iterations=1_024)
        yield Desk(folder, start_anvil(supervisor, folder))


def _run(
    config: Path, *extra: str, word: str = WORD, role: str = "coordinator", **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agents", role, "--config", str(config), *extra],
        cwd=ROOT,
        env={**os.environ, PASSPHRASE: word, **env},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def _refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """It ended with an error that says `parts`, in one line, without a traceback."""
    said = (done.stdout + done.stderr).strip()
    assert done.returncode not in (0, None), said
    assert done.returncode > 0, f"killed: {said}"
    assert "Traceback" not in said
    lines = [line for line in said.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, said
    for part in parts:
        assert part in lines[0]
    assert lines[0].endswith(".")


def test_wrong_passphrase(desk: Desk) -> None:
    config = desk.config(deployment=desk.deployment(31_337))
    done = _run(config, word="wrong words")
    _refused(done, "passphrase does not open the keystore", "key.json")
    assert "wrong words" not in done.stdout + done.stderr


def test_passphrase_variable_not_set(desk: Desk) -> None:
    config = desk.config(deployment=desk.deployment(31_337), passphrase_env="NO_SUCH_WORD")
    _refused(_run(config), "NO_SUCH_WORD", "is not set")


def test_missing_keystore(desk: Desk) -> None:
    config = desk.config(deployment=desk.deployment(31_337), keystore=desk.folder / "none.json")
    _refused(_run(config), "no keystore", "none.json", "Create one")


def test_missing_deployment(desk: Desk) -> None:
    _refused(_run(desk.config()), "no deployment file", "deployment.json", "Deploy first")


def test_deployment_of_another_chain(desk: Desk) -> None:
    config = desk.config(deployment=desk.deployment(1))
    _refused(_run(config), "31337", "chain 1")


def test_node_of_another_chain(desk: Desk) -> None:
    config = desk.config(deployment=desk.deployment(1), chain_id=1)
    _refused(_run(config), "31337")


def test_contracts_without_code(desk: Desk) -> None:
    config = desk.config(deployment=desk.deployment(31_337))
    _refused(_run(config), "TrainingRounds", "0x" + "11" * 20)


def test_unknown_setting_in_the_file(desk: Desk) -> None:
    _refused(_run(desk.config(jitters=3)), "jitters", "jitter_s", "Known settings")


def test_unknown_setting_on_the_command_line(desk: Desk) -> None:
    done = _run(desk.config(), "--set", "trainer.speed=9", role="trainer")
    _refused(done, "trainer.speed", "the command line")


def test_unknown_setting_in_the_environment(desk: Desk) -> None:
    _refused(_run(desk.config(), MENAGERIE_JOBS="1"), "$MENAGERIE_JOBS")


def test_setting_out_of_range(desk: Desk) -> None:
    _refused(_run(desk.config(poll_s=-1)), "poll_s", "greater than 0")


def test_missing_settings_file(desk: Desk) -> None:
    _refused(_run(desk.folder / "none.yaml"), "no settings file", "none.yaml")


def test_unreachable_node_is_waited_for(desk: Desk) -> None:
    """An outage is no mistake of the operator's: said once, waited for, ended by SIGTERM."""
    url = f"http://127.0.0.1:{free_port()}"
    config = desk.config(rpc_url=url, deployment=desk.deployment(31_337))
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
