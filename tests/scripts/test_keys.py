# SPDX-License-Identifier: Apache-2.0
"""A sponsor's key file: encrypted, private, never overwritten, and never shown. Giving keys goes on
through what every agent sits out."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agents.protocol.network import ChainMoved
from agents.runtime.errors import ConfigError, RpcDown, RpcRefused, TxRefused, WalletError
from agents.runtime.wallet import read_keystore
from agents.storage.errors import StoreUnavailable
from agents.storage.sealed import KEY_BYTES, key_id_of
from scripts._shared.key_server import Patience
from scripts._shared.keyholder import KeyholderError
from scripts.keys import cli

PASSPHRASE = "three cranes over the reserve"


def make(path: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["new", str(path), *options], env={"CRANE": PASSPHRASE})


def test_new__writes_an_encrypted_file_and_shows_its_name_only(tmp_path: Path) -> None:
    path = tmp_path / "crane.key"
    done = make(path, "--passphrase-env", "CRANE")
    assert done.exit_code == 0, done.output
    key = read_keystore(str(path), PASSPHRASE)
    assert len(key) == KEY_BYTES
    assert key_id_of(key).hex() in done.output
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for shown in (done.output, path.read_text()):
        assert key.hex() not in shown
        assert PASSPHRASE not in shown
    with pytest.raises(WalletError, match="does not open"):
        read_keystore(str(path), PASSPHRASE + "!")


def test_new__existing_file__is_kept(tmp_path: Path) -> None:
    path = tmp_path / "crane.key"
    path.write_text("precious")
    done = make(path, "--passphrase-env", "CRANE")
    assert done.exit_code == 1
    assert "never overwritten" in done.output
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("options", "why"),
    [(("--passphrase-env", "NO_CRANE"), "is not set"), ((), "without a terminal")],
    ids=["variable", "terminal"],
)
def test_new__no_passphrase__writes_nothing(
    tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    path = tmp_path / "crane.key"
    done = make(path, *options)
    assert done.exit_code == 1
    assert why in done.output
    assert not path.exists()


def looks(*answers: Exception | None) -> list[str]:
    """What is said in looks at a chain that answers so, one after the other."""
    said: list[str] = []
    patience = Patience(said.append)

    def step(answer: Exception | None) -> None:
        if answer is not None:
            raise answer

    for answer in answers:
        patience.look(lambda answer=answer: step(answer))
    return said


def test_serve__what_agents_sit_out_is_waited_for_and_said_once() -> None:
    behind = [RpcRefused("eth_getLogs", 0, f"block {n} is another one by now") for n in (7, 8, 9)]
    assert looks(*behind, None, None) == [f"{behind[0]} Trying again.", "It goes on."]
    causes = [
        ChainMoved("The request is gone."),
        RpcDown("The node is down."),
        StoreUnavailable("The store is down."),
        TxRefused("There is no ether."),
        OSError("The disk is full."),
        KeyError("an odd answer"),
    ]
    told = looks(*causes, *causes, None)
    assert told == [*(f"{cause} Trying again." for cause in causes), "It goes on."]


@pytest.mark.parametrize("kind", [ConfigError, WalletError, KeyholderError])
def test_serve__what_waiting_cannot_mend_ends_it(kind: type[Exception]) -> None:
    with pytest.raises(kind, match="for good"):
        looks(None, kind("for good"))
