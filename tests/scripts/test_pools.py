# SPDX-License-Identifier: Apache-2.0
"""A new network has pools for executors on CPUs and on common GPUs from its first block, and those
that its deployer names: nobody waits for an operation of the committee."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from eth_account import Account
from web3 import HTTPProvider, Web3

from agents.tasks.compute.classes import POOLS, class_bytes, class_label, limits_of
from scripts._net.anvil import MNEMONIC, start_anvil
from scripts._net.deployment import (
    MOST_POOLS,
    DeploymentError,
    DeploymentSettings,
    TaskTerms,
)
from scripts._net.gpu import own_pools
from scripts._net.local_keys import sender_of
from scripts._net.plan import deploy
from scripts._net.processes import Supervisor

DAY = 86_400


@pytest.fixture(scope="module")
def w3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web3]:
    directory = tmp_path_factory.mktemp("chain")
    with Supervisor(directory) as supervisor:
        yield Web3(HTTPProvider(start_anvil(supervisor, directory).url))


def test_a_deployment_opens_pools_of_cpus_and_gpus(w3: Web3) -> None:
    """Those of common GPUs, and those that the deployer names; the committee is not needed."""
    labels = ("cuda:sm_89/76/13.0", "cuda:sm_90/132/13.0")  # the second has one anyway
    terms = TaskTerms.fitting(14 * DAY, labels)
    Account.enable_unaudited_hdwallet_features()
    key = Account.from_mnemonic(MNEMONIC)
    settings = DeploymentSettings((key.address,), key.address, threshold=1, tasks=terms)
    deployed = deploy(w3, key.address, sender_of(w3, key), settings)
    found = deployed.contract(w3, "RedundantTasks").functions.classes().call()
    assert [class_label(bytes(name)) for name in found] == [*POOLS, labels[0]]
    assert "cpu-fp32" in POOLS and "cuda:sm_90/132/13.0" in POOLS and len(POOLS) < MOST_POOLS
    for label in POOLS:
        assert limits_of(label) and class_label(class_bytes(label)) == label


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["cuda:fast"], "is no determinism class"),
        ([f"cuda:sm_99/{n}/13.0" for n in range(9)], "the committee opens others"),
    ],
)
def test_pools_that_can_not_be_opened_are_refused(labels: list[str], says: str) -> None:
    with pytest.raises(DeploymentError, match=says):
        TaskTerms.fitting(14 * DAY, labels)


def test_a_machine_without_a_gpu_has_no_pool_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there is a driver's program and no device: torch is asked."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert own_pools() == ()
    (tmp_path / "nvidia-smi").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert own_pools() == ()
