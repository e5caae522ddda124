# SPDX-License-Identifier: Apache-2.0
"""What people are worth in ZOO: wallets, stakes, bounties, rewards, bond credits, escrow."""

from __future__ import annotations

from tests.stage.contracts.system import Player, System


def of_address(system: System, *addresses: str) -> int:
    """Wallets and every credit of these addresses."""
    credits = (
        system.token.balanceOf,
        system.registry.bounty,
        system.pool.pending,
        system.results.bond_credit,
        system.reports.bond_credit,
    )
    return sum(int(credit(address)) for address in dict.fromkeys(addresses) for credit in credits)


def of_player(system: System, *players: Player) -> int:
    """The addresses of nodes and what the nodes have bonded."""
    addresses = [a for p in players for a in (p.owner, p.operator, p.payout)]
    return of_address(system, *addresses) + sum(
        int(system.registry.bonded(p.node_id)) for p in players
    )


def of_sponsor(system: System, sponsor: str, *jobs: int) -> int:
    """A sponsor's addresses and the escrow of its jobs."""
    return of_address(system, sponsor) + sum(int(system.pool.escrow(job)) for job in jobs)
