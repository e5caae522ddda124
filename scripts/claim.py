# SPDX-License-Identifier: Apache-2.0
"""Take out everything that is credited to a wallet: rewards, fees, bounties and returned bonds.

ape run claim --network ... --account my-payout
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from ape.cli import ConnectedProviderCommand, account_option, network_option

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
            "bonds of appeals",
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
    found = [(label, amount, take) for label, held, take in credits if (amount := held(account))]
    if not found:
        click.echo(f"Nothing is credited to {account.address}.")
        return
    lines = [f"take out {zoo(amount)} of {label}" for label, amount, _ in found]
    with signing(account, lines, yes):
        for _, _, take in found:
            take(sender=account)
    after = token.balanceOf(account)
    click.echo(f"Balance of {account.address}: {zoo(before)} -> {zoo(after)}")
