# SPDX-License-Identifier: Apache-2.0
"""A local network of few, and what its faucet does with wishes that it can't meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts._net.compiled import ROOT
from scripts._net.localnet import Localnet, LocalnetSettings, build_localnet
from scripts._net.processes import Supervisor
from scripts.faucet import _rich
from tests.stage.terminal import Terminal

SOMEBODY = "0x" + "5a" * 20
# As `make localnet ARGS="--verifiers 0 --aggregators 0"`: there is no role to approve.
FEW = LocalnetSettings(
    trainers=0, verifiers=0, aggregators=0, executors=0, members=1, threshold=1
)  # fmt: skip


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Localnet]:
    directory: Path = tmp_path_factory.mktemp("few")
    with Supervisor(directory / "logs", ROOT) as supervisor:
        yield build_localnet(supervisor, directory / "net", FEW)


def test_a_network_without_verifiers_and_aggregators_starts(net: Localnet) -> None:
    assert [seat.role for seat in net.seats.values()] == ["coordinator"]
    assert net.contract("Coordinator").functions.threshold().call() == 1


@pytest.mark.parametrize(
    ("wish", "why", "lines"),
    [
        ("0x" + "00" * 20, "zero address", 1),
        (f"{SOMEBODY} --amount 99999999999999", "at most", 1),
        (f"{SOMEBODY} --amount 1" + "0" * 58, "at most", 1),
        (f"{SOMEBODY} --amount 1" + "0" * 80, "is no amount of ZOO", 4),  # how it is used, too
    ],
)
def test_what_the_faucet_cannot_pay_is_a_sentence_and_nothing_is_paid(
    net: Localnet, tmp_path: Path, wish: str, why: str, lines: int
) -> None:
    def paid() -> int:
        return net.w3.eth.get_transaction_count(_rich().address, "pending")

    before = paid()
    said = Terminal(tmp_path).here(
        f"faucet --network {net.chain.url} --deployment {net.deployment_file} {wish}", fails=True
    )
    assert why in said and len(said.splitlines()) == lines
    assert paid() == before
