# SPDX-License-Identifier: Apache-2.0
"""The privacy a node has spent on a job: an account in its journal, charged before anything leaves.

Rule: a release is on disk as spent before the commitment to it may be sent, and it is charged once,
however often the agent restarts in between. An update that the account does not allow is never
made.

Each job has an account of its own, and a job's bound holds for that. The operator's bound holds for
all of them together, because they may be of the same data: their epsilons add up, and so do their
deltas. Jobs without a bound of the operator's don't count one another.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache

from agents.mechanisms.privacy import Accountant, Charge, Privacy
from agents.runtime.journal import Journal

_NAMES_KEPT = 8
_ACCOUNTS = "privacy-"
_NOTHING = 1e-6  # the least budget that an account may have; no release of use costs so little


class Budget:
    """The account of one job. `privacy`: the job's mechanism, whose budget is enforced.

    `limit`: the node's own bound on epsilon in all its jobs together; None for none.
    """

    def __init__(
        self, journal: Journal, job_id: int, privacy: Privacy, limit: float | None = None
    ) -> None:
        self._journal = journal
        self._key = f"{_ACCOUNTS}{job_id}"
        self._epsilon = privacy.max_epsilon
        if limit is not None:
            self._epsilon = min(self._epsilon, max(_NOTHING, limit - self.elsewhere()))
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
        self._keep(account, [*kept["names"], name])

    def record_past(self, name: str, charge: Charge | None) -> bool:
        """Charge what left the node already, within the budget or not; False if it is charged."""
        kept = self._journal.get(self._key) or {"names": []}
        if charge is None or name in kept["names"]:
            return False
        account = self._account()
        account.record_spent(charge)
        self._keep(account, [*kept["names"], name])
        return True

    @property
    def last_round(self) -> int:
        """The newest round that a charge is of, by the names of submissions; 0 for none."""
        kept = self._journal.get(self._key) or {"names": []}
        parts = [name.split("-") for name in kept["names"]]
        return max((int(part[2]) for part in parts if len(part) > 2), default=0)

    def spent(self) -> float:
        """Epsilon spent, by the tight composition that is enforced."""
        return self._account().epsilon()

    def spent_rdp(self) -> float:
        """The same by ZIP-400's Renyi orders, for comparison."""
        return self._account().epsilon_rdp()

    def elsewhere(self) -> float:
        """Epsilon spent in all other jobs that the journal has accounts of."""
        others = (key for key in self._journal.keys(_ACCOUNTS) if key != self._key)
        return math.fsum(_epsilon_of(json.dumps(self._journal.get(key))) for key in others)

    def remaining(self) -> float:
        """Epsilon left."""
        return self._account().remaining_budget()

    def _keep(self, account: Accountant, names: list[str]) -> None:
        self._journal.put(self._key, {"account": account.to_dict(), "names": names[-_NAMES_KEPT:]})

    def _account(self) -> Accountant:
        kept = self._journal.get(self._key)
        if kept is None:
            return Accountant(max_epsilon=self._epsilon, delta=self._delta)
        return Accountant.from_dict({**kept["account"], "max_epsilon": self._epsilon})


@lru_cache(maxsize=256)
def _epsilon_of(kept: str) -> float:
    """What an account of the journal, as JSON, has spent: far from quick where it is of dp_sgd."""
    return Accountant.from_dict(json.loads(kept)["account"]).epsilon()
