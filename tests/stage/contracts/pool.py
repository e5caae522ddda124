# SPDX-License-Identifier: Apache-2.0
"""The reward pool in the deployed system, with jobs and paid nodes, but without rounds: settlement
is sent from the address of TrainingResults, the only one that may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.stage.contracts.registry import account, consent
from tests.stage.contracts.system import STAKE, TRAINER, UNLIMITED, ZOO, System


@dataclass
class PoolStage:
    """Short forms of what is done around the pool. All nodes are the holder's of all ZOO."""

    system: System
    pool: Any

    @property
    def token(self) -> Any:
        return self.system.token

    @property
    def registry(self) -> Any:
        return self.system.registry

    @property
    def jobs(self) -> Any:
        return self.system.jobs

    @property
    def results(self) -> str:
        """The address of TrainingResults, as a sender."""
        return str(self.system.results.address)

    @property
    def reports(self) -> str:
        """The address of ViolationReports, as a sender."""
        return str(self.system.reports.address)

    @property
    def committee(self) -> str:
        """The address of the Coordinator, as a sender."""
        return str(self.system.coordinator.address)

    @property
    def holder(self) -> str:
        return self.system.holder

    def rich(self, name: str, amount: int = 1_000 * ZOO) -> str:
        """An account with `amount` ZOO which the contracts may take."""
        made = self.system.person(name, amount)
        self.token.approve(self.pool.address, UNLIMITED, sender=made)
        return made

    def add_node(self, payout: str) -> int:
        """Registers a trainer that is paid at `payout`; returns its node id."""
        key = account(f"operator {self.registry.node_count() + 1}")
        signed = consent(self.registry, key, self.holder)
        node = (key.address, payout, TRAINER, STAKE, bytes(32), signed)
        return int(self.registry.register_node(*node, sender=self.holder))

    def add_job(self, sponsor: str, retain_rounds: int = 0) -> int:
        """Without money."""
        terms = {"reward_per_round": ZOO, "retain_rounds": retain_rounds}
        return self.system.job(sponsor, escrow=0, **terms)

    def fund(self, job_id: int, amount: int, funder: str) -> None:
        """Money for a job, as one who has read whose it is and for what."""
        sponsor, spec = self.jobs.origin_of(job_id)
        self.pool.fund(job_id, sponsor, spec, amount, sender=funder)

    def end_job(self, job_id: int, sponsor: str) -> None:
        """Cancels a job that has no open round, which ends it at once."""
        self.jobs.cancel_job(job_id, sender=sponsor)


def make_pool(system: System) -> PoolStage:
    """The pool of a deployed system."""
    system.token.approve(system.registry.address, UNLIMITED, sender=system.holder)
    return PoolStage(system, system.pool)
