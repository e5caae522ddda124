# SPDX-License-Identifier: Apache-2.0
"""The manifest of a round: who trains on which batches.

Rule: the round's seed and snapshot are on chain; what earlier rounds left undone is in the last
finalized round's report. So everyone derives the same manifest, and nobody has to send it. The
batches of a void round are handed out again.

A batch is done when an update that came of it was merged. The batches of a good payload that was
not merged are handed out again, usually to other nodes. Each round assigns these batches before any
new ones, so never more than one round's batches are left.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.mechanisms.codec import Codec
from agents.protocol.network import Network
from agents.protocol.structs import Snapshot
from agents.protocol.view import View
from agents.rounds.models import Models
from agents.training.assignment import Manifest, Range, assign, next_carry, node_seed
from agents.training.spec import JobSpec


@dataclass(frozen=True)
class Plan:
    """A round's manifest with what it was made from.

    `step`: finalized rounds before this one, which decides the learning rate.
    """

    manifest: Manifest
    step: int
    carry_in: tuple[Range, ...]
    cursor_in: int

    def codec_seed(self, codec: Codec, node: int) -> bytes:
        """The public randomness of a node's payload: the round's, or the node's own in the round.

        With one seed for all, payloads of a projecting codec lie in one subspace, where a robust
        merge can compare them; with a seed each, their errors differ and average out in a mean.
        """
        own = getattr(codec, "own_seed", False)
        return node_seed(self.manifest.seed, node) if own else self.manifest.seed


class Plans:
    """Derives plans; keeps those of rounds that can't change any more."""

    def __init__(self, network: Network, models: Models) -> None:
        self._network = network
        self._models = models
        self._plans: dict[tuple[int, int, bytes], Plan] = {}

    def of(self, view: View) -> Plan | None:
        """The newest round's plan, None while its seed is not known yet."""
        seed = self._network.seed(view.job_id, view.round_id, view.round)
        if seed is None:
            return None
        key = (view.job_id, view.round_id, seed)
        if key not in self._plans:
            self._plans[key] = self._make(view.job_id, view.round_id, seed, view.snapshot)
        return self._plans[key]

    def past(self, job_id: int, round_id: int) -> Plan:
        """The plan of a round that is over; its seed is in the chain's storage."""
        round_ = self._network.round(job_id, round_id)
        seed = round_.seed
        key = (job_id, round_id, seed)
        if key not in self._plans:
            snapshot = self._network.snapshot(job_id, round_id, round_)
            self._plans[key] = self._make(job_id, round_id, seed, snapshot)
        return self._plans[key]

    def _make(self, job_id: int, round_id: int, seed: bytes, snapshot: Snapshot) -> Plan:
        spec = self._models.spec(job_id)
        step = self._step_of(job_id, round_id)
        carry, cursor = self._left_by(job_id, step, spec)
        manifest = assign(seed, snapshot.nodes, snapshot.weights, spec, carry, cursor)
        return Plan(manifest, step, carry, cursor)

    def _step_of(self, job_id: int, round_id: int) -> int:
        """Number of rounds finalized before a round."""
        step = self._network.ledger_length(job_id)
        while step and self._network.ledger_entry(job_id, step - 1).round_id >= round_id:
            step -= 1
        return step

    def _left_by(self, job_id: int, step: int, spec: JobSpec) -> tuple[tuple[Range, ...], int]:
        """Missed ranges and cursor after the first `step` finalized rounds."""
        if step == 0:
            return (), 0
        entry = self._network.ledger_entry(job_id, step - 1)
        number = entry.round_id
        report = self._models.report(entry.report)
        round_ = self._network.round(job_id, number)
        snapshot = self._network.snapshot(job_id, number, round_)
        manifest = assign(
            round_.seed,
            snapshot.nodes,
            snapshot.weights,
            spec,
            report.carry_in,
            report.cursor_in,
        )
        merged = report.merged()
        merged -= self._network.in_round("is_invalid", job_id, number, sorted(merged))
        return next_carry(manifest, merged)
