# SPDX-License-Identifier: Apache-2.0
"""A node's encryption key is its keystore's, and nothing shows it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from eth_account import Account

from agents.runtime import logs
from agents.runtime.wallet import Identity, Wallet, create_keystore, load_wallet
from agents.storage.envelope import EnvelopeError, Purpose, seal_key
from agents.storage.sealed import key_id_of, new_key

OPERATOR = bytes(range(1, 33))
# X25519 of HKDF-SHA256(0x0102..20, label): a changed derivation would lock nodes out of their keys.
PUBLIC = "430af4c05e6391c471e0bd7b1a6846b0d62a83c404b4baef1c29aaf76133e100"


def identity_of(key: bytes) -> Identity:
    return Identity(Wallet(Account.from_key(key)))


def test_the_key_is_the_same_on_every_start_and_after_a_restored_backup(tmp_path: Path) -> None:
    create_keystore(tmp_path / "key.json", "correct horse", OPERATOR, iterations=2)
    restored = Identity(load_wallet(str(tmp_path / "key.json"), "correct horse"))
    assert restored.public.hex() == identity_of(OPERATOR).public.hex() == PUBLIC


def test_another_operator_key_has_another_encryption_key() -> None:
    assert identity_of(OPERATOR).public != identity_of(OPERATOR[::-1]).public


def test_labels_give_independent_keys() -> None:
    wallet = Wallet(Account.from_key(OPERATOR))
    derived = {wallet.derive(label) for label in (b"", b"a", b"b", b"menagerie")}
    assert len(derived) == 4
    assert OPERATOR not in derived


def test_it_opens_what_was_sealed_to_it_and_nothing_else() -> None:
    key = new_key()
    purpose = Purpose(1, "0x" + "12" * 20, 1, 2, key_id_of(key))
    identity = identity_of(OPERATOR)
    envelope = seal_key(key, identity.public, purpose)
    assert identity.open(envelope, purpose) == key
    with pytest.raises(EnvelopeError):
        identity_of(OPERATOR[::-1]).open(envelope, purpose)


def test_the_private_key_is_in_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_secrets", set())
    secret = HKDF(SHA256(), 32, None, b"menagerie node encryption key v1").derive(OPERATOR)
    identity = identity_of(OPERATOR)
    key = new_key()
    purpose = Purpose(1, "0x" + "12" * 20, 1, 2, key_id_of(key))
    identity.open(seal_key(key, identity.public, purpose), purpose)
    stream = io.StringIO()
    log = logs.Log(logs._Sink(stream, 10, False))
    log.info("key", raw=secret, text=secret.hex(), identity=identity, opened=key)
    assert secret.hex() not in stream.getvalue()
    assert key.hex() not in stream.getvalue()
    assert secret.hex() not in repr(identity)
    assert identity.public.hex() in stream.getvalue()
