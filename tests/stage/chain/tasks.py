# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks on the attacks' chain: short forms of what creators, executors and verifiers do.

Rule: every deed is a transaction of the key that may do it. Six executors with different owners
sit in the pool; no test can say whom a draw hits, so whoever it hits plays the part. Where a part
needs a certain draw, `wait_for` repeats the request from the same state until it comes: that is the
attacker's patience, and its cost is not counted. `settle` counts what `People.gain` counts, less
gas: an ether is taken to be worth one ZOO, and an attack that moves no ZOO costs its gas. What
computing costs is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from eth_abi import encode
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from agents.jobs.publish import ZOO
from scripts._net.anvil import CHAIN_ID
from tests.stage.chain.people import EMPTY, Node, Party, People

DRAWING, RUNNING, REVEALING, AGREED, DECIDED, UNDECIDED, APPEALED, CLOSED = range(1, 9)
LANE_RUNNING, LANE_COMMITTED, LANE_REVEALED, LANE_ABORTED = range(1, 5)
MISMATCH, ABORT, COLLUSION = 7, 8, 9
COMMIT_DOMAIN = keccak(text="menagerie.RedundantTasks.commit.v1")
TAG_DOMAIN = keccak(text="menagerie.RedundantTasks.tag.v1")

SPEC = keccak(text="spec")
RIGHT = keccak(text="what running the task gives")
FAKE = keccak(text="what costs nothing to invent")
FEE = 10 * ZOO  # the most a task may pay, and so the most that a fake may win
HALF = FEE // 2
RUN_S = 600
FIFTH = 20 * ZOO  # of an executor's stake: MISMATCH, ABORT
HELD = 50 * ZOO  # half of it: COLLUSION
BOND = 5 * ZOO
EXECUTORS = ("ann", "bob", "cat", "dee", "fay", "gus")
_SPARE = 100 * ZOO
_PATIENCE = 600


@dataclass
class Tasks:
    """The pool and its people. `had`: what each watched asset and address of ether was worth."""

    people: People
    creator: LocalAccount
    executors: list[Node]
    had: dict[tuple[Any, ...], int] = field(default_factory=dict)
    appeals: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    @classmethod
    def build(cls, people: People) -> Tasks:
        """Seat the executors and give the creator money."""
        for name in EXECUTORS:
            if name not in people.nodes:
                people.enlist(name, spare=_SPARE)
        executors = [people.nodes[name] for name in EXECUTORS]
        tasks = cls(people, people.person("creator", 100 * FEE), executors)
        for node in executors:
            tasks.join(node)
        return tasks

    def begin(self) -> None:
        """From here on wins and losses count."""
        for node in self.people.nodes.values():
            self.watch(node)
        self.watch(self.creator)
        self.watch(self.people.faucet)

    def watch(self, *parties: Party) -> None:
        """Count a party's wins and losses from here on."""
        for party in parties:
            name = party.name if isinstance(party, Node) else party.address
            self.people.start[name] = self.people.wealth(party)
        self.had |= self._worth(parties)

    # Reading

    @property
    def chain(self) -> Any:
        return self.people.chain

    def state(self, task: int) -> Any:
        return self.chain.call(self.people.tasks, "task", task)

    def status(self, task: int) -> int:
        return int(self.state(task).status)

    def node(self, node_id: int) -> Node:
        return next(node for node in self.people.nodes.values() if node.node_id == node_id)

    def nodes(self, task: int) -> list[Node]:
        """The executors so far, by lane."""
        return [self.node(node_id) for node_id in self.state(task).nodes]

    def lane(self, task: int, node: Node) -> int:
        return list(self.state(task).nodes).index(node.node_id)

    def expected(self, task: int) -> list[Node]:
        """Whom a draw would take now."""
        return [self.node(i) for i in self.chain.call(self.people.tasks, "expected", task)]

    def open_lanes(self, node: Node) -> int:
        return int(self.chain.call(self.people.tasks, "executor", node.node_id).open)

    def places(self, task: int, size: int, count: int = 64) -> list[int]:
        """The seats that a drawing task's seed names, in order; from the definition."""
        block = self.chain.rpc("eth_getBlockByNumber", hex(self.state(task).seed_block), False)
        parts = [bytes.fromhex(block["hash"][2:]), task, CHAIN_ID, self.people.tasks.address]
        seed = keccak(encode(["bytes32", "uint256", "uint256", "address"], parts))
        names = (keccak(encode(["bytes32", "uint256"], [seed, i])) for i in range(count))
        return [int.from_bytes(name, "big") % size for name in names]

    def seat(self, node: Node) -> int:
        return int(self.chain.call(self.people.tasks, "executor", node.node_id).seat)

    def size(self) -> int:
        return int(self.chain.call(self.people.tasks, "pool_size", 0))

    @contextmanager
    def mempool(self) -> Iterator[None]:
        """Transactions wait; at the end one block takes all of them, the best paid first."""
        self.chain.rpc("evm_setAutomine", False)
        try:
            yield
            self.chain.mine()
        finally:
            self.chain.rpc("anvil_dropAllTransactions")
            self.chain.rpc("evm_setAutomine", True)

    # Executors' seats

    def join(self, node: Node) -> None:
        self.chain.send(node.operator, self.people.tasks, "join", node.node_id, 0)

    def leave(self, node: Node) -> None:
        self.chain.send(node.operator, self.people.tasks, "leave", node.node_id)

    def enlist(self, name: str, owner: LocalAccount | None = None) -> Node:
        """A node that registers in the course of the test, without a seat."""
        node = self.people.enlist(name, spare=_SPARE, owner=owner)
        self.watch(node)
        return node

    # A task

    def create(
        self, creator: LocalAccount | None = None, fee: int = FEE, run_s: int = RUN_S
    ) -> int:
        self.chain.send(
            creator or self.creator, self.people.tasks, "create_task", 0, SPEC, fee, run_s
        )
        return int(self.chain.call(self.people.tasks, "task_count"))

    def await_seed(self, task: int) -> None:
        """Mine until the next transaction may capture the draw."""
        head = int(self.chain.rpc("eth_blockNumber"), 16)
        self.chain.mine(max(1, int(self.state(task).seed_block) - head))

    def draw(self, task: int) -> list[Node]:
        """Let a stranger capture the draw as soon as it is due; the nodes it takes."""
        self.await_seed(task)
        before = len(self.state(task).nodes)
        self.chain.send(self.people.faucet, self.people.tasks, "draw", task)
        return self.nodes(task)[before:]

    def started(
        self, creator: LocalAccount | None = None, fee: int = FEE
    ) -> tuple[int, Node, Node]:
        """A task whose two executors are drawn; its id and they, by lane."""
        task = self.create(creator, fee)
        first, second = self.draw(task)
        return task, first, second

    def wait_for(self, request: Callable[[], int], suits: Callable[[int], bool]) -> int:
        """Do what requests a draw, and see the seed, until it suits; the task's id."""
        for attempt in range(_PATIENCE):
            snapshot = self.chain.snapshot()
            # The same request by the same clock gets the same block, but for who produces it.
            self.chain.rpc("anvil_setCoinbase", f"0x{attempt + 1:040x}")
            task = request()
            self.chain.mine(2)  # a call sees the hashes of blocks before the latest
            if suits(task):
                return task
            self.chain.revert(snapshot)
        raise AssertionError(f"no such draw in {_PATIENCE} requests")

    def tag(self, task: int, result: bytes, /, **changes: Any) -> bytes:
        """From its definition; `changes` replaces what it is bound to."""
        bound = {"chain": CHAIN_ID, "tasks": self.people.tasks.address, "task": task, **changes}
        types = ["bytes32", "uint256", "address", "uint256", "bytes32"]
        return keccak(encode(types, [TAG_DOMAIN, *bound.values(), result]))

    @staticmethod
    def salt(task: int, node: Node) -> bytes:
        return keccak(text=f"salt of {node.name} for {task}")

    def digest(self, task: int, node: Node, tag: bytes, /, **changes: Any) -> bytes:
        """A commitment, from its definition; `changes` replaces what it is bound to."""
        bound = {
            "chain": CHAIN_ID,
            "tasks": self.people.tasks.address,
            "task": task,
            "node": node.node_id,
            "operator": node.operator.address,
            "spec": SPEC,
            "tag": tag,
            "salt": self.salt(task, node),
            **changes,
        }
        types = ["uint256", "address", "uint256", "uint256", "address", *["bytes32"] * 3]
        return keccak(encode(["bytes32", *types], [COMMIT_DOMAIN, *bound.values()]))

    def commit(
        self, task: int, node: Node, result: bytes = RIGHT, digest: bytes | None = None
    ) -> None:
        digest = digest or self.digest(task, node, self.tag(task, result))
        lane = self.lane(task, node)
        self.chain.send(node.operator, self.people.tasks, "commit", task, lane, digest)

    def opening(self, task: int, node: Node, result: bytes = RIGHT) -> tuple[Any, ...]:
        """The arguments of `reveal`; the result is left out while nobody else has its tag."""
        state, tag = self.state(task), self.tag(task, result)
        shown = (LANE_REVEALED, tag) in zip(state.states, map(bytes, state.answers), strict=True)
        lane, salt = self.lane(task, node), self.salt(task, node)
        return (task, lane, tag, result if shown else EMPTY, salt)

    def reveal(self, task: int, node: Node, result: bytes = RIGHT) -> None:
        opening = self.opening(task, node, result)
        self.chain.send(node.operator, self.people.tasks, "reveal", *opening)

    def answer(self, task: int, answers: Mapping[Node, bytes]) -> None:
        """All executors of a stage commit, and reveal in this order."""
        for node, result in answers.items():
            self.commit(task, node, result)
        for node, result in answers.items():
            self.reveal(task, node, result)

    def played(self, first: bytes, second: bytes, third: bytes | None = None) -> tuple[Any, ...]:
        """A task whose executors have answered so, a third one too if `third` is given.

        Returns its id and the executors, by lane.
        """
        task, *nodes = self.started()
        self.answer(task, dict(zip(nodes, (first, second), strict=True)))
        if third is not None:
            nodes += self.draw(task)
            self.answer(task, {nodes[2]: third})
        return task, *nodes

    def outvoted(self) -> tuple[int, Node, list[Node]]:
        """A decided task in which a fake lost to two right results: its id, the cheat, the two."""
        task, cheat, *two = self.played(FAKE, RIGHT, RIGHT)
        assert self.status(task) == DECIDED, "two right results should outvote a fake"
        return task, cheat, two

    def honest(self, task: int) -> list[Node]:
        """Let honest executors be drawn and answer until two agree; the two who did."""
        while self.status(task) in (DRAWING, RUNNING, REVEALING):
            if self.status(task) == DRAWING:
                self.draw(task)
            state = self.state(task)
            for node, lane in zip(self.nodes(task), state.states, strict=True):
                if lane == LANE_RUNNING:
                    self.commit(task, node)
            state = self.state(task)
            for node, lane in zip(self.nodes(task), state.states, strict=True):
                if lane == LANE_COMMITTED:
                    self.reveal(task, node)
        return [
            node
            for node, lane in zip(self.nodes(task), self.state(task).states, strict=True)
            if lane > LANE_ABORTED
        ]

    def advance(self, task: int) -> None:
        """A stranger notes who missed the deadline, once it has passed."""
        self.people.wait_until(int(self.state(task).time))
        self.chain.send(self.people.faucet, self.people.tasks, "advance", task)

    def finalize(self, task: int) -> None:
        """A stranger ends a decided task that nobody appealed."""
        self.people.wait_until(int(self.state(task).time))
        self.chain.send(self.people.faucet, self.people.tasks, "finalize", task)

    def break_tie(self, task: int) -> Node:
        """The next executor that is drawn gives the right result, and the task is ended."""
        (node,) = self.draw(task)
        self.answer(task, {node: RIGHT})
        self.finalize(task)
        return node

    # An appeal

    def appeal(self, task: int, account: LocalAccount) -> None:
        """Bond a re-execution."""
        receipt = self.chain.send(account, self.people.appeals, "appeal", task)
        asked = self.chain.event(receipt, self.people.appeals, "VerdictRequested")
        self.appeals[task] = list(asked["verifiers"]), list(asked["weights"])

    def attestation(self, task: int, verifier: Node, result: bytes) -> tuple[Any, ...]:
        verifiers, weights = self.appeals[task]
        return (task, verifiers.index(verifier.node_id), verifiers, weights, result)

    def judge(self, task: int, result: bytes = RIGHT, by: Iterable[str] = ("vic", "vera")) -> None:
        """Verifiers say what running the task gave, and a stranger carries their verdict out when
        nobody has objected; two of three are the quorum."""
        for name in by:
            if self.verdict(task) == EMPTY:
                self.attest(task, self.people.nodes[name], result)
        if self.verdict(task) != EMPTY:
            self.people.wait_until(
                int(self.chain.call(self.people.appeals, "appeal_of", task).deadline)
            )
            self.chain.send(self.people.faucet, self.people.appeals, "finalize", task)

    def attest(self, task: int, verifier: Node, result: bytes) -> None:
        attestation = self.attestation(task, verifier, result)
        self.chain.send(verifier.operator, self.people.appeals, "attest", *attestation)

    def verdict(self, task: int) -> bytes:
        """What verifiers found; zero without a verdict."""
        return bytes(self.chain.call(self.people.appeals, "appeal_of", task).result)

    # Money

    def gain(self, *parties: Party) -> int:
        """What parties, who may share keys, have won together, in units of ZOO."""
        return self._won(parties, gas=False)

    def profit(self, *parties: Party) -> int:
        """The same less gas."""
        return self._won(parties, gas=True)

    def settle(
        self,
        attackers: Sequence[Party],
        honest: Sequence[Any] = (),
        gain: int | None = None,
        each: int | None = None,
    ) -> None:
        """Print who won what; the attackers lost together, and each honest party won.

        `gain`: exactly what the attackers won together; `each`: exactly what each honest node was
        paid, whose stake is whole. In units of ZOO, gas aside.
        """
        if gain is not None:
            won = self.gain(*attackers)
            assert won == gain, f"the attackers should have won {gain}, and won {won}"
        if each is not None:
            self.people.assert_whole(dict.fromkeys(honest, each))
        loss = self.profit(*attackers)
        line = f"\nattacker's profit {loss / ZOO:+.5f} ZOO"
        if honest:
            line += f", honest {', '.join(f'{self.profit(p) / ZOO:+.5f}' for p in honest)}"
        print(line)
        assert loss < 0, "the attackers should lose together"
        for party in honest:
            assert self.profit(party) > 0, f"{getattr(party, 'name', 'a bystander')} should win"

    def _won(self, parties: Sequence[Party], gas: bool) -> int:
        return sum(
            worth - self.had[asset]
            for asset, worth in self._worth(parties).items()
            if gas or asset[0] != "ether"
        )

    def _worth(self, parties: Sequence[Party]) -> dict[tuple[Any, ...], int]:
        calls = list(self.people.assets(parties))
        assets = [(contract.name, *rest) for contract, *rest in calls]
        worth = dict(zip(assets, map(int, self.chain.calls(calls)), strict=True))
        for party in parties:
            for address in party.addresses if isinstance(party, Node) else [party.address]:
                ether = self.chain.rpc("eth_getBalance", address, "latest")
                worth["ether", address] = int(ether, 16)
        return worth
