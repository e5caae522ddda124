# SPDX-License-Identifier: Apache-2.0
"""Take out everything that is credited to a wallet: rewards, fees, bounties and returned bonds.

Retained pay that its nodes need not answer for any more is released first, and so is pay that was
held while a node stood accused and does no more.

ape run claim --network ... --account my-payout
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scripts._shared.connecting import ConnectedProviderCommand, account_option, network_option
from scripts._shared.kept_pay import kept_pay
from scripts._shared.operator import Contracts, deployment_option, explained, zoo
from scripts._shared.signing import signing, yes_option


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
    freed, waiting = kept_pay(contracts, account)
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
