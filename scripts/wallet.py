# SPDX-License-Identifier: Apache-2.0
"""Make an account: a key in an encrypted file. Its passphrase is asked for, or in a variable.

MY_PASSPHRASE=... ape run wallet new my-operator --passphrase-env MY_PASSPHRASE
"""

from __future__ import annotations

import re

import click

from scripts._shared.operator import explained

_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")  # a file that begins with a dot is hidden


@click.group()
def cli() -> None:
    """Make an account."""


@cli.command()
@click.argument("alias")
@click.option("--passphrase-env", help="Environment variable with its passphrase (default: ask).")
@explained
def new(alias: str, passphrase_env: str | None) -> None:
    """Make a key, write it encrypted among the accounts of ape as ALIAS, and print its address.

    The key exists in that file only, and no words are shown from which it could be made again: back
    the file up.
    """
    from agents.runtime.errors import WalletError
    from agents.runtime.wallet import ape_account, create_keystore, read_passphrase

    if not _ALIAS.fullmatch(alias):
        raise click.BadParameter(
            "it has 1 to 64 letters, digits, dots, dashes and underlines, and begins with none of "
            "the dots and dashes."
        )
    path = ape_account(alias)
    if path.exists():
        raise click.ClickException(f"{path} exists already; a key file is never overwritten.")
    passphrase = read_passphrase(passphrase_env, alias)
    if passphrase_env is None and read_passphrase(None, f"{alias}, again") != passphrase:
        raise WalletError("The two passphrases differ; nothing was written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    click.echo(create_keystore(path, passphrase))
