# SPDX-License-Identifier: Apache-2.0
"""One chain with the whole system on it for all attacks; each test starts from the same snapshot.

In the system: four trainers (ann, bob, cat, and the attacker eve), three verifiers (vic, vera,
vito), two aggregators (abe, ada), a committee of five, and a sponsor with a funded job. After each
test the books must balance to the unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from eth_account import Account
from web3 import HTTPProvider, Web3

from agents.runtime.contracts import Contract
from scripts._net.anvil import CHAIN_ID, MNEMONIC, start_anvil
from scripts._net.deployment import ZOO, DeploymentSettings, TaskTerms, deploy
from scripts._net.local_keys import sender_of
from scripts._net.processes import Supervisor
from tests.attacks.lab import Lab, make_lab
from tests.stage.chain.chain import Chain, key_of
from tests.stage.chain.people import (
    AGGREGATOR,
    FUNDED_ROUNDS,
    TERMS,
    VERIFIER,
    Node,
    World,
)
from tests.stage.chain.tasks import Tasks

_SPARE = 500 * ZOO


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return make_lab(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("chain")
    with Supervisor(directory / "logs") as supervisor:
        anvil = start_anvil(supervisor, directory)
        yield _build(Chain(anvil.url, CHAIN_ID), anvil.url, lab)


@pytest.fixture
def world(base: World) -> Iterator[World]:
    snapshot = base.chain.snapshot()
    world = replace(
        base,
        nodes=dict(base.nodes),
        start=dict(base.start),
        jobs={sponsor: list(jobs) for sponsor, jobs in base.jobs.items()},
    )
    yield world
    world.assert_books_balance()
    base.chain.revert(snapshot)


@pytest.fixture(scope="module")
def pool(base: World) -> Iterator[Tasks]:
    """Six executors of redundant tasks, for all tests of a file."""
    snapshot = base.chain.snapshot()
    yield Tasks.build(replace(base, nodes=dict(base.nodes), start=dict(base.start)))
    base.chain.revert(snapshot)


@pytest.fixture
def tasks(pool: Tasks) -> Iterator[Tasks]:
    snapshot = pool.chain.snapshot()
    world = replace(pool.world, nodes=dict(pool.world.nodes), start=dict(pool.world.start))
    tasks = Tasks(world, pool.creator, list(pool.executors))
    tasks.begin()
    yield tasks
    world.assert_books_balance()
    pool.chain.revert(snapshot)


def _build(chain: Chain, url: str, lab: Lab) -> World:
    Account.enable_unaudited_hdwallet_features()
    deployer, faucet = (
        Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{i}") for i in (0, 1)
    )
    members = sorted((key_of(f"member {i}") for i in range(5)), key=lambda m: int(m.address, 16))
    # Five times what a task may pay by default: the more, the better for whoever cheats.
    terms = TaskTerms(max_fee=10 * ZOO, fee_per_s=ZOO // 1_000)
    settings = DeploymentSettings(
        members=tuple(m.address for m in members), holder=faucet.address, tasks=terms
    )
    w3 = Web3(HTTPProvider(url))
    deployed = deploy(w3, deployer.address, sender_of(w3, deployer), settings)
    contracts = {
        name: Contract(name, address, deployed.artefacts[name].abi)
        for name, address in deployed.addresses.items()
    }
    world = World(chain, contracts, settings, faucet, members, key_of("sponsor"))
    for member in members:
        chain.transact(faucet, member.address, value=10**18)

    gated = [world.enlist(name, VERIFIER, spare=_SPARE) for name in ("vic", "vera", "vito")]
    gated += [world.enlist(name, AGGREGATOR, spare=_SPARE) for name in ("abe", "ada")]
    roles = [VERIFIER] * 3 + [AGGREGATOR] * 2
    world.decide(
        *(
            (world.registry, "approve_role", (node.node_id, role, True))
            for node, role in zip(gated, roles, strict=True)
        )
    )
    for name in ("ann", "bob", "cat", "eve"):
        node = world.enlist(name, spare=_SPARE)
        world.benchmark(node)

    world.person("sponsor", TERMS.reward_per_round * FUNDED_ROUNDS)
    terms = TERMS.encode(lab.published)
    world.job = world.create_job(world.sponsor, terms, TERMS.reward_per_round * FUNDED_ROUNDS)
    return world


@pytest.fixture
def ann(world: World) -> Node:
    return world.nodes["ann"]


@pytest.fixture
def bob(world: World) -> Node:
    return world.nodes["bob"]


@pytest.fixture
def cat(world: World) -> Node:
    return world.nodes["cat"]


@pytest.fixture
def eve(world: World) -> Node:
    """The attacker: a registered trainer with a passed benchmark."""
    return world.nodes["eve"]
