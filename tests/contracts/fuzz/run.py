# SPDX-License-Identifier: Apache-2.0
"""The people of a run, what is true of their work, and what anybody may read of the chain.

Truth is what honest nodes find when they run something again: a trainer's work is right when its
content is the one named by job, round and node, a round's result when it pays exactly the right
work, a task's result when it is the one named by its spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from tests.contracts.fuzz.machine import Copy, Event, Machine, Outcome, copied
from tests.stage.contracts.clock import mine
from tests.stage.contracts.registry import account
from tests.stage.contracts.system import (
    AGGREGATOR,
    DAY,
    REWARD,
    STAKE,
    TERMS,
    TRAINER,
    VERIFIER,
    ZOO,
    Codes,
    System,
    deploy,
)

CPU = 0
ROUNDS = 3
# The sponsor's jobs: one paid by results and one by scores. A play has money for one of them.
PLAIN, SCORED = 1, 2
BUDGET = 10_000 * ZOO
WALLET = 1_000 * ZOO
GOOD_SPECS = tuple(keccak(text=f"spec {i}") for i in range(2))
LOST_SPEC = keccak(text="a spec whose inputs nobody can have")
UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")
WRONG = keccak(text="a wrong result")
# What the committee decides within its short delay, as in a deployment.
ROUTINE = (
    ("results", "resolve_challenge"),
    ("reports", "resolve_appeal"),
    ("appeals", "resolve"),
    ("benchmarks", "overrule"),
    ("benchmarks", "condemn"),
)

# How many of each role the network has, and how many of them may be hostile at once. One verifier
# in four, two committee members in five and two executors in five are minorities everywhere.
ROLES = {
    "verifier": (VERIFIER, 4, 1),
    "aggregator": (AGGREGATOR, 2, 1),
    "trainer": (TRAINER, 4, 2),
    "executor": (TRAINER, 5, 2),
}
STRANGERS = 2
MEMBERS, HOSTILE_MEMBERS = 5, 2


@dataclass(frozen=True)
class Person:
    """Somebody with addresses, and perhaps a node."""

    name: str
    role: str
    addresses: tuple[str, ...]
    node: int = 0

    @property
    def owner(self) -> str:
        return self.addresses[0]

    @property
    def operator(self) -> str:
        return self.addresses[min(1, len(self.addresses) - 1)]

    @property
    def payout(self) -> str:
        return self.addresses[-1]


def _lower(*addresses: str) -> tuple[str, ...]:
    return tuple(address.lower() for address in addresses)


@dataclass(frozen=True)
class Stage:
    """The deployed system with its people, ready to be played on many times."""

    machine: Machine
    people: tuple[Person, ...]
    keys: dict[str, LocalAccount]
    roles: dict[str, list[Person]]
    # What everybody has at the beginning, see `books`.
    wealth: dict[str, int] = field(default_factory=dict)


def make_stage(codes: Codes) -> Stage:
    """Deploys and peoples the system on titanoboa and copies it into the machine."""
    system, people = peopled(codes)
    return set_stage(copied(system), people)


def peopled(codes: Codes) -> tuple[System, tuple[Person, ...]]:
    """The system with its people on titanoboa, and a sponsor's two jobs without money. Everybody
    joined long before anything happens."""
    system = deploy(codes)
    people: list[Person] = []
    for role, (bit, count, _) in ROLES.items():
        for i in range(count):
            player = system.join(f"{role} {i}", bit, STAKE)
            # Executors are trainers without a benchmark: rounds do not see them.
            if role == "trainer":
                system.benchmark(player, system.players["verifier 0"])
            if role == "executor":
                system.tasks.join(player.node_id, CPU, sender=player.operator)
            system.person(f"{role} {i} owner", BUDGET)
            # The hot key reports, challenges and appeals, so it needs money too.
            system.person(f"{role} {i}", WALLET)
            system.person(f"{role} {i} payout")
            addresses = _lower(player.owner, player.operator, player.payout)
            people.append(Person(player.name, role, addresses, player.node_id))
    for name in ("sponsor", "creator", *(f"stranger {i}" for i in range(STRANGERS))):
        address = system.person(name, BUDGET)
        people.append(Person(name, name.split()[0], _lower(address)))
    for i in range(MEMBERS):
        people.append(Person(f"member {i}", "member", _lower(account(f"member {i}").address)))
    for contract, name in ROUTINE:
        signature = next(f for f in contract_abi(system, contract) if f["name"] == name)
        system.coordinator.set_delay_class(
            getattr(system, contract).address,
            keccak(text=f"{name}({','.join(i['type'] for i in signature['inputs'])})")[:4],
            1,
            sender=system.coordinator.address,
        )
    sponsor = str(account("sponsor").address)
    for _ in (PLAIN, SCORED):
        job = system.job(sponsor, rounds=ROUNDS, escrow=0)
    system.scores.adopt(job, 300, 300, sender=sponsor)
    mine(200, 40 * DAY)
    return system, tuple(people)


def set_stage(copy: Copy, people: tuple[Person, ...]) -> Stage:
    """The machine with the people on it."""
    names = [
        f"{p.name}{part}" for p in people for part in ("", " owner", " payout")[: len(p.addresses)]
    ]
    keys = {str(account(n).address).lower(): account(n) for n in names}
    roles: dict[str, list[Person]] = {}
    for person in people:
        roles.setdefault(person.role, []).append(person)
    return Stage(Machine(copy), people, keys, roles)


def contract_abi(system: System, contract: str) -> list[dict[str, Any]]:
    """The functions of a contract's ABI."""
    return [entry for entry in getattr(system, contract).abi if entry["type"] == "function"]


def coalition(stage: Stage, rng: Random) -> frozenset[str]:
    """The names of some hostile people: strangers, and minorities of some roles."""
    chosen = [p.name for p in stage.roles["stranger"]]
    for role, (_, _, most) in ROLES.items():
        count = rng.randint(1, most) if rng.random() < 0.65 else 0
        chosen += [p.name for p in rng.sample(stage.roles[role], count)]
    for role in ("sponsor", "creator"):
        if rng.random() < 0.3:
            chosen.append(role)
    if rng.random() < 0.3:
        chosen += [p.name for p in stage.roles["member"][:HOSTILE_MEMBERS]]
    return frozenset(chosen)


@dataclass
class Round:
    """What the events said of a round."""

    job: int
    number: int
    nodes: list[int]
    weights: list[int]
    verifiers: dict[int, int]
    aggregators: list[int]
    # The nodes and weights of the event: more than there are seats, until they are drawn.
    candidates: tuple[list[int], list[int]]
    committed: dict[int, str] = field(default_factory=dict)
    revealed: dict[int, bytes] = field(default_factory=dict)
    proposal: Event | None = None
    ended: str = ""
    attested: dict[bytes, list[int]] = field(default_factory=dict)
    disputed_at: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.job, self.number


@cache
def right_content(job: int, round_id: int, node: int) -> bytes:
    """What a trainer that does its work gets."""
    return keccak(text=f"work {job} {round_id} {node}")


@cache
def right_model(job: int, round_id: int) -> bytes:
    """What an aggregator that does its work gets."""
    return keccak(text=f"model {job} {round_id}")


@cache
def right_result(spec: bytes) -> bytes:
    """What an executor that does its work gets."""
    return UNAVAILABLE if spec == LOST_SPEC else keccak(b"result of " + spec)


Context = tuple[int, int]


class Run:
    """One play: who is hostile, and everything that was seen."""

    def __init__(self, stage: Stage, hostile: frozenset[str], job: int = PLAIN) -> None:
        self.stage = stage
        self.machine = stage.machine
        self.hostile = hostile
        self.bad = [p for p in stage.people if p.name in hostile]
        self.good = [p for p in stage.people if p.name not in hostile]
        self.by_node = {p.node: p for p in stage.people if p.node}
        self.by_address = {a: p for p in stage.people for a in p.addresses}
        self.addresses = sorted(self.by_address)
        self.bad_addresses = [a for p in self.bad for a in p.addresses]
        # Nodes that hostile people registered meanwhile, and those they began with.
        self.bad_nodes = [p.node for p in self.bad if p.node]
        self.all_nodes = [p.node for p in stage.people if p.node]
        sponsor = stage.roles["sponsor"][0].owner
        self.jobs: dict[int, Struct_] = {n: {"sponsor": sponsor} for n in (PLAIN, SCORED)}
        self.rounds: dict[tuple[int, int], Round] = {}
        self.newest: dict[int, int] = dict.fromkeys(self.jobs, 0)
        self.tasks: list[int] = []
        self.reports: dict[bytes, Event] = {}
        self.verdicts: dict[int, tuple[list[int], list[int]]] = {}
        # Announcements: the scope of each digest.
        self.announced: dict[bytes, bytes] = {}
        self.operations: list[bytes] = []
        self.salts: dict[Any, tuple[Any, ...]] = {}
        self.log: list[tuple[str, Event]] = []
        self.events_of_call: tuple[Event, ...] = ()
        # Whoever sponsors it, there is work to begin with.
        self.send(sponsor, "pool.fund", job, *self.ask("jobs.origin_of", job), ROUNDS * REWARD)

    def context(self) -> Context:
        """Where the newest round and task stand: most calls work in few places only."""
        job = max(self.newest)
        phase = self.ask("rounds.round", job, self.newest[job]).phase
        return phase, self.ask("tasks.task", self.tasks[-1]).status if self.tasks else 0

    # Sides

    def is_bad(self, node: int) -> bool:
        """Whether a node is the coalition's."""
        return node in self.bad_nodes

    def role(self, role: str, hostile: bool = False) -> list[Person]:
        """The honest, or the hostile, people of a role."""
        return [p for p in self.stage.roles[role] if (p.name in self.hostile) == hostile]

    # Calls

    def send(self, sender: str, title: str, *args: Any) -> Outcome:
        """A transaction whose events are noted."""
        outcome = self.machine.send(sender, title, args)
        if outcome.ok:
            self.events_of_call = outcome.events
            for event in outcome.events:
                self.log.append((sender, event))
                self._note(sender, event)
        return outcome

    def ask(self, title: str, *args: Any) -> Any:
        """A view."""
        return self.machine.ask(title, *args)

    def _note(self, sender: str, event: Event) -> None:
        noted = getattr(self, f"_on_{event.name}", None)
        if noted is not None:
            noted(sender, event)

    def _round(self, event: Event) -> Round:
        return self.rounds[event.fields["job_id"], event.fields["round_id"]]

    def _on_NodeRegistered(self, sender: str, event: Event) -> None:
        node = event.fields["node_id"]
        self.all_nodes.append(node)
        if sender in self.bad_addresses:
            self.bad_nodes.append(node)

    def _on_JobCreated(self, sender: str, event: Event) -> None:
        self.jobs[event.fields["job_id"]] = {"sponsor": sender}
        self.newest[event.fields["job_id"]] = 0

    def _on_RoundOpened(self, sender: str, event: Event) -> None:
        f = event.fields
        made = Round(
            f["job_id"],
            f["round_id"],
            list(f["nodes"]),
            list(f["weights"]),
            dict(zip(f["verifiers"], f["stakes"], strict=True)),
            list(f["aggregators"]),
            (list(f["nodes"]), list(f["weights"])),
        )
        self.rounds[made.key] = made
        self.newest[made.job] = made.number

    def _on_RoundSeated(self, sender: str, event: Event) -> None:
        seen, f = self._round(event), event.fields
        seen.nodes, seen.weights = list(f["nodes"]), list(f["weights"])

    def _on_Committed(self, sender: str, event: Event) -> None:
        self._round(event).committed[event.fields["node_id"]] = sender

    def _on_Revealed(self, sender: str, event: Event) -> None:
        self._round(event).revealed[event.fields["node_id"]] = event.fields["content"]

    def _on_ResultProposed(self, sender: str, event: Event) -> None:
        self._round(event).proposal = event

    def _on_Attested(self, sender: str, event: Event) -> None:
        by_hash = self._round(event).attested
        by_hash.setdefault(event.fields["result_hash"], []).append(event.fields["verifier_id"])

    def _on_Challenged(self, sender: str, event: Event) -> None:
        self._round(event).disputed_at = self.machine.time

    def _on_RoundFinalized(self, sender: str, event: Event) -> None:
        self._round(event).ended = "finalized"

    def _on_RoundVoided(self, sender: str, event: Event) -> None:
        self._round(event).ended = str(event.fields["reason"])

    def _on_TaskCreated(self, sender: str, event: Event) -> None:
        self.tasks.append(event.fields["task_id"])

    def _on_VerdictRequested(self, sender: str, event: Event) -> None:
        f = event.fields
        self.verdicts[f["task_id"]] = list(f["verifiers"]), list(f["weights"])

    def _on_ViolationReported(self, sender: str, event: Event) -> None:
        self.reports.setdefault(event.fields["report_id"], event)

    def _on_Announced(self, sender: str, event: Event) -> None:
        self.announced[event.fields["digest"]] = event.fields["scope"]

    def _on_OperationProposed(self, sender: str, event: Event) -> None:
        self.operations.append(event.fields["op_id"])

    # Truth

    def right_nodes(self, seen: Round) -> list[int]:
        """The nodes whose revealed work is right, ascending."""
        return sorted(
            n for n, c in seen.revealed.items() if c == right_content(seen.job, seen.number, n)
        )

    def is_right(self, seen: Round) -> bool:
        """Whether the proposed result is the right one."""
        assert seen.proposal is not None
        f = seen.proposal.fields
        nodes = list(f["nodes"])
        missing = set(self.right_nodes(seen)) - set(nodes)
        return (
            f["model"] == right_model(seen.job, seen.number)
            and set(nodes) <= set(self.right_nodes(seen))
            and list(f["contributions"]) == [1] * len(nodes)
            and all(self.ask("results.is_invalid", *seen.key, node) for node in missing)
        )


Struct_ = dict[str, Any]
TERM_NAMES = tuple(TERMS)
