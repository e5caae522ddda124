# SPDX-License-Identifier: Apache-2.0
"""A network on which everything but training has happened: tasks of every ending, operations of the
committee in every state, benchmarks, and nodes that change, leave and are slashed.

Rule: every deed is a transaction of the key that may do it, as in `finished_job`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eth_utils import keccak

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.network import Network
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from scripts._net.anvil import start_anvil
from scripts._net.deployment import ZOO, TaskTerms
from scripts._net.processes import Supervisor
from tests.stage.chain.people import TRAINERS, People, found
from tests.stage.chain.tasks import DRAWING, FAKE, RIGHT, RUNNING, Tasks

_DAY = 86_400


@dataclass
class BusyNetwork:
    """The network. `tasks`: the pool and its people."""

    people: People
    tasks: Tasks
    network: Network
    url: str
    deployment: Path

    def play(self) -> None:
        """Do everything once."""
        self.run_tasks()
        self.measure()
        self.change_nodes()
        self.decide()

    def run_tasks(self) -> None:
        """Tasks that agree, are decided, unavailable, aborted, undecided, appealed, contested."""
        people, tasks = self.people, self.tasks
        agreed, *_ = tasks.played(RIGHT, RIGHT)
        tasks.appeal(agreed, tasks.creator)
        tasks.judge(agreed)
        decided, _, _ = tasks.outvoted()
        tasks.finalize(decided)
        tasks.played(UNAVAILABLE, UNAVAILABLE)
        late, _, second = tasks.started()
        tasks.commit(late, second)
        tasks.advance(late)
        tasks.honest(late)
        wrong = [keccak(text=f"invented {number}") for number in range(5)]
        undecided, *_ = tasks.played(*wrong[:3])
        while tasks.status(undecided) in (DRAWING, RUNNING):
            before = len(tasks.nodes(undecided))
            drawn = tasks.draw(undecided)
            answers = dict(zip(drawn, wrong[before:], strict=False))
            tasks.answer(undecided, answers)
        faked, *_ = tasks.played(FAKE, FAKE)
        tasks.appeal(faked, tasks.creator)
        for name in ("vic", "vera"):
            tasks.attest(faked, people.nodes[name], RIGHT)
        objector = people.person("objector", 50 * ZOO)
        people.chain.send(objector, people.appeals, "contest", faked)
        people.decide((people.appeals, "resolve", (faked, RIGHT)))
        verifier = people.nodes["vic"]
        classes = (verifier.node_id, 1)
        people.chain.send(verifier.operator, people.appeals, "declare_classes", *classes)
        tasks.started()  # and one that runs

    def measure(self) -> None:
        """A benchmark that failed, and one whose verdict is overruled."""
        people = self.people
        slow = people.enlist("slow")
        people.request_benchmark(slow)
        people.submit_benchmark(slow)
        judges = [people.nodes["vic"], people.nodes["vera"]]
        ids = [judge.node_id for judge in judges]
        signed = [people.verdict(judge, slow, False) for judge in judges]
        verdicts = (slow.node_id, False, ids, signed)
        people.chain.send(people.faucet, people.benchmarks, "submit_verdicts", *verdicts)
        people.decide((people.benchmarks, "condemn", (slow.node_id, 1)))
        lucky = people.enlist("lucky")
        people.benchmark(lucky)
        people.decide((people.benchmarks, "overrule", (lucky.node_id, 1, True, [ids[0]])))

    def change_nodes(self) -> None:
        """Owners change keys, add stake, rest, leave, and come to the end of their unbonding."""
        people = self.people
        send, registry = people.chain.send, people.registry
        node = people.enlist("mover", roles=3, stake=1_200 * ZOO)
        new = people.person("mover's new operator")
        consent = people.consent(new, node.owner)
        send(node.owner, registry, "set_operator", node.node_id, new.address, consent)
        send(node.owner, registry, "set_payout", node.node_id, new.address)
        send(new, registry, "set_encryption_key", node.node_id, b"\x05" * 32)
        people.decide((registry, "approve_role", (node.node_id, 2, True)))
        send(node.owner, registry, "set_roles", node.node_id, 1)
        people.give(node.owner, 10 * ZOO)
        send(node.owner, registry, "add_stake", node.node_id, 10 * ZOO)
        send(new, registry, "set_active", node.node_id, False)
        leaver = people.enlist("leaver")
        send(leaver.owner, registry, "begin_exit", leaver.node_id)
        people.chain.warp(15 * _DAY)
        send(leaver.owner, registry, "withdraw", leaver.node_id)
        gone = people.enlist("going")
        send(gone.owner, registry, "begin_exit", gone.node_id)

    def decide(self) -> None:
        """Operations that expire, are executed, cancelled, queued and only proposed."""
        people = self.people
        send, coordinator = people.chain.send, people.coordinator
        grace = int(people.chain.call(coordinator, "grace_period"))
        paused = (people.registry, "set_paused", (1,))
        lost = people.propose(paused, salt=b"\x01" * 32)
        for member in (1, 2):
            send(people.members[member], coordinator, "approve", lost)
        people.chain.warp(people.settings.governance_delay + grace + 1)
        row = (2_500, 100, 8 * _DAY, True, False, 4_000)
        people.decide((people.registry, "set_penalty", (2, row)), governance=True)
        bounds = (20 * ZOO, 900 * ZOO, 2 * ZOO, 1)
        people.decide((people.jobs, "set_bounds", (bounds,)), governance=True)
        people.decide((people.jobs, "set_paused", (1,)))
        refused = people.propose(paused, salt=b"\x02" * 32)
        for member in (1, 2, 3):
            send(people.members[member], coordinator, "cancel", refused)
        waiting = people.propose(paused, salt=b"\x03" * 32)
        for member in (3, 4):
            send(people.members[member], coordinator, "approve", waiting)
        people.propose(paused, salt=b"\x04" * 32, member=4)


def make_busy_network(directory: Path, supervisor: Supervisor) -> BusyNetwork:
    """A chain with the whole system on which everything has happened."""
    anvil = start_anvil(supervisor, directory)
    path = directory / "deployment.json"
    terms = TaskTerms(max_fee=10 * ZOO, fee_per_s=ZOO // 1_000)
    people = found(anvil.url, TRAINERS, write_to=path, tasks=terms)
    client = ChainClient(anvil.url, open_log("busy network", "warning", True, None))
    network = Network(client, load_deployment(path))
    busy = BusyNetwork(people, Tasks.build(people), network, anvil.url, path)
    busy.play()
    return busy
