# SPDX-License-Identifier: Apache-2.0
"""What a member's commands share: finding an operation, showing it, and proposing one.

Rule: before anything is signed, the command says what the operation does and whether the timelock
would succeed with it now, found by a call from the timelock's own address.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from agents.protocol.by_hand import salt_by_hand
from scripts._shared.connecting import account_option, network_option
from scripts._shared.operation_words import named, said, spell
from scripts._shared.operations import (
    OPEN,
    Committee,
    Standing,
    committee_of,
    delay_of,
    operations,
    refusal,
)
from scripts._shared.operator import Contracts, deployment_option, explained, rehearse, when
from scripts._shared.signing import signing, yes_option

Operation = tuple[str, str, Sequence[Any]]
"""A contract's name, a function and its arguments."""


def member_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command that a member signs: network, account, --yes, deployment, refusals."""
    for decorate in (explained, deployment_option, yes_option, account_option(), network_option()):
        function = decorate(function)
    return function


def proposing(function: Callable[..., Operation]) -> Callable[..., Any]:
    """Turn a function that makes an operation into the body of a command that proposes it.

    The function gets the agents' reader of the network and the command's own options.
    """

    @member_options
    @click.option(
        "--though-it-fails",
        is_flag=True,
        help="Propose it although it would fail now, because another one comes before it.",
    )
    @wraps(function)
    def command(
        account: Any, yes: bool, deployment: Path | None, though_it_fails: bool, **given: Any
    ) -> None:
        contracts = Contracts(deployment)
        network = contracts.network()
        made = function(network, **given)
        propose(contracts, network, account, made, yes, though_it_fails)

    return command


def propose(
    contracts: Contracts,
    network: Any,
    account: Any,
    made: Operation,
    yes: bool,
    though_it_fails: bool,
) -> None:
    """Say what an operation does, try it from the timelock, and let ACCOUNT propose it."""
    committee = committee_of(network)
    check_member(committee, account)
    name, function, args = made
    target = network.deployment[name]
    try:
        data = target.function(function, len(args)).encode(args)
    except TypeError as error:
        raise click.ClickException(str(error)) from None
    words = said(network, target.address, data)
    salt = _free_salt(network, target.address, data)
    _echo(words.lines())
    why = refusal(network, target.address, data)
    if why is not None and not though_it_fails:
        raise click.ClickException(
            f"The operation would fail: {why}. Nothing was signed. If another operation comes "
            "before this one and makes it possible, add --though-it-fails."
        )
    block = network.chain.head().number
    click.echo(f"Tried from the timelock at block {block}: it would " + f"{_ending(why)}.")
    delay = delay_of(network, committee, target.address, data)
    needed = committee.threshold
    click.echo(
        f"It needs {needed} of {len(committee.members)} members, of whom you are the first, and "
        f"waits {spell(delay)} after the last of them. Everybody can see it meanwhile."
    )
    coordinator = contracts.Coordinator
    rehearse(coordinator.propose, target.address, data, salt, sender=account)
    with signing(account, [f"propose and approve: {words.title}"], yes):
        coordinator.propose(target.address, data, salt, sender=account)
    op_id = network.chain.call(network.coordinator, "operation_id", target.address, data, salt)
    click.echo(f"Operation 0x{op_id.hex()}")
    found = find(network, op_id.hex())
    click.echo(found.outlook(committee_of(network), network.chain.chain_time()))


def _free_salt(network: Any, target: str, data: bytes) -> bytes:
    """The salt of a call that may have been proposed before; refuses one that is still open."""
    same = [o for o in operations(network) if (o.target, o.data) == (target, data)]
    for found in same:
        if found.state in OPEN:
            raise click.ClickException(
                "This operation is proposed already. Approve it with `ape run committee approve "
                f"0x{found.op_id.hex()}`, or vote against it with `cancel`."
            )
    used = {found.salt for found in same}
    return next(salt for n in range(len(used) + 1) if (salt := salt_by_hand(n)) not in used)


def find(network: Any, wanted: str) -> Standing:
    """The operation whose id begins so. Raises click.ClickException unless it is one."""
    start = wanted.removeprefix("0x").lower()
    found = [o for o in operations(network) if o.op_id.hex().startswith(start)] if start else []
    if len(found) == 1:
        return found[0]
    many = (
        f"{len(found)} operations have ids that begin"
        if found
        else "No operation has an id that begins"
    )
    raise click.ClickException(
        f"{many} with {wanted!r}. `ape run committee list --all` shows them all."
    )


def check_member(committee: Committee, account: Any) -> None:
    """Raise click.ClickException unless the account may act."""
    if account.address not in committee.members:
        raise click.ClickException(
            f"{account.address} is no member of the committee. The members are "
            f"{', '.join(committee.members)}."
        )


def shown(network: Any, found: Standing, committee: Committee, now: int) -> list[str]:
    """Everything about an operation, as lines of text."""
    total = len(committee.members)
    lines = [
        f"Operation 0x{found.op_id.hex()}: {found.state.name.lower()}",
        *found.words(network).lines(),
        f"Target: {named(network, found.target)}",
        f"Proposed by {found.proposer} at {when(found.proposed_at, now)}",
        f"Approved by {len(found.approved)} of {total} members, {committee.threshold} are needed:",
        *(f"  {who}" for who in found.approved),
    ]
    if found.lapsed:
        lines += ["Approved by former members, which doesn't count:"]
        lines += [f"  {who}" for who in found.lapsed]
    if found.cancel_voted:
        votes, quorum = len(found.cancel_voted), committee.cancel_quorum
        lines += [f"Against it voted {votes} of {total} members, {quorum} cancel it:"]
        lines += [f"  {who}" for who in found.cancel_voted]
    lines.append(found.outlook(committee, now))
    if found.state in OPEN:
        why = refusal(network, found.target, found.data)
        lines.append(f"Tried from the timelock now: it would {_ending(why)}.")
    return lines


def _ending(why: str | None) -> str:
    return "succeed" if why is None else f"fail ({why})"


def _echo(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line)


def literal(text: str) -> Any:
    """An argument typed at a terminal: JSON, with 0x... of 32 bytes and less as bytes.

    Addresses stay text, because the encoder takes them so. Raises click.UsageError for a 0x... that
    is no bytes.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return _typed(value)


def _typed(value: Any) -> Any:
    if isinstance(value, list):
        return [_typed(part) for part in value]
    if not isinstance(value, str) or not value.startswith("0x") or len(value) == 42:
        return value
    try:
        return bytes.fromhex(value[2:])
    except ValueError:
        raise click.UsageError(
            f"{value[:80]!r} is no bytes: after 0x stand two hexadecimal digits for each."
        ) from None
