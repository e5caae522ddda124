# SPDX-License-Identifier: Apache-2.0
"""What hostile people may do: any external function of any contract, with arguments from what is
live.

An action is the name of a function and a number, from which its sender and its arguments are drawn.
So the same action means nearly the same where others before it were left out or put in: sequences
can be mutated, spliced and shrunk. An argument is made by its name (`MAKERS`). Nothing here knows
an attack."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from eth_account.messages import encode_typed_data
from eth_utils import keccak

from agents.protocol.formulas import commit_place
from tests.contracts.fuzz.honest import (
    EVIDENCE,
    INPUT,
    RECORD,
    REPORT,
    SALT,
    TRACE,
    UPDATE,
    Honest,
    announcement,
    answer_digest,
    row_digest,
    tag,
    work_digest,
)
from tests.contracts.fuzz.machine import Function, Outcome
from tests.contracts.fuzz.run import (
    CPU,
    GOOD_SPECS,
    LOST_SPEC,
    ROUNDS,
    UNAVAILABLE,
    WRONG,
    Context,
    Round,
    Run,
    right_content,
    right_model,
    right_result,
)
from tests.stage.contracts.system import DAY, REWARD, TERMS, ZOO

T = TypeVar("T")

VERDICT_TYPES = {
    "BenchmarkVerdict": [
        {"name": name, "type": kind}
        for name, kind in (
            ("node_id", "uint256"),
            ("attempt", "uint256"),
            ("root", "bytes32"),
            ("units", "uint256"),
            ("check_seed", "bytes32"),
            ("passed", "bool"),
        )
    ]
}
CONSENT_TYPES = {
    "OperatorConsent": [
        {"name": name, "type": kind}
        for name, kind in (("operator", "address"), ("owner", "address"), ("nonce", "uint256"))
    ]
}
APPROVAL_TYPES = {"Approval": [{"name": "op_id", "type": "bytes32"}]}

# Kinds of an action that name no function: time passes, also to the first second in which somebody
# honest may act again; one honest transaction arrives, all that are wanted arrive.
WAIT, RUSH, STEP, TICK = "wait", "rush", "step", "tick"
# A call that works now, whichever it is: some are tried until one does.
ANY = "any"
TRIES = 25
EMPTY = bytes(32)
ADDRESSES = ["payout", "reporter", "account", "to", "_to", "spender", "_spender", "slasher"]
ADDRESSES += ["new_owner", "owner", "_from"]
BLOCKS = (1, 3, 20, 300)
SECONDS = (12, 70, 300, 700, 3_600, DAY, 16 * DAY)
AMOUNTS = tuple(ZOO * n for n in (1, 2, 5, 100, 300, 1_000, 3_000, 10_000))
# Why a function is refused to everybody but a contract of the system, or its owner.
REFUSED = re.compile(
    r"caller is not|: not (rounds|results|reports|jobs|appeals|benchmarks|self|a slasher)$"
)
REASONS_OF_SENDER = ("not operator", "not the owner", "not the node", "not sponsor", "not releaser")


@dataclass(frozen=True)
class Action:
    """One thing that hostile people do, or let happen."""

    kind: str
    seed: int


class Hostile:
    """The hostile people of a run."""

    def __init__(
        self, run: Run, honest: Honest, choose: Callable[[Random, Context], str] | None = None
    ) -> None:
        self.run = run
        self.honest = honest
        self.ask = run.ask
        self.rng = Random(0)
        # What earlier arguments of the same call were, by name.
        self.so_far: dict[str, Any] = {}
        self.openings: dict[tuple[Any, ...], Any] = {}
        # What was done, in words.
        self.told: list[str] = []
        titles = sorted(t for t, f in run.machine.functions.items() if not f.view)
        self.choose = choose or (lambda rng, context: rng.choice(titles))
        # What was done, each action by its name: a play that means the same.
        self.done: list[Action] = []
        # How often each call was tried, and worked, where.
        self.tried: dict[tuple[str, Context], list[int]] = {}
        # Functions that are for a contract or the committee.
        self.refused: set[str] = set()

    # Playing

    def play(self, action: Action) -> Outcome | None:
        """Carries out an action; the outcome of its call."""
        if action.kind != ANY:
            outcome = self._play(action)
            if outcome is None or outcome.ok:
                self.done.append(action)
            return outcome
        chance = Random(action.seed)
        context = self.run.context()
        for _ in range(TRIES):
            named = Action(self.choose(chance, context), chance.getrandbits(32))
            outcome = self._play(named)
            if outcome is not None and outcome.ok:
                self.done.append(named)
                return outcome
        return None

    def _play(self, action: Action) -> Outcome | None:
        count = self.tried.setdefault((action.kind, self.run.context()), [0, 0])
        count[0] += 1
        rng = self.rng = Random(action.seed)
        if action.kind == WAIT:
            seconds, blocks = rng.choice(SECONDS), rng.choice(BLOCKS)
            self.told.append(f"wait {seconds} s")
            if rng.random() < 0.2:
                self.honest.turn()
                self.run.machine.mine(blocks, 0)
            self.honest.wait(seconds)
            return None
        if action.kind == RUSH:
            self.told.append("wait until somebody honest may act")
            self.honest.until_due()
            return None
        if action.kind in (STEP, TICK):
            self.told.append("one honest transaction" if action.kind == STEP else "honest turns")
            if action.kind == TICK:
                self.honest.turn()
            else:
                self.honest.step()
            return None
        function = self.run.machine.functions[action.kind]
        self.so_far = {}
        try:
            args = [self.make(function, part) for part in function.inputs]
        except Nothing:
            return Outcome(False, reason="nothing to name")
        outcome = Outcome(False)
        for sender in self.senders(function.contract):
            outcome = self.run.send(sender, action.kind, *args)
            if outcome.ok:
                self.told.append(self.sentence(sender, function, args))
                count[1] += 1
                return outcome
            if REFUSED.search(outcome.reason):
                self.refused.add(action.kind)
            if not any(reason in outcome.reason for reason in REASONS_OF_SENDER):
                return outcome
        return outcome

    def senders(self, contract: str = "") -> list[str]:
        """Hostile addresses that may send a call, the likeliest first."""
        if "sender" in self.so_far:
            return [self.so_far["sender"]]
        node = self.so_far.get("verifier_id", self.so_far.get("node_id"))
        others = [self.rng.choice(self.run.bad_addresses) for _ in range(2)]
        own: list[str] = []
        sponsor = self.run.jobs.get(self.so_far.get("job_id"), {}).get("sponsor")
        if sponsor in self.run.bad_addresses:
            own = [sponsor]
        elif contract == "coordinator":
            own = [p.owner for p in self.run.role("member", True)]
        if node is not None and self.run.is_bad(node):
            keys = [self.ask(f"registry.{key}_of", node) for key in ("operator", "owner")]
            own = [key for key in keys if key in self.run.bad_addresses]
        self.rng.shuffle(own)
        if self.rng.random() < 0.1:
            return others
        return own + others

    def sentence(self, sender: str, function: Function, args: Sequence[Any]) -> str:
        """A call in words."""
        named = [
            f"{part['name']}={self._word(value)}"
            for part, value in zip(function.inputs, args, strict=True)
        ]
        return f"{self._who(sender)}: {function.title}({', '.join(named)})"

    def _who(self, address: str) -> str:
        person = self.run.by_address[address]
        parts = ("owner", "operator", "payout")
        if len(person.addresses) == 1:
            return person.name
        return f"{person.name} {parts[person.addresses.index(address)]}"

    def _word(self, value: Any) -> str:
        if isinstance(value, str) and value in self.run.by_address:
            return self._who(value)
        if isinstance(value, bytes):
            return f"0x{value[:4].hex()}.."
        if isinstance(value, int) and not isinstance(value, bool) and value >= ZOO // 1_000:
            return f"{value / ZOO:g} ZOO"
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self._word, value))}]"
        return str(value)

    # Arguments

    def make(self, function: Function, part: dict[str, Any]) -> Any:
        """An argument for a parameter."""
        name = part["name"]
        maker = SPECIAL.get((function.title, name)) or MAKERS.get(name)
        if maker is None:
            raise KeyError(f"nothing makes `{name}` of {function.title}: see MAKERS")
        self.so_far[name] = maker(self)
        return self.so_far[name]

    def newest(self, things: Sequence[T]) -> T:
        """One of some things, mostly the last."""
        if not things:
            raise Nothing
        if self.rng.random() < 0.6:
            return things[-1]
        return self.rng.choice(things)

    def any_of(self, things: Sequence[T]) -> T:
        if not things:
            raise Nothing
        return self.rng.choice(things)

    def mostly(self, usual: T, *others: T) -> T:
        return usual if self.rng.random() < 0.8 else self.rng.choice(others)

    def seen(self) -> Round:
        """The round that earlier arguments name."""
        key = self.so_far.get("job_id"), self.so_far.get("round_id")
        if key not in self.run.rounds:
            raise Nothing
        return self.run.rounds[key]  # type: ignore[index]

    def own_node(self) -> int:
        """Mostly a hostile node, and of this call's round where it names one."""
        if self.rng.random() > 0.9:
            return self.any_of(self.run.all_nodes)
        key = self.so_far.get("job_id"), self.so_far.get("round_id")
        seen = self.run.rounds.get(key)  # type: ignore[arg-type]
        drawn = {*seen.nodes, *seen.verifiers, *seen.aggregators} if seen is not None else set()
        there = [n for n in self.run.bad_nodes if n in drawn]
        return self.any_of(there or self.run.bad_nodes)

    def own_verifier(self) -> int:
        """Mostly a hostile verifier."""
        people = self.run.role("verifier", True)
        return people[0].node if people and self.rng.random() < 0.8 else self.own_node()

    def target(self) -> int:
        """A node that something is done to."""
        key = self.so_far.get("job_id"), self.so_far.get("round_id")
        seen = self.run.rounds.get(key)  # type: ignore[arg-type]
        if seen is not None and seen.revealed and self.rng.random() < 0.9:
            return self.any_of(sorted(seen.revealed))
        return self.any_of(self.run.all_nodes)

    def address(self) -> str:
        """Anybody's."""
        side = self.rng.random()
        if side < 0.4:
            return self.any_of(self.run.bad_addresses)
        if side < 0.8:
            return self.any_of(self.lately())
        if side < 0.95:
            return self.any_of(self.run.addresses)
        return self.any_of(sorted(self.run.machine.addresses.values())).lower()

    def lately(self) -> list[str]:
        """The addresses of the last people who did something."""
        people: dict[str, None] = {}
        for sender, _ in reversed(self.run.log[-40:]):
            if sender in self.run.by_address:
                people.update(dict.fromkeys(self.run.by_address[sender].addresses))
        return list(people)[:18]

    def amount(self) -> int:
        """Some round amount, or all that somebody has."""
        if self.rng.random() < 0.5:
            return self.any_of(AMOUNTS)
        node = self.so_far.get("node_id", 0)
        owner = self.ask("registry.owner_of", node)
        return int(self.ask("token.balanceOf", owner)) // ZOO * ZOO or ZOO

    def new_operator(self) -> str:
        """Mostly an address that serves no node."""
        return self.mostly(self.any_of(self.run.bad_addresses), self.any_of(self.run.addresses))

    def task(self) -> Any:
        return self.ask("tasks.task", self.so_far["task_id"])

    def lane(self) -> int:
        """Mostly a lane of a hostile node."""
        nodes = self.task().nodes
        own = [i for i, node in enumerate(nodes) if self.run.is_bad(node)]
        lane = self.any_of(own) if own and self.rng.random() < 0.9 else self.rng.randrange(5)
        if lane < len(nodes):
            self.so_far["node_id"] = nodes[lane]
        return lane

    def result(self) -> bytes:
        """A task's result: the right one, a wrong one, or that there was none."""
        right = right_result(self.task().spec)
        return self.any_of([right, WRONG, WRONG, UNAVAILABLE])

    def result_hash(self) -> bytes:
        key = self.so_far["job_id"], self.so_far["round_id"]
        return bytes(self.ask("results.result", *key).result_hash)

    def model(self) -> bytes:
        seen = self.seen()
        self.so_far["right"] = self.rng.random() < 0.3
        return right_model(*seen.key) if self.so_far["right"] else keccak(text="a wrong model")

    def shares(self) -> tuple[list[int], list[int]]:
        """Who is paid by a proposed result."""
        seen = self.seen()
        if seen.proposal is not None and "model" not in self.so_far:
            fields = seen.proposal.fields
            return list(fields["nodes"]), list(fields["contributions"])
        right = self.run.right_nodes(seen)
        own = [n for n in sorted(seen.revealed) if self.run.is_bad(n)]
        if self.so_far.get("right"):
            nodes = right
        else:
            nodes = self.any_of([own, own, [], right, sorted(seen.revealed)])
        return nodes, [1] * len(nodes)

    def shares_once(self) -> tuple[list[int], list[int]]:
        if "shares" not in self.so_far:
            self.so_far["shares"] = self.shares()
        return self.so_far["shares"]  # type: ignore[no-any-return]

    def content(self) -> bytes:
        """What a trainer hands in: its work, nothing real, or what another has shown."""
        seen, node = self.seen(), self.so_far["node_id"]
        right = right_content(*seen.key, node)
        shown = sorted(seen.revealed.values())
        return self.any_of([right, keccak(text=f"fake {node}"), *shown[:1]])

    def work(self) -> bytes:
        """A commitment to some content; the opening is kept."""
        seen, node, content = self.seen(), self.so_far["node_id"], self.content()
        self.openings["work", *seen.key, node] = content
        operator = self.ask("registry.operator_of", node)
        return work_digest(self.run, *seen.key, node, operator, content)

    def work_place(self) -> int:
        """Whose work the next commitment is, on a chain that somebody says it has seen: revm's own
        hash of a block that it has no chain for, or that of another branch."""
        for name in ("job_id", "round_id", "node_id"):
            self.so_far[name] = MAKERS[name](self)
        ids = self.so_far["job_id"], self.so_far["round_id"], self.so_far["node_id"]
        block = self.run.machine.block - 1
        digest = self.any_of([keccak(text=str(block)), EVIDENCE])
        return commit_place(*ids, (block, digest))

    def opened(self) -> bytes:
        key = ("work", self.so_far["job_id"], self.so_far["round_id"], self.so_far["node_id"])
        if key not in self.openings:
            raise Nothing
        return self.openings[key]  # type: ignore[no-any-return]

    def answer(self) -> bytes:
        """A commitment to a task's result; the opening is kept."""
        lane, state, result = self.so_far["lane"], self.task(), self.result()
        if lane >= len(state.nodes):
            raise Nothing
        node = state.nodes[lane]
        operator = self.ask("registry.operator_of", node)
        task = self.so_far["task_id"]
        self.openings["answer", task, lane] = result
        mark = tag(self.run, task, result)
        return answer_digest(self.run, task, node, operator, state.spec, mark)

    def answered(self) -> bytes:
        key = ("answer", self.so_far["task_id"], self.so_far["lane"])
        if key not in self.openings:
            raise Nothing
        return self.openings[key]  # type: ignore[no-any-return]

    def answered_tag(self) -> bytes:
        return tag(self.run, self.so_far["task_id"], self.answered())

    def row(self) -> list[int]:
        """Scores: right ones, none, or all for the coalition."""
        seen = self.seen()
        own = [30_000 if self.run.is_bad(n) else 0 for n in seen.nodes]
        return self.any_of([self.honest.row(seen), own, [0] * len(seen.nodes)])

    def row_commitment(self) -> bytes:
        seen, node, row = self.seen(), self.so_far["verifier_id"], self.row()
        operator = self.ask("registry.operator_of", node)
        self.openings["row", *seen.key, node] = row
        return row_digest(self.run, *seen.key, node, operator, row)

    def row_opened(self) -> list[int]:
        key = ("row", self.so_far["job_id"], self.so_far["round_id"], self.so_far["verifier_id"])
        if key not in self.openings:
            raise Nothing
        return self.openings[key]  # type: ignore[no-any-return]

    def snapshot(self) -> tuple[list[int], list[int]]:
        """The verifiers of a task's appeal."""
        task = self.so_far["task_id"]
        if task not in self.run.verdicts:
            raise Nothing
        return self.run.verdicts[task]

    def place(self) -> int:
        """Mostly a hostile verifier's."""
        nodes, _ = self.snapshot()
        own = [i for i, node in enumerate(nodes) if self.run.is_bad(node)]
        place = self.any_of(own or range(len(nodes)))
        self.so_far["node_id"] = nodes[place]
        return place

    def terms(self) -> tuple[Any, ...]:
        """A job's terms: the usual ones with some fields changed."""
        made: dict[str, Any] = {**TERMS, "rounds": ROUNDS}
        for name in made:
            if self.rng.random() < 0.15:
                made[name] = self.term(name)
        return tuple(made.values())

    def term(self, name: str) -> Any:
        """An unusual term of a job."""
        if name.endswith("_s"):
            return self.any_of([61, 600, DAY])
        if name.endswith("_bps"):
            return self.any_of([0, 100, 2_500])
        if name == "max_nodes":
            return self.any_of([1, 2, 128])
        if name == "retain_rounds":
            return self.any_of([1, 2, 32])
        if name == "rounds":
            return self.any_of([1, 10, 100_000])
        if name == "challenge_bond":
            return self.any_of([1, ZOO, 10_000 * ZOO, 2**127])
        if name == "reward_per_round":
            return self.any_of([0, ZOO, REWARD, 5 * REWARD])
        return TERMS[name]

    def data(self) -> bytes:
        """Some call that a committee member would like."""
        titles = sorted(self.run.machine.functions)
        function = self.run.machine.functions[self.any_of(titles)]
        if function.view or function.contract == "coordinator":
            raise Nothing
        kept, self.so_far = self.so_far, {}
        try:
            args = [self.make(function, part) for part in function.inputs]
        finally:
            self.so_far = kept
        self.so_far["call"] = self.run.machine.addresses[function.contract]
        made = function.data(args)
        if len(made) > 1_024:
            raise Nothing
        return made

    def call_target(self) -> str:
        """The contract of the call that `data` makes, which is drawn first."""
        self.so_far["made"] = self.data()
        return str(self.so_far["call"])

    def signatures(self) -> list[bytes]:
        """Verdicts on a benchmark signed by the verifiers that the call names."""
        node = self.so_far["node_id"]
        state = self.ask("benchmarks.benchmark", node)
        if not state.attempt or not state.submitted_at:
            raise Nothing
        message = {
            "node_id": node,
            "attempt": state.attempt,
            "root": state.root,
            "units": state.units,
            "check_seed": state.check_seed,
            "passed": self.so_far["passed"],
        }
        return [
            self._signed("Menagerie NodeRegistry", "benchmarks", VERDICT_TYPES, message, p)
            for p in (self.ask("registry.operator_of", v) for v in self.so_far["verifier_ids"])
        ]

    def consent(self) -> bytes:
        """An operator's consent to serve a node of the sender, which is drawn here; empty when the
        operator is the sender, or somebody honest, who signs nothing."""
        operator, own = self.so_far["operator"], self.run.bad_addresses
        sender = self.rng.choice(own)
        if "node_id" in self.so_far:
            owner = self.ask("registry.owner_of", self.so_far["node_id"])
            sender = owner if owner in own else sender
        self.so_far["sender"] = sender
        if operator == sender or operator not in own:
            return b""
        nonce = self.ask("registry.consents_used", operator)
        message = {"operator": operator, "owner": sender, "nonce": nonce}
        return self._signed("Menagerie NodeRegistry", "registry", CONSENT_TYPES, message, operator)

    def origin(self) -> tuple[str, bytes]:
        """The sponsor and the spec of the job that the call names."""
        sponsor, spec = self.ask("jobs.origin_of", self.so_far["job_id"])
        return sponsor, spec

    def found(self) -> bytes:
        """An announcement of a node, or of the newest result: a report or challenge opens it."""
        job = self.so_far.get("job_id") or max(self.run.newest)
        seen = self.run.rounds.get((job, self.run.newest[job]))
        if seen is None:
            raise Nothing
        if "verifier_id" in self.so_far:
            node, finder = self.target(), self.so_far["verifier_id"]
            return announcement(self.run, "reports", seen, node, finder, EVIDENCE)
        result = int.from_bytes(self.ask("results.result", *seen.key).result_hash, "big")
        self.so_far["sender"] = sender = self.rng.choice(self.run.bad_addresses)
        return announcement(self.run, "results", seen, result, int(sender, 16), EVIDENCE)

    def approvals(self) -> list[bytes]:
        """Approvals signed by hostile members."""
        members = sorted(p.owner for p in self.run.role("member", True))
        message = {"op_id": self.so_far["op_id"]}
        return [
            self._signed("Menagerie Coordinator", "coordinator", APPROVAL_TYPES, message, m)
            for m in members
        ]

    def _signed(
        self, name: str, contract: str, types: Any, message: dict[str, Any], signer: str
    ) -> bytes:
        domain = {
            "name": name,
            "version": "1",
            "chainId": 1,
            "verifyingContract": self.run.machine.addresses[contract],
        }
        if signer not in self.run.bad_addresses or signer not in self.run.stage.keys:
            raise Nothing
        key = self.run.stage.keys[signer]
        return bytes(key.sign_message(encode_typed_data(domain, types, message)).signature)


class Nothing(Exception):
    """There is nothing live that an argument could name."""


def _const(value: Any) -> Callable[[Hostile], Any]:
    return lambda h: value


def _among(*values: Any) -> Callable[[Hostile], Any]:
    return lambda h: h.any_of(values)


def _round_id(h: Hostile) -> int:
    job = h.so_far["job_id"]
    newest = h.run.newest.get(job, 0)
    return newest if h.rng.random() < 0.9 else h.rng.randint(0, newest)


MAKERS: dict[str, Callable[[Hostile], Any]] = {
    # Live things
    "job_id": lambda h: h.newest(sorted(h.run.jobs)),
    "round_id": _round_id,
    "node_id": Hostile.own_node,
    "verifier_id": Hostile.own_verifier,
    "task_id": lambda h: h.newest(h.run.tasks),
    "lane": Hostile.lane,
    "report_id": lambda h: h.newest(list(h.run.reports)),
    "op_id": lambda h: h.newest(h.run.operations),
    "result_hash": Hostile.result_hash,
    "place": Hostile.place,
    "verifiers": lambda h: h.snapshot()[0],
    "class_id": _const(CPU),
    # People
    **dict.fromkeys(
        [
            "payout",
            "reporter",
            "account",
            "to",
            "_to",
            "spender",
            "_spender",
            "slasher",
            "new_owner",
            "owner",
            "_from",
        ],
        Hostile.address,
    ),
    "operator": Hostile.new_operator,
    # Amounts and choices
    "amount": Hostile.amount,
    "deposit": _among(1, ZOO, 100 * ZOO, 500 * ZOO),
    **dict.fromkeys(("_value", "value", "stake"), _among(*AMOUNTS)),
    "fee": _among(ZOO // 10, ZOO, 2 * ZOO, 10 * ZOO),
    "run_s": _among(60, 600, 3_600),
    "commit_s": _among(61, 200, 600),
    "reveal_s": _among(61, 100, 600),
    "roles": _among(1, 2, 3, 4, 7, 7, 7),
    "role": _among(1, 2, 4),
    **dict.fromkeys(
        ("active", "approved", "upheld", "passed", "allowed", "guilty", "spoiled"),
        _among(True, False),
    ),
    "overturned": _among(True, False),
    "violation": _among(2, 2, 2, 3, 5),
    "status": _among(4, 5, 6),
    "bits": _among(0, 1),
    "classes": _among(0, 1, 1, 3, 4, 255),
    "units": _among(1, 6_000, 1_000_000),
    "score": _among(1, 10**6),
    "offence_time": lambda h: h.run.machine.time,
    "routine": _among(0, 60),
    "governance": _among(0, 3_600),
    "threshold_": _among(1, 2, 3),
    "delay_class_": _among(0, 1),
    "total_contribution": _among(0, 1),
    "aside": _among(0, 1),
    "attempt": lambda h: h.ask("benchmarks.benchmark", h.so_far["node_id"]).attempt,
    # Digests
    "spec": _among(*GOOD_SPECS, LOST_SPEC),
    "salt": _const(SALT),
    "evidence": _const(EVIDENCE),
    "statement": _const(EVIDENCE),
    "proof": _const(EVIDENCE),
    "digest": _const(EVIDENCE),
    "artefact": _const(EVIDENCE),
    "root": _const(EVIDENCE),
    "seed": _const(EVIDENCE),
    "name": lambda h: keccak(text=f"class {h.rng.random()}"),
    "input_root": _const(INPUT),
    "trace_root": _const(TRACE),
    "update": _const(UPDATE),
    "report": _const(REPORT),
    "record": _const(RECORD),
    "consent": Hostile.consent,
    "sponsor": lambda h: h.origin()[0],
    "encryption_key": _among(EMPTY, EVIDENCE, RECORD),
    "key_id": _among(EVIDENCE, RECORD),
    "envelope": _const(b"sealed"),
    "model": Hostile.model,
    "head": Hostile.model,
    "prev_model": Hostile.model,
    "commitment": Hostile.work,
    "content": Hostile.opened,
    "tag": Hostile.answered_tag,
    "result": Hostile.result,
    "reason": _const("a reason"),
    "selector": _const(b"\x01\x02\x03\x04"),
    **dict.fromkeys(("checkpoint", "contributors_root", "scores_root", "r", "s"), _const(EVIDENCE)),
    "new_model": Hostile.model,
    "deadline": lambda h: h.run.machine.time,
    "seen_block": lambda h: h.run.machine.block - 1,
    # revm's own hash of a block that it has no chain for, or that of another branch.
    "seen_hash": lambda h: h.any_of([keccak(text=str(h.so_far["seen_block"])), EVIDENCE]),
    "v": _const(27),
    "nodes_hash": _const(EVIDENCE),
    "contributions_hash": _const(EVIDENCE),
    # Arrays
    "nodes": lambda h: h.shares_once()[0],
    "contributions": lambda h: h.shares_once()[1],
    "weights": lambda h: h.snapshot()[1],
    "scores": Hostile.row_opened,
    "consensus": lambda h: h.honest.consensus(h.seen()),
    "verifier_ids": lambda h: [h.own_node()],
    "signatures": Hostile.signatures,
    "cut_nodes": lambda h: [h.own_node()],
    "cut_amounts": _const([ZOO]),
    "stakes": _const([ZOO]),
    "aggregators": lambda h: [h.own_node()],
    "members_": lambda h: [p.owner for p in h.run.role("member", True)],
    # Structs
    "terms": Hostile.terms,
    "bounds": _const((1, 2**127, 1, 0)),
    "penalty": _const((10_000, 0, 0, True, True, 5_000)),
    "parameters": lambda h: tuple(h.ask("registry.parameters").values()),
    # Calls by the committee
    "target": Hostile.call_target,
    "data": lambda h: h.so_far["made"],
}

SPECIAL: dict[tuple[str, str], Callable[[Hostile], Any]] = {
    ("reports.report", "node_id"): Hostile.target,
    ("rounds.slash_unrevealed", "node_id"): Hostile.target,
    ("rounds.mark_absent", "node_id"): Hostile.target,
    ("tasks.evict", "node_id"): Hostile.target,
    ("rounds.commit_on", "place"): Hostile.work_place,
    ("tasks.commit", "commitment"): Hostile.answer,
    ("tasks.reveal", "result"): Hostile.answered,
    ("scores.commit_scores", "commitment"): Hostile.row_commitment,
    ("scores.commit_scores_on", "commitment"): Hostile.row_commitment,
    ("reports.announce_report", "digest"): Hostile.found,
    ("reports.open_announcement", "node_id"): Hostile.target,
    ("reports.expire_announcement", "digest"): lambda h: h.newest(list(h.run.announced)),
    ("results.announce_challenge", "digest"): Hostile.found,
    ("results.expire_announcement", "digest"): lambda h: h.newest(list(h.run.announced)),
    ("rounds.seat", "nodes"): lambda h: h.seen().candidates[0],
    ("rounds.seat", "scores"): lambda h: h.seen().candidates[1],
    ("scores.close_scoring", "nodes"): lambda h: h.seen().nodes,
    ("scores.close_scoring", "weights"): lambda h: h.seen().weights,
    ("coordinator.approve_by_sig", "signatures"): Hostile.approvals,
    ("coordinator.set_delay_class", "target"): Hostile.address,
    ("results.open", "terms"): _const((1, EVIDENCE, 1, 600, 500, 400, 300, 800, ZOO, DAY)),
    ("benchmarks.submit_benchmark", "seed"): lambda h: (
        h.ask("benchmarks.benchmark", h.so_far["node_id"]).seed
    ),
    ("pool.fund", "spec"): lambda h: h.origin()[1],
    ("results.open", "verifiers"): lambda h: [h.own_node()],
}


def gaps(functions: dict[str, Function]) -> list[str]:
    """The parameters of external functions that nothing makes."""
    return sorted(
        f"{f.title}: {part['name']}"
        for f in functions.values()
        if not f.view
        for part in f.inputs
        if (f.title, part["name"]) not in SPECIAL and part["name"] not in MAKERS
    )
