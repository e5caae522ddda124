# SPDX-License-Identifier: Apache-2.0
"""A whole network on a chain that somebody else runs, whose blocks come slowly.

The node behind the proxy is an anvil with other numbers than ours; it is asked for nothing but what
every node of an EVM chain serves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agents.jobs.publish import Terms
from scripts._net.anvil import start_anvil
from scripts._net.compiled import ROOT
from scripts._net.localnet import LocalnetSettings, build_localnet
from scripts._net.pace import BLOCKS, paced
from scripts._net.processes import Supervisor
from scripts._net.rpc_node import reach
from tests.e2e.conftest import AGENT_ROLES, AGENTS
from tests.stage.chain.proxy import Proxy
from tests.stage.network import LocalNetwork

BLOCK_S = 2.0
SETTINGS = LocalnetSettings(
    trainers=3,
    verifiers=2,
    aggregators=1,
    members=3,
    threshold=2,
    approve_roles=False,
    operator_gas=100_000_000,
    agent=AGENTS,
)
OWN_METHODS = ("anvil_", "evm_", "hardhat_", "debug_")


@pytest.fixture(scope="module")
def abroad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalNetwork, Proxy]]:
    folder = tmp_path_factory.mktemp("abroad")
    with ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(folder / "logs", ROOT))
        anvil = start_anvil(supervisor, folder, block_time=BLOCK_S, chain_id=4_242)
        proxy = Proxy(anvil.url)
        stack.callback(proxy.close)
        node = reach(proxy.url_of("network"))
        net = build_localnet(supervisor, folder / "net", SETTINGS, node=node)
        yield LocalNetwork.of(net), proxy


def test_a_round_is_trained_and_paid(abroad: tuple[LocalNetwork, Proxy]) -> None:
    local, proxy = abroad
    assert local.net.chain.chain_id == 4_242
    assert local.net.chain.block_s == pytest.approx(BLOCK_S, abs=0.5)
    everybody = local.names("coordinator", *AGENT_ROLES)
    local.start(*everybody)
    local.wait_eligible(local.names(*AGENT_ROLES))
    job = local.job(rounds=1)
    local.finish(job)
    assert local.assert_whole(job).rounds[1].report is not None
    assert not [m for m in proxy.count("network").calls if m.startswith(OWN_METHODS)]


def test_what_does_not_depend_on_each_other_shared_blocks(
    abroad: tuple[LocalNetwork, Proxy],
) -> None:
    """A verifier judged three benchmarks, and a member proposed or executed three approvals: some
    of each in one block."""
    local, _ = abroad
    network, head = local.network, local.network.chain.head().number
    given = network.chain.events(network.benchmarks, "BenchmarkVerdictGiven", 0, head)
    executed = network.chain.events(network.coordinator, "OperationExecuted", 0, head)
    verdicts = Counter((event.args["verifier_id"], event.block) for event in given)
    assert max(verdicts.values()) >= 2, verdicts
    assert max(Counter(event.block for event in executed).values()) >= 2


def test_nobody_asked_before_the_block_that_allows_it(abroad: tuple[LocalNetwork, Proxy]) -> None:
    """A commitment is mined in the first block that a seed is known in, or the one after."""
    local, _ = abroad
    logs = {name: local.net.supervisor[name].log.read_text() for name in local.names(*AGENT_ROLES)}
    assert not [name for name, log in logs.items() if "too early" in log]
    network, head = local.network, local.network.chain.head().number
    (opened,) = network.chain.events(network.rounds, "RoundOpened", 0, head)
    commits = network.chain.events(network.rounds, "Committed", 0, head)
    assert min(event.block for event in commits) - opened.block <= 3


def test_windows_have_room_for_blocks() -> None:
    brief = Terms.brief()
    assert paced(brief, 1.0) == brief
    slow = paced(brief, 12.0)
    assert slow.reveal_s == BLOCKS * 12 and slow.commit_s == brief.commit_s
    assert slow.reward_per_round == brief.reward_per_round
