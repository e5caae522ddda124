# SPDX-License-Identifier: Apache-2.0
"""Cases before the committee on data and payloads that its members can't read by themselves.

Each network: three trainers, the third sends noise in 1 and 2; the only aggregator doubles every
update; three of five committee members are there. Nobody but the sponsor and the round's verifiers
can give the members what they need, and each case is decided rightly:

1. A job whose shards have keys of their own: the lie is challenged and punished, and the noise's
   appeal, by its own owner, is rejected.
2. The same with one key for the whole job.
3. A job with sealed payloads (`privacy: aggregate`).
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.jobs.disclosed import Disclosures
from agents.jobs.publish import publish_job
from agents.protocol.numbers import ZOO, Phase, ReportStatus, Violation
from agents.storage.sealed import new_key
from scripts._net.localnet import LocalnetSettings
from scripts._shared.key_server import KeyServer
from tests.e2e.conftest import AGENTS, running
from tests.e2e.test_data_keys import sponsor_of
from tests.stage.memory.tiny_specs import SEALED_PAYLOADS
from tests.stage.network import SPEC, TERMS, LocalNetwork

KEY = new_key()
TEXT = [inspect.getsource(module).encode() for module in (textwrap, json, inspect)]
LIAR, NOISE = "aggregator-1", "trainer-3"
MEMBERS = ("coordinator-1", "coordinator-2", "coordinator-3")


@pytest.fixture
def network(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalNetwork]:
    """A network of the test's own: whoever is punished in it is good for no other.

    The sender of noise can't send any where payloads are sealed, so it is honest there.
    """
    settings = LocalnetSettings(trainers=3, verifiers=3, aggregators=1, agent=AGENTS)
    with running(tmp_path, settings) as local:
        for name in (*local.names("verifier"), "trainer-1", "trainer-2", *MEMBERS):
            local.net.start_agent(name)
        local.net.start_agent(LIAR, ("tests.e2e.dishonest", "aggregator", "tests.e2e.liar"))
        sealed = request.function is test_a_lie_about_sealed_payloads_is_judged
        local.net.start_agent(NOISE, None if sealed else ("scripts._demo.cheats", "noise"))
        local.wait_eligible(local.names("trainer", "verifier", "aggregator"))
        yield local


def create(local: LocalNetwork, fields: dict[str, Any], **options: Any) -> int:
    published = publish_job(local.store, TEXT, {**SPEC, "rounds": 1, **fields}, **options)
    job = local.net.create_job(published, TERMS, 2)
    local.jobs.append(job)
    return job


def serve(local: LocalNetwork, job: int) -> Callable[[], bool]:
    """What the sponsor's `ape run keys serve` does at each look."""
    sponsor = local.net.sponsor.address
    server = KeyServer(
        *(local.network, local.store, job, KEY, sponsor, sponsor_of(local)), lambda text: None
    )
    server.holder.announce()
    return server.step


def resolved(local: LocalNetwork, job: int) -> list[bool]:
    """The committee's decisions on challenges of the job."""
    chain, results = local.network.chain, local.network.results
    events = chain.events(results, "ChallengeResolved", 0, chain.head().number, {"job_id": job})
    return [event.args["upheld"] for event in events]


def report_on(local: LocalNetwork, job: int, status: ReportStatus) -> bytes | None:
    """The report on the sender of noise, if it has this status."""
    for report_id in local.network.reported(job, 0, local.network.chain.head().number):
        report = local.network.report(report_id)
        if report.node_id == local.node_id(NOISE) and report.status == status:
            return report_id
    return None


def appeal(local: LocalNetwork, report_id: bytes) -> None:
    """The owner of the sender of noise claims that its work was right."""
    reports, token = local.net.contract("ViolationReports"), local.net.contract("ZooToken")
    owner, bond = local.net.seats[NOISE].owner, reports.functions.appeal_bond().call()
    for sender, call in (
        (local.net.faucet, token.functions.transfer(owner.address, bond)),
        (owner, token.functions.approve(reports.address, bond)),
        (owner, reports.functions.appeal(report_id, b"\1" * 32)),
    ):
        batch = local.net.batch()
        batch.add(sender, call)
        batch.settle()


def members_were_told(local: LocalNetwork, job: int, kind: str) -> dict[str, set[int]]:
    """Items whose keys committee members were given, by member."""
    told: dict[str, set[int]] = {}
    for one in Disclosures(local.network, local.store, job).read():
        for entry in one.release.readers:
            if entry.reader.startswith("0x"):
                assert one.release.kind == kind
                told.setdefault(entry.reader, set()).update(entry.items)
    return told


def lie_is_judged(local: LocalNetwork, job: int, step: Callable[[], Any]) -> None:
    """Until the challenge of the lie is decided, and the lie punished."""

    def decided() -> bool:
        step()
        return bool(resolved(local, job))

    local.until(decided, "the committee has decided on the challenge")
    assert resolved(local, job) == [True]
    mine = [s for s in local.history(job).slashes if s.node_id == local.node_id(LIAR)]
    assert [slash.violation for slash in mine][-1] == Violation.BAD_RESULT
    assert local.phase(job) != Phase.VOID


@pytest.mark.parametrize(
    "one_key", [False, pytest.param(True, marks=pytest.mark.chaos)], ids=["shards", "one key"]
)
def test_a_lie_about_encrypted_data_is_judged(network: LocalNetwork, one_key: bool) -> None:
    job = create(network, {}, data_key=KEY, one_key=one_key, shard_bytes=1024)
    step = serve(network, job)
    lie_is_judged(network, job, step)
    told = members_were_told(network, job, "job" if one_key else "shards")
    members = {str(m) for m in network.network.chain.call(network.network.coordinator, "members")}
    assert told.keys() <= members
    assert len(told) >= 3
    if one_key:
        assert set.union(*told.values()) == {0}
        return

    def confirmed() -> bool:
        step()
        return report_on(network, job, ReportStatus.CONFIRMED) is not None

    network.until(confirmed, "the noise is reported")
    report_id = report_on(network, job, ReportStatus.CONFIRMED)
    assert report_id is not None
    appeal(network, report_id)

    def judged() -> bool:
        step()
        return network.network.report(report_id).status == ReportStatus.EXECUTED

    network.until(judged, "the committee has rejected the appeal")
    slashed = [s for s in network.history(job).slashes if s.node_id == network.node_id(NOISE)]
    assert [slash.violation for slash in slashed] == [Violation.INVALID]
    assert network.net.seats[NOISE].stake > 0
    assert slashed[0].amount == 20 * ZOO
    # The appeal took more keys than the challenge: those of the noise's own shards, and no others.
    after = members_were_told(network, job, "shards")
    for member, items in told.items():
        assert items < after[member]
    given = Disclosures(network.network, network.store, job).read()
    assert not [one for one in given if one.release.kind != "shards"]


def test_a_lie_about_sealed_payloads_is_judged(network: LocalNetwork) -> None:
    job = create(network, SEALED_PAYLOADS)
    lie_is_judged(network, job, lambda: None)
    told = members_were_told(network, job, "payloads")
    assert len(told) >= 3
    nodes = set(network.network.reveals(job, 1, network.round(job).opened_block))
    assert all(items == nodes for items in told.values())
    verifiers = {network.net.seats[n].operator.address for n in network.names("verifier")}
    by = {one.by for one in Disclosures(network.network, network.store, job).read()}
    assert by <= verifiers
