# SPDX-License-Identifier: Apache-2.0
"""What every node's commitments cost it of its privacy budget, from public facts alone.

Rule: a node is charged for every round it committed in, revealed or not, since the charge comes
before the commitment. A commitment beyond the budget of the job's spec is a difference.
"""

from __future__ import annotations

from typing import Any

from agents.audit.findings import Part
from agents.audit.record import Record
from agents.privacy import Accountant, BudgetExceeded, Privacy
from agents.privacy.pld import ExtraMissing
from agents.rounds.jobs import JobContext
from agents.rounds.manifests import Plan


class Charges:
    """The accounts of a job's nodes, replayed round by round."""

    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._privacy: Privacy = job.privacy
        self._accounts: dict[int, Accountant] = {}
        self._examples: dict[int, int] = {}

    def replay(
        self, record: Record, part: Part, plan: Plan | None, examples: dict[int, int]
    ) -> None:
        """Charge a round. `examples`: how many each node said it has, where it said so."""
        if self._privacy.unit == "none":
            return
        self._examples |= examples
        for event in record.of("Committed", part.round_id):
            node = event.args["node_id"]
            who = f"node {node}"
            account = self._accounts.setdefault(
                node, Accountant(self._privacy.max_epsilon, self._privacy.delta)
            )
            try:
                charge = self._privacy.charge(**self._facts(node, plan))
                if charge is not None:
                    account.record_participation(charge)
            except BudgetExceeded as error:
                part.hold("privacy", False, who, f"it committed beyond its budget. {error}")
            except ExtraMissing as error:
                part.remark(f"{who}: its budget can't be computed here: {error}")
            except ValueError as error:
                part.differ("privacy", who, f"its charge can't be computed: {error}")
            else:
                part.hold("privacy", True, who, "")
        spent = {str(node): account.summary() for node, account in sorted(self._accounts.items())}
        part.figures["privacy"] = spent

    def _facts(self, node: int, plan: Plan | None) -> dict[str, Any]:
        if self._privacy.unit != "example":
            return {}
        assignment = None if plan is None else plan.manifest.of(node)
        return {
            "steps": 0 if assignment is None else assignment.batches,
            "batch": self._job.spec.optimizer.batch_size,
            # A node that never said how many examples it has gets no amplification.
            "examples": self._examples.get(node, 1),
        }
