# SPDX-License-Identifier: Apache-2.0
"""The privacy a node has spent on a job: an account in its journal, charged before anything leaves.

Rule: a release is on disk as spent before the commitment to it may be sent, and it is charged once,
however often the agent restarts in between. An update that the account does not allow is never
made.
"""

from __future__ import annotations

from agents.mechanisms.privacy import Accountant, Charge, Privacy
from agents.runtime.journal import Journal

_NAMES_KEPT = 8


class Budget:
    """The account of one job. `privacy`: the job's mechanism, whose budget is enforced.

    `limit`: the node's own bound on epsilon, which counts if it is lower than the job's.
    """

    def __init__(
        self, journal: Journal, job_id: int, privacy: Privacy, limit: float | None = None
    ) -> None:
        self._journal = journal
        self._key = f"privacy-{job_id}"
        self._epsilon = min(privacy.max_epsilon, limit or privacy.max_epsilon)
        self._delta = privacy.delta

    def allows(self, charge: Charge | None, name: str = "") -> bool:
        """Whether one more round of this charge stays within the budget, or `name` is charged."""
        kept = self._journal.get(self._key) or {"names": []}
        if charge is None or name in kept["names"]:
            return True
        return self._account().can_participate(charge)

    def record(self, name: str, charge: Charge | None) -> None:
        """Charge the release `name`, durably and only once. Raises BudgetExceeded."""
        if charge is None:
            return
        kept = self._journal.get(self._key) or {"names": []}
        if name in kept["names"]:
            return
        account = self._account()
        account.record_participation(charge)
        names = [*kept["names"], name][-_NAMES_KEPT:]
        self._journal.put(self._key, {"account": account.to_dict(), "names": names})

    def spent(self) -> float:
        """Epsilon spent, by the tight composition that is enforced."""
        return self._account().epsilon()

    def spent_rdp(self) -> float:
        """The same by ZIP-400's Renyi orders, for comparison."""
        return self._account().epsilon_rdp()

    def remaining(self) -> float:
        """Epsilon left."""
        return self._account().remaining_budget()

    def _account(self) -> Accountant:
        kept = self._journal.get(self._key)
        if kept is None:
            return Accountant(max_epsilon=self._epsilon, delta=self._delta)
        return Accountant.from_dict({**kept["account"], "max_epsilon": self._epsilon})
