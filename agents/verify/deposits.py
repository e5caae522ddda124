# SPDX-License-Identifier: Apache-2.0
"""What a verifier deposits for an announced report, and how it pays deposits and bonds.

A finder earns at most what it has deposited (contracts/ViolationReports.vy), so it deposits what
the bounty of a trainer of the round may be, whomever it has found: the amount must not show who
that is. It is the bounty in the middle, since what nobody confirms is lost: by the largest one,
whoever has one node with a large stake in the round would have all that a verifier owns at risk.

It never deposits what a challenge of the round's result takes, and takes out what contracts owe it
once that is as much as a bond. Else one dear trainer, or a few right challenges, would leave it
without the bond when a wrong result is proposed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, Violation
from agents.protocol.slashing import STRIKES_TO_BAN, Row, reporter_share, slash_amount
from agents.protocol.structs import Node, read
from agents.runtime.context import Context
from agents.runtime.contracts import Contract

_FOUND = (Violation.INVALID, Violation.COPIED)


def bounty_of(node: Node, table: Mapping[int, Row], offences: Mapping[Violation, int]) -> int:
    """The most that the finder of a node may earn, in 1e-18 ZOO. `offences`: how often the node
    was slashed before, by violation."""
    kinds = [Violation.REPEATED] if node.strikes + 1 >= STRIKES_TO_BAN else []
    rows = [table[kind].escalated(offences.get(kind, 0)) for kind in (*_FOUND, *kinds)]
    bonded = node.stake + node.unbonding
    return max(reporter_share(slash_amount(bonded, 0, row.bps), row.reporter_bps) for row in rows)


class Purse:
    """The wallet of a verifier's operator, and what contracts owe it."""

    def __init__(self, network: Network, context: Context) -> None:
        self._network = network
        self._context = context

    @property
    def balance(self) -> int:
        """What is in the wallet, in 1e-18 ZOO."""
        address = self._context.wallet.address
        return read(int, self._context.chain.call(self._network.token, "balanceOf", address))

    def allow(self, contract: Contract, amount: int) -> None:
        """Let a contract take an amount, if it may not yet."""
        chain, token = self._context.chain, self._network.token
        address = self._context.wallet.address
        if chain.call(token, "allowance", address, contract.address) < amount:
            self._context.sender.send(token, "approve", contract.address, amount)

    def collect(self, least: int) -> str | None:
        """Take out what a contract owes for bonds and deposits, if it is `least` or more; what was
        done. `least`: in 1e-18 ZOO."""
        network = self._network
        for contract in (network.results, network.reports):
            credit = self._credit(contract)
            if credit >= max(1, least):
                self._context.sender.send(contract, "withdraw_bond")
                return f"withdrawn: {credit / ZOO:g} ZOO of bonds and deposits"
        return None

    def _credit(self, contract: Contract) -> int:
        address = self._context.wallet.address
        return read(int, self._context.chain.call(contract, "bond_credit", address))

    def deposit(self, trainers: Sequence[int], findings: int, kept: int) -> int:
        """Prepare a deposit for each of so many findings; how much one is, in 1e-18 ZOO.

        Less than that bounty where the wallet and the credit at ViolationReports hold no more; 0
        where they hold nothing. `trainers`: of the round. `kept`: stays in the wallet.
        """
        reports = self._network.reports
        credit = self._credit(reports)
        spare = max(0, self.balance - kept)
        deposit = min(self._usual(trainers), (spare + credit) // findings)
        if deposit * findings > credit:
            self.allow(reports, deposit * findings - credit)
        return deposit

    def _usual(self, trainers: Sequence[int]) -> int:
        """The bounty in the middle among these trainers, the upper one where two are."""
        network = self._network
        table = network.penalties()
        kinds = (*_FOUND, Violation.REPEATED)
        calls = [
            (network.registry, "offences", (node, kind)) for node in trainers for kind in kinds
        ]
        counts = iter(self._context.chain.call_many(calls))
        earlier = {node: {kind: read(int, next(counts)) for kind in kinds} for node in trainers}
        each = sorted(bounty_of(network.node(n), table, earlier[n]) for n in trainers)
        return each[len(each) // 2] if each else 0
