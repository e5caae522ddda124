# SPDX-License-Identifier: Apache-2.0
"""A sponsor on a local network: creates a plan's tasks over time, uses what comes out, re-executes.

The sponsor learns from chain and store what anybody can. Its re-executions are for the demo's
verdict only: nothing on the network depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from eth_account.signers.local import LocalAccount
from web3.logs import DISCARD

from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, TaskStatus
from agents.storage.content_store import ContentStore
from agents.storage.errors import NotFound
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.make import publish
from agents.tasks.compute.result import TaskResult
from agents.tasks.contract import Task, Tasks
from agents.tasks.process import TaskProcess
from scripts._demo.task_plan import Order, Wishes
from scripts._net.localnet import Localnet
from scripts._report.task_history import TaskHistory

FEES = {"train_steps": 2 * ZOO, "evaluate": ZOO + 1, "generate": ZOO // 2}
RUN_S = 60
_MAX_BYTES = 1 << 30
_RECEIPT_S = 60
_DECIDED = (TaskStatus.AGREED, TaskStatus.DECIDED, TaskStatus.APPEALED, TaskStatus.CLOSED)


class Machine:
    """This machine, in the determinism class of the tasks, in a process of its own."""

    def __init__(self, net: Localnet, run_s: int = RUN_S) -> None:
        self.run_s = run_s
        self._out = net.directory / "computed"
        self._process = TaskProcess(str(net.store), "cpu")
        self._process.label()

    def compute(self, spec: bytes) -> TaskResult:
        """Run the task of a spec, given its digest."""
        return self._process.run(spec, self.run_s, CPU, self._out)

    def close(self) -> None:
        """End the process."""
        self._process.close()


class TaskRun:
    """One sponsor's tasks, from the first to the last."""

    def __init__(
        self,
        net: Localnet,
        network: Network,
        store: ContentStore,
        plan: Wishes,
        history: TaskHistory,
        machine: Machine,
        lured: Collection[int] = (),
        gap_s: float = 1.0,
    ) -> None:
        """`lured`: nodes each of which must have been drawn before this ends; the last task is
        created again for as long as one was not. `gap_s`: least time between two creations."""
        self.net, self.network, self.plan, self.history = net, network, plan, history
        self.reader = Tasks(network)
        self.orders: dict[int, Order] = {}  # by task
        self.again = 0  # tasks that were created once more
        self._store, self._machine = store, machine
        self._lured = set(lured)
        self._gap_s = gap_s
        self._open: dict[int, Order] = {}
        self._created_at = -gap_s
        self._class_id = self.reader.class_ids()[CPU]
        self._worker = ThreadPoolExecutor(1)
        self._truth: dict[int, Future[bytes]] = {}
        self._fund()

    def step(self) -> bool:
        """Create and settle what is due; whether every task has its outcome."""
        self.history.update()
        for task in self.reader.many(sorted(self._open)):
            self._settle(task)
        if time.monotonic() >= self._created_at + self._gap_s:
            order = self.plan.next()
            if order is None and not self._open and self._missed():
                order = next(reversed(self.orders.values()))
                self.again += 1
            if order is not None:
                self._create(order)
                return False
        return not self._open and not self._missed() and len(self.orders) >= self.plan.tasks

    def tasks(self) -> list[Task]:
        """All tasks as they stand."""
        return self.reader.many(sorted(self.orders))

    def truth(self) -> dict[int, bytes]:
        """What this machine computes, by task; waits for it."""
        return {task_id: result.result() for task_id, result in self._truth.items()}

    def close(self) -> None:
        """End the re-executions."""
        self._machine.close()
        self._worker.shutdown(cancel_futures=True)

    def _missed(self) -> set[int]:
        drawn = {node for story in self.history.tasks.values() for node in story.drawn}
        return self._lured - drawn

    def _fund(self) -> None:
        """Give the sponsor what the tasks may cost, and the contract its allowance."""
        net, token = self.net, self.net.contract("ZooToken")
        amount = 2 * max(FEES.values()) * self.plan.tasks
        batch = net.batch()
        batch.add(net.faucet, token.functions.transfer(net.sponsor.address, amount))
        tasks = net.contract("RedundantTasks")
        batch.add(net.sponsor, token.functions.approve(tasks.address, amount))
        batch.settle()

    def _create(self, order: Order) -> None:
        digest = publish(order.spec, self._store)
        contract = self.net.contract("RedundantTasks")
        call = contract.functions.create_task(self._class_id, digest, FEES[order.spec.kind], RUN_S)
        receipt = send(self.net, self.net.sponsor, call)
        created = contract.events.TaskCreated().process_receipt(receipt, errors=DISCARD)[0]
        task_id = int(created["args"]["task_id"])
        self.orders[task_id] = self._open[task_id] = order
        self._truth[task_id] = self._worker.submit(self._run, digest)
        self._created_at = time.monotonic()

    def _run(self, digest: bytes) -> bytes:
        return self._machine.compute(digest).digest

    def _settle(self, task: Task) -> None:
        if task.status == TaskStatus.UNDECIDED:
            payload = None
        elif task.status in _DECIDED and task.result is not None:
            try:
                payload = self._store.get_digest(task.result, _MAX_BYTES)
            except NotFound:
                if not task.settled(self.history.now):
                    return
                payload = None
        elif task.status == TaskStatus.CLOSED:
            payload = None
        else:
            return
        order = self._open.pop(task.task_id)
        if not self.plan.settle(order, payload):
            self.again += 1


def send(net: Localnet, account: LocalAccount, call: Any) -> Any:
    """Send a call from a wallet and return its receipt. Raises RuntimeError if it failed."""
    nonce = net.w3.eth.get_transaction_count(account.address)
    fields = call.build_transaction({"from": account.address, "nonce": nonce})
    tx_hash = net.w3.eth.send_raw_transaction(account.sign_transaction(fields).raw_transaction)
    receipt = net.w3.eth.wait_for_transaction_receipt(tx_hash, _RECEIPT_S, poll_latency=0.2)
    if receipt["status"] != 1:
        raise RuntimeError(f"{call.fn_name} failed in {tx_hash.to_0x_hex()}")
    return receipt
