# SPDX-License-Identifier: Apache-2.0
"""A deployment that is interrupted goes on from its plan, and from no other one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from hexbytes import HexBytes
from web3 import HTTPProvider, Web3
from web3.types import TxParams

from agents.tasks.compute.classes import POOLS
from scripts._net.anvil import MNEMONIC, start_anvil
from scripts._net.deployment import ORDER, DeploymentError, DeploymentSettings, TaskTerms
from scripts._net.local_keys import sender_of
from scripts._net.plan import Plan, carry_out, estimated, keep, missing, planned, resumed
from scripts._net.processes import Supervisor

DAY = 86_400


class Halted(RuntimeError):
    """The process died."""


@pytest.fixture(scope="module")
def w3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web3]:
    directory = tmp_path_factory.mktemp("chain")
    with Supervisor(directory) as supervisor:
        yield Web3(HTTPProvider(start_anvil(supervisor, directory).url))


def key(index: int) -> LocalAccount:
    Account.enable_unaudited_hdwallet_features()
    return Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{index}")


SETTINGS = DeploymentSettings(
    members=tuple(key(i).address for i in (5, 6, 7)), holder=key(8).address, threshold=2
)


def test_what_is_on_chain_is_not_sent_again(w3: Web3, tmp_path: Path) -> None:
    """The process dies after any number of contracts; the next one sends the others."""
    deployer, path, sent = key(0), tmp_path / "begun.json", []
    send = sender_of(w3, deployer)

    def halting(tx: TxParams) -> HexBytes:
        if len(sent) in (1, 6):
            sent.append(None)
            raise Halted
        sent.append(tx["nonce"])
        return send(tx)

    plan = planned(w3, deployer.address, SETTINGS)
    keep(plan, path)
    for _ in range(2):
        with pytest.raises(Halted):
            carry_out(w3, resumed(planned(w3, deployer.address, SETTINGS), path), halting)
    deployed = carry_out(w3, resumed(planned(w3, deployer.address, SETTINGS), path), halting)
    assert [nonce for nonce in sent if nonce is not None] == list(range(len(ORDER)))
    assert deployed.addresses == plan.addresses
    assert deployed.block == plan.block == 0
    assert missing(w3, plan) == []


def test_estimates_are_what_it_costs_or_a_little_more(w3: Web3) -> None:
    deployer = key(1)
    plan = planned(w3, deployer.address, SETTINGS)
    gas = estimated(w3, plan)
    used: dict[str, int] = {}
    send = sender_of(w3, deployer)

    def counting(tx: TxParams) -> HexBytes:
        tx_hash = send(tx)
        receipt = w3.eth.wait_for_transaction_receipt(tx_hash, poll_latency=0.05)
        used[ORDER[len(used)]] = receipt["gasUsed"]
        return tx_hash

    carry_out(w3, plan, counting)
    assert set(gas) == set(used) == set(ORDER)
    for name, amount in used.items():
        assert 0.95 < gas[name] / amount < 1.5, name
    assert estimated(w3, plan) == {}


def test_settings_that_a_constructor_refuses_are_known_before_anything_is_sent(w3: Web3) -> None:
    plan = planned(w3, key(2).address, replace(SETTINGS, threshold=1))
    with pytest.raises(DeploymentError, match="coordinator: bad threshold"):
        estimated(w3, plan)


def test_a_key_that_sent_something_else_meanwhile_is_found_out(w3: Web3) -> None:
    deployer = key(3)
    plan, send = planned(w3, deployer.address, SETTINGS), sender_of(w3, deployer)
    pay: TxParams = {
        "to": deployer.address,
        "nonce": w3.eth.get_transaction_count(deployer.address),
        "gas": 21_000,
        "maxFeePerGas": Web3.to_wei(10, "gwei"),
        "maxPriorityFeePerGas": Web3.to_wei(1, "gwei"),
        "chainId": w3.eth.chain_id,
    }
    w3.eth.wait_for_transaction_receipt(send(pay), poll_latency=0.05)
    with pytest.raises(DeploymentError, match="sends nothing else"):
        carry_out(w3, plan, send)


def other_settings(plan: Plan) -> Plan:
    return replace(plan, settings=replace(SETTINGS, supply=1))


def other_account(plan: Plan) -> Plan:
    return replace(plan, deployer=key(9).address)


def other_chain(plan: Plan) -> Plan:
    return replace(plan, chain_id=5)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (other_settings, "with other settings"),
        (other_account, "unfinished deployment of"),
        (other_chain, "on chain 31337"),
    ],
)
def test_another_deployment_is_not_gone_on_with(
    w3: Web3, tmp_path: Path, change: object, why: str
) -> None:
    plan, path = planned(w3, key(4).address, SETTINGS), tmp_path / "begun.json"
    keep(plan, path)
    assert resumed(plan, path) == plan
    with pytest.raises(DeploymentError, match=f"{why}.*remove"):
        resumed(change(plan), path)  # type: ignore[operator]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"nonce": 1}', b"\xff"])
def test_a_damaged_plan_is_refused_with_a_sentence(
    w3: Web3, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "begun.json"
    path.write_bytes(content)
    with pytest.raises(DeploymentError, match="holds no unfinished deployment"):
        resumed(planned(w3, key(4).address, SETTINGS), path)


def test_task_terms_fit_the_unbonding_period() -> None:
    assert TaskTerms.fitting(14 * DAY) == TaskTerms(classes=POOLS)
    brief = TaskTerms.fitting(3_600)
    assert 2 * brief.horizon <= 3_600
