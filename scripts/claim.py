# SPDX-License-Identifier: Apache-2.0
"""Take out everything that is credited to a wallet: rewards, fees, bounties and returned bonds.

Retained pay that its nodes need not answer for any more is released first, and so is pay that was
held while a node stood accused and does no more.

ape run claim --network ... --account my-payout
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scripts._shared.connecting import ConnectedProviderCommand, account_option, network_option
from scripts._shared.operator import Contracts, deployment_option, explained, rehearse, when, zoo
from scripts._shared.signing import signing, yes_option

if TYPE_CHECKING:
    from agents.protocol.network import Network


@dataclass(frozen=True)
class Release:
    """Pay that the pool credits to a payout address when it is asked to.

    `ask`, `args`: the contract's function and what it is given. `words`: which pay it is.
    """

    amount: int
    words: str
    ask: Any
    args: tuple[int, ...]


@click.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@yes_option
@deployment_option
@explained
def cli(account: Any, yes: bool, deployment: Path | None) -> None:
    """Claim the rewards, fees, bounties and bonds of ACCOUNT."""
    contracts = Contracts(deployment)
    token = contracts.ZooToken
    credits = [
        ("rewards", contracts.RewardPool.pending, contracts.RewardPool.claim),
        ("bounties", contracts.NodeRegistry.bounty, contracts.NodeRegistry.claim_bounty),
        (
            "bonds of challenges",
            contracts.TrainingResults.bond_credit,
            contracts.TrainingResults.withdraw_bond,
        ),
        (
            "bonds, deposits and bounties of reports",
            contracts.ViolationReports.bond_credit,
            contracts.ViolationReports.withdraw_bond,
        ),
        (
            "fees of redundant tasks",
            contracts.RedundantTasks.bond_credit,
            contracts.RedundantTasks.withdraw_bond,
        ),
        (
            "appeals of redundant tasks",
            contracts.TaskAppeals.bond_credit,
            contracts.TaskAppeals.withdraw_bond,
        ),
    ]
    before = token.balanceOf(account)
    freed, waiting = _kept(contracts, account)
    found = [(label, amount, take) for label, held, take in credits if (amount := held(account))]
    if freed and not any(label == "rewards" for label, _, _ in found):
        found.append(("rewards", 0, contracts.RewardPool.claim))
    for sentence in waiting:
        click.echo(sentence)
    if not found:
        click.echo(
            f"Nothing is credited to {account.address}. Rewards are when a round is final: "
            "`ape run status` shows where it stands, `ape run explain` who is paid what."
        )
        return
    lines = [
        *(f"release {zoo(one.amount)} {one.words}" for one in freed),
        *(f"take out {zoo(amount)} of {label}" for label, amount, _ in found if amount),
        *(["take out what is released"] * bool(freed)),
    ]
    with signing(account, lines, yes):
        for one in freed:
            one.ask(*one.args, sender=account)
        for _, _, take in found:
            take(sender=account)
    after = token.balanceOf(account)
    click.echo(f"Balance of {account.address}: {zoo(before)} -> {zoo(after)}")


def _kept(contracts: Contracts, account: Any) -> tuple[list[Release], list[str]]:
    """What may be released to the account, and a sentence for each node whose pay is still held."""
    network, pool = contracts.network(), contracts.RewardPool
    retained = [
        Release(
            amount, f"that job {job} retained of node {node}", pool.release_retained, (job, node)
        )
        for (job, node), amount in network.retained_at(network.chain.head().number).items()
        if network.node(node).payout == account.address
    ]
    held = [
        Release(amount, f"that are held for node {node}", pool.release, (node,))
        for node, amount in network.held().items()
        if network.node(node).payout == account.address
    ]
    freed = [one for one in (*retained, *held) if _is_free(one, account)]
    waiting = [
        f"{zoo(one.amount)} {one.words} {_until(network, *one.args)}"
        for one in held
        if one not in freed
    ]
    return freed, waiting


def _is_free(one: Release, account: Any) -> bool:
    """Whether the contract allows a release: not while the node still works in the job, or has a
    lock."""
    from agents.runtime.errors import Reverted

    try:
        rehearse(one.ask, *one.args, sender=account)
    except Reverted:
        return False
    return True


def _until(network: Network, node: int) -> str:
    """Until when the pay of a node that has a lock is held. A confirmed report is what locks it."""
    from agents.protocol.numbers import ReportStatus

    head = network.chain.head()
    on_it = network.reported_on(node, network.deployment.block, head.number)
    reports = [network.report(report_id) for report_id in on_it]
    locking = (ReportStatus.CONFIRMED, ReportStatus.APPEALED)
    deadlines = [report.deadline for report in reports if report.status in locking]
    if deadlines:
        told = when(max(deadlines), head.timestamp)
        return f"are credited when the report on it has ended; its deadline is {told}."
    return (
        "can't be released yet, though no report on it is open: the registry still counts a lock. "
        f"Its owner brings that up to date with `ape run node set {node} --active`."
    )
