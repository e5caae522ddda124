# SPDX-License-Identifier: Apache-2.0
"""The verifier: recomputes everything that it signs.

AGGREGATE   of a job scored by Gauntlet: evaluate nodes and commit scores, later reveal them
            (`agents.gauntlet.validator`); propose, if every aggregator has failed to
            meanwhile read and merge the payloads
CHALLENGE   the same duty first; then re-execute the drawn and the suspicious nodes, announce each
            violation (`agents.verify.announcing`) and report it with evidence; then the same for
            those whose proof of computation is missing or wrong; then keep what later rounds need
            (`agents.rounds.retention`) and attest the result, or announce that it is wrong and
            challenge it. In DISPUTED the same, but a result is challenged once
a case      about sealed payloads: tell members their keys, beside the rest of the step
            (`agents.verify.disclosing`)
any phase   permissionless duties, after the aggregators
any time    of redundant tasks: run a sample again, and every one that is appealed, and attest
            (`agents.tasks.recheck`)
benchmarks  when nothing of that is due: recompute chunks drawn after the submission, sign the
            verdict (EIP-712)
at last     permissionless duties of redundant tasks, of which strangers can make many
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from agents.gauntlet.validator import Validator
from agents.nodes.benchmark_checks import BenchmarkChecks
from agents.protocol import formulas
from agents.protocol.network import Network
from agents.protocol.numbers import Phase, Role
from agents.protocol.scores import Consensus
from agents.protocol.view import View
from agents.rounds.data_access import DataAccess
from agents.rounds.gathering import Gathering
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined
from agents.rounds.outcome import Outcome
from agents.rounds.proposer import Proposer
from agents.rounds.report import ReportError
from agents.rounds.retention import Retention
from agents.rounds.serving import Serving
from agents.rounds.submissions import Submission
from agents.rounds.upkeep import Upkeep
from agents.runtime.chain import Head
from agents.runtime.commitments import Commitments
from agents.runtime.context import Context
from agents.runtime.errors import Reverted
from agents.runtime.faults import crashpoint
from agents.runtime.transaction import Order
from agents.runtime.turns import Aside
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.storage.several import open_stores
from agents.tasks.recheck import Recheck
from agents.training.local import device_name, device_of
from agents.training.state import PayloadError
from agents.verify.announcing import Announcements
from agents.verify.deposits import Purse
from agents.verify.disclosing import PayloadKeys
from agents.verify.exhibits import keep
from agents.verify.judging import result_errors
from agents.verify.proofs import Proofs
from agents.verify.reserve import Reserve
from agents.verify.spot_checks import (
    Finding,
    look_ahead,
    malformed,
    reexecute,
    suspects_by_findings,
    suspects_by_proof,
    suspects_by_sign,
)

_HEAD_START = 0.5  # of the fallback window, left to aggregators
_PATIENCE_S = 2.0
_GIVE_UP = 0.5  # of the challenge window: how long a missing artefact is waited for
_PROTEST = 0.75  # of it: how long a result that leaves out what could be had is not attested
_LAST_PART = 0.9  # of the challenge window: what is found later is said without an announcement


class VerifierInJob:
    """One verifier node in one job."""

    def __init__(self, context: Context, store: ContentStore, network: Network) -> None:
        self.context = context
        self.store = store
        self.network = network
        self.access = DataAccess(network, store, context)
        self.device = device_of(context.settings.device)
        self.reader = self.access.reader(self.device)
        self.validator = Validator(Consensus(network), context, self.reader)
        self.proposer = Proposer(
            *(network, self.reader, context.sender, _HEAD_START),
            Gathering(context, network, self.reader),
        )
        self.retention = Retention(self.reader)
        self.purse = Purse(network, context)
        self.announcements = Announcements(network, context, store, self.purse)
        self.payload_keys = PayloadKeys(
            network, context, store, self.access.models, self.access.sealing
        )
        self.upkeep = Upkeep(network, context.sender, _PATIENCE_S, context.settings.jitter_s)
        self.proofs = Proofs(store)
        self._asked: dict[str, tuple[object, dict[int, list[str]]]] = {}  # by kind, and of what
        self._findings: dict[tuple[bytes, int], Finding] = {}
        self._exhibited: set[tuple[bytes, int]] = set()

    def step(self, view: View, node: int) -> str | None:
        """The single next action in the job. A case's keys are told besides: members decide when
        that is due, and must not keep a verifier from judging."""
        did = self.access.step(view.job_id, node) if node else None
        if did or (node and not self.access.ready(view.job_id, node)):
            return did or self.upkeep.step(view)
        told = None
        if node and self.access.seals(view.job_id):
            told = self.payload_keys.step(view.job_id, node)
        did = (self._act(view, node) if node else None) or self.upkeep.step(view)
        return "; ".join(said for said in (told, did) if said) or None

    def _act(self, view: View, node: int) -> str | None:
        did = (
            self.proposer.publish(view)
            or self.validator.step(view, node)
            or self.announcements.settle(view, node)
            or self.purse.collect(view.job.terms.challenge_bond)
        )
        if did:
            return did
        self.announcements.forget_before(view)
        if node not in view.snapshot.verifiers:
            return self.proposer.step(view, node)
        if view.phase in (Phase.CHALLENGE, Phase.DISPUTED):
            return self.verify(view, node)
        if view.phase == Phase.AGGREGATE:
            self.prepare(view)
        return self.proposer.step(view, node)

    # -- AGGREGATE -----------------------------------------------------------------------------

    def prepare(self, view: View) -> None:
        """Read and merge while the aggregator is still at work; the outcome is kept. Who is looked
        at is drawn when a result stands.

        What is missing may come until the challenge window; nothing else should wait for it.
        """
        submissions = self.reader.submissions(view)
        if any(s.unavailable for s in submissions):
            return
        try:
            with self.context.metrics.busy("verify"):
                self.reader.outcome(view, submissions)
        except StoreUnavailable:
            raise
        except (StoreError, PayloadError) as error:
            self.context.log.debug("cannot_prepare", round=view.round_id, why=str(error))

    # -- CHALLENGE -----------------------------------------------------------------------------

    def verify(self, view: View, node: int) -> str | None:
        """Spot-check, report, then attest or challenge."""
        if view.overdue or node in self.network.attesters(view.job_id, view.round_id, view.round):
            return None
        if self.network.acting_operator(node) != self.context.wallet.address:
            return None  # suspended or banned: it has no say
        submissions = self.reader.submissions(view)
        missing = [s.reveal.node for s in submissions if s.unavailable]
        waited = self._not_left_out(view, missing) if self._elapsed(view) < _GIVE_UP else []
        if waited:
            self.context.log.debug("waiting_for_payloads", round=view.round_id, nodes=waited)
            return None
        everything, submissions = submissions, self.reader.counted(view, submissions)
        with self.context.metrics.busy("verify"):
            report = self.reader.proposed(view, submissions)
            outcome = self.reader.outcome(view, submissions, report)
            if outcome is None:
                return None
            if report is not None:
                lies = self.reader.lies(view, everything, outcome, report)
                outcome = replace(outcome, lies=lies)
            checked = self._spot_check(view, node, outcome, submissions)
        if checked is None:
            return None
        due, complete = checked
        if due:
            did = None if self._is_urgent(view) else self._announce(view, node, due)
            return did or self._report(view, node, due)
        if not complete:
            return None  # what it could not check it doesn't attest
        crashpoint("verifier-before-attest")
        return self._judge(view, node)

    def _not_left_out(self, view: View, missing: list[int]) -> list[int]:
        """Those of `missing` that the proposed result does not leave out as unavailable too: the
        others change nothing of whose work counts, and one mute node must not put off the checks
        of all. All of them while its report can't be read."""
        if not missing:
            return []
        proposal = self.network.proposal(view.job_id, view.round_id, view.round)
        try:
            left_out = self.reader.models.report(proposal.report).missing()
        except StoreUnavailable:
            raise
        except (StoreError, ReportError):
            return missing
        return [node for node in missing if node not in left_out]

    def _spot_check(
        self, view: View, node: int, outcome: Outcome, submissions: list[Submission]
    ) -> tuple[list[Finding], bool] | None:
        """Violations that are not reported yet, of the drawn and the suspicious nodes; and whether
        this verifier, `node`, holds the keys of the data that all of them worked on.

        What is found of those whom a sign speaks against comes before others are looked at: whose
        proof is only missing can wait, and may be many. None while a seed is not known: before the
        draw there is nothing to attest.
        """
        patient = self._elapsed(view) < _GIVE_UP
        inputs = self.reader.inputs(view, submissions, outcome, patient)
        if inputs is None:
            return None
        able = partial(self.access.may_check, view.job_id, inputs.plan, node)
        found, complete = malformed(inputs), True
        for suspects in (self._by_sign, self._by_proof, partial(self._others, able=able)):
            due, looked_at = suspects(inputs), set[int]()
            while due:
                shut = [suspect for suspect in due if not able(suspect)]
                if shut:
                    told = {"round": view.round_id, "nodes": shut}
                    self.context.log.debug("waiting_for_shard_keys", **told)
                complete = complete and not shut
                found += self._redo(inputs, {n: why for n, why in due.items() if n not in shut})
                looked_at |= due.keys()
                asked = suspects_by_findings(inputs, found)
                due = {n: why for n, why in asked.items() if n not in looked_at}
            self._keep_exhibits(inputs, {f.node for f in found if f.violation is not None})
            unsaid = self._unsaid(view, node, found)
            if unsaid:
                return unsaid, complete
        return [], complete

    def _by_sign(self, inputs: RoundInputs) -> dict[int, list[str]]:
        """As `suspects_by_sign`, asked once for the same payloads of a round."""
        return self._suspects(inputs, "sign", lambda: suspects_by_sign(inputs, self.store))

    def _by_proof(self, inputs: RoundInputs) -> dict[int, list[str]]:
        """As `suspects_by_proof`, asked once for the same payloads of a round."""
        return self._suspects(inputs, "proof", lambda: suspects_by_proof(inputs, self.proofs))

    def _others(self, inputs: RoundInputs, able: Callable[[int], bool]) -> dict[int, list[str]]:
        """Everybody whose work can be done again, if the settings say so."""
        if not self.context.settings.verifier.audit_all:
            return {}
        readable = (s.reveal.node for s in inputs.submissions if s.gradient is not None)
        return {node: ["audit_all"] for node in readable if able(node)}

    def _suspects(
        self, inputs: RoundInputs, kind: str, ask: Callable[[], dict[int, list[str]]]
    ) -> dict[int, list[str]]:
        read = [(s.reveal, s.gradient is not None) for s in inputs.submissions]
        key = (inputs.draw_seed, read)
        if kind not in self._asked or self._asked[kind][0] != key:
            self._asked[kind] = key, ask()
        return self._asked[kind][1]

    def _redo(self, inputs: RoundInputs, due: dict[int, list[str]]) -> list[Finding]:
        """The findings on these nodes; one that was made before is kept."""
        fresh = [suspect for suspect in due if (inputs.draw_seed, suspect) not in self._findings]
        look_ahead(inputs, fresh, self.proofs)
        found = []
        for suspect, why in due.items():
            key = (inputs.draw_seed, suspect)
            if key not in self._findings:
                self.context.log.info(
                    "audit", round=inputs.round_id, of_node=suspect, why="; ".join(why)
                )
                finding = self._reexecute(inputs, suspect)
                if finding is None:
                    continue
                self._findings[key] = finding
                self.context.log.info(
                    "verdict",
                    round=inputs.round_id,
                    of_node=suspect,
                    verdict=finding.label,
                    why=finding.reason,
                )
                crashpoint("verifier-auditing")
            found.append(self._findings[key])
        return found

    def _unsaid(self, view: View, node: int, found: list[Finding]) -> list[Finding]:
        """The violations that are not reported yet, one for a node: who is convicted of one thing
        is invalid."""
        due: dict[int, Finding] = {}
        for finding in found:
            if finding.violation is not None and not self._reported(view, node, finding):
                due.setdefault(finding.node, finding)
        return [*due.values()]

    def _keep_exhibits(self, inputs: RoundInputs, guilty: set[int]) -> None:
        """Pin what the guilty revealed, once each, before anything is said of them."""
        fresh = [
            submission
            for submission in inputs.submissions
            if submission.reveal.node in guilty
            and (inputs.draw_seed, submission.reveal.node) not in self._exhibited
        ]
        proving = [one.reveal.node for one in fresh if not isinstance(one, Mined)]
        told = self.proofs.of(inputs, proving)
        for submission in fresh:
            node = submission.reveal.node
            for why in keep(submission, told.get(node, ""), self.store):
                self.context.log.warning("cannot_keep", of_node=node, why=why)
            self._exhibited.add((inputs.draw_seed, node))

    def _reexecute(self, inputs: RoundInputs, node: int) -> Finding | None:
        """The finding; None when what it needs can't be had and time is short.

        A suspect that took down an artefact of an earlier round must not keep this verifier from
        judging the others.
        """
        try:
            return reexecute(inputs, node, self.device, self.store, self.proofs)
        except StoreUnavailable:
            raise
        except (StoreError, PayloadError) as error:
            if inputs.patient:
                raise
            self.context.log.warning("cannot_reexecute", of_node=node, why=str(error))
            return None

    def _reported(self, view: View, node: int, finding: Finding) -> bool:
        assert finding.violation is not None
        network = self.network
        report_id = formulas.report_id(view.job_id, view.round_id, finding.node, finding.violation)
        reported = self.context.chain.call(network.reports, "has_reported", report_id, node)
        # Who had a verdict is not judged again in the round, also if an appeal has cleared it.
        return bool(reported) or finding.node in network.found_invalid(view.job_id, view.round_id)

    def _announce(self, view: View, node: int, findings: list[Finding]) -> str | None:
        """Announce the violations that are not announced yet."""
        found = {f.node: f.evidence for f in findings if f.violation is not None}
        if self.announcements.announce_nodes(view, node, found):
            return f"announced: violations in round {view.round_id}"
        return None

    def _is_urgent(self, view: View) -> bool:
        """Whether the round may be over before another block has passed."""
        may = self.context.chain.call(
            self.network.results, "can_finalize", view.job_id, view.round_id
        )
        return bool(may) or self._elapsed(view) > _LAST_PART

    def _report(self, view: View, node: int, findings: list[Finding]) -> str:
        orders: dict[str, Order] = {}
        for finding in findings:
            assert finding.violation is not None
            evidence = self.announcements.publish_node(view, finding.node, finding.evidence)
            place = (view.job_id, view.round_id, node, finding.node)
            args = (*place, int(finding.violation), evidence)
            said = f"reported: node {finding.node} for {finding.label} in round {view.round_id}"
            orders[said] = Order(self.network.reports, "report", args)
        crashpoint("verifier-before-report")
        outcomes = self.context.sender.send_all(list(orders.values()))
        for outcome in outcomes:
            if isinstance(outcome, Reverted):
                raise outcome
        return "; ".join(orders)

    def _judge(self, view: View, node: int) -> str | None:
        """Attest the proposed result, or challenge it with the differences as evidence."""
        patient = self._elapsed(view) < _GIVE_UP
        # After that it would help nobody but a friend of the proposer's, who attests: it would have
        # the cut of all verifiers.
        protests = self._elapsed(view) < _PROTEST
        wrong = result_errors(self.reader, view, patient, protests)
        if wrong is None:
            return None
        challenged = self.network.is_challenged(view.job_id, view.round_id)
        if wrong and challenged and not self.announcements.has_announced_result(view):
            return None  # the committee has the case, or has had it
        if wrong:
            return self._challenge(view, challenged, wrong)
        if not self._kept(view, patient):
            return None
        result_hash = view.round.result_hash
        results = self.network.results
        self.context.sender.send(results, "attest", view.job_id, view.round_id, node, result_hash)
        crashpoint("verifier-after-attest")
        return f"attested: round {view.round_id}"

    def _kept(self, view: View, patient: bool) -> bool:
        """Whether to attest: the result and what it rests on is kept, or only the latter is not and
        time is short."""
        why = self.retention.unkept(view)
        if why and patient:
            self.context.log.debug("waiting_to_keep", round=view.round_id, why=why)
            return False
        if why:
            self.context.log.warning("cannot_keep", round=view.round_id, why=why)
        return not (why and self.retention.lacks_result)

    def _challenge(self, view: View, challenged: bool, wrong: list[str]) -> str | None:
        """Announce that the result is wrong, then challenge it.

        The same call opens the announcement, without a bond, when another was faster.
        """
        bond = 0 if challenged else view.job.terms.challenge_bond
        results, sender = self.network.results, self.context.sender
        balance = self.purse.balance
        if balance < bond:
            self.context.log.error(
                "cannot_challenge",
                round=view.round_id,
                why=f"{self.context.wallet.address} lacks the bond",
                wrong=wrong,
            )
            return None
        evidence = {
            "version": 1,
            "job": view.job_id,
            "round": view.round_id,
            "result_hash": view.round.result_hash.hex(),
            "wrong": [sentence[:500] for sentence in wrong],
        }
        deposit = self.network.bounds().least_bond
        if not challenged and balance >= bond + deposit and not self._is_urgent(view):
            self.purse.allow(results, bond + deposit)
            if self.announcements.announce_result(view, deposit, evidence):
                return f"announced: a wrong result in round {view.round_id}"
        self.purse.allow(results, bond)
        digest = self.announcements.publish_result(view, evidence)
        args = (view.job_id, view.round_id, view.round.result_hash, digest)
        sender.send(results, "challenge", *args)
        return f"challenged: round {view.round_id}: {wrong[0]}"

    def _elapsed(self, view: View) -> float:
        """Share of the phase's window that has passed."""
        terms = view.job.terms
        window = terms.dispute_s if view.phase == Phase.DISPUTED else terms.challenge_s
        return 1 - max(0, view.round.deadline - view.now) / window


class Verifier:
    """One verifier node, as a function of the chain. `kind`: what it does in a job."""

    kind = VerifierInJob

    def __init__(self, context: Context, store: ContentStore) -> None:
        self.context = context
        self.network = Network(context.chain, context.deployment)
        device = device_of(context.settings.device)
        context.log.info("device", device=device, name=device_name(device))
        self.benchmarks = BenchmarkChecks(self.network, context, store, device)
        rate = context.settings.verifier.task_audit_rate
        self.recheck = Recheck(self.network, context, context.settings.device, rate)
        self.reserve = Reserve(self.network, context)
        self._of_tasks = Aside("tasks", context.log, context.metrics)
        self._of_benchmarks = Aside("benchmarks", context.log, context.metrics)
        scores = Commitments(context.journal, context.artefacts, "validator")
        self.jobs = Serving(
            self.network,
            context,
            store,
            Role.VERIFIER,
            lambda own: self.kind(own, store, self.network),
            lambda: scores.numbers("scores-"),
        )

    def step(self, head: Head) -> str | None:
        """The single next action."""
        node = self.network.node_of(self.context.wallet.address)
        if not node:
            return self.jobs.step(head, node)
        did = self._of_tasks.step(lambda: self.recheck.step(head, node))
        did = did or self.jobs.step(head, node)
        self.reserve.look(head, self.jobs.in_hand)
        # A stranger's answer without an artefact costs a search, and no round waits for it.
        did = did or self._of_benchmarks.step(lambda: self.benchmarks.step(node, head))
        # Strangers can make many of these for little, and a step may send as many as a block takes.
        return did or self.recheck.move_on(head)


def build(context: Context) -> Verifier:
    """The verifier of a started agent."""
    return Verifier(context, open_stores(context.settings.store))
