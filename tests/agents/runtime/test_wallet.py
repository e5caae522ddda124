# SPDX-License-Identifier: Apache-2.0
"""Keys stay in, signatures come out, mistakes are named."""

from __future__ import annotations

import json
import stat

import pytest
from eth_account import Account

from agents.runtime.errors import WalletError
from agents.runtime.wallet import (
    create_keystore,
    keystore_path,
    load_wallet,
    read_passphrase,
    recover_typed,
)
from tests.agents.runtime.conftest import DOMAIN, TYPES

PASSPHRASE = "correct horse battery"


@pytest.fixture
def keystore(tmp_path):
    path = tmp_path / "accounts" / "node.json"
    return path, create_keystore(path, PASSPHRASE, key=b"\x07" * 32, iterations=8)


def test_a_keystore_opens_with_its_passphrase(keystore):
    path, address = keystore
    wallet = load_wallet(str(path), PASSPHRASE)
    assert wallet.address == address == Account.from_key(b"\x07" * 32).address
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["version"] == 3


def test_a_wrong_passphrase_is_a_sentence(keystore):
    with pytest.raises(WalletError, match=r"The passphrase does not open the keystore .*node.json"):
        load_wallet(str(keystore[0]), "wrong")


def test_an_ape_account_is_found_by_alias(keystore, tmp_path, monkeypatch):
    monkeypatch.setenv("APE_DATA_FOLDER", str(tmp_path))
    assert keystore_path("node") == keystore[0]
    with pytest.raises(WalletError, match=r"no keystore 'other': neither .*other\.json exists"):
        keystore_path("other")


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", '{"crypto": 1}', '{"crypto": {}}', "\x00\xff"),
        '{"version": 3, "crypto": {"kdf": "md5"}}',
    ],
)
def test_a_file_that_is_no_keystore_is_named(tmp_path, content):
    path = tmp_path / "key.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(WalletError, match=r"key\.json"):
        load_wallet(str(path), "x")


def test_a_keystore_is_never_overwritten(keystore):
    with pytest.raises(WalletError, match="never overwritten"):
        create_keystore(keystore[0], "other")


def test_no_keystore_is_written_with_an_empty_passphrase(tmp_path):
    with pytest.raises(WalletError, match="empty"):
        create_keystore(tmp_path / "open.json", "", iterations=8)
    assert list(tmp_path.iterdir()) == []


def test_drawn_keys_differ(tmp_path):
    addresses = {create_keystore(tmp_path / f"{i}.json", "p", iterations=8) for i in range(3)}
    assert len(addresses) == 3


def test_passphrases_come_from_the_named_variable(monkeypatch):
    monkeypatch.setenv("NODE_PASS", "abc")
    assert read_passphrase("NODE_PASS", "node") == "abc"
    with pytest.raises(WalletError, match="variable OTHER_PASS, named by `passphrase_env`, is not"):
        read_passphrase("OTHER_PASS", "node")
    with pytest.raises(WalletError, match="without a terminal"):
        read_passphrase(None, "node")


def test_typed_signatures_recover(keystore):
    wallet = load_wallet(str(keystore[0]), PASSPHRASE)
    message = {"op": b"\x01" * 32}
    signature = wallet.sign_typed(DOMAIN, TYPES, message)
    assert len(signature) == 65 and signature[64] in (27, 28)
    assert recover_typed(DOMAIN, TYPES, message, signature) == wallet.address
    assert recover_typed({**DOMAIN, "chainId": 1}, TYPES, message, signature) != wallet.address
    for bad in (b"", b"\x00" * 65, b"\xff" * 65, signature[:64]):
        assert recover_typed(DOMAIN, TYPES, message, bad) is None


def test_the_key_is_not_in_the_repr(keystore):
    wallet = load_wallet(str(keystore[0]), PASSPHRASE)
    assert "07" * 32 not in repr(wallet) + str(vars(wallet))
