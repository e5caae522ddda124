# SPDX-License-Identifier: Apache-2.0
"""What a committee member decides, each time from its own recomputation.

Rule: a case on chain (a role asked for, a challenge, an appeal, a false verdict, a finalized model)
leads every honest member to the same operation, salt included, so that all approve one and the
same. A case that can't be decided yet, because an artefact is missing, gives no operation. Which
operation carries it out after one has expired, `agents.verify.renewal` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from agents.nodes.benchmark_disputes import FalseVerdict, FalseWork
from agents.protocol.network import Network
from agents.protocol.numbers import Phase, ReportStatus, Role
from agents.protocol.structs import Report
from agents.protocol.view import View
from agents.runtime.chain import Head

if TYPE_CHECKING:
    from agents.verify.attesting import Attestation

_SETTLES = 24  # one part of so many of the routine delay (an hour of a day): a node is young


@dataclass(frozen=True)
class Ruling:
    """One operation for the coordinator contract. `why` is for people."""

    target: str
    data: bytes
    salt: bytes
    why: str


def salt_of(case: str, *parts: int | bytes) -> bytes:
    """The salt that every member derives for a case."""
    text = ":".join([case, *(p.hex() if isinstance(p, bytes) else str(p) for p in parts)])
    return keccak(text=f"menagerie/{text}")


def role_rulings(network: Network, trusted_owners: list[str], head: Head) -> Iterator[Ruling]:
    """Approvals of the roles that trusted owners' nodes ask for.

    A node that has just been registered is let alone for a while. After a reorganisation its number
    may be another's, on whose chain the members' approvals count all the same.
    """
    settled = head.timestamp - network.routine_delay_s() // _SETTLES
    trusted = {to_checksum_address(owner) for owner in trusted_owners}
    for node_id in network.nodes_of(sorted(trusted)):
        node = network.node(node_id)
        if node.owner not in trusted or node.banned or node.registered_at > settled:
            continue
        for role in (Role.VERIFIER, Role.AGGREGATOR):
            if not node.roles & role or node.approved_roles & role:
                continue
            data = network.registry.function("approve_role", 3).encode((node_id, int(role), True))
            # One approval per node and role: what the committee withdraws stays withdrawn. The
            # salt has no time in it, so one that expired is another case (`agents.verify.renewal`).
            salt = salt_of("role", node_id, int(role))
            yield Ruling(network.registry.address, data, salt, f"{role.name} for node {node_id}")


def challenge_ruling(
    network: Network, view: View, is_wrong: Callable[[], list[str] | None]
) -> Ruling | None:
    """The decision on an open challenge; None if there is none or it can't be judged yet.

    `is_wrong` recomputes the result: the list of errors (empty: the result is right), None while an
    artefact is missing.
    """
    if view.phase != Phase.DISPUTED or view.overdue:
        return None
    wrong = is_wrong()
    if wrong is None:
        return None
    result = view.round.result_hash
    upheld = bool(wrong)
    args = (view.job_id, view.round_id, result, upheld)
    data = network.results.function("resolve_challenge", 4).encode(args)
    # The challenge's deadline tells a second challenge of the same result from the first.
    salt = salt_of("challenge", view.job_id, view.round_id, result, view.round.deadline)
    why = wrong[0] if wrong else "the result is right"
    where = f"job {view.job_id} round {view.round_id}"
    return Ruling(
        network.results.address, data, salt, f"challenge of {where} upheld={upheld}: {why}"
    )


def task_rulings(
    network: Network, contested: Iterable[tuple[int, int]], result_of: Callable[[int], bytes | None]
) -> Iterator[Ruling]:
    """Decisions on objections to verdicts on redundant tasks, given as (task, deadline).

    `result_of(task)` runs the task: its result, None while there is none.
    """
    for task_id, deadline in contested:
        result = result_of(task_id)
        if result is None:
            continue
        data = network.appeals.function("resolve", 2).encode((task_id, result))
        salt = salt_of("task", task_id, deadline)
        yield Ruling(network.appeals.address, data, salt, f"task {task_id} gives {result.hex()}")


def attestation_rulings(network: Network, due: Iterable[Attestation]) -> Iterator[Ruling]:
    """Attestations of recomputed models, one case for each of them ever."""
    for found in due:
        args = (found.job_id, found.model, found.checkpoint, found.statement)
        data = network.ledger.function("attest_model", 4).encode(args)
        salt = salt_of("attest", found.job_id, found.round_id, found.statement)
        why = f"the model of round {found.round_id} in job {found.job_id} is recomputed"
        yield Ruling(network.ledger.address, data, salt, why)


def appeal_rulings(
    network: Network,
    head: Head,
    is_innocent: Callable[[bytes, Report], bool | None],
) -> Iterator[Ruling]:
    """Decisions on the open appeals, of whichever job.

    `is_innocent(report id, report)` re-executes: True, False, or None while an artefact is missing.
    """
    for report_id in network.open_reports():
        report = network.report(report_id)
        if report.status != ReportStatus.APPEALED or head.timestamp > report.deadline:
            continue
        innocent = is_innocent(report_id, report)
        if innocent is None:
            continue
        data = network.reports.function("resolve_appeal", 2).encode((report_id, innocent))
        salt = salt_of("appeal", report_id)
        why = f"appeal of node {report.node_id} in job {report.job_id} upheld={innocent}"
        yield Ruling(network.reports.address, data, salt, why)


def benchmark_rulings(
    network: Network, found: Iterable[FalseVerdict | FalseWork]
) -> Iterator[Ruling]:
    """What becomes of false benchmarks and of false verdicts on them: who gave them is slashed, and
    a score that they gave is reset."""
    for case in found:
        if isinstance(case, FalseWork):
            data = network.benchmarks.function("condemn", 2).encode((case.node, case.attempt))
            salt = salt_of("condemn", case.node, case.attempt)
            why = f"attempt {case.attempt} of node {case.node} is invented: {case.why}"
            yield Ruling(network.benchmarks.address, data, salt, why)
            continue
        args = (case.node, case.attempt, case.passed, list(case.verifiers))
        data = network.benchmarks.function("overrule", 4).encode(args)
        # A vote is slashed once, so the first of the verifiers tells this operation from others.
        parts = (case.node, case.attempt, int(case.passed), case.verifiers[0])
        said = "passed" if case.passed else "failed"
        why = f"attempt {case.attempt} of node {case.node} should not have {said}: {case.why}"
        yield Ruling(network.benchmarks.address, data, salt_of("benchmark", *parts), why)


class Denied(Protocol):
    """A validator's vector of a round that public bytes deny, and why."""

    @property
    def job(self) -> int: ...
    @property
    def round(self) -> int: ...
    @property
    def verifier(self) -> int: ...
    @property
    def why(self) -> str: ...


def score_rulings(network: Network, found: Iterable[Denied]) -> Iterator[Ruling]:
    """Validators whose revealed scores are false are slashed."""
    for case in found:
        args = (case.job, case.round, [case.verifier])
        data = network.scores.function("overrule_scores", 3).encode(args)
        salt = salt_of("scores", case.job, case.round, case.verifier)
        where = f"job {case.job} round {case.round}"
        why = f"scores of verifier {case.verifier} in {where} are false: {case.why}"
        yield Ruling(network.scores.address, data, salt, why)
