# SPDX-License-Identifier: Apache-2.0
"""Keys: encrypted keystores in, signatures out.

Rule: a private key exists in memory only. It comes from a keystore in the format that
`ape accounts` and eth-account write (V3), opened by a passphrase from a prompt or from an
environment variable named in the settings; neither is ever an argument, a log line or a file.

The key that a node is written to (X25519) is derived from its operator key: HKDF-SHA256 with a
label of its own (`Wallet.derive`), so there is no second secret to keep. Whoever can unlock the
keystore can read what was sent to the node. Whoever restores the keystore from a backup has both
keys again. Knowing one derived key says nothing about the operator key. A new operator key gives a
new encryption key.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address

from agents.runtime import logs
from agents.runtime.errors import WalletError
from agents.runtime.files import SETTINGS_BYTES, read_json
from agents.storage.durable import write_atomic
from agents.storage.envelope import Purpose, open_box, open_key

_ENCRYPTION_LABEL = b"menagerie node encryption key v1"


class Wallet:
    """One unlocked key. `address` is checksummed; the key itself is not readable from outside."""

    def __init__(self, account: LocalAccount) -> None:
        self._account = account
        self.address: str = account.address
        logs.redact(bytes(account.key).hex())

    def __repr__(self) -> str:
        return f"Wallet({self.address})"

    def sign_transaction(self, transaction: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Return (raw transaction, its 32-byte hash)."""
        signed = self._account.sign_transaction(dict(transaction))
        return bytes(signed.raw_transaction), bytes(signed.hash)

    def derive(self, label: bytes) -> bytes:
        """Return 32 secret bytes that belong to this key and `label`: HKDF-SHA256 (RFC 5869).

        Other labels give independent bytes, and none of them tells anything about the key.
        """
        return HKDF(SHA256(), 32, None, label).derive(bytes(self._account.key))

    def sign_typed(
        self, domain: Mapping[str, Any], types: Mapping[str, Any], message: Mapping[str, Any]
    ) -> bytes:
        """Return the 65-byte r || s || v signature of EIP-712 typed data (v is 27 or 28)."""
        signed = self._account.sign_typed_data(dict(domain), dict(types), dict(message))
        return bytes(signed.signature)


class Identity:
    """The key that a node is written to.

    `public`: the 32 bytes that stand as `encryption_key` in the node's registry entry.
    """

    def __init__(self, wallet: Wallet) -> None:
        secret = wallet.derive(_ENCRYPTION_LABEL)
        logs.redact(secret.hex())
        self._private = X25519PrivateKey.from_private_bytes(secret)
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"Identity({self.public.hex()})"

    def open(self, envelope: bytes, purpose: Purpose) -> bytes:
        """The job key in an envelope for this node. Raises EnvelopeError."""
        key = open_key(envelope, self._private, purpose)
        logs.redact(key.hex())
        return key

    def open_box(self, box: bytes, info: bytes) -> bytes:
        """What was sealed for this node and this `info`. Raises EnvelopeError."""
        return open_box(box, self._private, info)


def recover_typed(
    domain: Mapping[str, Any],
    types: Mapping[str, Any],
    message: Mapping[str, Any],
    signature: bytes,
) -> str | None:
    """Return the checksummed signer of EIP-712 typed data, or None for a malformed signature."""
    signable = encode_typed_data(dict(domain), dict(types), dict(message))
    try:
        return str(Account.recover_message(signable, signature=signature))
    except Exception:
        return None


def ape_account(alias: str) -> Path:
    """Return where `ape accounts` keeps the keystore of an alias."""
    folder = os.environ.get("APE_DATA_FOLDER") or "~/.ape"
    return Path(folder).expanduser() / "accounts" / f"{alias}.json"


def keystore_path(source: str) -> Path:
    """Return the keystore file meant by `source`: a path, or an alias of `ape accounts`.

    Raises WalletError naming both places looked at.
    """
    direct = Path(source).expanduser()
    alias = ape_account(source)
    for candidate in (direct, alias):
        if candidate.is_file():
            return candidate
    raise WalletError(
        f"There is no keystore {source!r}: neither the file {direct} nor the ape account {alias} "
        "exists. Create one with `ape accounts generate`, or correct `keystore`."
    )


def read_passphrase(variable: str | None, label: str) -> str:
    """Return a passphrase from the environment variable, else from a prompt on the terminal."""
    if variable:
        if variable in os.environ:
            return os.environ[variable]
        raise WalletError(
            f"The environment variable {variable}, named by `passphrase_env`, is not set. Set it, "
            "or remove `passphrase_env` to be asked."
        )
    if not sys.stdin.isatty():
        raise WalletError(
            f"The passphrase of {label} cannot be asked for without a terminal. Name an "
            "environment variable that holds it in `passphrase_env`."
        )
    return getpass.getpass(f"Passphrase of {label}: ")


def read_keystore(source: str, passphrase: str) -> bytes:
    """Decrypt the 32-byte key of a keystore (path or ape alias).

    Raises WalletError for a missing file, a file that is no keystore, or a wrong passphrase.
    """
    path = keystore_path(source)
    logs.redact(passphrase)
    try:
        keystore = read_json(path, SETTINGS_BYTES)
        if not isinstance(keystore, dict) or "crypto" not in {k.lower() for k in keystore}:
            raise ValueError("no crypto section")
    except (OSError, ValueError) as error:
        raise WalletError(
            f"{path} is not an Ethereum keystore ({error}). Give the path of a V3 keystore file."
        ) from None
    try:
        return bytes(Account.decrypt(keystore, passphrase))
    except ValueError as error:
        if "MAC" in str(error):
            raise WalletError(f"The passphrase does not open the keystore {path}.") from None
        raise WalletError(f"The keystore {path} cannot be decrypted: {error}.") from None
    except (KeyError, TypeError) as error:
        raise WalletError(f"The keystore {path} lacks or misuses field {error}.") from None


def load_wallet(source: str, passphrase: str) -> Wallet:
    """Unlock the key of a keystore (path or ape alias). Raises WalletError as `read_keystore`."""
    return Wallet(Account.from_key(read_keystore(source, passphrase)))


def create_keystore(
    path: Path | str, passphrase: str, key: bytes | None = None, iterations: int | None = None
) -> str:
    """Write a new encrypted keystore (mode 0600) and return its checksummed address.

    `key` is 32 bytes, drawn from the system when None. `iterations` is scrypt's n; None means
    eth-account's default (about 0.6 s to open), and only a throwaway local network wants less.
    Raises WalletError rather than overwrite an existing file, and for an empty passphrase, with
    which whoever reads the file has the key.
    """
    path = Path(path).expanduser()
    if not passphrase:
        raise WalletError("The passphrase is empty; choose one. Nothing was written.")
    if path.exists():
        raise WalletError(f"{path} exists already; a keystore is never overwritten.")
    account = Account.create() if key is None else Account.from_key(key)
    keystore = Account.encrypt(account.key, passphrase, kdf="scrypt", iterations=iterations)
    write_atomic(path, json.dumps(keystore).encode())
    return str(to_checksum_address(account.address))
