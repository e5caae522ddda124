# SPDX-License-Identifier: Apache-2.0
"""What of a job lies before the committee: challenged results and appealed reports.

Only while a case is open are its members given keys, and only those that the case takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.protocol.network import Network
from agents.protocol.numbers import ReportStatus
from agents.protocol.structs import read
from agents.runtime.chain import Head


@dataclass(frozen=True)
class Case:
    """An open case. `node`: whose work an appeal is about; None for a challenged result."""

    round_id: int
    node: int | None


def open_cases(network: Network, job_id: int, head: Head) -> list[Case]:
    """The job's open cases, challenges first."""
    cases = {Case(number, None): None for job, number in network.disputed() if job == job_id}
    for report_id in network.open_reports(job_id):
        report = network.report(report_id)
        if report.status == ReportStatus.APPEALED and head.timestamp <= report.deadline:
            cases.setdefault(Case(report.round_id, report.node_id))
    return list(cases)


def members_keys(network: Network) -> dict[str, bytes]:
    """The public keys of the committee's members by address, of those that have named one."""
    chain, keys = network.chain, network.deployment["DataKeys"]
    members = [str(member) for member in chain.call(network.coordinator, "members")]
    found = chain.call_many([(keys, "reader_key_of", (member,)) for member in members])
    named = {member: read(bytes, key) for member, key in zip(members, found, strict=True)}
    return {member: key for member, key in named.items() if any(key)}
