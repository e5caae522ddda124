# SPDX-License-Identifier: Apache-2.0
"""Pay that the pool keeps from a wallet: what may be released now, and what is still held.

Rule: the contract says whether it may, and is asked before anything is signed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scripts._shared.operator import Contracts, rehearse, when, zoo

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


def kept_pay(contracts: Contracts, account: Any) -> tuple[list[Release], list[str]]:
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
