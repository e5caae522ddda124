# SPDX-License-Identifier: Apache-2.0
"""The members' agents attest the models of a run's checkpoints, each once, and so that anybody can
ask the ledger. One of them is killed in the middle of it."""

from __future__ import annotations

from collections.abc import Callable

from agents.rounds.models import Models
from agents.storage.cid import digest_of
from scripts._net.localnet import LocalnetSettings
from scripts._report.verdict import check_attested
from tests.e2e.conftest import AGENTS
from tests.stage.network import LocalNetwork

SETTINGS = LocalnetSettings(
    trainers=2, verifiers=2, aggregators=1, members=3, threshold=2, agent=AGENTS
)
ROUNDS = 3  # of which 2 and 3 publish checkpoints


def test_every_checkpoint_of_a_run_is_attested(
    build: Callable[[LocalnetSettings], LocalNetwork],
) -> None:
    local = build(SETTINGS)
    local.start(*local.names("trainer", "verifier", "aggregator"), "coordinator-1")
    local.start("coordinator-2", crash_at="coordinator-after-sign")
    local.wait_eligible(local.names("trainer", "verifier", "aggregator"))
    job = local.job(ROUNDS)
    local.finish(job)
    network, models = local.network, Models(local.network, local.store)

    def attested() -> bool:
        return check_attested(network, models, job).holds

    local.until(attested, "both checkpoints are attested")
    entries = list(models.ledger(job))
    reports = [models.report(entry.report) for entry in entries]
    assert [report.checkpoint is not None for report in reports] == [False, True, True]
    for entry, report in zip(entries, reports, strict=True):
        word = network.chain.call(network.ledger, "checkpoint_of", job, entry.new_model)
        wanted = report.checkpoint and digest_of(report.checkpoint)
        assert word == (wanted or bytes(32))
    head = network.chain.head().number
    first = network.deployment.block
    proposed = network.chain.events(network.coordinator, "OperationProposed", first, head)
    mine = [e for e in proposed if e.args["target"] == network.ledger.address]
    assert len(mine) == 2, "one operation a checkpoint"
    assert local.crashed == ["coordinator-2"]
