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


@click.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@deployment_option
@explained
def cli(account: Any, deployment: Path | None) -> None:
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
    claimed = 0
    for label, credited, take in credits:
        amount = credited(account)
        if amount:
            take(sender=account)
            claimed += amount
            click.echo(f"{label}: {zoo(amount)}")
    if not claimed:
        click.echo(f"Nothing is credited to {account.address}.")
        return
    after = token.balanceOf(account)
    click.echo(f"Balance of {account.address}: {zoo(before)} -> {zoo(after)}")
