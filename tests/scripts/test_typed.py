# SPDX-License-Identifier: Apache-2.0
"""What a demo does by commands is done: a node is registered by its owner's wallet, and a command
that fails ends the demo with its words. That a claim arrives is a check of each demo's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.protocol.network import Network
from agents.protocol.numbers import Role
from scripts._demo import typed
from scripts._net.compiled import ROOT
from scripts._net.localnet import Localnet, LocalnetSettings, build_localnet
from scripts._net.processes import ProcessError, Supervisor
from tests.stage.terminal import reader

SETTINGS = LocalnetSettings(
    trainers=1, verifiers=1, aggregators=0, members=1, threshold=1, approve_roles=False,
    by_hand=("trainer-1", "verifier-1"),
)  # fmt: skip


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Localnet]:
    directory: Path = tmp_path_factory.mktemp("typed")
    with Supervisor(directory / "logs", ROOT) as supervisor:
        yield build_localnet(supervisor, directory / "net", SETTINGS)


@pytest.fixture(scope="module")
def network(net: Localnet) -> Network:
    return reader(net.chain.url, net.deployment_file)


def test_owners_register_by_the_command(net: Localnet, network: Network) -> None:
    assert net.contract("NodeRegistry").functions.node_count().call() == 0
    typed.register(net, [net.seats[name] for name in SETTINGS.by_hand])
    for name, role in zip(SETTINGS.by_hand, (Role.TRAINER, Role.VERIFIER), strict=True):
        seat = net.seats[name]
        node = network.node(seat.node_id)
        assert (node.owner, node.operator) == (seat.owner.address, seat.operator.address)
        assert (node.roles, node.stake) == (role, seat.stake)
    with pytest.raises(ProcessError, match=r"ape run node register .* failed: .*"):
        typed.register(net, [net.seats["trainer-1"]])


def test_a_refusal_is_the_contracts_reason_and_what_to_do(net: Localnet) -> None:
    """In full: the error that ape raises has only what follows the reason's last colon."""
    with pytest.raises(ProcessError) as told:
        typed.command(net, "job refund 1 --account trainer-1-owner", "trainer-1-owner")
    words = "pool: not sponsor. --account must name the wallet that created the job."
    assert words in " ".join(str(told.value).split())


def test_a_claim_of_nothing_is_none(net: Localnet, network: Network) -> None:
    seat = net.seats["verifier-1"]
    nothing = typed.claim(net, network, seat)
    assert (nothing.owed, nothing.received, nothing.arrived) == (0, 0, False)
