# SPDX-License-Identifier: Apache-2.0
"""The whole set of contracts as the deployment makes it, and people who use it.

Digests are computed here from their definition, never by asking the contract."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boa
from eth_abi import decode, encode
from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from eth_utils.abi import collapse_if_tuple
from vyper.compiler.output import build_abi_output

from tests.stage.contracts.clock import install_block_hashes, mine
from tests.stage.contracts.compiled import deployers
from tests.stage.contracts.events import events_of
from tests.stage.contracts.registry import account, benchmark_passed, consent, request

GAS_CAP = 16_777_216  # EIP-7825
ZOO = 10**18
DAY = 86_400
ZERO = "0x" + "00" * 20
EMPTY = bytes(32)
SUPPLY = 10**9 * ZOO
UNLIMITED = 2**256 - 1

TRAINER, VERIFIER, AGGREGATOR = 1, 2, 4
NO_REVEAL, INVALID, COPIED, REPEATED, BAD_RESULT, FALSE_REPORT = range(1, 7)
NONE, COMMIT, REVEAL, AGGREGATE, CHALLENGE, DISPUTED, FINALIZED, VOID = range(8)
ACTIVE, COMPLETED, CANCELLED = 1, 2, 3

STAKE = 1_000 * ZOO
VOICE = 200 * ZOO  # what a verifier weighs at most: twice the minimum stake
REWARD = 100 * ZOO
BOND = 10 * ZOO
APPEAL_BOND = 7 * ZOO
UNBONDING = 14 * DAY

ERROR_SELECTOR = keccak(text="Error(string)")[:4]
COMMIT_DOMAIN = keccak(text="menagerie.TrainingRounds.commit.v1")

TERMS: dict[str, Any] = {
    "spec": b"\x01" * 32,
    "genesis_model": b"\x02" * 32,
    "genesis_checkpoint": b"\x03" * 32,
    "rounds": 3,
    "reward_per_round": REWARD,
    "verifier_bps": 1_000,
    "aggregator_bps": 500,
    "max_nodes": 128,
    "commit_s": 600,
    "reveal_s": 500,
    "aggregate_s": 400,
    "challenge_s": 300,
    "appeal_s": 700,
    "dispute_s": 800,
    "challenge_bond": BOND,
    "retain_rounds": 0,
}

# Least and most challenge bond, least reward of a round, least retained rounds.
BOUNDS = (BOND, 1_000 * ZOO, ZOO, 0)

TASK_TERMS: dict[str, int] = {
    "task_stake": 100 * ZOO,
    "max_fee": 10 * ZOO,
    "fee_per_s": ZOO // 1_000,
    "max_run_s": 3_600,
    "reveal_s": 600,
    "appeal_s": 7_200,
    "verdict_s": 14_400,
    "appeal_bond": 5 * ZOO,
    "draw_s": 14_400,
    "dispute_s": 18_000,
}


@contextmanager
def refuses(reason: str) -> Iterator[None]:
    """The call reverts with exactly this reason string, whichever contract gave it."""
    try:
        yield
    except boa.BoaError as error:
        data = bytes(error.call_trace.output)
        assert data[:4] == ERROR_SELECTOR, f"no reason string: {data.hex()}"
        given = decode(["string"], data[4:])[0]
        assert given == reason, f"{given!r} instead of {reason!r}"
        return
    raise AssertionError(f"did not revert with {reason!r}")


def terms_tuple(**changes: Any) -> tuple[Any, ...]:
    """Job terms with some fields replaced."""
    assert set(changes) <= set(TERMS), set(changes) - set(TERMS)
    return tuple({**TERMS, **changes}.values())


def contributions_hash(nodes: Sequence[int], contributions: Sequence[int]) -> bytes:
    return keccak(encode(["uint256[]", "uint256[]"], [nodes, contributions]))


@dataclass(frozen=True)
class Player:
    """A node and its three addresses."""

    name: str
    node_id: int
    owner: str
    operator: str
    payout: str
    key: LocalAccount


@dataclass(frozen=True)
class Work:
    """What a trainer's commitment binds."""

    input_root: bytes
    content: bytes
    trace_root: bytes
    salt: bytes

    @staticmethod
    def of(label: str, content: str | None = None) -> Work:
        """Work that is different for each label; `content` makes the payload equal to another's."""
        parts = {part: keccak(text=f"{part} of {label}") for part in ("input", "trace", "salt")}
        payload = keccak(text=f"content of {content or label}")
        return Work(parts["input"], payload, parts["trace"], parts["salt"])

    def sealed(self) -> bytes:
        """What is stored after the reveal."""
        return keccak(encode(["bytes32", "bytes32"], [self.content, self.trace_root]))


@dataclass
class Contracts:
    """One thing for every contract, in the order of their deployment."""

    token: Any
    coordinator: Any
    registry: Any
    pool: Any
    ledger: Any
    jobs: Any
    rounds: Any
    results: Any
    reports: Any
    keys: Any
    scores: Any
    tasks: Any
    appeals: Any
    benchmarks: Any


@dataclass
class System(Contracts):
    """Every contract, and short forms of the calls that tests make over and over."""

    holder: str
    players: dict[str, Player] = field(default_factory=dict)
    snapshots: dict[tuple[int, int], tuple[list[int], list[int]]] = field(default_factory=dict)

    # People

    def person(self, name: str, amount: int = 0) -> str:
        """An address that is always the same for a name, with ZOO that the contracts may take."""
        address = str(account(name).address)
        if amount:
            self.token.transfer(address, amount, sender=self.holder)
        for spender in self._takers():
            self.token.approve(spender.address, UNLIMITED, sender=address)
        return address

    def join(self, name: str, role: int, stake: int = STAKE, owner: str | None = None) -> Player:
        """A new eligible node, except for a trainer's benchmark (`benchmark`)."""
        cold = self.person(owner or f"{name} owner", stake)
        key = account(name)
        operator, payout = str(key.address), str(account(f"{name} payout").address)
        node_id = self.registry.register_node(
            operator, payout, role, stake, EMPTY, consent(self.registry, key, cold), sender=cold
        )
        if role != TRAINER:
            self.registry.approve_role(node_id, role, True, sender=self.coordinator.address)
        player = Player(name, node_id, cold, operator, payout, key)
        self.players[name] = player
        return player

    def add_stake(self, player: Player, amount: int) -> None:
        """By its owner, who is given the tokens first."""
        self.token.transfer(player.owner, amount, sender=self.holder)
        self.registry.add_stake(player.node_id, amount, sender=player.owner)

    def benchmark(self, player: Player, verifier: Player) -> None:
        """A passed score, by the verdicts of all whose stake is old enough (`verifier` is one)."""
        mine(1, int(self.registry.maturity()))
        request(self.registry, self.benchmarks, player.node_id)
        ids, _ = self.registry.voters(boa.env.timestamp - self.registry.maturity())
        keys = {
            p.node_id: p.key
            for p in self.players.values()
            if p.node_id in ids and p.owner != player.owner
        }
        assert verifier.node_id in keys
        benchmark_passed(self.registry, self.benchmarks, player.node_id, keys)

    # Jobs and rounds

    def job(self, sponsor: str, escrow: int = 10 * REWARD, **changes: Any) -> int:
        """A new job with money in its escrow."""
        job_id = int(self.jobs.create_job(terms_tuple(**changes), sender=sponsor))
        if escrow:
            self.fund(job_id, escrow, sponsor)
        return job_id

    def fund(self, job_id: int, amount: int, funder: str) -> None:
        """Money for a job, as one who has read whose it is and for what."""
        sponsor, spec = self.jobs.origin_of(job_id)
        self.pool.fund(job_id, sponsor, spec, amount, sender=funder)

    def mature(self) -> None:
        """Waits until the stakes of all who have joined have a voice."""
        mine(1, self.registry.maturity() + 1)

    def open(self, job_id: int) -> int:
        """Opens a round, mines past its seed block, has the seats drawn where there are more
        trainers than seats, and keeps the round's nodes and weights."""
        round_id = int(self.rounds.open_round(job_id))
        (opened,) = (fields for name, fields in events_of(self.rounds) if name == "RoundOpened")
        mine(2)
        if self.rounds.round(job_id, round_id).n_eligible == 0:
            self.rounds.seat(job_id, round_id, opened["nodes"], opened["weights"])
            ((_, opened),) = events_of(self.rounds)[-1:]
        self.snapshots[job_id, round_id] = list(opened["nodes"]), list(opened["weights"])
        return round_id

    def commitment(
        self, job_id: int, round_id: int, node_id: int, operator: str, work: Work
    ) -> bytes:
        return keccak(
            encode(
                ["bytes32", "uint256", "address"] + ["uint256"] * 3 + ["address"] + ["bytes32"] * 4,
                [
                    COMMIT_DOMAIN,
                    boa.env.evm.patch.chain_id,
                    self.rounds.address,
                    job_id,
                    round_id,
                    node_id,
                    operator,
                    work.input_root,
                    work.content,
                    work.trace_root,
                    work.salt,
                ],
            )
        )

    def commit(self, job_id: int, round_id: int, player: Player, work: Work) -> None:
        digest = self.commitment(job_id, round_id, player.node_id, player.operator, work)
        self.rounds.commit(job_id, round_id, player.node_id, digest, sender=player.operator)

    def reveal(self, job_id: int, round_id: int, player: Player, work: Work) -> None:
        self.rounds.reveal(
            job_id,
            round_id,
            player.node_id,
            work.input_root,
            work.content,
            work.trace_root,
            work.salt,
            keccak(text="proof"),
            sender=player.operator,
        )

    def phase(self, job_id: int, round_id: int) -> int:
        return int(self.rounds.phase(job_id, round_id))

    def advance(self, job_id: int, round_id: int) -> None:
        """Anyone's `advance`, sent to the contract that has the round."""
        phase = self.phase(job_id, round_id)
        has_it = self.rounds if phase in (COMMIT, REVEAL) else self.results
        has_it.advance(job_id, round_id)

    def wait_out(self, job_id: int, round_id: int) -> None:
        """One second past the deadline of the phase."""
        deadline = self.rounds.round(job_id, round_id).deadline
        mine(1, max(1, deadline + 1 - boa.env.timestamp))

    def time_out(self, job_id: int, round_id: int) -> None:
        """Lets the phase pass by, and moves the round on."""
        self.wait_out(job_id, round_id)
        self.advance(job_id, round_id)

    def on_duty(self, job_id: int, round_id: int) -> Player:
        node_id = self.results.aggregator_on_duty(job_id, round_id)
        return next(p for p in self.players.values() if p.node_id == node_id)

    def balances(self) -> int:
        """ZOO in all contracts together."""
        return sum(self.token.balanceOf(c.address) for c in (*self._takers(), self.ledger))

    def _takers(self) -> tuple[Any, ...]:
        """The contracts that take tokens."""
        return self.registry, self.pool, self.results, self.reports, self.tasks, self.appeals

    def owed(self) -> int:
        """What the contracts' own books say they hold."""
        return int(
            self.registry.total_stake()
            + self.registry.total_bounties()
            + self.pool.total_escrow()
            + self.pool.total_reserved()
            + self.pool.total_pending()
            + self.pool.total_held()
            + self.results.bonds_held()
            + self.reports.bonds_held()
            + self.tasks.bonds_held()
            + self.appeals.bonds_held()
        )


class Codes(Contracts):
    """Compiled contracts, made once for all tests."""

    @staticmethod
    def compile() -> Codes:
        names = (
            *("ZooToken", "Coordinator", "NodeRegistry", "RewardPool", "TrainingLedger"),
            *("TrainingJobs", "TrainingRounds", "TrainingResults", "ViolationReports"),
            *("DataKeys", "ScoreConsensus", "RedundantTasks", "TaskAppeals", "NodeBenchmarks"),
        )
        return Codes(*deployers(names))


def deploy(
    codes: Codes, task_terms: Sequence[int] = tuple(TASK_TERMS.values()), **parameters: int
) -> System:
    """Deploys everything in the order of the deployment script, each contract knowing the later
    ones by predicted addresses; `parameters` replaces values of the registry's parameters."""
    boa.env.evm.patch.gas_limit = GAS_CAP
    install_block_hashes()
    mine(1_000)
    deployer = boa.env.eoa
    with boa.env.anchor():
        at = [str(boa.env.evm.generate_create_address(deployer)) for _ in range(14)]
    token_at, owner, registry_at, pool_at, ledger_at, jobs_at, rounds_at, results_at = at[:8]
    reports_at, _, scores_at, tasks_at, appeals_at, benchmarks_at = at[8:]
    holder = str(account("holder").address)
    settings = {
        "unbonding_period": UNBONDING,
        "trainer_stake": 100 * ZOO,
        "verifier_stake": 100 * ZOO,
        "aggregator_stake": 100 * ZOO,
        "benchmark_window": 3_600,
        "benchmark_quorum": 1,
    } | parameters
    members = [str(account(f"member {i}").address) for i in range(5)]
    slashers = [rounds_at, results_at, reports_at, tasks_at, appeals_at, benchmarks_at, scores_at]
    classes = [name.ljust(32, b"\0") for name in (b"cpu-fp32", b"cuda:sm_90")]
    round_parts = (reports_at, jobs_at, rounds_at)
    report_parts = (registry_at, jobs_at, rounds_at, results_at, pool_at)
    arguments: dict[str, tuple[Any, ...]] = {
        "token": (holder, SUPPLY),
        "coordinator": (members, 3, 60, 3_600, DAY, []),
        "registry": (token_at, benchmarks_at, owner, slashers, (*settings.values(), owner)),
        "pool": (token_at, registry_at, jobs_at, results_at, scores_at, reports_at),
        "ledger": (results_at, pool_at, owner),
        "jobs": (registry_at, rounds_at, results_at, owner, BOUNDS),
        "rounds": (registry_at, jobs_at, results_at, owner, ZERO),
        "results": (token_at, registry_at, pool_at, ledger_at, *round_parts, owner, ZERO),
        "reports": (token_at, *report_parts, owner, APPEAL_BOND),
        "keys": (registry_at, jobs_at),
        "scores": (registry_at, jobs_at, rounds_at, results_at, owner),
        "tasks": (token_at, registry_at, appeals_at, owner, task_terms, classes, ZERO),
        "appeals": (token_at, registry_at, tasks_at, owner),
        "benchmarks": (registry_at, owner, ZERO),
    }
    contracts = [_create(getattr(codes, name), *given) for name, given in arguments.items()]
    assert [str(c.address) for c in contracts] == at
    return System(*contracts, holder=holder)


def _create(code: Any, *arguments: Any) -> Any:
    """Deploys a contract. Boa's own `deploy` makes a source map of each constructor it runs, which
    takes ten times as long as all of this."""
    (constructor,) = (
        item for item in build_abi_output(code.compiler_data) if item["type"] == "constructor"
    )
    types = [collapse_if_tuple(part) for part in constructor["inputs"]]
    address, _ = boa.env.deploy_code(
        bytecode=code.compiler_data.bytecode + encode(types, arguments)
    )
    with warnings.catch_warnings():
        # Boa compares with a compilation of its own, without the settings that a pragma made.
        warnings.simplefilter("ignore", UserWarning)
        return code.at(address)
