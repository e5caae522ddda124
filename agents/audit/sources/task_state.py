# SPDX-License-Identifier: Apache-2.0
"""What RedundantTasks and TaskAppeals keep, as of one block: what the events must lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.protocol.network import Network
from agents.protocol.structs import read
from agents.runtime.contracts import Event
from agents.tasks.contract import Appeal, Seat, Task, TaskTerms

Reads = Callable[..., Any]
Many = Callable[..., dict[Any, Any]]
Place = tuple[int, int]


@dataclass(frozen=True)
class TaskState:
    """The tasks, their pools and the money behind them.

    Attributes:
        classes: names of the determinism classes, by id. `sizes`: seats of their pools.
        seats: node, owner, and the blocks of joining and leaving, by class and place.
        weights: all that the verifiers asked about a task weigh, by task.
        attested: whether a verifier has spoken, by task and place in the snapshot.
        declared: classes that a node says it runs again, as bits.
        credits: what an account may withdraw, by contract and account. `held`: all that the
            contract owes. Both in 1e-18 ZOO.
    """

    terms: TaskTerms
    classes: tuple[bytes, ...]
    sizes: tuple[int, ...]
    tasks: dict[int, Task]
    appeals: dict[int, Appeal]
    seats: dict[Place, tuple[int, str, int, int]]
    executors: dict[int, Seat]
    weights: dict[int, int]
    attested: dict[Place, bool]
    declared: dict[int, int]
    credits: dict[tuple[str, str], int]
    held: dict[str, int]

    @classmethod
    def read(
        cls, one: Reads, many: Many, network: Network, events: Mapping[str, Sequence[Event]]
    ) -> TaskState:
        """Read it. `one`, `many`: how a view, or one view for many keys, is read at the block."""
        tasks, appeals = network.tasks, network.appeals
        classes = tuple(one("classes", tasks))
        sizes = many(tasks, "pool_size", [(number,) for number in range(len(classes))])
        registered = one("node_count", network.registry)
        ids = [(number,) for number in range(1, one("task_count", tasks) + 1)]
        appealed = _numbers(events, "TaskAppealed", "task_id")
        joined = ("ExecutorJoined", "ExecutorLeft", "ExecutorMoved")
        nodes = sorted({n for name in (*joined, "ExecutorDrawn") for n in _of(events, name)})
        seats = [(number, n) for number in range(len(classes)) for n in range(sizes[number])]
        places = [
            (event.args["task_id"], n)
            for event in events.get("VerdictRequested", ())
            for n in range(len(event.args["verifiers"]))
        ]
        weights = many(appeals, "attested_weight", [(n, bytes(32)) for n in appealed])
        credits: dict[tuple[str, str], int] = {}
        held: dict[str, int] = {}
        for contract in (tasks, appeals):
            held[contract.address] = one("bonds_held", contract)
            names = ("BondTaken", "BondCredited", "BondWithdrawn")
            owed = sorted(
                {
                    str(event.args["account"])
                    for name in names
                    for event in events.get(name, ())
                    if event.address == contract.address
                }
            )
            found = many(contract, "bond_credit", [(account,) for account in owed])
            credits |= {(contract.address, account): n for account, n in found.items()}
        return cls(
            terms=read(TaskTerms, one("terms", tasks)),
            classes=classes,
            sizes=tuple(sizes[number] for number in range(len(classes))),
            tasks={n: read(Task, raw, task_id=n) for n, raw in many(tasks, "task", ids).items()},
            appeals={
                number: read(Appeal, raw)
                for number, raw in many(appeals, "appeal_of", [(n,) for n in appealed]).items()
            },
            seats={key: tuple(seat) for key, seat in many(tasks, "seat", seats).items()},
            executors={
                node: read(Seat, raw)
                for node, raw in many(tasks, "executor", [(n,) for n in nodes]).items()
            },
            weights={key[0]: answer[1] for key, answer in weights.items()},
            attested=many(appeals, "has_attested", places),
            declared=many(appeals, "declared_classes", [(n,) for n in range(1, registered + 1)]),
            credits=credits,
            held=held,
        )


def _of(events: Mapping[str, Sequence[Event]], name: str) -> list[int]:
    return [event.args["node_id"] for event in events.get(name, ())]


def _numbers(events: Mapping[str, Sequence[Event]], name: str, field: str) -> list[int]:
    return sorted({event.args[field] for event in events.get(name, ())})
