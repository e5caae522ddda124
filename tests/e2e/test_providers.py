# SPDX-License-Identifier: Apache-2.0
"""Agents behind a provider: how much they ask of it, and that its faults cost nobody anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from scripts._net.localnet import LocalnetSettings
from tests.e2e.conftest import AGENT_ROLES, AGENTS
from tests.stage.chain.proxy import Proxy
from tests.stage.network import LocalNetwork
from tests.stage.proxied import asked, behind

SETTINGS = LocalnetSettings(
    trainers=2, verifiers=2, aggregators=1, executors=1, members=3, threshold=2, agent=AGENTS
)
ALL = (*AGENT_ROLES, "executor", "coordinator")
IDLE, MEAN = 3.0, 8.0  # requests in a block without work, and on average in a round
BLOCKS = 12
OLDER = 200  # blocks before any agent starts: more than one looks back for a reorg


@pytest.fixture(scope="module")
def local(build: Callable[[LocalnetSettings], LocalNetwork]) -> LocalNetwork:
    return build(SETTINGS)


@pytest.fixture
def proxy(local: LocalNetwork) -> Iterator[Proxy]:
    """In front of the chain that all agents are started with; they end with the test."""
    with behind(local) as provider:
        yield provider
        local.stop(*local.names(*ALL))


def wait(local: LocalNetwork, blocks: int) -> None:
    until = local.network.chain.head().number + blocks
    local.until(lambda: local.network.chain.head().number >= until, f"{blocks} blocks")


def all_attested(local: LocalNetwork) -> bool:
    """Whether members have no model left to attest: then they have nothing to do."""
    network = local.network
    last = [
        (job, network.ledger_entry(job, length - 1).new_model)
        for job in range(1, network.job_count() + 1)
        if (length := network.ledger_length(job))
    ]
    return all(network.chain.call(network.ledger, "is_attested", *one) for one in last)


@pytest.mark.parametrize("websocket", [True, False], ids=["websocket", "polling"])
def test_agents_ask_little_of_their_provider(
    local: LocalNetwork, proxy: Proxy, websocket: bool
) -> None:
    """Requests for each block, counted at the provider: no more than 3 without a job and 8 in the
    rounds of one, whatever the role."""
    proxy.websocket = websocket
    local.network.chain.request("anvil_mine", hex(OLDER))
    local.start(*local.names(*ALL))
    local.wait_eligible(local.names(*AGENT_ROLES))
    local.until(lambda: not local.network.open_benchmarks(), "no benchmark is open")
    local.until(lambda: all_attested(local), "the committee attests the jobs before")
    wait(local, 4)
    names = [f"{role}-1" for role in ALL]
    idle = asked(local, proxy, names, lambda: wait(local, BLOCKS))
    jobs: list[int] = []

    def work() -> None:
        jobs.append(local.job(rounds=3))
        local.finish(jobs[0])

    busy = asked(local, proxy, names, work)
    local.assert_whole(jobs[0])
    for name in names:
        calm, mean = idle[name], busy[name]
        print(
            f"{name}: {calm.requests:.1f} requests ({calm.calls:.1f} calls) a block, in rounds "
            f"{mean.requests:.1f} ({mean.calls:.1f})"
        )
        assert calm.requests <= IDLE, f"{name} asks {calm} without work"
        assert mean.requests <= MEAN, f"{name} asks {mean} in a round"


def test_a_providers_faults_cost_nobody_anything(local: LocalNetwork, proxy: Proxy) -> None:
    """One request in ten fails, and what is answered is late: the round is final, all work is in
    it, and nobody is slashed."""
    local.start(*local.names(*ALL))
    local.wait_eligible(local.names(*AGENT_ROLES))
    proxy.fault_rate, proxy.latency_s = 0.1, (0.01, 0.05)
    job = local.job(rounds=2)
    local.finish(job)
    local.assert_whole(job)
    assert sum(proxy.count(name).faults.total() for name in local.names(*ALL)) > 20
