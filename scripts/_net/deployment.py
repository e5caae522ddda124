# SPDX-License-Identifier: Apache-2.0
"""What a deployment is: its settings, its wiring, and the check of what lies on chain.

Rule: the addresses of all contracts follow from the deployer's nonce, so each constructor gets
its final neighbours and the Coordinator owns everything from the first block. There is no later
step and the deployer never holds a right. What was deployed is then read back from the chain,
immutables included, and compared; only a deployment that matches is written down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import rlp
from eth_abi import encode
from eth_utils import keccak, to_bytes, to_checksum_address
from eth_utils.abi import function_abi_to_4byte_selector
from web3 import Web3
from web3.contract import Contract

from agents.protocol.numbers import ZOO
from agents.storage.durable import write_atomic
from agents.tasks.compute.classes import CPU, POOLS, limits_of
from scripts._net.compiled import Artefact
from scripts._net.pace import roomy

# The order of the deployment; the position is the distance from the deployer's nonce.
ORDER = (
    "ZooToken",
    "Coordinator",
    "NodeRegistry",
    "RewardPool",
    "TrainingLedger",
    "TrainingJobs",
    "TrainingRounds",
    "TrainingResults",
    "ViolationReports",
    "DataKeys",
    "ScoreConsensus",
    "RedundantTasks",
    "TaskAppeals",
    "NodeBenchmarks",
    "Lens",
)
SLASHERS = (
    "TrainingRounds",
    "TrainingResults",
    "ViolationReports",
    "RedundantTasks",
    "TaskAppeals",
    "NodeBenchmarks",
    "ScoreConsensus",
)
# Calls that wait the routine delay only: those a running network needs, and the emergency brake.
ROUTINE_CALLS = (
    ("NodeBenchmarks", "overrule"),
    ("NodeBenchmarks", "condemn"),
    ("ScoreConsensus", "overrule_scores"),
    ("NodeBenchmarks", "set_paused"),
    ("NodeRegistry", "approve_role"),
    ("NodeRegistry", "set_paused"),
    ("RedundantTasks", "add_class"),
    ("RedundantTasks", "set_paused"),
    ("ScoreConsensus", "set_paused"),
    ("TaskAppeals", "resolve"),
    ("TrainingLedger", "attest_model"),
    ("TrainingJobs", "set_paused"),
    ("TrainingResults", "resolve_challenge"),
    ("TrainingRounds", "set_paused"),
    ("ViolationReports", "resolve_appeal"),
)
ZERO = "0x" + "00" * 20
DAY = 86_400

MOST_POOLS = 16  # that the constructor of RedundantTasks takes

# Bytes by which the compiler's runtime output may differ from what its creation code returns.
JUMP_SLACK = 64


class DeploymentError(RuntimeError):
    """A deployment that was refused, did not match, or would overwrite another."""


@dataclass(frozen=True)
class TaskTerms:
    """Terms of redundant tasks, fixed for good. Amounts in 1e-18 ZOO, times in seconds.

    `max_fee` is what keeps cheating unprofitable: `ape run economics` says up to which share of
    the pool. `classes` are the determinism classes that have a pool from the start.
    """

    task_stake: int = 100 * ZOO
    max_fee: int = 2 * ZOO
    fee_per_s: int = ZOO // 2_000
    max_run_s: int = 3_600
    reveal_s: int = 1_800
    appeal_s: int = 6 * 3_600
    verdict_s: int = 12 * 3_600
    appeal_bond: int = 5 * ZOO
    draw_s: int = DAY
    dispute_s: int = 3 * DAY
    classes: tuple[str, ...] = (CPU,)

    @classmethod
    def fitting(cls, unbonding_period: int, more: Sequence[str] = ()) -> TaskTerms:
        """Return the usual terms, or where those outlast half the unbonding period, brief ones.

        With the pools of CPUs and of common GPUs, and `more`. Raises DeploymentError as
        `with_pools`.
        """
        usual = cls(classes=POOLS).with_pools(more)
        if 2 * usual.horizon <= unbonding_period:
            return usual
        brief = {"draw_s": 600, "appeal_s": 60, "verdict_s": 60, "dispute_s": 120}
        return replace(usual, max_run_s=120, reveal_s=60, **brief)

    def with_pools(self, more: Sequence[str]) -> TaskTerms:
        """Return the same with further classes that have a pool from the start.

        Raises DeploymentError for a label that is no class, or for more than the constructor takes.
        """
        for label in more:
            try:
                limits_of(label)
            except ValueError as error:
                raise DeploymentError(f"{error}.") from None
        classes = tuple(dict.fromkeys((*self.classes, *more)))
        if len(classes) > MOST_POOLS:
            raise DeploymentError(
                f"{len(classes)} pools are more than the {MOST_POOLS} that a deployment opens; the "
                "committee opens others with `ape run committee propose pool`."
            )
        return replace(self, classes=classes)

    def paced(self, block_s: float) -> TaskTerms:
        """Return the same with windows that have room for blocks so far apart."""
        names = ("max_run_s", "reveal_s", "appeal_s", "verdict_s", "dispute_s")
        terms = replace(self, **{name: roomy(getattr(self, name), block_s) for name in names})
        # Slow executors may take as many turns before the last draw as before.
        course, before = terms.max_run_s + terms.reveal_s, self.max_run_s + self.reveal_s
        return replace(terms, draw_s=-(-self.draw_s * course // before))

    @property
    def horizon(self) -> int:
        """Seconds from a task's creation to the last word on it."""
        course = self.draw_s + self.max_run_s + self.reveal_s
        return course + 2 * self.appeal_s + self.verdict_s + self.dispute_s

    def encode(self) -> tuple[int, ...]:
        """Return the contract's struct."""
        return (
            self.task_stake,
            self.max_fee,
            self.fee_per_s,
            self.max_run_s,
            self.reveal_s,
            self.appeal_s,
            self.verdict_s,
            self.appeal_bond,
            self.draw_s,
            self.dispute_s,
        )

    def class_names(self) -> list[bytes]:
        """Return the classes' names as the contract keeps them: ASCII, padded with zeros."""
        return [name.encode("ascii").ljust(32, b"\0") for name in self.classes]


@dataclass(frozen=True)
class DeploymentSettings:
    """What a deployment fixes. Amounts in 1e-18 ZOO, times in seconds.

    `holder` receives the whole supply. `random_source` zero means `blockhash`.
    """

    members: tuple[str, ...]
    holder: str
    threshold: int = 3
    supply: int = 1_000_000_000 * ZOO
    routine_delay: int = DAY
    governance_delay: int = 21 * DAY
    grace_period: int = 14 * DAY
    unbonding_period: int = 14 * DAY
    trainer_stake: int = 100 * ZOO
    verifier_stake: int = 1_000 * ZOO
    aggregator_stake: int = 1_000 * ZOO
    benchmark_window: int = 600
    benchmark_quorum: int = 2
    appeal_bond: int = 100 * ZOO
    least_challenge_bond: int = 10 * ZOO
    most_challenge_bond: int = 1_000 * ZOO
    least_reward: int = ZOO
    least_retained: int = 0
    random_source: str = ZERO
    tasks: TaskTerms = field(default_factory=TaskTerms)


@dataclass(frozen=True)
class Deployed:
    """Contracts on chain: `block` is the first one worth scanning for their events."""

    chain_id: int
    block: int
    deployer: str
    addresses: dict[str, str]
    artefacts: Mapping[str, Artefact] = field(repr=False)

    def contract(self, w3: Web3, name: str) -> Contract:
        """Return a web3 contract object."""
        address = to_checksum_address(self.addresses[name])
        return w3.eth.contract(address, abi=self.artefacts[name].abi)

    def record(self) -> dict[str, Any]:
        """Return the content of a deployment file."""
        return {
            "chain_id": self.chain_id,
            "block": self.block,
            "deployer": self.deployer,
            "contracts": {
                name: {"address": address, "abi": self.artefacts[name].abi}
                for name, address in self.addresses.items()
            },
        }


def create_address(sender: str, nonce: int) -> str:
    """Return the address of the contract that `sender` creates with its transaction `nonce`."""
    return to_checksum_address(keccak(rlp.encode([to_bytes(hexstr=sender), nonce]))[12:])


def constructor_arguments(
    settings: DeploymentSettings, at: Mapping[str, str], artefacts: Mapping[str, Artefact]
) -> dict[str, tuple[Any, ...]]:
    """Return every constructor's arguments; `at` maps contract names to their future addresses."""
    routine = [
        (at[name], _selector(artefacts[name].abi, function)) for name, function in ROUTINE_CALLS
    ]
    parameters = (
        settings.unbonding_period,
        settings.trainer_stake,
        settings.verifier_stake,
        settings.aggregator_stake,
        settings.benchmark_window,
        settings.benchmark_quorum,
        at["Coordinator"],
    )
    token, registry, owner = at["ZooToken"], at["NodeRegistry"], at["Coordinator"]
    jobs, rounds, results = at["TrainingJobs"], at["TrainingRounds"], at["TrainingResults"]
    slashers = [at[name] for name in SLASHERS]
    return {
        "ZooToken": (settings.holder, settings.supply),
        "Coordinator": (
            list(settings.members),
            settings.threshold,
            settings.routine_delay,
            settings.governance_delay,
            settings.grace_period,
            routine,
        ),
        "NodeRegistry": (token, at["NodeBenchmarks"], owner, slashers, parameters),
        "RewardPool": (
            token,
            registry,
            jobs,
            results,
            at["ScoreConsensus"],
            at["ViolationReports"],
        ),
        "TrainingLedger": (results, at["RewardPool"], owner),
        "TrainingJobs": (
            registry,
            rounds,
            results,
            owner,
            (
                settings.least_challenge_bond,
                settings.most_challenge_bond,
                settings.least_reward,
                settings.least_retained,
            ),
        ),
        "TrainingRounds": (registry, jobs, results, owner, settings.random_source),
        "TrainingResults": (
            token,
            registry,
            at["RewardPool"],
            at["TrainingLedger"],
            at["ViolationReports"],
            jobs,
            rounds,
            owner,
            settings.random_source,
        ),
        "ViolationReports": (
            token,
            registry,
            jobs,
            rounds,
            results,
            at["RewardPool"],
            owner,
            settings.appeal_bond,
        ),
        "DataKeys": (registry, jobs),
        "ScoreConsensus": (registry, jobs, rounds, results, owner),
        "RedundantTasks": (
            token,
            registry,
            at["TaskAppeals"],
            owner,
            settings.tasks.encode(),
            settings.tasks.class_names(),
            settings.random_source,
        ),
        "TaskAppeals": (token, registry, at["RedundantTasks"], owner),
        "NodeBenchmarks": (registry, owner, settings.random_source),
        "Lens": (),
    }


def check_deployment(w3: Web3, deployed: Deployed, settings: DeploymentSettings) -> None:
    """Compare what lies on chain with the settings. Raises DeploymentError listing all deviations.

    Read are each contract's code, every immutable in it, and every right kept in storage.
    """
    found = [*_code_problems(w3, deployed, settings), *_state_problems(w3, deployed, settings)]
    if found:
        raise DeploymentError("The deployment is not as intended: " + "; ".join(found) + ".")


def write_deployment(path: Path, deployed: Deployed) -> None:
    """Write the deployment file. Raises DeploymentError rather than overwrite one."""
    refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(deployed.record(), indent=1).encode(), mode=0o644)


def refuse_existing(path: Path) -> None:
    """Raise DeploymentError if there is a deployment file at `path`."""
    if path.exists():
        raise DeploymentError(
            f"{path} holds a deployment already; it is never overwritten. Remove it, or name "
            "another file with --out."
        )


def _selector(abi: list[dict[str, Any]], function: str) -> bytes:
    """Raises StopIteration when the contract has no such function."""
    return function_abi_to_4byte_selector(
        next(item for item in abi if item["type"] == "function" and item["name"] == function)
    )


def _code_problems(w3: Web3, deployed: Deployed, settings: DeploymentSettings) -> Iterator[str]:
    at = deployed.addresses
    neighbours = {
        "token": at["ZooToken"],
        "coordinator": at["Coordinator"],
        "registry": at["NodeRegistry"],
        "pool": at["RewardPool"],
        "ledger": at["TrainingLedger"],
        "jobs": at["TrainingJobs"],
        "rounds": at["TrainingRounds"],
        "results": at["TrainingResults"],
        "reports": at["ViolationReports"],
        "scores": at["ScoreConsensus"],
        "tasks": at["RedundantTasks"],
        "appeals": at["TaskAppeals"],
        "benchmarks": at["NodeBenchmarks"],
        "source": settings.random_source,
    }
    for name, address in at.items():
        artefact = deployed.artefacts[name]
        code = bytes(w3.eth.get_code(to_checksum_address(address)))
        # The creation code holds the exact runtime; the compiler's separate runtime output may
        # differ from it in the width of jumps. Immutables follow it.
        tail = len(code) - sum(length for *_, length in artefact.immutables)
        creation = bytes.fromhex(artefact.bytecode.removeprefix("0x"))
        if abs(len(code) - artefact.size) > JUMP_SLACK or code[:tail] not in creation:
            yield f"the code of {name} is not the compiled one"
            continue
        data = code[tail:]
        for label, kind, offset, length in artefact.immutables:
            key = label.rpartition(".")[2].strip("_").lower()
            value = data[offset : offset + length]
            if key in neighbours or key == "cached_self":
                wanted = encode(["address"], [neighbours.get(key, address)])
            elif key == "appeal_bond":
                wanted = encode(["uint256"], [settings.appeal_bond])
            elif kind == "address" or kind.endswith(".vyi"):
                yield f"{name} has an immutable address {label} that this check does not know"
                continue
            else:
                continue
            if value != wanted:
                yield f"{name}.{label} is 0x{value.hex()}, not 0x{wanted.hex()}"


def _state_problems(w3: Web3, deployed: Deployed, settings: DeploymentSettings) -> Iterator[str]:
    at, deployer = deployed.addresses, deployed.deployer

    def read(name: str, function: str, *args: Any) -> Any:
        return deployed.contract(w3, name).functions[function](*args).call()

    for name in ORDER:
        functions = {i["name"] for i in deployed.artefacts[name].abi if i["type"] == "function"}
        if "owner" in functions and read(name, "owner") != at["Coordinator"]:
            yield f"the owner of {name} is {read(name, 'owner')}, not the Coordinator"
        if "pending_owner" in functions and read(name, "pending_owner") != ZERO:
            yield f"{name} has a pending owner, {read(name, 'pending_owner')}"
    expected: list[tuple[str, str, tuple[Any, ...], Any]] = [
        ("ZooToken", "totalSupply", (), settings.supply),
        ("ZooToken", "balanceOf", (settings.holder,), settings.supply),
        ("Coordinator", "members", (), list(settings.members)),
        ("Coordinator", "threshold", (), settings.threshold),
        ("Coordinator", "delays", (), [settings.routine_delay, settings.governance_delay]),
        ("Coordinator", "is_member", (deployer,), deployer in settings.members),
        *(("NodeRegistry", "is_slasher", (at[name],), True) for name in SLASHERS),
        ("NodeRegistry", "is_slasher", (deployer,), False),
    ]
    arguments = constructor_arguments(settings, at, deployed.artefacts)
    expected.append(("NodeRegistry", "parameters", (), arguments["NodeRegistry"][4]))
    expected.append(("TrainingJobs", "bounds", (), arguments["TrainingJobs"][4]))
    expected.append(("RedundantTasks", "terms", (), settings.tasks.encode()))
    expected.append(("RedundantTasks", "classes", (), settings.tasks.class_names()))
    for target, selector in arguments["Coordinator"][5]:
        expected.append(("Coordinator", "delay_class", (target, selector), 1))
    for name, function, args, wanted in expected:
        value = read(name, function, *args)
        same = tuple(value) == tuple(wanted) if isinstance(value, (list, tuple)) else None
        if not (value == wanted if same is None else same):
            yield f"{name}.{function}{args} is {value}, not {wanted}"
