# SPDX-License-Identifier: Apache-2.0
"""An operation of the committee in words: what it does, and what changes from what to what.

    words = said(network, operation.target, operation.data)
    words.title      "Row INVALID of the slashing table"
    words.changes    Change("share of the stake", "20 %", "25 %"), ...
    words.notes      what else a reader must know

Rule: the words come from the bytes that the timelock will send, and from nothing that a proposer
says of them. Bytes that aren't exactly a call of a known function are said to be unreadable. What
is there before is read from the chain, at the block that the caller names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agents.protocol.numbers import BPS, NOBODY, PAUSES, ZERO_DIGEST, Role, Violation
from agents.protocol.slashing import Row
from agents.protocol.structs import read
from agents.runtime.errors import AgentError
from agents.runtime.look import LATEST
from agents.runtime.printable import printable
from scripts._shared.operator import zoo

if TYPE_CHECKING:
    from agents.protocol.network import Network
    from agents.runtime.chain import BlockId
    from agents.runtime.contracts import Contract, Function

DELAY_CLASSES = ("governance", "routine")
"""By the contract's number."""


@dataclass(frozen=True)
class Change:
    """One thing that an operation changes. `before` is None where it can't be known."""

    what: str
    before: str | None
    after: str

    def __str__(self) -> str:
        before = "(not known any more)" if self.before is None else self.before
        return f"{self.what}: {before} -> {self.after}"


@dataclass(frozen=True)
class Words:
    """What an operation does. `known`: whether its bytes could be read."""

    title: str
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    known: bool = True

    def lines(self) -> list[str]:
        """The same as lines of text: the title, each change, each note."""
        changes = [f"  {change}" for change in self.changes]
        return [self.title, *changes, *(f"  {note}" for note in self.notes)]


@dataclass(frozen=True)
class _Call:
    """A call as its writer sees it: the contract, its arguments, and the state before."""

    network: Network
    contract: Contract
    function: str
    args: Mapping[str, Any]
    block: BlockId

    def ask(self, contract: Contract, function: str, *args: Any) -> Any:
        """What a view answers before the operation; None where the node has no such state."""
        try:
            return self.network.chain.call(contract, function, *args, block=self.block)
        except AgentError:
            if self.block == LATEST:
                raise
            return None

    def before(self, said: Callable[[Any], str], function: str, *args: Any) -> str | None:
        """What a view of the contract itself answers before, in words."""
        found = self.ask(self.contract, function, *args)
        return None if found is None else said(found)


def said(network: Network, target: str, data: bytes, block: BlockId = LATEST) -> Words:
    """Say what a call of the timelock does.

    Args:
        network: whose contracts are meant.
        target: the contract that is called.
        data: the call, with its selector.
        block: the state before it. For an operation that was executed: the block before that one.

    Raises:
        AgentError: the chain can't be read now.
    """
    found = call_of(network, target, data)
    if found is None:
        return _unreadable(network, target, data)
    contract, kind, args = found
    name = str(kind.abi["name"])
    call = _Call(network, contract, name, args, block)
    writer = _WRITERS.get((contract.name, name)) or _EVERYWHERE.get(name, _plain)
    return writer(call)


def call_of(
    network: Network, target: str, data: bytes
) -> tuple[Contract, Function, dict[str, Any]] | None:
    """The contract, the function and the arguments of a call; None if it is no call of ours."""
    known = network.deployment.contracts.values()
    contract = next((c for c in known if c.address.lower() == target.lower()), None)
    kind = contract.function_of(data[:4]) if contract is not None else None
    if contract is None or kind is None:
        return None
    try:
        return contract, kind, kind.arguments(data)
    except ValueError:
        return None


def spell(seconds: int) -> str:
    """A time span for people: '7 days', '1 h 30 min', '20 s'."""
    units = (("day", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}{'s' if name == 'day' and count > 1 else ''}")
    return " ".join(parts) or "0 s"


def percent(bps: int) -> str:
    """A share in 1/10,000 for people: '12.5 %'."""
    return f"{bps * 100 / BPS:g} %"


def named(network: Network, address: str) -> str:
    """An address, with the contract's name where it is one of the network's."""
    for contract in network.deployment.contracts.values():
        if contract.address.lower() == address.lower():
            return f"{contract.name} ({address})"
    return address


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _unreadable(network: Network, target: str, data: bytes) -> Words:
    shown = data[:36].hex() + ("…" if len(data) > 36 else "")
    return Words(
        f"An unreadable call of {named(network, target)}",
        (),
        (
            f"Its {len(data)} bytes 0x{shown} are no exact call of a function that the deployment "
            "file knows. Approve it only if you know from elsewhere what it does.",
        ),
        known=False,
    )


def _plain(call: _Call) -> Words:
    """A call that has no words of its own: the function and its arguments."""
    notes = tuple(f"{name} = {_value(value)}" for name, value in call.args.items())
    return Words(f"Call {call.contract.name}.{call.function}", (), notes)


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if hasattr(value, "_asdict"):
        return ", ".join(f"{k} {_value(v)}" for k, v in value._asdict().items())
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return printable(str(value))


def _changed(rows: list[Change]) -> tuple[Change, ...]:
    """Only what differs, or all where that can't be known."""
    return tuple(row for row in rows if row.before != row.after)


def _or_nothing(words: Words) -> Words:
    if words.changes:
        return words
    return replace(words, notes=(*words.notes, "Nothing changes: it is so already."))


# -- penalties and parameters --------------------------------------------------------------------

_PENALTY: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("bps", "share of the stake", percent),
    ("escalation_bps", "added for each earlier offence", percent),
    ("suspension", "suspension", spell),
    ("strike", "counts as a strike", _yes),
    ("ban", "bans the node", _yes),
    ("reporter_bps", "reporter's part of the slash", percent),
)
_PARAMETERS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("unbonding_period", "unbonding period", spell),
    ("trainer_stake", "least stake of a trainer", zoo),
    ("verifier_stake", "least stake of a verifier", zoo),
    ("aggregator_stake", "least stake of an aggregator", zoo),
    ("benchmark_window", "time to answer a benchmark", spell),
    ("benchmark_quorum", "verdicts that settle a benchmark", str),
    ("treasury", "treasury", str),
)
_BOUNDS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("least_bond", "least bond of a challenge", zoo),
    ("most_bond", "highest bond of a challenge", zoo),
    ("least_reward", "least reward of a round", zoo),
    ("least_retained", "rounds' pay that a job retains at least", str),
)
_Fields = tuple[tuple[str, str, Callable[[Any], str]], ...]


def _fields(fields: _Fields, before: Any, after: Any) -> tuple[Change, ...]:
    return _changed(
        [
            Change(what, None if before is None else say(getattr(before, name)), say(new))
            for name, what, say in fields
            if (new := getattr(after, name)) is not None
        ]
    )


def _penalty(call: _Call) -> Words:
    number = call.args["violation"]
    name = Violation(number).name if number in set(Violation) else f"number {number}"
    before = call.ask(call.contract, "penalty", number)
    row = None if before is None else read(Row, before)
    changes = _fields(_PENALTY, row, read(Row, call.args["penalty"]))
    note = "Slashes from then on use it, also for offences that were before."
    return _or_nothing(Words(f"Row {name} of the slashing table", changes, (note,)))


def _parameters(call: _Call) -> Words:
    before = call.ask(call.contract, "parameters")
    after = call.args["parameters"]
    changes = _fields(_PARAMETERS, before, after)
    notes = ["Running exits keep their date."]
    delays = call.ask(call.network.coordinator, "delays")
    if before is None or before.unbonding_period != after.unbonding_period:
        notes += _outrun(None if delays is None else delays[1], after.unbonding_period)
    return _or_nothing(Words("Parameters of NodeRegistry", changes, tuple(notes)))


def _bounds(call: _Call) -> Words:
    changes = _fields(_BOUNDS, call.ask(call.contract, "bounds"), call.args["bounds"])
    note = "Jobs that exist keep their terms; agents leave those that the new bounds refuse."
    return _or_nothing(Words("Bounds of the terms of jobs", changes, (note,)))


def _pauses(call: _Call) -> Words:
    names = PAUSES.get(call.contract.name, ())
    after = call.args["bits"]
    old = call.ask(call.contract, "paused")
    rows = []
    for place, name in enumerate(names):
        was = None if old is None else _paused(bool(old >> place & 1))
        rows.append(Change(name, was, _paused(bool(after >> place & 1))))
    note = "What has begun goes on to its end, and exits and claims are never paused."
    return _or_nothing(Words(f"Pauses of {call.contract.name}", _changed(rows), (note,)))


def _paused(value: bool) -> str:
    return "paused" if value else "runs"


# -- members, delays, rights ---------------------------------------------------------------------


def _members(call: _Call) -> Words:
    after, needed = call.args["members_"], call.args["threshold_"]
    old = call.ask(call.contract, "members")
    rows = []
    if old is not None:
        rows += [Change(f"member {who}", "in", "out") for who in old if who not in after]
        rows += [Change(f"member {who}", "out", "in") for who in after if who not in old]
    else:
        rows += [Change(f"member {who}", None, "in") for who in after]
    quorum = call.ask(call.contract, "threshold")
    was = None if old is None or quorum is None else f"{quorum} of {len(old)}"
    rows.append(Change("approvals that an operation needs", was, f"{needed} of {len(after)}"))
    note = "Approvals are counted over the members of the day: those of who leaves don't count."
    return _or_nothing(Words("Members of the committee", _changed(rows), (note,)))


def _delays(call: _Call) -> Words:
    before = call.ask(call.contract, "delays")
    names = ("delay of routine calls", "delay of all other calls")
    after = (call.args["routine"], call.args["governance"])
    old = (None, None) if before is None else map(spell, before)
    rows = [Change(w, b, spell(a)) for w, b, a in zip(names, old, after, strict=True)]
    notes = ["Operations that are queued already keep their time."]
    parameters = call.ask(call.network.registry, "parameters")
    if before is None or before[1] != after[1]:
        notes += _outrun(after[1], None if parameters is None else parameters.unbonding_period)
    return _or_nothing(Words("Delays of the timelock", _changed(rows), tuple(notes)))


def _outrun(
    delay: int | None, unbonding: int | None, what: str = "changes of the rules"
) -> list[str]:
    """A warning where changes of the rules would come before a node can leave; the deployment is
    refused then (scripts/deploy.py). None where a span can't be known."""
    if delay is None or unbonding is None or delay > unbonding:
        return []
    return [
        f"Warning: {what} would then wait {spell(delay)}, and stakes unbond in "
        f"{spell(unbonding)}: those who dislike a change could not withdraw before it."
    ]


def _delay_class(call: _Call) -> Words:
    target, selector = call.args["target"], call.args["selector"]
    known = call.network.deployment.contracts.values()
    contract = next((c for c in known if c.address == target), None)
    kind = contract.function_of(selector) if contract is not None else None
    what = f"0x{selector.hex()} of {target}" if kind is None else kind.label
    before = call.before(_class_name, "delay_class", target, selector)
    after = _class_name(call.args["delay_class_"])
    rows = [Change(f"delay of {what}", before, after)]
    notes = ["Operations that are queued already keep their time."]
    if after == "routine" and not _is_usual(what):
        delays = call.ask(call.network.coordinator, "delays")
        leaving = call.ask(call.network.registry, "parameters")
        if delays is not None and leaving is not None:
            notes += _outrun(delays[0], leaving.unbonding_period, f"calls of {what}")
    return _or_nothing(Words(f"How long calls of {what} wait", _changed(rows), tuple(notes)))


def _is_usual(call: str) -> bool:
    """Whether a deployment lets a call wait the routine delay: a network that runs needs it."""
    from scripts._net.deployment import ROUTINE_CALLS

    return tuple(call.split(".")) in ROUTINE_CALLS


def _class_name(number: int) -> str:
    return DELAY_CLASSES[number] if number < len(DELAY_CLASSES) else f"class {number}"


def _role(call: _Call) -> Words:
    node_id, number, admitted = (call.args[name] for name in ("node_id", "role", "approved"))
    role = Role(number).name or f"role {number}"
    node = call.ask(call.contract, "node", node_id)
    was = None if node is None else _admitted(bool(node.approved_roles & number))
    verb = "Admit" if admitted else "Withdraw"
    of = "to" if admitted else "from"
    rows = [Change(f"node {node_id} as {role}", was, _admitted(admitted))]
    notes = () if node is None else (f"Its owner is {node.owner}, with {zoo(node.stake)} staked.",)
    return _or_nothing(Words(f"{verb} node {node_id} {of} the role {role}", _changed(rows), notes))


def _admitted(value: bool) -> str:
    return "approved" if value else "not approved"


def _slasher(call: _Call) -> Words:
    who = named(call.network, call.args["slasher"])
    before = call.before(_yes, "is_slasher", call.args["slasher"])
    rows = [Change(f"{who} may slash and lock stakes", before, _yes(call.args["allowed"]))]
    notes = ()
    if call.args["allowed"] and who == call.args["slasher"]:
        notes = ("It is no contract of this deployment: it could take any stake.",)
    verb = "List" if call.args["allowed"] else "Delist"
    return _or_nothing(Words(f"{verb} a slasher", _changed(rows), notes))


def _owner(call: _Call) -> Words:
    new = call.args["new_owner"]
    rows = [Change("owner to be", call.before(_nobody, "pending_owner"), _nobody(new))]
    note = "The owner changes once the new one accepts it. Then the committee has no right there."
    return _or_nothing(
        Words(f"Offer the ownership of {call.contract.name}", _changed(rows), (note,))
    )


def _accept(call: _Call) -> Words:
    me = named(call.network, call.network.coordinator.address)
    said_owner = partial(named, call.network)
    rows = [Change("owner", call.before(said_owner, "owner"), me)]
    return _or_nothing(Words(f"Take the ownership of {call.contract.name}", _changed(rows)))


def _nobody(address: str) -> str:
    return "nobody" if address == NOBODY else address


# -- executors, jobs, models ---------------------------------------------------------------------


def _class(call: _Call) -> Words:
    label = _label(call.args["name"])
    before = call.ask(call.contract, "classes")
    was = None if before is None else ("open" if call.args["name"] in before else "none")
    rows = [Change(f"pool of executors of the determinism class {label}", was, "open")]
    note = "Executors that compute in this class may join it from then on. A pool is never closed."
    return _or_nothing(Words("Open a pool of executors", _changed(rows), (note,)))


def _label(name: bytes) -> str:
    return printable(name.rstrip(b"\0").decode("ascii", "backslashreplace"))


def _end_job(call: _Call) -> Words:
    job_id = call.args["job_id"]
    job = call.ask(call.contract, "job", job_id)
    notes = (
        ()
        if job is None
        else (
            f"Its sponsor is {job.sponsor}; {job.rounds_done} of {job.terms.rounds} are done.",
            "An open round is finished and paid first. What no round took is the sponsor's.",
        )
    )
    return Words(f"End job {job_id}", (Change(f"job {job_id}", "runs", "cancelled"),), notes)


def _attest(call: _Call) -> Words:
    job_id, model = call.args["job_id"], call.args["model"]
    contract = call.contract
    recorded = call.ask(contract, "is_recorded", job_id, model)
    where = "which the ledger does not record"
    if recorded:
        entry = call.ask(contract, "entry", job_id, call.ask(contract, "index_of", job_id, model))
        where = f"of round {entry.round_id}"
    attested = call.before(_yes, "is_attested", job_id, model)
    notes = [f"The digest of its checkpoint is 0x{call.args['checkpoint'].hex()}."]
    if call.args["statement"] != ZERO_DIGEST:
        notes.append(f"The digest of the statement is 0x{call.args['statement'].hex()}.")
    title = f"Attest the model {where} in job {job_id}"
    rows = [Change(f"attested: model 0x{model.hex()}", attested, "yes")]
    return Words(title, tuple(rows), tuple(notes))


# -- decisions -----------------------------------------------------------------------------------


def _appeal(call: _Call) -> Words:
    report = call.ask(call.contract, "report_of", call.args["report_id"])
    who = f"report 0x{call.args['report_id'].hex()}"
    if report is not None and report.node_id:
        name = Violation(report.violation).name
        where = f"in round {report.round_id} of job {report.job_id}"
        who = f"the appeal of node {report.node_id} against {name} {where}"
    if call.args["upheld"]:
        note = "The node was right: stake, bond and share are its own; its reporters are slashed."
        return Words(f"Uphold {who}", (), (note,))
    return Words(f"Reject {who}", (), ("The node is slashed, and its bond is lost.",))


def _challenge(call: _Call) -> Words:
    where = f"round {call.args['round_id']} of job {call.args['job_id']}"
    if call.args["upheld"]:
        note = "The result is wrong: its proposer is slashed, and another may propose."
        return Words(f"Uphold the challenge of {where}", (), (note,))
    note = "The result is right: the challenger's bond is lost."
    return Words(f"Reject the challenge of {where}", (), (note,))


def _task(call: _Call) -> Words:
    note = "It is the last word: verifiers and executors who named another are slashed."
    result = f"Its result is 0x{call.args['result'].hex()}."
    return Words(f"Decide on task {call.args['task_id']}", (), (result, note))


def _benchmark(call: _Call) -> Words:
    verdict = "passed" if call.args["passed"] else "failed"
    judges = ", ".join(map(str, call.args["verifier_ids"]))
    which = f"benchmark {call.args['attempt']} of node {call.args['node_id']}"
    notes = [f"Verifiers slashed for FALSE_REPORT: {judges}."]
    if call.args["passed"]:
        notes.append("The node is slashed too, for the same, and its score is reset.")
    return Words(f"Overrule the verdict that {which} {verdict}", (), tuple(notes))


def _invented(call: _Call) -> Words:
    which = f"benchmark {call.args['attempt']} of node {call.args['node_id']}"
    note = "The node is slashed for FALSE_REPORT. If it passed, its score is reset."
    return Words(f"Find {which} invented", (), (note,))


def _scores(call: _Call) -> Words:
    liars = ", ".join(map(str, call.args["verifier_ids"]))
    place = f"round {call.args['round_id']} of job {call.args['job_id']}"
    note = f"Verifiers slashed for FALSE_REPORT: {liars}. The round's consensus stands."
    return Words(f"Overrule scores of {place} as false", (), (note,))


# -- money of the treasury -----------------------------------------------------------------------


def _pay(call: _Call) -> Words:
    to, amount = named(call.network, call.args["to"]), call.args["amount"]
    held = call.ask(call.contract, "balanceOf", call.network.coordinator.address)
    if held is None or held < amount:
        return Words(f"Pay {zoo(amount)} to {to}", (), ("The timelock doesn't hold as much now.",))
    rows = (Change("ZOO that the timelock holds", zoo(held), zoo(held - amount)),)
    return Words(f"Pay {zoo(amount)} to {to}", rows)


def _collect(view: str, call: _Call) -> Words:
    owed = call.before(zoo, view, call.network.coordinator.address)
    rows = (Change(f"credited to the timelock in {call.contract.name}", owed, zoo(0)),)
    return Words(f"Take out what {call.contract.name} owes the treasury", rows)


_Writer = Callable[[_Call], Words]
_WRITERS: dict[tuple[str, str], _Writer] = {
    ("Coordinator", "set_members"): _members,
    ("Coordinator", "set_delays"): _delays,
    ("Coordinator", "set_delay_class"): _delay_class,
    ("NodeRegistry", "approve_role"): _role,
    ("NodeRegistry", "set_slasher"): _slasher,
    ("NodeRegistry", "set_parameters"): _parameters,
    ("NodeRegistry", "set_penalty"): _penalty,
    ("NodeRegistry", "claim_bounty"): partial(_collect, "bounty"),
    ("NodeBenchmarks", "overrule"): _benchmark,
    ("NodeBenchmarks", "condemn"): _invented,
    ("RedundantTasks", "add_class"): _class,
    ("ScoreConsensus", "overrule_scores"): _scores,
    ("RewardPool", "claim"): partial(_collect, "pending"),
    ("TaskAppeals", "resolve"): _task,
    ("TrainingJobs", "set_bounds"): _bounds,
    ("TrainingJobs", "cancel_job"): _end_job,
    ("TrainingLedger", "attest_model"): _attest,
    ("TrainingResults", "resolve_challenge"): _challenge,
    ("ViolationReports", "resolve_appeal"): _appeal,
    ("ZooToken", "transfer"): _pay,
}
_EVERYWHERE: dict[str, _Writer] = {
    "set_paused": _pauses,
    "transfer_ownership": _owner,
    "accept_ownership": _accept,
    "withdraw_bond": partial(_collect, "bond_credit"),
}
