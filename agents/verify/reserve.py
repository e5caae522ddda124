# SPDX-License-Identifier: Apache-2.0
"""What a verifier's operator wallet must hold, and the warning where it holds less.

Rule: for each job that the node serves the wallet holds what a challenge of a result takes: the
job's bond and the deposit of its announcement. A challenge binds them for a day or more. So a
wallet with enough for one job has none for a second wrong result meanwhile, and whoever has more
wrong results at once than the honest verifiers have bonds wins by it. A verifier that learned this
only when it was to challenge would learn it too late.
"""

from __future__ import annotations

from collections.abc import Collection

from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, JobStatus
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.verify.deposits import Purse

_EVERY_S = 600  # of the chain's time, between two looks where the jobs are the same


class Reserve:
    """The looks of one verifier at its wallet. A shortage is said once, and again when it changes,
    and so is its end."""

    def __init__(self, network: Network, context: Context) -> None:
        self._network = network
        self._context = context
        self._purse = Purse(network, context)
        self._looked: tuple[int, frozenset[int]] | None = None
        self._short = 0

    def look(self, head: Head, jobs: Collection[int]) -> None:
        """Say whether the wallet holds enough for these jobs, if it is time to look."""
        served = frozenset(jobs)
        if self._looked is not None:
            when, before = self._looked
            if served == before and head.timestamp < when + _EVERY_S:
                return
        self._looked = head.timestamp, served
        live = [job for job in sorted(served) if self._is_live(job)]
        wanted = self.wanted(live)
        held = self._purse.balance
        short = max(0, wanted - held)
        told = {
            "wallet": self._context.wallet.address,
            "holds_zoo": round(held / ZOO, 2),
            "wants_zoo": round(wanted / ZOO, 2),
        }
        if short and short != self._short:
            self._context.log.warning(
                "lacks_bonds",
                **told,
                jobs=live,
                why=f"send it {short / ZOO:g} ZOO, or it can't challenge a wrong result in each of "
                "these jobs",
            )
        elif self._short and not short:
            self._context.log.info("has_bonds", **told)
        self._short = short

    def wanted(self, jobs: Collection[int]) -> int:
        """What a challenge in each of these jobs takes, in 1e-18 ZOO."""
        deposit = self._network.bounds().least_bond if jobs else 0
        return sum(self._network.job(job).terms.challenge_bond + deposit for job in jobs)

    def _is_live(self, job: int) -> bool:
        """Whether a result may still come that is to be challenged."""
        return self._network.job(job).status == JobStatus.ACTIVE
