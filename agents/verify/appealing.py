# SPDX-License-Identifier: Apache-2.0
"""A trainer that is reported has its own work judged, and appeals if it was right.

    a report on the node is confirmed   publish its artefacts again; do the work of that round
                                        again, as a committee member would
    the work was right                  bond an appeal from the operator's wallet, once
    the work was wrong                  say so; the bond would be lost with the slash
    the appeal was upheld               take the bond back into the wallet, for the next time

What was decided is kept in no file: the report's status on chain says whether an appeal is still
due, so an agent that is killed at any line judges again and appeals at most once. The owner may
appeal as well (`ape run appeal`); whoever comes first, it is one appeal.

Judging takes as long as the training did, and holds the loop up: training draws from the process's
random numbers, so that nothing may be computed beside it. A node with a confirmed report gets no
new work, and what it has committed to is revealed first.

The bond is the caller's, and the agent holds the operator key only. So the operator's wallet needs
the ZOO of one bond, as a verifier's does. What can't be done is said as an error, once a report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, ZOO, ReportStatus, Violation
from agents.protocol.structs import Report, read
from agents.protocol.view import View, observe
from agents.rounds.reader import RoundReader
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.errors import AgentError, Reverted, RpcDown, Stopped
from agents.runtime.faults import crashpoint
from agents.storage.canonical import dumps
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError
from agents.training.spec import SpecError
from agents.training.state import PayloadError
from agents.verify.judging import Judge
from agents.verify.spot_checks import Finding

_SAID = 128  # sentences that are remembered, so that each is said once
_PAUSE_S, _PAUSE_MAX_S = 2.0, 60.0  # before a case that could not be judged is looked at again


class NoWord(AgentError):
    """This machine can't tell whether the work was right, or not yet."""


@dataclass(frozen=True)
class Case:
    """A confirmed report on the node. `seed`: of the round; after a reorg another task may be
    meant by the same report."""

    report_id: bytes
    job_id: int
    round_id: int
    violation: int
    seed: bytes

    @property
    def words(self) -> str:
        """For people."""
        return f"{Violation(self.violation).name} in round {self.round_id} of job {self.job_id}"


class OwnAppeals:
    """The appeals of one trainer. `publish` puts a round's artefacts into the store again.

    `reader`: of rounds, with what the node's keys open.
    """

    def __init__(
        self,
        network: Network,
        context: Context,
        store: ContentStore,
        reader: RoundReader,
        publish: Callable[[View, int], None],
    ) -> None:
        self._network = network
        self._context = context
        self._store = store
        self._publish = publish
        self._judge = Judge(network, store, reader.device, self._unsure, reader=reader)
        self._findings: dict[Case, Finding] = {}
        self._pauses: dict[Case, tuple[float, float]] = {}  # how long, and until when
        self._said: list[tuple[Case | None, str]] = []

    def step(self, head: Head, node: int, free: bool) -> str | None:
        """Judge or appeal if that is due; what was done.

        `free`: no commitment of the node waits for its reveal, so that there is time to judge.
        """
        if not node or not self._context.settings.trainer.appeal:
            return None
        for case, report in self._confirmed(head, node):
            did = None
            if case in self._findings and self._findings[case].violation is not None:
                self._give_up(case)
            elif head.timestamp > report.deadline:
                self._say(case, "the time to appeal is over: the slash can be executed")
            elif case in self._findings:
                did = self._appeal(case, node)
            elif free and time.monotonic() >= self._pauses.get(case, (0.0, 0.0))[1]:
                did = self._look(case, head, node)
            if did is not None:
                return did
        return self._take_back()

    # -- what is due ---------------------------------------------------------------------------

    def _confirmed(self, head: Head, node: int) -> Iterator[tuple[Case, Report]]:
        """The reports on the node that wait for an appeal, or for their slash."""
        network = self._network
        for report_id in network.open_reports(node=node):
            report = network.report(report_id)
            if report.status == ReportStatus.CONFIRMED:
                place = report.job_id, report.round_id
                round_ = network.round(*place)
                seed = network.seed(*place, round_) or ZERO_DIGEST
                yield Case(report_id, *place, report.violation, seed), report

    def _give_up(self, case: Case) -> None:
        why = self._findings[case].reason
        self._say(
            case,
            "its work, done again here, is not what it revealed, and the bond would be lost with "
            f"the slash: {why}",
        )

    def _appeal(self, case: Case, node: int) -> str | None:
        reports, token = self._network.reports, self._network.token
        chain, sender = self._context.chain, self._context.sender
        address = self._context.wallet.address
        bond = read(int, chain.call(reports, "appeal_bond"))
        if read(int, chain.call(token, "balanceOf", address)) < bond:
            self._say(
                case,
                f"the operator's wallet {address} lacks the bond of {bond / ZOO:g} ZOO: send it "
                "the ZOO, or appeal from the owner's wallet with `ape run appeal`",
            )
            return None
        statement = self._statement(case, node)
        try:
            if read(int, chain.call(token, "allowance", address, reports.address)) < bond:
                sender.send(token, "approve", reports.address, bond)
            crashpoint("trainer-before-appeal")
            sender.ensure(
                lambda: self._network.report(case.report_id).status != ReportStatus.CONFIRMED,
                reports,
                "appeal",
                case.report_id,
                statement,
            )
        except Reverted as refused:
            self._say(case, f"the contract refuses: {refused.reason}")
            return None
        crashpoint("trainer-after-appeal")
        return f"appealed: {case.words}, with a bond of {bond / ZOO:g} ZOO"

    def _statement(self, case: Case, node: int) -> bytes:
        """The digest of what the node says; zero while no store takes it. Nobody decides by it."""
        says = {
            "version": 1,
            "job": case.job_id,
            "round": case.round_id,
            "node": node,
            "report": case.report_id.hex(),
            "says": "The node's agent has done the work again, and it is what was revealed.",
        }
        try:
            cid = self._store.put_bytes(dumps(says))
            self._store.pin(cid)
        except StoreError as error:
            self._context.log.warning("no_statement", why=str(error))
            return ZERO_DIGEST
        return digest_of(cid)

    def _take_back(self) -> str | None:
        """The bond of an appeal that was upheld goes back into the wallet."""
        chain, reports = self._context.chain, self._network.reports
        address = self._context.wallet.address
        credit = read(int, chain.call(reports, "bond_credit", address))
        if not credit:
            return None
        self._context.sender.send(reports, "withdraw_bond")
        return f"withdrawn: the bond of {credit / ZOO:g} ZOO"

    # -- judging -------------------------------------------------------------------------------

    def _look(self, case: Case, head: Head, node: int) -> str | None:
        """Judge a case; a case that can't be judged is looked at again after a pause."""
        view = observe(self._network, case.job_id, head, case.round_id)
        if case not in self._pauses:
            self._publish(view, node)
        try:
            with self._context.metrics.busy("verify"):
                finding = self._judge.finding(view, node)
            if finding is None:
                raise NoWord("its work can't be judged here, or not yet: something may be missing")
        except (RpcDown, Stopped):
            raise
        except (AgentError, StoreError, SpecError, PayloadError) as error:
            pause = min(2 * self._pauses.get(case, (_PAUSE_S / 2, 0.0))[0], _PAUSE_MAX_S)
            self._pauses[case] = pause, time.monotonic() + pause
            self._say(case, f"{error} (it is tried again until its time is over)")
            return None
        self._findings[case] = finding
        crashpoint("trainer-judged")
        return f"judged: {case.words}: {finding.label}"

    def _unsure(self, why: str) -> None:
        self._say(None, why)

    def _say(self, case: Case | None, why: str) -> None:
        """As loud as an agent can be: an error in the log and in the metrics, once."""
        if (case, why) in self._said:
            return
        self._said = [*self._said[-_SAID:], (case, why)]
        self._context.metrics.error("cannot_appeal", why)
        self._context.log.error("cannot_appeal", report=case.words if case else "", why=why)
