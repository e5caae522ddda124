# SPDX-License-Identifier: Apache-2.0
"""The accounts of this machine without ape: the keystore files that ape keeps, read as they are.

An account has the words of ape's accounts that the commands use. Its key is in memory from when it
is unlocked to when it is locked again.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from agents.runtime.errors import WalletError
from agents.runtime.files import SETTINGS_BYTES, read_json
from agents.runtime.wallet import (
    Wallet,
    ape_account,
    keystore_path,
    load_wallet,
    read_passphrase,
)
from scripts._shared.rpc_provider import active


class KeystoreAccount:
    """The account of one keystore file."""

    def __init__(self, source: str) -> None:
        """`source`: a file, or an alias. Raises WalletError if there is no such file."""
        self._path = keystore_path(source)
        self.alias = self._path.stem
        self._wallet: Wallet | None = None

    @cached_property
    def address(self) -> str:
        """The account's address; a file that does not state it is unlocked for it."""
        from eth_utils.address import is_address, to_checksum_address

        try:
            stated = read_json(self._path, SETTINGS_BYTES).get("address", "")
        except (OSError, ValueError, AttributeError):
            stated = ""  # unlocking says what is wrong with the file
        if isinstance(stated, str) and is_address(stated):
            return str(to_checksum_address(stated))
        return self.wallet.address

    @property
    def balance(self) -> int:
        """Its ether, in wei."""
        return active().get_balance(self.address)

    @property
    def wallet(self) -> Wallet:
        """The key. Asks for the passphrase, unless the account is unlocked. Raises WalletError."""
        if self._wallet is None:
            wallet = self._unlocked()
            stated = self.__dict__.get("address", wallet.address)
            if wallet.address != stated:
                raise WalletError(
                    f"{self._path} states the address {stated}, and holds the key of "
                    f"{wallet.address}. Someone has changed the file: do not use it."
                )
            return wallet
        return self._wallet

    def set_autosign(self, on: bool) -> None:
        """Unlock the key until it is locked again."""
        self._wallet = self.wallet if on else None

    def sign_typed(self, domain: Any, types: Any, message: Any) -> bytes:
        """Sign EIP-712 typed data: r, s and v."""
        return self.wallet.sign_typed(domain, types, message)

    def _unlocked(self) -> Wallet:
        variable = f"APE_ACCOUNTS_{self.alias}_PASSPHRASE"
        named = variable if variable in os.environ else None
        return load_wallet(str(self._path), read_passphrase(named, self.alias))


class Keystores:
    """All accounts of this machine."""

    def aliases(self) -> list[str]:
        """Their names, sorted."""
        return sorted(path.stem for path in _folder().glob("*.json"))

    def __contains__(self, address: str) -> bool:
        """Whether the key of an address is here."""
        return self._of(address) is not None

    def __getitem__(self, address: str) -> KeystoreAccount:
        """The account of an address. Raises KeyError."""
        found = self._of(address)
        if found is None:
            raise KeyError(address)
        return found

    def _of(self, address: str) -> KeystoreAccount | None:
        for alias in self.aliases():
            account = KeystoreAccount(str(_folder() / f"{alias}.json"))
            if _stated(account) == address:
                return account
        return None


def _stated(account: KeystoreAccount) -> str | None:
    """An account's address, None where only its passphrase would tell."""
    try:
        content = read_json(account._path, SETTINGS_BYTES)
        return account.address if isinstance(content, dict) and "address" in content else None
    except (OSError, ValueError):
        return None


def _folder() -> Path:
    return ape_account("any").parent


class AccountType(click.ParamType):
    """An account: an alias among those that ape keeps, or a keystore file."""

    name = "account"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> KeystoreAccount:
        """Find the account. Where none is named, it is the only one that there is."""
        if isinstance(value, KeystoreAccount):
            return value
        try:
            return KeystoreAccount(value)
        except WalletError as error:
            self.fail(f"{error} {_there()}")


def only_account() -> str:
    """The alias of the only account. Raises click.UsageError where there is none, or several."""
    aliases = Keystores().aliases()
    if len(aliases) != 1:
        raise click.UsageError(f"Name an account with --account. {_there()}")
    return aliases[0]


def _there() -> str:
    aliases = Keystores().aliases()
    if aliases:
        return f"There are {', '.join(aliases)} in {_folder()}."
    return f"There is none in {_folder()}; make one with `ape run wallet new <alias>`."
