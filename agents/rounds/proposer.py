# SPDX-License-Identifier: Apache-2.0
"""Proposing a round's result: the duty of one aggregator, then the right of everybody.

Rule: in the duty window only the aggregator that the seed drew may propose. When it lets the window
pass, any node of the snapshot may. The other nodes wait a little longer than the other aggregators
do. A node that is banned or suspended may not. A result is published before it is proposed; one
with noise when it stands (`agents.rounds.held_back`).
"""

from __future__ import annotations

from agents.mechanisms.privacy.aggregate import Aggregate
from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, Phase
from agents.protocol.view import View
from agents.rounds.gathering import Gathering
from agents.rounds.held_back import HeldBack
from agents.rounds.outcome import Outcome
from agents.rounds.reader import WAIT_SHARE, RoundReader
from agents.runtime.faults import crashpoint
from agents.runtime.sender import Sender
from agents.storage.cid import cid_of_bytes, digest_of


class Proposer:
    """Proposes results for one node. `head_start`: share of the fallback window left to others."""

    def __init__(
        self,
        network: Network,
        reader: RoundReader,
        sender: Sender,
        head_start: float,
        gathering: Gathering,
    ) -> None:
        self._network = network
        self._reader = reader
        self._sender = sender
        self._head_start = head_start
        self._gathering = gathering
        folder = reader.folder
        self._held = None if folder is None else HeldBack(network, reader.store, folder)

    def publish(self, view: View) -> str | None:
        """Publish a result of this node that was held back and stands; returns what was done."""
        return None if self._held is None else self._held.step(view)

    def step(self, view: View, node: int) -> str | None:
        """Propose if it is this node's turn; returns what was done."""
        if view.phase != Phase.AGGREGATE or view.overdue:
            return None
        if not self._my_turn(view, node) or not self._acts(node):
            return None
        submissions = self._reader.submissions(view)
        missing = [s.reveal.node for s in submissions if s.unavailable]
        if missing and self._elapsed(view) < WAIT_SHARE:
            return None
        found = self._gathering.of(view, submissions)
        waiting = found is not None and not found.complete
        if found is not None and waiting and (found.blind or self._elapsed(view) < WAIT_SHARE):
            return None
        drawn = bool(self._reader.models.spec(view.job_id).segment)
        place = view.job_id, view.round_id
        if drawn and self._network.seed(*place, view.round, audit=True) is None:
            return None
        if (drawn or found is not None) and view.round.audit_seed == ZERO_DIGEST:
            # Shards, and what of an epoch was asked for, must be judged by this seed as long as
            # anybody may ask, and the chain forgets one that nobody stores.
            network = self._network
            self._sender.ensure(
                lambda: network.round(*place).audit_seed != ZERO_DIGEST,
                network.results,
                "capture_audit_seed",
                *place,
            )
            return f"captured: the audit seed of round {view.round_id}"
        said = () if found is None else found.said
        outcome = self._reader.outcome(view, submissions, said=said)
        if outcome is None:
            return None
        self._keep(view, outcome)
        # Also of nodes that were found invalid when a first result stood: they may be cleared.
        paid = outcome.paid()
        crashpoint("aggregator-before-propose")
        self._sender.send(
            self._network.results,
            "propose_result",
            view.job_id,
            view.round_id,
            node,
            outcome.model,
            digest_of(outcome.report.update),
            digest_of(cid_of_bytes(outcome.report.to_bytes())),
            list(paid),
            list(paid.values()),
        )
        crashpoint("aggregator-after-propose")
        loss = outcome.report.val_loss
        return f"proposed: round {view.round_id} of {len(paid)} nodes, loss {loss:.4f}"

    def _keep(self, view: View, outcome: Outcome) -> None:
        """Have the result where it outlives this process, before its digests are proposed."""
        if not isinstance(self._reader.models.job(view.job_id).privacy, Aggregate):
            self._reader.publish(outcome)
            return
        if self._held is None:
            raise ValueError("a result with noise needs a folder that holds it until it stands")
        self._reader.pin(outcome)
        self._held.keep(view, outcome.files)

    def _my_turn(self, view: View, node: int) -> bool:
        duty = self._network.on_duty(view.job_id, view.round_id)
        if duty:
            return duty == node
        known = {*view.snapshot.nodes, *view.snapshot.verifiers, *view.snapshot.aggregators}
        return node in known and self._elapsed(view) >= self._head_start

    def _acts(self, node: int) -> bool:
        return self._network.acting_operator(node) == self._sender.address

    def _elapsed(self, view: View) -> float:
        """Share of the current window that has passed, from 0 to 1."""
        window = view.job.terms.aggregate_s
        return 1 - max(0, view.round.deadline - view.now) / window
