# SPDX-License-Identifier: Apache-2.0
"""What a verifier has found, announced before it is said: whoever sees a report or a challenge wait
for its block could send the same before it and take the bounty.

Rule: the evidence, with a random number in it, is on disk before its digest is announced, and is
published only with the report or the challenge, in a later block. The chain says what has become of
an announcement, so a restart at any line goes on from there. A report that can't wait is sent
without one: the conviction counts more than the bounty.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from agents.protocol import formulas
from agents.protocol.network import Network
from agents.protocol.numbers import ReportStatus, Violation
from agents.protocol.view import View
from agents.runtime.commitments import Commitments
from agents.runtime.context import Context
from agents.runtime.contracts import Contract
from agents.runtime.errors import Reverted
from agents.runtime.faults import crashpoint
from agents.runtime.transaction import Order
from agents.storage.canonical import dumps, loads
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore

_EVIDENCE = "evidence"


class Announcements:
    """The announcements of one verifier."""

    def __init__(self, network: Network, context: Context, store: ContentStore) -> None:
        self._network = network
        self._context = context
        self._store = store
        self._kept = Commitments(context.journal, context.artefacts, "verifier")

    # -- of a node -----------------------------------------------------------------------------

    def announce_nodes(self, view: View, verifier: int, found: Mapping[int, bytes]) -> bool:
        """Announce that nodes' work is wrong, unless that is done or comes too late.

        Returns whether a transaction was sent. `found`: by node the evidence, canonical JSON, an
        object.
        """
        orders = []
        for node, evidence in found.items():
            if self._published(view, node):
                continue
            kept = self._keep(self._node_name(view.job_id, view.round_id, node), evidence)
            place = (view.job_id, view.round_id)
            digest, scope = self._of_node(place, verifier, node, kept)
            if not self._announced(self._network.reports, scope, digest):
                args = (*place, verifier, digest)
                orders.append(Order(self._network.reports, "announce_report", args))
        if not orders:
            return False
        for outcome in self._context.sender.send_all(orders):
            if isinstance(outcome, Reverted):
                raise outcome
        crashpoint("verifier-announced")
        return True

    def publish_node(self, view: View, node: int, evidence: bytes) -> bytes:
        """Publish what was announced of a node, or `evidence` if nothing was; its digest."""
        kept = self._load(self._node_name(view.job_id, view.round_id, node))
        return self._publish(evidence if kept is None else kept)

    def open_late(self, view: View, verifier: int) -> str | None:
        """Open the announcement of a node that others have convicted meanwhile, in any round."""
        network, prefix = self._network, f"finding-{view.job_id}-"
        for name in self._kept.names(prefix):
            number, node = (int(part) for part in name.removeprefix(prefix).split("-")[:2])
            evidence = self._load(name)
            place = (view.job_id, number)
            pending = self._context.chain.call(network.reports, "is_pending", *place, node)
            if pending and evidence is not None:
                digest, scope = self._of_node(place, verifier, node, evidence)
                if self._announced(network.reports, scope, digest):
                    args = (*place, verifier, node, self._publish(evidence))
                    self._context.sender.send(network.reports, "open_announcement", *args)
                    return f"opened: its announcement of node {node} in round {number}"
            if number < view.round_id and not pending:
                self._kept.forget(name)
        return None

    # -- of a result ---------------------------------------------------------------------------

    def announce_result(self, view: View, deposit: int, evidence: dict[str, Any]) -> bool:
        """Announce that the proposed result is wrong, unless that is done.

        Returns whether a transaction was sent. The contract may take the `deposit`.
        """
        self._keep(self._result_name(view), dumps(evidence))
        if self.has_announced_result(view):
            return False
        digest, _ = self._of_result(view)
        self._context.sender.send(self._network.results, "announce_challenge", digest)
        self._context.log.info("announced", round=view.round_id, deposit=deposit)
        crashpoint("verifier-announced")
        return True

    def has_announced_result(self, view: View) -> bool:
        """Whether an announcement that the proposed result is wrong can be opened."""
        if self._load(self._result_name(view)) is None:
            return False
        digest, scope = self._of_result(view)
        return self._announced(self._network.results, scope, digest)

    def publish_result(self, view: View, evidence: dict[str, Any]) -> bytes:
        """Publish what was announced of the result, or `evidence` if nothing was; its digest."""
        kept = self._load(self._result_name(view))
        return self._publish(dumps(evidence) if kept is None else kept)

    def forget_before(self, view: View) -> None:
        """Drop what was announced of the results of rounds that are over."""
        self._kept.forget_until(f"challenge-{view.job_id}-", view.round_id - 1)

    # -- inside --------------------------------------------------------------------------------

    def _published(self, view: View, node: int) -> bool:
        """Whether somebody has reported the node in the round."""
        ids = (
            formulas.report_id(view.job_id, view.round_id, node, violation)
            for violation in (Violation.INVALID, Violation.COPIED)
        )
        return any(self._network.report(i).status != ReportStatus.NONE for i in ids)

    def _of_node(
        self, place: tuple[int, int], verifier: int, node: int, evidence: bytes
    ) -> tuple[bytes, bytes]:
        """Digest and scope of an announcement."""
        chain_id, address = self._context.deployment.chain_id, self._network.reports.address
        digest = formulas.announcement(chain_id, address, place, node, verifier, _digest(evidence))
        return digest, formulas.announcement_key(*place, verifier)

    def _of_result(self, view: View) -> tuple[bytes, bytes]:
        """Digest and scope of what is kept of the proposed result."""
        evidence = self._load(self._result_name(view))
        assert evidence is not None
        chain_id, address = self._context.deployment.chain_id, self._network.results.address
        result = int.from_bytes(view.round.result_hash, "big")
        sender = int(self._context.wallet.address, 16)
        place = (view.job_id, view.round_id)
        digest = formulas.announcement(chain_id, address, place, result, sender, _digest(evidence))
        return digest, sender.to_bytes(32, "big")

    def _announced(self, contract: Contract, scope: bytes, digest: bytes) -> bool:
        return self._context.chain.call(contract, "announced_in", scope, digest) != 0

    @staticmethod
    def _node_name(job_id: int, round_id: int, node: int) -> str:
        return f"finding-{job_id}-{round_id}-{node}-node"

    @staticmethod
    def _result_name(view: View) -> str:
        return f"challenge-{view.job_id}-{view.round_id}-{view.round.result_hash.hex()[:16]}"

    def _keep(self, name: str, evidence: bytes) -> bytes:
        """Have the evidence on disk, with a random number in it; the one that was kept first."""
        kept = self._load(name)
        if kept is not None:
            return kept
        fields = loads(evidence)
        assert isinstance(fields, dict)
        salted = dumps({**fields, "salt": secrets.token_hex(32)})
        self._kept.keep(name, {}, {_EVIDENCE: salted})
        return salted

    def _load(self, name: str) -> bytes | None:
        if self._kept.get(name) is None:
            return None
        return self._kept.path(name, _EVIDENCE).read_bytes()

    def _publish(self, evidence: bytes) -> bytes:
        cid = self._store.put_bytes(evidence)
        self._store.pin(cid)
        return digest_of(cid)


def _digest(evidence: bytes) -> bytes:
    return digest_of(cid_of_bytes(evidence))
