# SPDX-License-Identifier: Apache-2.0
"""Which shards of encrypted data a node needs in a round, by what everyone knows of the round.

Whoever releases keys derives this from the chain, and so does the node that waits for them: nobody
has to tell anybody what it was assigned.
"""

from __future__ import annotations

from agents.protocol.network import Network
from agents.rounds.models import Models
from agents.rounds.plan import Plan, Plans
from agents.training.assignment import Range

Shards = frozenset[int]


class NeededShards:
    """The shards of jobs whose shards have keys of their own."""

    def __init__(self, network: Network, models: Models, plans: Plans) -> None:
        self._network = network
        self._models = models
        self._plans = plans

    def to_train(self, job_id: int, plan: Plan, node: int) -> Shards:
        """Those that the node's batches of the round lie in; none if it has no task."""
        return self._models.job(job_id).data.shards_of(_ranges(plan, node))

    def to_check(self, job_id: int, plan: Plan, node: int) -> Shards:
        """Those that doing the node's work again takes: where nodes take something from round to
        round (a codec's memory, the state of the inner optimizer), also those of the rounds since
        that last started empty."""
        job = self._models.job(job_id)
        ranges = [*_ranges(plan, node)]
        back = plan.step % job.carried_rounds if job.carried_rounds else 0
        for index in range(plan.step - back, plan.step):
            number = self._network.ledger_entry(job_id, index).round_id
            ranges += _ranges(self._plans.past(job_id, number), node)
        return job.data.shards_of(ranges)

    def to_measure(self, job_id: int) -> Shards:
        """Those of the validation batches that models are measured on."""
        job = self._models.job(job_id)
        return job.data.shards_measured(job.spec.eval_batches)


def _ranges(plan: Plan, node: int) -> tuple[Range, ...]:
    assignment = plan.manifest.of(node)
    return () if assignment is None else assignment.ranges
