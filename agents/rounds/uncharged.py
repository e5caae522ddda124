# SPDX-License-Identifier: Apache-2.0
"""Rounds that a node committed in, and that its privacy account does not know of.

The account lies in the journal of one operator key. A new machine, a new key or a restored copy has
an older one or none. Rule: before the first work in a round, each earlier round of the job that the
chain has a commitment of the node in is charged as well, whatever the budget says. How many
examples the node had then is not known here: those it has now count.

Other jobs are counted when the node works in them again.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.jobs.job import JobContext
from agents.mechanisms.privacy import Charge
from agents.protocol.network import Network
from agents.protocol.view import View
from agents.rounds.plan import Plan, Plans
from agents.rounds.privacy_budget import Budget
from agents.runtime.logs import Log

_AT_ONCE = 1_000  # rounds that are asked about in one call


class Uncharged:
    """Of one node.

    Args:
        costs: what a round of this plan costs the node.
        name_of: a round's submission, by job, round and seed.
    """

    def __init__(
        self,
        network: Network,
        plans: Plans,
        log: Log,
        costs: Callable[[JobContext, Plan, int], Charge | None],
        name_of: Callable[[int, int, bytes], str],
    ) -> None:
        self._network = network
        self._plans = plans
        self._log = log
        self._costs = costs
        self._name_of = name_of
        self._done: dict[int, int] = {}  # by job: the last round that is charged, if it was due

    def charge(self, job: JobContext, budget: Budget, view: View, node: int) -> None:
        """Charge what is missing of the rounds before that of `view`.

        Raises as `Plans.past` where the unit is the example, and is called again; what was charged
        until then stays charged.
        """
        job_id, last = view.job_id, view.round_id - 1
        number = max(budget.last_round, self._done.get(job_id, 0)) + 1
        while number <= last:
            asked = range(number, min(number + _AT_ONCE, last + 1))
            for found in self._network.committed_in(job_id, asked, node):
                seed = self._network.round(job_id, found).seed
                if budget.record_past(
                    self._name_of(job_id, found, seed), self._cost(job, job_id, found, node)
                ):
                    self._log.warning("privacy_charged_late", job=job_id, round=found)
            number = asked.stop
        self._done[job_id] = last

    def _cost(self, job: JobContext, job_id: int, round_id: int, node: int) -> Charge | None:
        if job.privacy.unit == "node":  # all rounds cost the same, and old plans may be gone
            return job.privacy.charge()
        return self._costs(job, self._plans.past(job_id, round_id), node)
