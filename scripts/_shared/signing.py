# SPDX-License-Identifier: Apache-2.0
"""One question and one passphrase, however many transactions a command sends.

Rule: a command checks what can be checked, then lists what it will sign, asks once, unlocks the
key once, and locks it again when it is done or has failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from agents.protocol.consent import TypedData
from scripts._shared.connecting import BY_APE

yes_option = click.option(
    "--yes",
    "-y",
    is_flag=True,
    help="Ask nothing. The passphrase is still asked for, or read from the variable "
    "APE_ACCOUNTS_<alias>_PASSPHRASE.",
)


@contextmanager
def signing(account: Any, lines: Sequence[str], yes: bool = False) -> Iterator[None]:
    """List what ACCOUNT will sign, ask once, and keep its key unlocked inside the block.

    `lines`: one for each transaction or message, without its subject. A wallet that can't be
    unlocked for a while, such as a hardware wallet, asks for each by itself. Raises
    click.ClickException for an account that can't pay for gas, click.Abort when the person says no.
    """
    if not account.balance:
        raise click.ClickException(
            f"{account.address} has no ether to pay for gas. Send it some (on a local network: "
            f"`ape run faucet {account.address}`)."
        )
    _ask(account, lines, yes)
    with unlocked(account):
        yield


@contextmanager
def unlocked(account: Any) -> Iterator[None]:
    """Let ACCOUNT sign without asking inside the block; its passphrase is asked for once."""
    autosign = getattr(account, "set_autosign", None)
    with _unwarned():
        if autosign is not None:
            autosign(True)
        try:
            yield
        finally:
            if autosign is not None:
                autosign(False)


@contextmanager
def _unwarned() -> Iterator[None]:
    """ape warns of an unlocked key with every signature: what is signed has been agreed to."""
    if not BY_APE:
        yield
        return
    from ape.logging import LogLevel, logger

    with logger.at_level(LogLevel.ERROR):
        yield


def sign_typed(account: Any, typed: TypedData) -> bytes | None:
    """Have an unlocked account sign EIP-712 typed data: r, s and v. None if it did not."""
    if not BY_APE:
        return bytes(account.sign_typed(*typed))
    from eth_account.messages import encode_typed_data

    signature = account.sign_message(encode_typed_data(*typed))
    return None if signature is None else bytes(signature.encode_rsv())


def _ask(account: Any, lines: Sequence[str], yes: bool) -> None:
    who = account.alias or account.address
    click.echo(f"{who} signs:")
    for number, line in enumerate(lines, 1):
        click.echo(f"  {number}. {line}")
    if not yes:
        click.confirm("Go on?", abort=True)
