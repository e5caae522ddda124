# SPDX-License-Identifier: Apache-2.0
"""The deployment on an EVM in this process: all contracts, reasons, clock, gas, undoing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agents.protocol.numbers import ZOO
from scripts._attacks.embedded import BLOCK_S, Embedded, Refused, lacking
from scripts._net.compiled import ROOT
from scripts._net.deployment import ORDER, SLASHERS, DeploymentSettings

MEMBERS = tuple(f"0x{number:040x}" for number in range(0xA1, 0xA6))
HOLDER, FRIEND = "0x" + "b1" * 20, "0x" + "b2" * 20


@pytest.fixture(scope="module")
def chain() -> Embedded:
    return Embedded(DeploymentSettings(members=MEMBERS, holder=HOLDER))


def test_every_contract__is_deployed_and_wired(chain: Embedded) -> None:
    assert set(chain.contracts) == set(ORDER)
    assert chain.read("ZooToken", "balanceOf", HOLDER) == 1_000_000_000 * ZOO
    assert chain.read("NodeRegistry", "owner") == chain["Coordinator"].address
    for name in SLASHERS:
        assert chain.read("NodeRegistry", "is_slasher", chain[name].address)


def test_revert__comes_through_with_its_reason(chain: Embedded) -> None:
    with pytest.raises(Refused, match=r"^pool: nothing to claim$"):
        chain.send(FRIEND, "RewardPool", "claim")


def test_undone__takes_back_storage_clock_and_gas(chain: Embedded) -> None:
    before = chain.now, chain.block, chain.gas
    with chain.undone():
        chain.send(HOLDER, "ZooToken", "transfer", FRIEND, ZOO)
        chain.wait(100, 7)
        assert chain.read("ZooToken", "balanceOf", FRIEND) == ZOO
        assert (chain.now, chain.block) == (before[0] + 100, before[1] + 7)
        assert chain.gas > before[2] + 21_000
    assert chain.read("ZooToken", "balanceOf", FRIEND) == 0
    assert (chain.now, chain.block, chain.gas) == before


def test_undone__within_undone__takes_back_the_inner_part_only(chain: Embedded) -> None:
    with chain.undone():
        chain.send(HOLDER, "ZooToken", "transfer", FRIEND, ZOO)
        with chain.undone():
            chain.send(HOLDER, "ZooToken", "transfer", FRIEND, ZOO)
        assert chain.read("ZooToken", "balanceOf", FRIEND) == ZOO


def test_wait__is_a_block_unless_told(chain: Embedded) -> None:
    with chain.undone():
        now, block = chain.now, chain.block
        chain.wait()
        assert (chain.now - now, chain.block - block) == (BLOCK_S, 1)


def test_events__are_those_of_the_newest_transaction(chain: Embedded) -> None:
    with chain.undone():
        chain.send(HOLDER, "ZooToken", "transfer", FRIEND, ZOO)
        chain.send(HOLDER, "ZooToken", "transfer", FRIEND, 2 * ZOO)
        assert [e["value"] for e in chain.events("ZooToken", "Transfer")] == [2 * ZOO]


# Finds everything but pyrevm, as where the group `test` is not installed.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "pyrevm" else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from scripts.economics import cli

cli(["attacks", "--family", "training"])
"""


def test_lacking__what_runs_the_contracts__is_a_sentence_and_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "because there is no pyrevm here. In a checkout, after" in done.stderr


def test_lacking__nothing_in_a_whole_checkout() -> None:
    assert lacking() is None
