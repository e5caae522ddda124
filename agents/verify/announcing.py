# SPDX-License-Identifier: Apache-2.0
"""What a verifier has found, announced before it is said: whoever sees a report or a challenge wait
for its block could send the same before it and take the bounty.

Rule: the evidence, with a random number in it, is on disk before its digest is announced, and is
published only with the report or the challenge, in a later block. The chain says what has become of
an announcement, so a restart at any line goes on from there. A report that can't wait, or whose
verifier has nothing to deposit, is sent without one: the conviction counts more than the bounty.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from agents.protocol import formulas
from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, Phase, ReportStatus, Violation
from agents.protocol.view import View
from agents.runtime.commitments import Commitments
from agents.runtime.context import Context
from agents.runtime.contracts import Contract
from agents.runtime.errors import JournalFull, Reverted
from agents.runtime.faults import crashpoint
from agents.runtime.transaction import Order
from agents.storage.canonical import dumps, loads
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore
from agents.verify.deposits import Purse

_EVIDENCE = "evidence"
_GUILTY = (ReportStatus.CONFIRMED, ReportStatus.APPEALED, ReportStatus.EXECUTED)


class Announcements:
    """The announcements of one verifier."""

    def __init__(
        self, network: Network, context: Context, store: ContentStore, purse: Purse
    ) -> None:
        self._network = network
        self._context = context
        self._store = store
        self._purse = purse
        self._kept = Commitments(context.journal, context.artefacts, "verifier")

    # -- of a node -----------------------------------------------------------------------------

    def announce_nodes(self, view: View, verifier: int, found: Mapping[int, bytes]) -> bool:
        """Announce that nodes' work is wrong, unless that is done, comes too late or can't be paid.

        Returns whether an announcement was sent. `found`: by node the evidence, canonical JSON, an
        object.
        """
        due = []
        for node, evidence in found.items():
            if self._published(view, node):
                continue
            kept = self._keep(self._node_name(view.job_id, view.round_id, node), evidence)
            place = (view.job_id, view.round_id)
            digest, scope = self._of_node(place, verifier, node, kept)
            if not self._announced(self._network.reports, scope, digest):
                due.append((*place, verifier, digest))
        if not due:
            return False
        # The result may be wrong too, and nobody else may challenge it.
        spare = view.job.terms.challenge_bond + self._network.bounds().least_bond
        deposit = self._purse.deposit(view.snapshot.nodes, len(due), spare)
        if not deposit:
            return False
        reports = self._network.reports
        orders = [Order(reports, "announce_report", (*args, deposit)) for args in due]
        self._context.log.info("announced", round=view.round_id, deposit=deposit / ZOO)
        for outcome in self._context.sender.send_all(orders):
            if isinstance(outcome, Reverted):
                raise outcome
        crashpoint("verifier-announced")
        return True

    def publish_node(self, view: View, node: int, evidence: bytes) -> bytes:
        """Publish what was announced of a node, or `evidence` if nothing was; its digest."""
        kept = self._load(self._node_name(view.job_id, view.round_id, node))
        return self._publish(evidence if kept is None else kept)

    def settle(self, view: View, verifier: int) -> str | None:
        """Open the announcement of a node that others have convicted, in any round, or take back
        the deposit of a round in which nobody judged it; the next one of them."""
        prefix = f"finding-{view.job_id}-"
        for name in self._kept.names(prefix):
            number, node = (int(part) for part in name.removeprefix(prefix).split("-")[:2])
            evidence, place = self._load(name), (view.job_id, number)
            if evidence is None:  # its digest is lost with it: nothing more can become of it
                self._kept.forget(name)
                continue
            did = self._settle(place, verifier, node, evidence)
            if did:
                return did
            if number < view.round_id and self._is_settled(place, node):
                self._kept.forget(name)
        return None

    def _settle(
        self, place: tuple[int, int], verifier: int, node: int, evidence: bytes
    ) -> str | None:
        reports, send = self._network.reports, self._context.sender.send
        digest, scope = self._of_node(place, verifier, node, evidence)
        if not self._announced(reports, scope, digest):
            return None
        if any(status in _GUILTY for status in self._statuses(place, node)):
            args = (*place, verifier, node, self._publish(evidence))
            send(reports, "open_announcement", *args)
            return f"opened: its announcement of node {node} in round {place[1]}"
        if self._is_unjudged(place):
            send(reports, "expire_announcement", *place, verifier, digest)
            return f"taken back: its deposit of round {place[1]}, whose work nobody judged"
        return None

    def _is_unjudged(self, place: tuple[int, int]) -> bool:
        """Whether a round is over without two thirds of the weight behind a result of it."""
        round_ = self._network.round(*place)
        if round_.phase == Phase.FINALIZED:
            return 3 * round_.attested_stake < 2 * round_.verifier_stake
        return round_.phase == Phase.VOID

    def _is_settled(self, place: tuple[int, int], node: int) -> bool:
        """Whether nothing more can become of a round's report on a node."""
        pending = self._context.chain.call(self._network.reports, "is_pending", *place, node)
        return not pending and self._network.round(*place).phase in (Phase.FINALIZED, Phase.VOID)

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
        statuses = self._statuses((view.job_id, view.round_id), node)
        return any(status != ReportStatus.NONE for status in statuses)

    def _statuses(self, place: tuple[int, int], node: int) -> list[int]:
        """Of the reports on a node, by violation."""
        kinds = (Violation.INVALID, Violation.COPIED)
        return [self._network.report(formulas.report_id(*place, node, k)).status for k in kinds]

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
        self._kept.forget(name)  # the entry of an evidence that is gone
        self._kept.keep(name, {}, {_EVIDENCE: salted})
        kept = self._load(name)
        if kept is None:
            path = self._kept.path(name, _EVIDENCE)
            raise JournalFull(
                f"{path} is gone, and there is no room to begin anew. Free disk space."
            )
        return kept

    def _load(self, name: str) -> bytes | None:
        """The evidence, None without an entry, or without the file that it is of."""
        if self._kept.get(name) is None:
            return None
        try:
            return self._kept.path(name, _EVIDENCE).read_bytes()
        except FileNotFoundError:
            return None

    def _publish(self, evidence: bytes) -> bytes:
        cid = self._store.put_bytes(evidence)
        self._store.pin(cid)
        return digest_of(cid)


def _digest(evidence: bytes) -> bytes:
    return digest_of(cid_of_bytes(evidence))
