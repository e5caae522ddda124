# SPDX-License-Identifier: Apache-2.0
"""What every node's commitments cost it of its privacy budget, from public facts alone.

Rule: a node is charged for every round it committed in, revealed or not, since the charge comes
before the commitment. A commitment beyond the budget of the job's spec is a difference. How many
examples a node has, which decides what a round of `dp_sgd` costs, is what its proofs say: nobody
else can count them.
"""

from __future__ import annotations

from typing import Any

from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.jobs.job import JobContext
from agents.mechanisms.privacy import Accountant, BudgetExceeded, Privacy
from agents.mechanisms.privacy.parts.pld import ExtraMissing
from agents.protocol.network import Network
from agents.protocol.view import observe
from agents.rounds.models import Models
from agents.rounds.plan import Plan, Plans
from agents.rounds.proof import MAX_PROOF_BYTES, ProofOfComputation
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.state import PayloadError


class Charges:
    """The accounts of a job's nodes, replayed round by round."""

    def __init__(self, job: JobContext, record: Record, store: ContentStore) -> None:
        """Read what the nodes' proofs say. Raises StoreUnavailable when the store is down."""
        self._job = job
        self._record = record
        self._privacy: Privacy = job.privacy
        self._accounts: dict[int, Accountant] = {}
        self._examples: dict[int, dict[int, int]] = {}  # node -> round -> examples
        if self._privacy.unit == "example":
            self._read_examples(Artefacts(store))

    def replay(self, part: Part, plan: Plan | None) -> None:
        """Charge the round of `part`."""
        if self._privacy.unit == "none":
            return
        for event in self._record.of("Committed", part.round_id):
            node = event.args["node_id"]
            who = f"node {node}"
            account = self._accounts.setdefault(
                node, Accountant(self._privacy.max_epsilon, self._privacy.delta)
            )
            try:
                charge = self._privacy.charge(**self._facts(node, part.round_id, plan))
                if charge is not None:
                    account.record_participation(charge)
            except BudgetExceeded as error:
                if self._privacy.unit == "example" and node not in self._examples:
                    part.remark(
                        f"{who}: what its commitment cost can't be known: there is no proof of it "
                        "that says how many examples it has."
                    )
                else:
                    part.hold("privacy", False, who, f"it committed beyond its budget. {error}")
            except ExtraMissing as error:
                part.remark(f"{who}: its budget can't be computed here: {error}")
            except ValueError as error:
                part.differ("privacy", who, f"its charge can't be computed: {error}")
            else:
                part.hold("privacy", True, who, "")
        try:
            spent = self.summaries()
            part.figures["privacy"] = {str(node): summary for node, summary in spent.items()}
        except ExtraMissing as error:
            part.remark(f"What was spent can't be computed here: {error}")

    def summaries(self) -> dict[int, dict[str, Any]]:
        """`Accountant.summary` by ascending node. Raises ExtraMissing."""
        return {node: account.summary() for node, account in sorted(self._accounts.items())}

    def _facts(self, node: int, round_id: int, plan: Plan | None) -> dict[str, Any]:
        if self._privacy.unit != "example":
            return {}
        assignment = None if plan is None else plan.manifest.of(node)
        stated = self._examples.get(node, {})
        return {
            "steps": 0 if assignment is None else assignment.batches,
            "batch": self._job.spec.optimizer.batch_size,
            # In a round that it did not reveal in: the fewest it ever said.
            "examples": stated.get(round_id, min(stated.values(), default=1)),
        }

    def _read_examples(self, store: ContentStore) -> None:
        for event in self._record.of("Revealed"):
            args = event.args
            try:
                raw = store.get_digest(args["proof"], MAX_PROOF_BYTES)
                examples = ProofOfComputation.from_bytes(raw).examples
            except StoreUnavailable:
                raise
            except (StoreError, PayloadError):
                continue  # the audit of the round names it
            # A node that doesn't say how many examples it has gets no amplification.
            self._examples.setdefault(args["node_id"], {})[args["round_id"]] = examples or 1


def spent(network: Network, store: ContentStore, job_id: int) -> dict[int, dict[str, Any]] | None:
    """What a job's nodes have spent so far, by node; None if the job promises no privacy.

    Returns: for each node that ever committed, `Accountant.summary`, the number of `rounds` it
    committed in, and `problems`: sentences on commitments that are not in these figures.

    Raises:
        AgentError: no such job, or the RPC node is down.
        StoreError, SpecError: the job's spec can't be had or used; the store is down.
        ExtraMissing: `dp_sgd` was accounted for, and dp-accounting is not installed.
    """
    record = Record(network, job_id)
    models = Models(network, store)
    job, plans = models.job(job_id), Plans(network, models)
    if job.privacy.unit == "none":
        return None
    charges = Charges(job, record, store)
    problems = []
    for number in record.current:
        part = Part(number)
        plan = None
        if job.privacy.unit == "example" and record.of("Committed", number):
            plan = plans.of(observe(network, job_id, record.head, number))
        charges.replay(part, plan)
        problems += [str(found) for found in part.differences]
        problems += [f"round {number}, {remark}" for remark in part.remarks]
    commits = [event.args["node_id"] for event in record.of("Committed")]
    return {
        node: {
            **summary,
            "rounds": commits.count(node),
            "problems": [text for text in problems if f"node {node}:" in text],
        }
        for node, summary in charges.summaries().items()
    }
