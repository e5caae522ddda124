# SPDX-License-Identifier: Apache-2.0
"""Two of three verifiers frame an honest trainer, and no human does anything: its agent appeals,
though it is killed on the way, the members' agents do its work again, and the liars pay."""

from __future__ import annotations

from collections.abc import Callable

from agents.protocol.numbers import ReportStatus, Violation
from scripts._net.localnet import LocalnetSettings
from tests.e2e.conftest import AGENTS
from tests.e2e.framing import FRAMED
from tests.stage.network import LocalNetwork

VICTIM = "trainer-1"
LIARS = ("verifier-2", "verifier-3")
SETTINGS = LocalnetSettings(
    trainers=2, verifiers=3, aggregators=1, members=3, threshold=2, agent=AGENTS
)


def test_a_framed_trainer_is_cleared_without_a_human(
    build: Callable[[LocalnetSettings], LocalNetwork],
) -> None:
    local = build(SETTINGS)
    victim = local.node_id(VICTIM)
    for name in LIARS:
        program = ("tests.e2e.dishonest", "verifier", "tests.e2e.framing")
        local.net.start_agent(name, program, env={FRAMED: str(victim)})
    local.start("verifier-1", "aggregator-1", "trainer-2", "coordinator-1", "coordinator-2")
    local.start(VICTIM, crash_at="trainer-before-appeal")
    local.wait_eligible(local.names("trainer", "verifier", "aggregator"))
    job = local.job()
    local.finish(job)
    network = local.network
    head = network.chain.head().number
    (report_id,) = network.reported(job, network.deployment.block, head)

    def cleared() -> bool:
        return network.report(report_id).status == ReportStatus.DISMISSED

    local.until(cleared, "the committee has cleared the trainer")
    report = network.report(report_id)
    assert report.appellant == local.net.seats[VICTIM].operator.address
    assert local.crashed == [VICTIM]
    slashes = {s.node_id: s.violation for s in local.history(job).slashes}
    assert slashes == {local.node_id(name): Violation.FALSE_REPORT for name in LIARS}
    token, wallet = network.token, local.net.seats[VICTIM].operator.address

    def bond_is_back() -> bool:
        return int(network.chain.call(token, "balanceOf", wallet)) == SETTINGS.appeal_bond

    local.until(bond_is_back, "the bond is back in the operator's wallet")
    node = network.node(victim)
    assert node.stake == local.net.seats[VICTIM].stake and not node.locks
    assert local.history(job).nodes[victim].earned > 0
    assert [check.sentence for check in local.books(job) if not check.holds] == []
