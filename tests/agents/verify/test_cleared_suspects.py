# SPDX-License-Identifier: Apache-2.0
"""A verifier that finds a node's work wrong after the node was convicted and cleared in the round.

The contract judges nobody twice in a round. A verifier that asked only whether the node is invalid
now had its report refused at every step, and attested nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.protocol.numbers import ZOO, Phase
from agents.protocol.view import observe
from agents.storage.embedded import EmbeddedStore
from agents.verifier import Verifier
from scripts._net.processes import Supervisor
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.finished_job import SPEC, FinishedJob, make_job
from tests.stage.chain.people import COMMIT, EVIDENCE, INVALID, REVEAL, TRAINERS

LATER = 100  # seconds from the appeal to the challenge


class DisputedJob(FinishedJob):
    """A job whose first round is disputed when nobody has decided eve's appeal in time."""

    def dispute(self) -> None:
        people, eve = self.people, self.people.nodes["eve"]
        people.open()
        plan = self._plan()
        works = {n: self._work(plan, people.nodes[n], n == "eve") for n in TRAINERS}
        for name, work in works.items():
            people.commit(people.nodes[name], work)
        people.pass_phase(COMMIT)
        for name, work in works.items():
            people.reveal(people.nodes[name], work)
        people.pass_phase(REVEAL)
        self._propose(plan)
        report = self._report("eve", INVALID, "vic", "vera")
        people.chain.send(eve.owner, people.reports, "appeal", report, EVIDENCE)
        people.chain.warp(LATER)
        people.give(people.sponsor, 100 * ZOO)
        people.challenge(people.sponsor)
        people.wait_until(int(people.chain.call(people.reports, "report_of", report).deadline))
        people.chain.send(people.faucet, people.reports, "dismiss_unresolved", report)


@pytest.fixture
def vito(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Verifier]:
    """The agent of a verifier that looks at everybody, and has not reported eve."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with Supervisor(tmp_path / "logs") as supervisor, ExitStack() as stack:
        job = make_job(DisputedJob, tmp_path, supervisor, SPEC)
        job.dispute()
        (folder := tmp_path / "agents").mkdir()
        agents = RunningAgents(job.people, folder, stack)
        options = {"store": str(job.store.root), "job_id": job.people.job, "device": "cpu"}
        node = job.people.nodes["vito"]
        context = agents.begin(node, "verifier", verifier={"audit_all": True}, **options)
        yield Verifier(context, EmbeddedStore(job.store.root))


def test_who_was_cleared_in_the_round_is_not_announced_again(vito: Verifier) -> None:
    network, job = vito.network, vito.context.settings.job_id
    assert job is not None
    view = observe(network, job, vito.context.chain.head())
    assert view.phase == Phase.DISPUTED and view.round.n_invalid == 0
    node = network.node_of(vito.context.wallet.address)
    duty = vito.jobs.in_job(job)
    said = duty.verify(view, node)
    assert said is not None and said.startswith("attested"), said
    assert any(finding.violation is not None for finding in duty._findings.values())
