# SPDX-License-Identifier: Apache-2.0
"""The deployment on a real chain: everything is owned by the committee, nothing by the deployer.

Rule: every function that changes state is either in RESTRICTED, with the reason it gives a
stranger, or in OPEN; a new function that is in neither fails the test until somebody decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from hexbytes import HexBytes
from web3 import HTTPProvider, Web3
from web3.exceptions import ContractLogicError, Web3RPCError
from web3.types import TxParams

from agents.runtime.contracts import load_deployment
from scripts._net.anvil import MNEMONIC, start_anvil
from scripts._net.compiled import compile_contracts
from scripts._net.deployment import (
    JUMP_SLACK,
    ORDER,
    ZERO,
    ZOO,
    Deployed,
    DeploymentError,
    DeploymentSettings,
    TaskTerms,
    check_deployment,
    create_address,
    write_deployment,
)
from scripts._net.local_keys import sender_of
from scripts._net.plan import deploy
from scripts._net.processes import Supervisor

GAS_CAP = 16_777_216
NOT_OWNER = "ownable: caller is not the owner"
NOT_NEXT = "ownable_2step: caller is not the new owner"
NOT_MEMBER = "coordinator: not a member"
NOT_SELF = "coordinator: not self"
NOT_SLASHER = "registry: not a slasher"
UNKNOWN_NODE = "benchmarks: unknown node"
OWNED = {"transfer_ownership": NOT_OWNER, "accept_ownership": NOT_NEXT}
PAUSED = {"set_paused": NOT_OWNER, **OWNED}
RESTRICTED = {
    "ZooToken": {},
    "Coordinator": {
        "propose": NOT_MEMBER,
        "approve": NOT_MEMBER,
        "cancel": NOT_MEMBER,
        "set_members": NOT_SELF,
        "set_delays": NOT_SELF,
        "set_delay_class": NOT_SELF,
    },
    "NodeRegistry": {
        "slash": NOT_SLASHER,
        "lock": NOT_SLASHER,
        "unlock": "registry: no lock",
        "set_score": "registry: not benchmarks",
        "approve_role": NOT_OWNER,
        "set_slasher": NOT_OWNER,
        "set_parameters": NOT_OWNER,
        "set_penalty": NOT_OWNER,
        **PAUSED,
    },
    "RewardPool": {
        **dict.fromkeys(
            ("reserve", "start_distribution", "distribute", "close"), "pool: not results"
        ),
        "settle_share": "pool: not reports",
    },
    "TrainingLedger": {"record_round": "ledger: not results"},
    "TrainingJobs": {
        **PAUSED,
        "set_bounds": NOT_OWNER,
        "begin_round": "jobs: not rounds",
        "end_round": "jobs: not results",
    },
    "TrainingRounds": PAUSED,
    "TrainingResults": {
        "resolve_challenge": NOT_OWNER,
        **OWNED,
        **dict.fromkeys(("open", "begin", "void"), "results: not rounds"),
        **dict.fromkeys(
            ("report_opened", "report_closed", "invalidate", "clear"), "results: not reports"
        ),
    },
    "ViolationReports": {"resolve_appeal": NOT_OWNER, **OWNED},
    "ScoreConsensus": {
        **PAUSED,
        "adopt": "scores: not sponsor",
        "post_samples": "scores: not adopted",
        "commit_scores": "scores: not adopted",
        "commit_scores_on": "scores: not adopted",
        "overrule_scores": NOT_OWNER,
    },
    "RedundantTasks": {
        **PAUSED,
        "add_class": NOT_OWNER,
        "begin_appeal": "tasks: not appeals",
        "end_appeal": "tasks: not appeals",
        "join": "executors: not the node's",
        "leave": "executors: not the node's",
    },
    "TaskAppeals": {
        "resolve": NOT_OWNER,
        "declare_classes": "appeals: not the operator",
        **OWNED,
    },
    "DataKeys": {
        "set_key": "keys: not sponsor",
        "set_releaser": "keys: not sponsor",
        "request_key": "keys: not operator",
        "release_key": "keys: not releaser",
    },
    "NodeBenchmarks": {
        "overrule": NOT_OWNER,
        "condemn": NOT_OWNER,
        **PAUSED,
        "request_benchmark": UNKNOWN_NODE,
        "submit_benchmark": UNKNOWN_NODE,
    },
    "Lens": {},
}
# For everybody, or for whoever owns or operates the node, the job or the tokens concerned.
OPEN = {
    "ZooToken": {"transfer", "transferFrom", "approve", "burn", "burn_from", "permit"},
    "Coordinator": {"approve_by_sig", "execute"},
    "NodeRegistry": {
        "register_node",
        "add_stake",
        "begin_exit",
        "withdraw",
        "set_operator",
        "set_payout",
        "set_roles",
        "set_active",
        "set_encryption_key",
        "claim_bounty",
    },
    "RewardPool": {"fund", "claim", "refund", "release", "release_retained", "forfeit_carried"},
    "TrainingLedger": {"attest_model"},
    "TrainingJobs": {"create_job", "cancel_job"},
    "TrainingRounds": {
        "open_round",
        "seat",
        "capture_seed",
        "advance",
        "slash_unrevealed",
        "mark_absent",
        "commit",
        "commit_on",
        "reveal",
        "rejoin",
    },
    "TrainingResults": {
        "withdraw_bond",
        "capture_audit_seed",
        "advance",
        "finalize",
        "settle",
        "propose_result",
        "attest",
        "announce_challenge",
        "expire_announcement",
        "challenge",
    },
    "ViolationReports": {
        "withdraw_bond",
        "announce_report",
        "expire_announcement",
        "open_announcement",
        "report",
        "lapse",
        "appeal",
        "execute",
        "dismiss_unresolved",
    },
    "DataKeys": {"set_reader_key", "disclose_keys"},
    "ScoreConsensus": {"reveal_scores", "close_scoring"},
    "RedundantTasks": {
        "withdraw_bond",
        "evict",
        "compact",
        "create_task",
        "commit",
        "reveal",
        "draw",
        "advance",
        "finalize",
    },
    "TaskAppeals": {
        "withdraw_bond",
        "appeal",
        "attest",
        "contest",
        "finalize",
        "lapse",
    },
    "NodeBenchmarks": {"capture_benchmark_seed", "capture_check_seed", "submit_verdicts"},
    "Lens": set(),
}
ALL_RESTRICTED = [(name, function) for name, table in RESTRICTED.items() for function in table]


@dataclass(frozen=True)
class Chain:
    """A chain, a key that pays for the deployment, and what it deployed."""

    w3: Web3
    deployer: LocalAccount
    settings: DeploymentSettings
    deployed: Deployed


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    directory = tmp_path_factory.mktemp("chain")
    with Supervisor(directory) as supervisor:
        anvil = start_anvil(supervisor, directory)
        w3 = Web3(HTTPProvider(anvil.url))
        deployer = key(0)
        settings = DeploymentSettings(
            members=tuple(sorted(key(i).address for i in range(1, 6))), holder=key(9).address
        )
        deployed = deploy(w3, deployer.address, sender_of(w3, deployer), settings)
        yield Chain(w3, deployer, settings, deployed)


def key(index: int) -> LocalAccount:
    Account.enable_unaudited_hdwallet_features()
    return Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{index}")


def example(item: dict[str, Any], address: str) -> Any:
    """Return some value of an ABI type."""
    kind: str = item["type"]
    if kind.endswith("]"):
        return []
    if kind == "tuple":
        return tuple(example(part, address) for part in item["components"])
    if kind == "address":
        return address
    if kind.startswith("bytes"):
        return bytes(int(kind[5:] or 0))
    return {"bool": False, "string": ""}.get(kind, 0)


def test_every_function_that_changes_state_is_classified(chain: Chain) -> None:
    for name in ORDER:
        abi = chain.deployed.artefacts[name].abi
        changing = {
            item["name"]
            for item in abi
            if item["type"] == "function" and item["stateMutability"] not in ("view", "pure")
        }
        assert changing == set(RESTRICTED[name]) | OPEN[name], name


@pytest.mark.parametrize(("name", "function"), ALL_RESTRICTED)
def test_restricted_function__deployer__reverts(chain: Chain, name: str, function: str) -> None:
    contract = chain.deployed.contract(chain.w3, name)
    deployer = chain.deployer.address
    (item,) = (i for i in contract.abi if i["type"] == "function" and i["name"] == function)
    args = [example(dict(part), deployer) for part in item["inputs"]]
    with pytest.raises(ContractLogicError) as refused:
        contract.functions[function](*args).call({"from": deployer})
    assert RESTRICTED[name][function] in str(refused.value)


def test_owner_is_the_coordinator_wherever_there_is_one(chain: Chain) -> None:
    coordinator = chain.deployed.addresses["Coordinator"]
    owned = []
    for name in ORDER:
        contract = chain.deployed.contract(chain.w3, name)
        if any(item.get("name") == "owner" for item in contract.abi):
            owned.append(name)
            assert contract.functions.owner().call() == coordinator
            assert contract.functions.pending_owner().call() == ZERO
    assert owned == [
        "NodeRegistry",
        "TrainingJobs",
        "TrainingRounds",
        "TrainingResults",
        "ViolationReports",
        "ScoreConsensus",
        "RedundantTasks",
        "TaskAppeals",
        "NodeBenchmarks",
    ]


def test_token_has_no_minter_and_no_owner(chain: Chain) -> None:
    token = chain.deployed.contract(chain.w3, "ZooToken")
    names = {item["name"] for item in token.abi if item["type"] == "function"}
    assert not [name for name in names if "mint" in name or "owner" in name]
    deployer = chain.deployer.address
    account, number = deployer[2:].rjust(64, "0"), f"{1:064x}"
    for signature in ("mint(address,uint256)", "set_minter(address,bool)", "owner()"):
        data = "0x" + Web3.keccak(text=signature)[:4].hex() + account + number
        call: TxParams = {"from": deployer, "to": token.address, "data": data}  # type: ignore[typeddict-item]
        with pytest.raises(ContractLogicError):
            chain.w3.eth.call(call)
    holder = chain.settings.holder
    supply = token.functions.totalSupply().call()
    assert supply == token.functions.balanceOf(holder).call() == chain.settings.supply


def test_deployer_holds_no_token_and_is_no_member_or_slasher(chain: Chain) -> None:
    deployer = chain.deployer.address
    token, coordinator, registry = (
        chain.deployed.contract(chain.w3, name)
        for name in ("ZooToken", "Coordinator", "NodeRegistry")
    )
    assert token.functions.balanceOf(deployer).call() == 0
    assert not coordinator.functions.is_member(deployer).call()
    assert not registry.functions.is_slasher(deployer).call()
    assert registry.functions.parameters().call()[-1] == coordinator.address


def test_addresses_follow_from_the_deployers_nonce(chain: Chain) -> None:
    expected = [create_address(chain.deployer.address, nonce) for nonce in range(len(ORDER))]
    assert [chain.deployed.addresses[name] for name in ORDER] == expected


def test_every_contract_is_within_the_code_limit(chain: Chain) -> None:
    for name, address in chain.deployed.addresses.items():
        size = len(chain.w3.eth.get_code(Web3.to_checksum_address(address)))
        assert size <= 24_576 * 9 // 10, name
        assert abs(size - chain.deployed.artefacts[name].size) <= JUMP_SLACK, name


def test_transactions_above_the_gas_cap_are_refused(chain: Chain) -> None:
    tx: TxParams = {
        "to": chain.deployer.address,  # type: ignore[typeddict-item]
        "from": chain.deployer.address,
        "gas": GAS_CAP + 1,
    }
    with pytest.raises(Web3RPCError, match=r"(?i)gas"):
        chain.w3.eth.send_transaction(tx)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"appeal_bond": 1}, "ViolationReports"),
        ({"supply": 1}, "ZooToken.totalSupply"),
        ({"threshold": 4}, "Coordinator.threshold"),
        ({"routine_delay": 1}, "Coordinator.delays"),
        ({"trainer_stake": ZOO}, "NodeRegistry.parameters"),
        ({"random_source": "0x" + "11" * 20}, "NodeBenchmarks"),
        ({"tasks": TaskTerms(draw_s=90_000)}, "RedundantTasks.terms"),
        ({"tasks": TaskTerms(classes=("cuda:sm_90",))}, "RedundantTasks.classes"),
    ],
)
def test_check__other_settings__names_the_deviation(
    chain: Chain, change: dict[str, Any], named: str
) -> None:
    with pytest.raises(DeploymentError, match=named):
        check_deployment(chain.w3, chain.deployed, replace(chain.settings, **change))


def test_check__code_of_another_contract__is_named(chain: Chain) -> None:
    swapped = {**chain.deployed.addresses}
    swapped["TrainingLedger"] = swapped["RewardPool"]
    with pytest.raises(DeploymentError, match="the code of TrainingLedger"):
        check_deployment(chain.w3, replace(chain.deployed, addresses=swapped), chain.settings)


def test_deploy__nonce_taken_meanwhile__stops(chain: Chain) -> None:
    """A deployer key that sends something else in between would break the predicted addresses."""
    w3, hasty = chain.w3, key(8)
    send, sent = sender_of(w3, hasty), []

    def interrupted(tx: TxParams) -> HexBytes:
        if len(sent) == 2:
            tx = {**tx, "nonce": w3.eth.get_transaction_count(hasty.address)}
            pay: TxParams = {
                **tx,
                "to": hasty.address,  # type: ignore[typeddict-item]
                "data": HexBytes(b""),
                "value": Web3.to_wei(1, "wei"),
                "gas": 21_000,
            }
            w3.eth.wait_for_transaction_receipt(send(pay), timeout=60, poll_latency=0.05)
            tx = {**tx, "nonce": w3.eth.get_transaction_count(hasty.address)}
        sent.append(tx)
        return send(tx)

    with pytest.raises(DeploymentError, match="NodeRegistry was to be created at"):
        deploy(w3, hasty.address, interrupted, chain.settings)
    assert len(sent) == 3


def test_deploy__constructor_refuses__gives_its_reason(chain: Chain) -> None:
    bad = replace(chain.settings, threshold=1)
    sender = sender_of(chain.w3, key(7))
    with pytest.raises(DeploymentError, match="coordinator: bad threshold"):
        deploy(chain.w3, key(7).address, sender, bad)


def test_deployment_file_is_what_agents_read_and_is_never_overwritten(
    chain: Chain, tmp_path: Path
) -> None:
    path = tmp_path / "deployments" / "31337.json"
    write_deployment(path, chain.deployed)
    read = load_deployment(path, 31_337)
    assert {name: c.address for name, c in read.contracts.items()} == chain.deployed.addresses
    assert read.block == chain.deployed.block
    before = path.read_bytes()
    with pytest.raises(DeploymentError, match="never overwritten"):
        write_deployment(path, chain.deployed)
    assert path.read_bytes() == before


def test_artefacts_are_reused_until_a_source_changes(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "contracts").mkdir(parents=True)
    (root / "interfaces").mkdir()
    source = root / "contracts" / "One.vy"
    source.write_text("# pragma version ~=0.4.3\n@external\ndef f() -> uint256:\n    return 1\n")
    first = compile_contracts(root, tmp_path / "cache")
    assert compile_contracts(root, tmp_path / "cache") == first
    source.write_text(source.read_text().replace("return 1", "return 2"))
    assert compile_contracts(root, tmp_path / "cache")["One"].bytecode != first["One"].bytecode
