# SPDX-License-Identifier: Apache-2.0
"""The permissionless duties of a round: any agent that is running moves the protocol on.

Rule: every transition of a round can be sent by anyone, so every role sends it, in its turn
(`agents.runtime.duties`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from agents.protocol.median import stake_median
from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, Phase, ReportStatus, ScorePhase
from agents.protocol.scores import Consensus, Scoring
from agents.protocol.structs import Report
from agents.protocol.view import View
from agents.runtime.contracts import Contract
from agents.runtime.duties import Duties
from agents.runtime.sender import Sender
from agents.runtime.transaction import Order

_ABSENT_ROUNDS = 3
_SEED_BLOCKS = 128  # the chain remembers block hashes for 256


class Upkeep:
    """Moves a job on when nobody else does.

    `patience_s`: seconds to leave to roles that should be first. `jitter_s`: spread after that.
    """

    def __init__(
        self, network: Network, sender: Sender, patience_s: float, jitter_s: float
    ) -> None:
        self._network = network
        self._consensus = Consensus(network)
        self._duties = Duties(sender, patience_s, jitter_s)

    def step(self, view: View, first: bool = False) -> str | None:
        """Send what is due; returns what was sent, None if nothing was.

        `first`: this agent leads the round, so it waits for nobody.
        """
        return self._duties.step(
            ((name, view.round_id + sum(name.encode()), call) for name, call in self._due(view)),
            at_once=first,
        )

    def _call(self, contract: Contract, function: str, *args: Any) -> Callable[[], Order]:
        return lambda: Order(contract, function, args)

    # -- what is due ---------------------------------------------------------------------------

    def _due(self, view: View) -> Iterator[tuple[str, Callable[[], Order]]]:
        rounds, results = self._network.rounds, self._network.results
        job, number = view.job_id, view.round_id
        scoring = self._scoring(view)
        # By itself: a round can't be finalized before it, and one that is void can't be scored.
        if scoring is not None and scoring.closable:
            yield "close_scoring", lambda: self._close_scoring(view)
            return
        if view.phase in (Phase.COMMIT, Phase.REVEAL):
            if view.overdue:
                yield "advance", self._call(rounds, "advance", job, number)
            elif view.unseated and view.block >= view.round.seed_block:
                lists = self._network.candidates(job, number, view.round)
                yield "seat", self._call(rounds, "seat", job, number, *map(list, lists))
        elif view.phase in (Phase.AGGREGATE, Phase.DISPUTED):
            if view.overdue:
                yield "advance", self._call(results, "advance", job, number)
        elif view.phase == Phase.CHALLENGE:
            may = self._network.chain.call(results, "can_finalize", job, number)
            if may and (scoring is None or scoring.phase in (ScorePhase.NONE, ScorePhase.CLOSED)):
                yield "finalize", lambda: self._pay(view, "finalize")
        elif view.phase == Phase.FINALIZED and not view.round.settled:
            yield "settle", lambda: self._pay(view, "settle")
        elif view.active:
            yield "open_round", self._call(rounds, "open_round", job)
        yield from self._expiring(view)
        yield from self._silent(view)
        yield from self._reports(view)
        yield from self._absent(view)

    def _expiring(self, view: View) -> Iterator[tuple[str, Callable[[], Order]]]:
        """The seeds of the round that the chain is about to forget, or has forgotten already."""
        if view.phase in (Phase.NONE, Phase.FINALIZED, Phase.VOID):
            return
        rounds, results = self._network.rounds, self._network.results
        seeds = [("capture_seed", rounds, view.round.seed, view.round.seed_block)]
        if view.phase >= Phase.AGGREGATE:
            audit = view.round.audit_seed, view.round.audit_block
            seeds.append(("capture_audit_seed", results, *audit))
        for name, contract, seed, block in seeds:
            if seed == ZERO_DIGEST and view.block > block + _SEED_BLOCKS:
                yield name, self._call(contract, name, view.job_id, view.round_id)

    def _scoring(self, view: View) -> Scoring | None:
        """The round's scoring while the round can be scored."""
        if view.phase not in (Phase.AGGREGATE, Phase.CHALLENGE, Phase.DISPUTED):
            return None
        return self._consensus.scoring(view.job_id, view.round_id)

    def _close_scoring(self, view: View) -> Order:
        snapshot, job, number = view.snapshot, view.job_id, view.round_id
        opened = view.round.opened_block
        vectors = self._consensus.vectors(job, number, opened, snapshot)
        revealed = self._network.in_round("is_revealed", job, number, snapshot.nodes)
        medians = stake_median(
            [
                [vector.scores[node] * (node in revealed) for node in snapshot.nodes]
                for vector in vectors.values()
            ],
            [snapshot.verifiers[verifier] for verifier in vectors],
            sum(snapshot.verifiers.values()),
            nodes=len(snapshot.nodes),
        )
        args = (job, number, list(snapshot.nodes), list(snapshot.weights), medians)
        return Order(self._network.scores, "close_scoring", args)

    def _pay(self, view: View, function: str) -> Order:
        proposal = self._network.proposal(view.job_id, view.round_id, view.round)
        paid = list(proposal.nodes), list(proposal.contributions)
        return Order(self._network.results, function, (view.job_id, view.round_id, *paid))

    def _silent(self, view: View) -> Iterator[tuple[str, Callable[[], Order]]]:
        """Nodes that committed and did not reveal."""
        if view.phase in (Phase.NONE, Phase.COMMIT, Phase.REVEAL):
            return
        if view.round.n_committed == view.round.n_revealed:
            return
        network, job, number = self._network, view.job_id, view.round_id
        committed = network.committed(job, number, view.snapshot.nodes)
        revealed = network.in_round("is_revealed", job, number, view.snapshot.nodes)
        done = network.slashed_for_silence(job, number, view.round.opened_block)
        for node in sorted(committed - revealed - done):
            send = self._call(network.rounds, "slash_unrevealed", job, number, node)
            yield f"slash_unrevealed {node}", send

    def _reports(self, view: View) -> Iterator[tuple[str, Callable[[], Order]]]:
        network = self._network
        for report_id in network.open_reports(view.job_id):
            report = network.report(report_id)
            late = view.now > report.deadline
            name = report_id.hex()[:8]
            if report.status == ReportStatus.CONFIRMED and late:
                yield f"execute {name}", self._call(network.reports, "execute", report_id)
            elif report.status == ReportStatus.APPEALED and late:
                yield (
                    f"dismiss {name}",
                    self._call(network.reports, "dismiss_unresolved", report_id),
                )
            elif report.status == ReportStatus.OPEN and not self._open_round(view, report):
                yield f"lapse {name}", self._call(network.reports, "lapse", report_id)

    def _open_round(self, view: View, report: Report) -> bool:
        current = report.round_id == view.round_id
        return current and view.phase in (Phase.CHALLENGE, Phase.DISPUTED)

    def _absent(self, view: View) -> Iterator[tuple[str, Callable[[], Order]]]:
        """Nodes expected in this round that have not committed for several rounds."""
        if view.phase != Phase.COMMIT or view.round_id <= _ABSENT_ROUNDS:
            return
        network, job = self._network, view.job_id
        missing = set(view.snapshot.nodes)
        for number in range(view.round_id - _ABSENT_ROUNDS, view.round_id):
            if not missing:
                return
            expected = network.in_round("is_expected", job, number, sorted(missing))
            missing = expected - network.committed(job, number, sorted(expected))
        already = {n for n in missing if network.chain.call(network.rounds, "is_absent", job, n)}
        for node in sorted(missing - already):
            yield f"mark_absent {node}", self._call(network.rounds, "mark_absent", job, node)
