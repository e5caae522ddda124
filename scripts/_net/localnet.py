# SPDX-License-Identifier: Apache-2.0
"""A whole network on this machine: chain, contracts, committee, nodes, keys and settings files.

Rule: everything lies in one folder, every role has its own keys and its own process, and whatever
happens here is an ordinary signed transaction: nothing is impersonated, no balance is invented
except anvil's own test accounts, which pay for it all. On a chain that somebody else runs
(`rpc_node`) a key with ether pays, time passes by itself, and windows have room for its blocks.
"""

from __future__ import annotations

import math
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import HTTPProvider, Web3
from web3.contract import Contract
from web3.logs import DISCARD

from agents.jobs.publish import Published, Terms
from agents.protocol.consent import operator_consent
from agents.runtime.config import TrainerSettings
from agents.runtime.roles import PACKAGE
from agents.runtime.wallet import create_keystore
from agents.training.determinism import pinned_environment
from scripts._net.anvil import MNEMONIC, Anvil, start_anvil
from scripts._net.compiled import ROOT
from scripts._net.deployment import (
    ZOO,
    Deployed,
    DeploymentSettings,
    TaskTerms,
    write_deployment,
)
from scripts._net.gpu import own_pools
from scripts._net.local_keys import Batch, sender_of
from scripts._net.own_folder import make_empty
from scripts._net.pace import roomy
from scripts._net.plan import carry_out, estimated, planned
from scripts._net.ports import free_port
from scripts._net.processes import Process, Supervisor
from scripts._net.rpc_node import RpcNode

# An executor of redundant tasks is registered as a trainer. Without a benchmark it is in no round.
_KNOWN_POSTS = 3  # that each trainer asks where the others are
ROLES = {"trainer": 1, "verifier": 2, "aggregator": 4, "executor": 1}
PASSPHRASE = "MENAGERIE_PASSPHRASE"
FAUCET = "faucet"
# Local keys are worth nothing: opening them should not cost half a second each.
_SCRYPT_N = 1_024
_OWNER_GAS = 5_000_000
_SPONSOR_GAS = 50_000_000
_SUPPLY_GAS = 20_000_000  # of the faucet's own transfers
_ROOM = 1.25  # of an estimate
_SPARE_ZOO = 1_000 * ZOO
_CREATION_STEP_S = 8  # to which a task knows its creation


@dataclass(frozen=True)
class LocalnetSettings:
    """How many of each role, and the chain's pace. Times in seconds, amounts in 1e-18 ZOO."""

    trainers: int = 8
    verifiers: int = 3
    aggregators: int = 2
    executors: int = 0
    members: int = 5
    threshold: int = 3
    block_time: float = 1.0
    port: int | None = None
    chain_id: int = 31_337
    routine_delay: int = 2
    governance_delay: int = 10
    unbonding_period: int = 3_600
    trainer_stake: int = 100 * ZOO
    verifier_stake: int = 1_000 * ZOO
    aggregator_stake: int = 1_000 * ZOO
    executor_stake: int = 100 * ZOO
    benchmark_window: int = 120
    benchmark_quorum: int = 2
    appeal_bond: int = 10 * ZOO
    tasks: TaskTerms = field(default_factory=lambda: TaskTerms.fitting(3_600))
    supply: int = 1_000_000_000 * ZOO
    operator_gas: int = 500_000_000  # that each agent gets ether for, on a chain of somebody else's
    approve_roles: bool = True  # else the members' agents do, as a first deed
    store_of: Callable[[str], str] | None = None  # by seat: its own store; else all share a folder
    agent: Mapping[str, Any] = field(default_factory=dict)  # settings added to every agent's file
    trainer: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of one seat: its own
    by_hand: tuple[str, ...] = ()  # seats that their owners register and start by commands
    owned_with: Mapping[str, str] = field(default_factory=dict)  # seat: earlier seat of its owner

    def paced(self, block_s: float) -> LocalnetSettings:
        """Return the same with windows that have room for blocks so far apart."""
        return replace(
            self,
            # Twice what a benchmark takes, with room for its verdicts.
            benchmark_window=max(
                roomy(self.benchmark_window, block_s),
                math.ceil(4 * TrainerSettings().benchmark_blocks * block_s),
            ),
            tasks=self.tasks.paced(block_s),
        )


@dataclass(frozen=True)
class Seat:
    """One agent's place: a node of the network or a member of the committee.

    `node_id` is 0 and `owner` the operator itself for a member. `config` is its settings file.
    """

    name: str
    role: str
    operator: LocalAccount = field(repr=False)
    owner: LocalAccount = field(repr=False)
    config: Path
    metrics_port: int
    node_id: int = 0
    stake: int = 0


@dataclass(frozen=True)
class Localnet:
    """A running local network. `w3` reads; `deployed` has the contracts; `seats` the agents."""

    directory: Path
    supervisor: Supervisor
    chain: Anvil | RpcNode
    w3: Web3
    deployed: Deployed
    settings: LocalnetSettings
    seats: dict[str, Seat]
    sponsor: LocalAccount = field(repr=False)
    faucet: LocalAccount = field(repr=False)
    passphrase: str = field(repr=False)

    @property
    def anvil(self) -> Anvil:
        """The chain, where it is this network's own."""
        assert isinstance(self.chain, Anvil), "this network is on a chain that somebody else runs"
        return self.chain

    @property
    def store(self) -> Path:
        """Folder of the embedded content store that all agents share, unless each has its own."""
        return self.directory / "store"

    @property
    def deployment_file(self) -> Path:
        """The deployment file in the agents' settings."""
        return self.directory / "deployment.json"

    def contract(self, name: str) -> Contract:
        """Return a web3 contract object by name."""
        return self.deployed.contract(self.w3, name)

    def batch(self) -> Batch:
        """Return an empty batch of transactions; settling it makes a block, or waits for one."""
        return Batch(self.w3, self.chain.next_block, self.chain.fees())

    def of_role(self, role: str) -> list[Seat]:
        """Return the seats of a role, in order."""
        return [seat for seat in self.seats.values() if seat.role == role]

    def start_agent(
        self,
        name: str,
        program: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        wait_s: float | None = None,
    ) -> Process:
        """Start a seat's agent as its own process; with `wait_s`, wait until it says it is ready.

        `program` replaces ("agents", role): the module to run and its arguments. Raises
        ProcessError.
        """
        seat = self.seats[name]
        start = [sys.executable, "-m", *(program or (PACKAGE, seat.role))]
        if program is None and name in self.settings.by_hand:
            start = [str(Path(sys.executable).parent / "ape"), "run", "agent", seat.role]
        process = self.supervisor.start(
            name,
            [*start, "--config", str(seat.config)],
            env={PASSPHRASE: self.passphrase, "PYTHONUNBUFFERED": "1", **(env or {})},
            settings=pinned_environment(bool(self.settings.agent.get("portable", True))),
        )
        if wait_s is not None:
            self.wait_ready([name], wait_s)
        return process

    def wait_ready(self, names: Sequence[str], timeout_s: float = 60.0) -> None:
        """Wait until these agents have written that they are ready. Raises ProcessError."""
        for name in names:
            log = self.supervisor[name].log
            self.supervisor.wait_ready(name, partial(_says_ready, log), timeout_s)

    def create_job(self, published: Published, terms: Terms, funded_rounds: int) -> int:
        """Create a job as the sponsor, fund that many rounds, and return its id.

        A job that is paid by consensus adopts ScoreConsensus before it has money to open a round.
        """
        jobs, pool = self.contract("TrainingJobs"), self.contract("RewardPool")
        amount = terms.reward_per_round * funded_rounds
        batch = self.batch()
        token = self.contract("ZooToken")
        batch.add(self.faucet, token.functions.transfer(self.sponsor.address, amount))
        encoded = terms.encode(published)
        batch.add(self.sponsor, jobs.functions.create_job(encoded))
        mined = batch.settle()[-1]
        job_id = int(jobs.events.JobCreated().process_receipt(mined, DISCARD)[0]["args"]["job_id"])
        if published.by_consensus:
            scores = self.contract("ScoreConsensus")
            batch.add(self.sponsor, scores.functions.adopt(job_id, *terms.score_windows))
            batch.settle()
        batch.add(self.sponsor, token.functions.approve(pool.address, amount))
        batch.add(
            self.sponsor, pool.functions.fund(job_id, self.sponsor.address, encoded[0], amount)
        )
        batch.settle()
        return job_id


def build_localnet(
    supervisor: Supervisor,
    directory: Path,
    settings: LocalnetSettings | None = None,
    progress: Callable[[str], None] = lambda text: None,
    node: RpcNode | None = None,
) -> Localnet:
    """Put a complete network on a chain; agents are not started yet.

    `directory` is emptied first, if a local network made it (`own_folder`). `progress` hears what
    is being done. `node`: the chain; None starts one. Raises ProcessError, DeploymentError or
    RuntimeError.
    """
    settings = settings or LocalnetSettings()
    kept = make_empty(directory, None if node is None or node.payer is None else node.chain_id)
    if kept is not None:
        progress(f"keeping the network before, whose wallets may hold ether, in {relative(kept)}")
    chain: Anvil | RpcNode
    if node is None:
        progress("starting the chain")
        chain = start_anvil(
            supervisor,
            directory,
            port=settings.port,
            block_time=settings.block_time,
            chain_id=settings.chain_id,
        )
    else:
        progress(f"on chain {node.chain_id}, with a block every {node.block_s:.3g} s")
        chain = node
    pools = settings.tasks.with_pools(own_pools())
    settings = replace(settings, tasks=pools).paced(chain.block_s)
    w3 = Web3(HTTPProvider(chain.url, request_kwargs={"timeout": 20}))
    passphrase = _passphrase(directory)
    seats = _seats(directory, settings, passphrase, chain)
    sponsor = _owner_wallet(directory, "sponsor", passphrase)
    deployer, faucet = _payers(chain, directory, passphrase)
    members = sorted(seat.operator.address for seat in seats if seat.role == "coordinator")
    plan = planned(
        w3,
        deployer.address,
        DeploymentSettings(
            members=tuple(members),
            holder=faucet.address,
            threshold=settings.threshold,
            supply=settings.supply,
            routine_delay=settings.routine_delay,
            governance_delay=settings.governance_delay,
            grace_period=86_400,
            unbonding_period=settings.unbonding_period,
            trainer_stake=settings.trainer_stake,
            verifier_stake=settings.verifier_stake,
            aggregator_stake=settings.aggregator_stake,
            benchmark_window=settings.benchmark_window,
            benchmark_quorum=settings.benchmark_quorum,
            appeal_bond=settings.appeal_bond,
            tasks=settings.tasks,
        ),
    )
    if isinstance(chain, RpcNode):
        progress("sending ether to those who pay for the network")
        gas = int(_ROOM * sum(estimated(w3, plan).values()))
        needed = sum(_wei(chain, seats, settings).values()) + chain.wei_for(
            _SPONSOR_GAS + _SUPPLY_GAS
        )
        chain.pay({deployer.address: chain.wei_for(gas), faucet.address: needed})
    progress("deploying the contracts")
    mine = chain.next_block if isinstance(chain, Anvil) else None
    deployed = carry_out(w3, plan, sender_of(w3, deployer, mine))
    write_deployment(directory / "deployment.json", deployed)
    net = Localnet(
        directory=directory,
        supervisor=supervisor,
        chain=chain,
        w3=w3,
        deployed=deployed,
        settings=settings,
        seats={seat.name: seat for seat in seats},
        sponsor=sponsor,
        faucet=faucet,
        passphrase=passphrase,
    )
    progress("funding the wallets")
    _fund(net)
    progress("registering the nodes")
    _register(net)
    if settings.approve_roles:
        quorum = f"{settings.threshold} of {settings.members} members"
        progress(f"approving verifiers and aggregators, {quorum}")
        _approve_roles(net)
        # Until the verifiers' stakes are old enough to vote.
        maturity = int(net.contract("NodeRegistry").functions.maturity().call())
        chain.pass_time(maturity + _CREATION_STEP_S)
    return net


def _payers(
    chain: Anvil | RpcNode, directory: Path, passphrase: str
) -> tuple[LocalAccount, LocalAccount]:
    """The keys that deploy and that hold the supply: anvil's test accounts, else new ones."""
    if isinstance(chain, RpcNode):
        deployer, faucet = (
            _owner_wallet(directory, name, passphrase) for name in ("deployer", FAUCET)
        )
        return deployer, faucet
    Account.enable_unaudited_hdwallet_features()
    deployer, faucet = (
        Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{i}") for i in (0, 1)
    )
    return deployer, faucet


def _wei(
    chain: Anvil | RpcNode, seats: Sequence[Seat], settings: LocalnetSettings
) -> dict[str, int]:
    """The ether of every agent's wallets, by address."""
    operator_wei, owner_wei = map(chain.wei_for, (settings.operator_gas, _OWNER_GAS))
    owners = {seat.owner.address: owner_wei for seat in seats if seat.role in ROLES}
    return owners | {seat.operator.address: operator_wei for seat in seats}


def _passphrase(directory: Path) -> str:
    """Return the passphrase of all local keystores: the environment's, else a new one in a file."""
    if given := os.environ.get(PASSPHRASE):
        return given
    fresh = secrets.token_urlsafe(24)
    path = directory / "passphrase"
    path.touch(mode=0o600)
    path.write_text(fresh)
    return fresh


def _owner_wallet(directory: Path, name: str, passphrase: str) -> LocalAccount:
    """Make a cold wallet that `ape` finds under this name (APE_DATA_FOLDER=<directory>/ape)."""
    account = Account.create()
    path = directory / "ape" / "accounts" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    create_keystore(path, passphrase, bytes(account.key), iterations=_SCRYPT_N)
    return account


def _seats(
    directory: Path, settings: LocalnetSettings, passphrase: str, chain: Anvil | RpcNode
) -> list[Seat]:
    """Make keys and a settings file for every agent."""
    counts = {
        "trainer": settings.trainers,
        "verifier": settings.verifiers,
        "aggregator": settings.aggregators,
        "executor": settings.executors,
        "coordinator": settings.members,
    }
    store_of = settings.store_of
    boards = [free_port() for _ in range(settings.members)]
    posts = [free_port() for _ in range(settings.trainers)]
    seats: list[Seat] = []
    for role, count in counts.items():
        for index in range(count):
            name = f"{role}-{index + 1}"
            operator = Account.create()
            keystore = directory / "keys" / f"{name}.json"
            keystore.parent.mkdir(parents=True, exist_ok=True)
            create_keystore(keystore, passphrase, bytes(operator.key), iterations=_SCRYPT_N)
            member = role == "coordinator"
            if member:
                owner = operator
            elif name in settings.owned_with:
                shared = settings.owned_with[name]
                owner = next(seat.owner for seat in seats if seat.name == shared)
            else:
                owner = _owner_wallet(directory, f"{name}-owner", passphrase)
            port = free_port()
            extra: dict[str, Any] = {"metrics_port": port}
            if member:
                peers = [f"http://127.0.0.1:{p}" for i, p in enumerate(boards) if i != index]
                trusted = [s.owner.address for s in seats if s.role in ("verifier", "aggregator")]
                extra["coordinator"] = {
                    "board_port": boards[index],
                    "peers": peers,
                    "trusted_owners": trusted,
                }
            known = [f"http://127.0.0.1:{p}" for p in posts[:_KNOWN_POSTS]]
            if role in ("aggregator", "verifier"):
                extra["post_peers"] = known
            if role == "trainer":
                own = settings.trainer.get(name, {})
                post = {"post_port": posts[index], "post_peers": known}
                extra["trainer"] = {**post, **settings.agent.get("trainer", {}), **own}
            config = write_agent_config(
                directory / "config" / f"{name}.yaml",
                rpc_url=chain.url,
                chain_id=chain.chain_id,
                deployment=directory / "deployment.json",
                keystore=keystore,
                store=directory / "store" if store_of is None else store_of(name),
                data_dir=directory / "agents" / name,
                **{**settings.agent, **extra},
            )
            stake = 0 if member else getattr(settings, f"{role}_stake")
            seats.append(Seat(name, role, operator, owner, config, port, stake=stake))
    return seats


def write_agent_config(path: Path, **values: Any) -> Path:
    """Write an agent's settings file (see agents/runtime/config.py for the names)."""
    content = {
        "passphrase_env": PASSPHRASE,
        "job_id": 0,
        "jitter_s": 0.5,
        "timer_s": 1.0,
        **{name: str(v) if isinstance(v, Path) else v for name, v in values.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def _fund(net: Localnet) -> None:
    """Give every wallet the ether and the ZOO its role needs."""
    token = net.contract("ZooToken")
    batch = net.batch()
    for address, wei in _wei(net.chain, list(net.seats.values()), net.settings).items():
        batch.pay(net.faucet, address, wei)
    for seat in net.seats.values():
        if seat.role in ROLES:
            batch.add(net.faucet, token.functions.transfer(seat.owner.address, seat.stake))
        # Bonds of challenges and appeals; a trainer's agent appeals once at a time.
        bonds = {
            "verifier": _SPARE_ZOO,
            "executor": _SPARE_ZOO,
            "trainer": net.settings.appeal_bond,
        }
        if seat.role in bonds:
            amount = bonds[seat.role]
            batch.add(net.faucet, token.functions.transfer(seat.operator.address, amount))
    batch.pay(net.faucet, net.sponsor.address, net.chain.wei_for(_SPONSOR_GAS))
    batch.settle()


def _register(net: Localnet) -> None:
    """Register every node from its owner's wallet, but those that are registered by hand."""
    registry, token = net.contract("NodeRegistry"), net.contract("ZooToken")
    batch = net.batch()
    by_hand = net.settings.by_hand
    nodes = [s for s in net.seats.values() if s.role in ROLES and s.name not in by_hand]
    allowed: dict[LocalAccount, int] = {}
    for seat in nodes:
        allowed[seat.owner] = allowed.get(seat.owner, 0) + seat.stake
    for owner, amount in allowed.items():
        batch.add(owner, token.functions.approve(registry.address, amount))
    batch.settle()
    for seat in nodes:
        batch.add(
            seat.owner,
            registry.functions.register_node(
                seat.operator.address,
                seat.owner.address,
                ROLES[seat.role],
                seat.stake,
                b"\0" * 32,
                _consent(registry, seat),
            ),
        )
    for seat, mined in zip(nodes, batch.settle(), strict=True):
        (event,) = registry.events.NodeRegistered().process_receipt(mined, DISCARD)
        net.seats[seat.name] = replace(seat, node_id=int(event["args"]["node_id"]))


def _consent(registry: Any, seat: Seat) -> bytes:
    """Sign, with the seat's operator key, that it serves a node of the seat's owner."""
    operator, owner = seat.operator.address, seat.owner.address
    if operator == owner:
        return b""
    nonce = registry.functions.consents_used(operator).call()
    typed = operator_consent(registry.address, registry.w3.eth.chain_id, operator, owner, nonce)
    return bytes(seat.operator.sign_typed_data(*typed).signature)


def _approve_roles(net: Localnet) -> None:
    """Let the committee approve verifiers and aggregators: propose, approve, wait, execute.

    A network may have none of them.
    """
    coordinator, registry = net.contract("Coordinator"), net.contract("NodeRegistry")
    members = [seat.operator for seat in net.of_role("coordinator")]
    calls = [
        registry.encode_abi("approve_role", args=[seat.node_id, ROLES[seat.role], True])
        for seat in net.seats.values()
        if seat.role in ("verifier", "aggregator")
    ]
    if not calls:
        return
    salt = b"\0" * 32
    ids = [
        coordinator.functions.operation_id(registry.address, data, salt).call() for data in calls
    ]
    batch = net.batch()
    for data in calls:
        batch.add(members[0], coordinator.functions.propose(registry.address, data, salt))
    for member in members[1 : net.settings.threshold]:
        for op_id in ids:
            batch.add(member, coordinator.functions.approve(op_id))
    batch.settle()
    eta = max(coordinator.functions.operation(op_id).call()[5] for op_id in ids)
    while net.w3.eth.get_block("latest")["timestamp"] < eta:
        time.sleep(0.2)
    for op_id in ids:
        batch.add(members[0], coordinator.functions.execute(op_id))
    batch.settle()


def _says_ready(log: Path) -> bool:
    """Whether an agent's log holds its `ready` line."""
    try:
        return b'"event": "ready"' in log.read_bytes()
    except OSError:
        return False


def relative(path: Path) -> str:
    """Return a path as a person in the project's folder would type it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
