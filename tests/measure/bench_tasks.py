# SPDX-License-Identifier: Apache-2.0
"""Gas of redundant tasks beside the contracts that do the same work, and of a draw by pool size.

Tasks run on anvil as in bench_gas: signed transactions, one per block, every transaction from
`create_task` to the last payment counted, by receipts. Allowances and seats are from before, as in
the peers' figures. Ten executors, as the peers' ten nodes; medians of tasks whose executors all
have been paid before, and the very first task, which also fills the contract's own empty slots. A
peer pays by transfer within the task; here payment is a credit that is withdrawn whenever one
likes, so the two withdrawals are shown with the task once, as if each task were withdrawn alone.
Half of the executors do nothing else; the others are benchmarked trainers, whose slash also takes
their place in the trainers' list. Who was slashed adds the stake it lost and is drawn again.

The draw is measured in titanoboa, where 10,000 nodes register and join by ordinary calls; 21,000
and calldata are added.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boa
from eth_utils import keccak, to_checksum_address

from scripts._net.compiled import ROOT
from scripts._net.deployment import TaskTerms
from scripts._net.localnet import Localnet, Seat, build_localnet
from scripts._net.processes import Supervisor
from tests.measure.bench_gas import Bench, settings
from tests.measure.rows import Row, gas_row
from tests.stage.contracts.clock import mine
from tests.stage.contracts.registry import account, consent
from tests.stage.contracts.system import EMPTY, TRAINER, UNLIMITED, ZOO, Codes, System, deploy

POOL = 10
TASKS = 9  # of a median
SLASHES = 10
POOLS = (10, 100, 1_000, 10_000)
DRAWS = 9
TWO_GOAL, THREE_GOAL = 450_000, 800_000
# Receipt totals at crynux-contracts a317516 (Task.sol) and bd7ee24 (VSSTask.sol), ten nodes.
_G1, _G2 = "Crynux 2024", "Crynux 2025"
_G1_TASK, _G1_SLASH, _G2_TASK, _G2_GROUP = 2_492_313, 2_383_296, 3_118_695, 6_204_096
_G1_CREATE, _G2_CREATE = {10: 863_535, 100: 1_710_613}, {10: 979_938, 100: 3_556_154}
_G1_JOIN = 490_455

TERMS = TaskTerms()
_RUN_S = 600
_FEE = 2 * ZOO
_WEEK = 7 * 86_400
_RUNNING, _DECIDED = 2, 5
_REVEALED = 3
_MISMATCH = 7
_CPU = 0
_NOTHING = b"\0" * 32
_RIGHT, _WRONG = bytes(keccak(text="right")), bytes(keccak(text="wrong"))


@dataclass
class Pool:
    """Executors of one class on a network, and tasks for them."""

    bench: Bench

    @property
    def net(self) -> Localnet:
        return self.bench.net

    @property
    def tasks(self) -> Any:
        return self.bench.contract("RedundantTasks").functions

    @property
    def executors(self) -> list[Seat]:
        """Trainers, who are listed, and those who only take tasks."""
        return [*self.net.of_role("trainer"), *self.net.of_role("executor")]

    def executor(self, node_id: int) -> Seat:
        return next(seat for seat in self.executors if seat.node_id == node_id)

    def prepare(self) -> list[int]:
        """Seats everybody and gives the allowances; the gas of each `join`."""
        token = self.bench.contract("ZooToken").functions
        for payer, name in (
            (self.net.sponsor, "RedundantTasks"),
            (self.net.faucet, "TaskAppeals"),
        ):
            self.bench.send(payer, token.approve(self.bench.contract(name).address, UNLIMITED))
        self.bench.send(self.net.faucet, token.transfer(self.net.sponsor.address, 10_000 * ZOO))
        return [
            self.bench.send(seat.operator, self.tasks.join(seat.node_id, _CPU))
            for seat in self.executors
        ]

    def create(self) -> tuple[int, int]:
        spec = bytes(keccak(text="spec"))
        gas = self.bench.send(self.net.sponsor, self.tasks.create_task(_CPU, spec, _FEE, _RUN_S))
        return int(self.tasks.task_count().call()), gas

    def commit(self, task_id: int, lane: int, node_id: int, result: bytes) -> int:
        seat = self.executor(node_id)
        digest = self.tasks.commitment_digest(
            task_id,
            node_id,
            seat.operator.address,
            bytes(keccak(text="spec")),
            self.tasks.tag_of(task_id, result).call(),
            _salt(task_id, lane),
        ).call()
        return self.bench.send(seat.operator, self.tasks.commit(task_id, lane, digest))

    def reveal(self, task_id: int, lane: int, node_id: int, result: bytes, shown: bool) -> int:
        tag = self.tasks.tag_of(task_id, result).call()
        call = self.tasks.reveal(
            task_id, lane, tag, result if shown else _NOTHING, _salt(task_id, lane)
        )
        return self.bench.send(self.executor(node_id).operator, call)

    def play(self, *results: bytes, fresh: bool = False) -> tuple[int, dict[str, int]]:
        """A task until two agree, lane i with result i; its id and the gas of each step. `fresh`:
        the first two change places unless the first has fewer strikes."""
        task_id, created = self.create()
        gas = {"create_task": created}
        given = list(results)
        revealed: list[bytes] = []
        for lanes in ((0, 1), (2,))[: len(given) - 1]:
            nodes = dict(zip(lanes, self._expected(task_id), strict=True))
            if fresh and lanes[0] == 0 and self._strikes(nodes[0]) > self._strikes(nodes[1]):
                given[:2] = given[1::-1]
            for lane, node_id in nodes.items():
                gas[f"commit {lane + 1}"] = self.commit(task_id, lane, node_id, given[lane])
            for lane, node_id in nodes.items():
                result = given[lane]
                gas[f"reveal {lane + 1}"] = self.reveal(
                    task_id, lane, node_id, result, result in revealed
                )
                revealed.append(result)
        return task_id, gas

    def _strikes(self, node_id: int) -> int:
        """A third one would ban the node, and cost more gas."""
        registry = self.bench.contract("NodeRegistry").functions
        return int(registry.offences(node_id, _MISMATCH).call())

    def _expected(self, task_id: int) -> list[int]:
        """Who is drawn, once the block that the draw is pinned to is past."""
        self.bench.mine()
        self.bench.mine()
        return [int(node) for node in self.tasks.expected(task_id).call()]

    def slash(self) -> tuple[bool, dict[str, int]]:
        """A task of three executors, one of the first two slashed; whether it was listed, and the
        gas. A week later, so that it takes part again."""
        task_id, gas = self.play(_WRONG, _RIGHT, _RIGHT, fresh=True)
        task = self.tasks.task(task_id).call()
        assert task[0] == _DECIDED
        node_id = next(n for n, at in zip(task[9], task[10], strict=True) if at == _REVEALED)
        registry = self.bench.contract("NodeRegistry").functions
        listed = bool(registry.is_eligible(node_id, TRAINER).call())
        self.bench.mine(TERMS.appeal_s + 1)
        gas["finalize"] = self.bench.send(self.net.faucet, self.tasks.finalize(task_id))
        self._top_up(node_id)
        self.bench.mine(_WEEK)
        return listed, gas

    def _top_up(self, node_id: int) -> None:
        registry, token = self.bench.contract("NodeRegistry"), self.bench.contract("ZooToken")
        seat = self.executor(node_id)
        lost = TERMS.task_stake - int(registry.functions.bonded(node_id).call())
        self.bench.send(self.net.faucet, token.functions.transfer(seat.owner.address, lost))
        self.bench.send(seat.owner, token.functions.approve(registry.address, lost))
        self.bench.send(seat.owner, registry.functions.add_stake(node_id, lost))

    def appeal(self) -> dict[str, int]:
        """Two agreed on a wrong result; three verifiers of equal stake are asked, two decide."""
        appeals = self.bench.contract("TaskAppeals")
        task_id, gas = self.play(_WRONG, _WRONG)
        gas["appeal"] = self.bench.send(self.net.faucet, appeals.functions.appeal(task_id))
        (asked,) = appeals.events.VerdictRequested.get_logs(
            from_block=self.net.w3.eth.block_number - 2, argument_filters={"task_id": task_id}
        )
        nodes, weights = list(asked["args"]["verifiers"]), list(asked["args"]["weights"])
        for place, node_id in enumerate(nodes[:2]):
            verifier = next(s for s in self.net.of_role("verifier") if s.node_id == node_id)
            gas[f"attest {place + 1}"] = self.bench.send(
                verifier.operator, appeals.functions.attest(task_id, place, nodes, weights, _RIGHT)
            )
        self.bench.mine(5 * _WEEK)
        return gas

    def withdraw(self) -> int:
        """An executor takes out what it was credited."""
        for seat in self.executors:
            if self.tasks.bond_credit(seat.owner.address).call():
                return self.bench.send(seat.owner, self.tasks.withdraw_bond())
        raise RuntimeError("nobody has a credit")

    def unpaid(self) -> int:
        """Executors who were never credited."""
        return sum(not self.tasks.bond_credit(s.owner.address).call() for s in self.executors)


def task_rows(directory: Path) -> list[Row]:
    """Rows of whole tasks on a network of ten executors."""
    with Supervisor(directory / "logs", ROOT) as supervisor:
        half = POOL // 2
        fitting = replace(
            settings(), trainers=half, executors=POOL - half, verifiers=3, tasks=TERMS
        )
        net = build_localnet(supervisor, directory / "net", fitting)
        pool = Pool(Bench(net, net.batch()))
        pool.bench.benchmark_all()
        joins = pool.prepare()
        first = pool.play(_RIGHT, _RIGHT)[1]
        while pool.unpaid():
            pool.play(_RIGHT, _RIGHT)
        tasks = [pool.play(_RIGHT, _RIGHT)[1] for _ in range(TASKS)]
        two = _median(tasks)
        pool.slash()
        slashes = [pool.slash() for _ in range(SLASHES)]
        three = _median([gas for listed, gas in slashes if not listed])
        trainer = _median([gas for listed, gas in slashes if listed])
        appealed = pool.appeal()
        withdraw = pool.withdraw()
        seat = pool.executors[0]
        register = [pool.bench.register() for _ in range(2)][-1]
        leave = pool.bench.send(seat.operator, pool.tasks.leave(seat.node_id))
    whole = sum(two.values())
    return [
        gas_row(
            "redundant task, two executors agree (5 transactions)",
            whole,
            TWO_GOAL,
            f"{_G1}: {_beside(_G1_TASK, whole)}; {_G2}: {_beside(_G2_TASK, whole)}, "
            f"with its group of three {_beside(_G2_GROUP, whole)}",
        ),
        gas_row(
            "the same, both executors withdrawing each time",
            whole + 2 * withdraw,
            None,
            f"{_G1}: {_beside(_G1_TASK, whole + 2 * withdraw)}",
        ),
        gas_row("the same, the contract's very first task", sum(first.values())),
        Row("its steps", _steps(two)),
        gas_row(
            "redundant task, a third decides, the odd one slashed (8 transactions)",
            sum(three.values()),
            THREE_GOAL,
            f"{_G1}: {_beside(_G1_SLASH, sum(three.values()))}",
        ),
        Row("its steps", _steps(three)),
        gas_row("the same, the odd one a listed trainer", sum(trainer.values())),
        gas_row(
            "redundant task, both wrong, appealed, both slashed (8 transactions)",
            sum(appealed.values()),
        ),
        Row("its steps", _steps(appealed)),
        gas_row("withdraw_bond", withdraw),
        gas_row("join a pool (an executor has a node already)", joins[-1]),
        gas_row(
            "register_node and join",
            register + joins[-1],
            None,
            f"{_G1}: {_beside(_G1_JOIN, register + joins[-1])} (10th join)",
        ),
        gas_row("leave a pool", leave),
    ]


def draw_gas(pools: Sequence[int] = POOLS, draws: int = DRAWS) -> dict[int, list[int]]:
    """Gas of `draw` of two executors, for pools of these sizes, in ascending order. On boa's own
    chain, which keeps what was done: what a transaction finds cold can't be undone in it."""
    system = deploy(Codes.compile())
    system.token.approve(system.registry.address, UNLIMITED, sender=system.holder)
    creator = system.person("creator", 10_000 * ZOO)
    gas: dict[int, list[int]] = {}
    seated = 0
    for size in pools:
        while seated < size:
            _enter(system, seated)
            seated += 1
        mine()
        assert system.tasks.pool_size(_CPU) == size
        gas[size] = [_draw(system, creator) for _ in range(draws)]
    return gas


def draw_rows(say: Callable[[str], None]) -> list[Row]:
    say(f"{POOLS[-1]:,} nodes join a pool, about two minutes")
    rows = []
    for size, series in draw_gas().items():
        peer = ""
        if size in _G1_CREATE:
            peer = f"create and draw: {_G1} {_G1_CREATE[size]:,}; {_G2} {_G2_CREATE[size]:,}"
        rows.append(gas_row(f"draw of two executors from {size:,}", _middle(series), None, peer))
    return rows


def rows(directory: Path, say: Callable[[str], None]) -> list[Row]:
    say(f"redundant tasks among {POOL} executors")
    return [*task_rows(directory), *draw_rows(say)]


def _enter(system: System, number: int) -> None:
    """A node of its own owner registers and takes a seat."""
    owner = to_checksum_address(keccak(text=f"owner {number}")[12:])
    key = account(f"operator {number}")
    operator = key.address
    stake = TERMS.task_stake
    system.token.transfer(owner, stake, sender=system.holder)
    system.token.approve(system.registry.address, stake, sender=owner)
    signed = consent(system.registry, key, owner)
    node_id = system.registry.register_node(
        operator, owner, TRAINER, stake, EMPTY, signed, sender=owner
    )
    system.tasks.join(node_id, _CPU, sender=operator)


def _draw(system: System, creator: str) -> int:
    """A task's draw: what it costs as a transaction of its own."""
    task_id = int(system.tasks.create_task(_CPU, b"\x01" * 32, _FEE, _RUN_S, sender=creator))
    mine(2)
    boa.env.evm.reset_access_counters()  # nothing is warm when a transaction begins
    system.tasks.draw(task_id)
    call = bytes(system.tasks.draw.prepare_calldata(task_id))
    used = int(system.tasks._computation.get_gas_used())
    assert system.tasks.task(task_id).status == _RUNNING
    return 21_000 + sum(16 if byte else 4 for byte in call) + used


def _median(series: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The steps of the task whose total is the median one."""
    ordered = sorted(series, key=lambda steps: sum(steps.values()))
    return dict(ordered[len(ordered) // 2])


def _middle(series: Sequence[int]) -> int:
    return int(statistics.median(series))


def _beside(peer: int, ours: int) -> str:
    """A peer's total and how often ours goes into it."""
    return f"{peer:,} ({peer / ours:.1f} x)"


def _steps(gas: Mapping[str, int]) -> str:
    return ", ".join(f"{step} {used:,}" for step, used in gas.items())


def _salt(task_id: int, lane: int) -> bytes:
    return bytes(keccak(text=f"salt {task_id} {lane}"))
