# SPDX-License-Identifier: Apache-2.0
"""The registry's history, replayed: who acted for a node, where it is paid, what it lost and why.

Rule: every slash has one cause on chain, and its amount, shares, suspension and ban follow from the
slashing table as it was then, the node's earlier offences and its stake when it offended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agents.audit.chain.causes import Cause, causes
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record, place
from agents.protocol.numbers import NOBODY, RING, UNCLAIMED, Role, Violation
from agents.protocol.slashing import NO_ROW, Offender, Row, reporter_share, slash_amount
from agents.runtime.contracts import Event

_EVENTS = (
    "NodeRegistered",
    "StakeAdded",
    "ExitBegun",
    "StakeWithdrawn",
    "OperatorChanged",
    "PayoutChanged",
    "NodeSlashed",
    "PenaltyChanged",
    "ParametersChanged",
    "BountyClaimed",
    "StakeLocked",
    "StakeUnlocked",
    "RolesChanged",
    "RoleApproved",
)
MAX_VOICES = 32
_VOICE_CAP = 2
_MATURITY_PART = 1_000


@dataclass(frozen=True)
class Slash:
    """A slash as logged, and every field of it as it should be."""

    event: Event
    cause: Cause | None
    wanted: dict[str, Any]


@dataclass(frozen=True)
class Standing:
    """What decided over a node's stake at risk after an event; see `StakeBook.at_risk`."""

    place: tuple[int, int]
    stake: int
    unbonding: int
    unlock_at: int
    suspended_until: int
    banned: bool
    locks: int
    additions: tuple[tuple[int, int], ...]


@dataclass
class Account:
    """A node as the replay knows it."""

    owner: str
    stake: int
    registered: Event
    roles: int = 0
    approved: int = 0
    unbonding: int = 0
    suspended_until: int = 0
    banned: bool = False
    unlock_at: int = 0
    locks: int = 0
    additions: list[tuple[int, int]] = field(default_factory=list)  # (time, amount)
    record: Offender = field(default_factory=Offender)
    history: list[tuple[int, int]] = field(default_factory=list)  # (block, stake after a change)
    standings: list[Standing] = field(default_factory=list)  # after each change

    @property
    def strikes(self) -> int:
        """Offences that counted as a strike."""
        return self.record.strikes


class StakeBook:
    """The registry replayed over the whole record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.nodes: dict[int, Account] = {}
        self.slashes: list[Slash] = []
        self.bounties: dict[str, int] = defaultdict(int)
        self.rows: dict[int, Row] = {}
        self.parameters: Any = None
        self._treasury = NOBODY
        self._by_node: dict[tuple[str, ...], dict[int, list[Event]]] = {}
        # NodeRegistry's list of verifiers, in its order, after each change of it.
        self._lists: list[tuple[tuple[int, int], tuple[int, ...]]] = [((0, 0), ())]
        self.odd: list[str] = []  # events that the replay can't follow
        self._open: dict[bytes, list[Cause]] = defaultdict(list)
        for cause in causes(record, self):
            self._open[cause.event.tx_hash].append(cause)
        for event in record.all(*_EVENTS):
            node = event.args.get("node_id")
            if node is not None and node not in self.nodes and event.name != "NodeRegistered":
                self.odd.append(f"{event.name} is of node {node}, which was never registered.")
                continue
            getattr(self, f"_on_{event.name}")(event)
            if node is not None:
                account = self.nodes[node]
                account.history.append((event.block, account.stake))
                account.standings.append(
                    Standing(
                        place(event),
                        account.stake,
                        account.unbonding,
                        account.unlock_at,
                        account.suspended_until,
                        account.banned,
                        account.locks,
                        tuple(account.additions),
                    )
                )
                self._update_list(node, event)

    def stakes(self, nodes: Iterable[int], block: int) -> dict[int, int]:
        """Stake of each node after a block, in 1e-18 ZOO, without what is unbonding."""
        found = dict.fromkeys(nodes, 0)
        for node in found:
            account = self.nodes.get(node)
            past = [] if account is None else [s for when, s in account.history if when <= block]
            found[node] = past[-1] if past else 0
        return found

    def at_risk(self, node: int, at: Event, since: int, until: int) -> int:
        """NodeRegistry.stake_at_risk when an event happened: what was bonded at `since` already
        and can be slashed until `until`, both in seconds."""
        account = self.nodes.get(node)
        past = [] if account is None else account.standings
        index = bisect_left(past, place(at), key=lambda standing: standing.place)
        if not index:
            return 0
        then = past[index - 1]
        leaves = then.unlock_at != 0 and then.unlock_at < until
        if then.banned or then.locks or then.suspended_until > since or leaves:
            return 0
        added = sum(amount for when, amount in then.additions if when > since)
        bonded = then.stake + then.unbonding
        return bonded - min(bonded, added)

    def staked_since(self, node: int, at: Event, since: int) -> int:
        """What a node had at stake when an event happened, without what was added after `since`;
        what is unbonding has no voice."""
        account = self.nodes.get(node)
        if account is None:
            return 0
        past = [n for n in account.standings if n.place < place(at)]
        if not past:
            return 0
        added = sum(amount for when, amount in past[-1].additions if when > since)
        return past[-1].stake - min(past[-1].stake, added)

    def voters(self, at: Event, created: int) -> dict[int, int]:
        """NodeRegistry.voters when an event happened, for a work that was created at a time: what
        each verifier weighs, in the registry's order."""
        parameters = self._record.parameters_at(at)
        if parameters is None:
            return {}
        before = created - max(parameters.unbonding_period // _MATURITY_PART, 1)
        listed = self._lists[bisect_left(self._lists, place(at), key=lambda one: one[0]) - 1][1]
        least, found, owners = parameters.verifier_stake, dict[int, int](), set[str]()
        for node in listed:
            account = self.nodes[node]
            if self._record.time(account.registered) > before:
                continue
            stake = self.staked_since(node, at, before)
            if stake < least or account.owner in owners:
                continue
            found[node] = min(stake, _VOICE_CAP * least)
            owners.add(account.owner)
            if len(owners) == MAX_VOICES:
                break
        return found

    def _update_list(self, node: int, event: Event) -> None:
        """Give a node its place among the verifiers, or let the last one fill its place."""
        account, listed = self.nodes[node], list(self._lists[-1][1])
        stays = not (account.locks or account.unlock_at or account.banned)
        due = stays and account.roles & account.approved & Role.VERIFIER != 0
        if due == (node in listed):
            return
        if due:
            listed.append(node)
        else:
            listed[listed.index(node)] = listed[-1]
            listed.pop()
        self._lists.append((place(event), tuple(listed)))

    def operator(self, node: int, at: Event) -> str:
        """Who acted for a node when an event happened; the zero address for nobody."""
        return self._at("OperatorChanged", "operator", "new_operator", node, at)

    def payout(self, node: int, at: Event) -> str:
        """Where a node was paid when an event happened; the zero address for nowhere. What is
        nobody's is the treasury's."""
        if node == UNCLAIMED:
            return str(self._record.parameters_at(at).treasury)
        return self._at("PayoutChanged", "payout", "new_payout", node, at)

    def _at(self, change: str, first: str, new: str, node: int, at: Event) -> str:
        found = NOBODY
        names = ["NodeRegistered", change]
        if first == "operator":
            names.append("StakeWithdrawn")
        fields = {"NodeRegistered": first, change: new}
        for event in self._of(node, *names):
            if place(event) > place(at):
                break
            key = fields.get(event.name)
            found = NOBODY if key is None else str(event.args[key])
        return found

    def _of(self, node: int, *names: str) -> list[Event]:
        """A node's events of these names, in chain order."""
        if names not in self._by_node:
            found: dict[int, list[Event]] = defaultdict(list)
            for event in self._record.all(*names):
                found[event.args["node_id"]].append(event)
            self._by_node[names] = found
        return self._by_node[names][node]

    @property
    def unpunished(self) -> list[Cause]:
        """Causes that led to no slash."""
        return [cause for causes in self._open.values() for cause in causes]

    # -- replay --------------------------------------------------------------------------------

    def _on_NodeRegistered(self, event: Event) -> None:
        args = event.args
        self.nodes[args["node_id"]] = Account(args["owner"], args["stake"], event, args["roles"])

    def _on_StakeAdded(self, event: Event) -> None:
        node, args = self.nodes[event.args["node_id"]], event.args
        node.stake += args["amount"]
        if node.stake != args["stake"]:
            self.odd.append(
                f"StakeAdded of node {args['node_id']} says the stake is {args['stake']}, "
                f"it should be {node.stake}."
            )
        node.additions.append((self._record.time(event), args["amount"]))
        del node.additions[:-RING]

    def _on_ExitBegun(self, event: Event) -> None:
        node = self.nodes[event.args["node_id"]]
        if node.stake != event.args["amount"]:
            self.odd.append(
                f"ExitBegun of node {event.args['node_id']} says {event.args['amount']} unbond, "
                f"it should be {node.stake}."
            )
        node.stake, node.unbonding = 0, node.stake
        node.unlock_at = event.args["unlock_at"]

    def _on_StakeWithdrawn(self, event: Event) -> None:
        node = self.nodes[event.args["node_id"]]
        if node.unbonding != event.args["amount"]:
            self.odd.append(
                f"StakeWithdrawn of node {event.args['node_id']} says {event.args['amount']}, "
                f"it should be {node.unbonding}."
            )
        node.unbonding = 0

    def _on_RolesChanged(self, event: Event) -> None:
        node = self.nodes[event.args["node_id"]]
        node.roles = event.args["new_roles"]
        node.approved &= node.roles

    def _on_RoleApproved(self, event: Event) -> None:
        node, role = self.nodes[event.args["node_id"]], event.args["role"]
        node.approved = node.approved | role if event.args["approved"] else node.approved & ~role

    def _on_StakeLocked(self, event: Event) -> None:
        self.nodes[event.args["node_id"]].locks = event.args["locks"]

    def _on_StakeUnlocked(self, event: Event) -> None:
        self.nodes[event.args["node_id"]].locks = event.args["locks"]

    def _on_OperatorChanged(self, event: Event) -> None:
        """Read by `operator`."""

    def _on_PayoutChanged(self, event: Event) -> None:
        """Read by `payout`."""

    def _on_PenaltyChanged(self, event: Event) -> None:
        violation, old = event.args["violation"], Row(*event.args["old_penalty"])
        if old != self.rows.get(violation, NO_ROW):
            self.odd.append(f"PenaltyChanged of violation {violation} replaces another row: {old}.")
        self.rows[violation] = Row(*event.args["new_penalty"])

    def _on_ParametersChanged(self, event: Event) -> None:
        old = event.args["old_parameters"]
        if self.parameters is not None and tuple(old) != tuple(self.parameters):
            self.odd.append(f"ParametersChanged replaces other parameters: {tuple(old)}.")
        self.parameters = event.args["new_parameters"]
        self._treasury = str(self.parameters.treasury)

    def _on_BountyClaimed(self, event: Event) -> None:
        self.bounties[event.args["account"]] -= event.args["amount"]

    def _on_NodeSlashed(self, event: Event) -> None:
        args = event.args
        node_id, violation = args["node_id"], args["violation"]
        node, time = self.nodes[node_id], self._record.time(event)
        cause = self._take_cause(event)
        row = node.record.offend(violation, self.rows)
        offence = time if cause is None else cause.offence
        added = sum(amount for when, amount in node.additions if when > offence)
        amount = slash_amount(node.stake + node.unbonding, added, row.bps)
        reporter = args["reporter"] if cause is None else self._reporter(cause)
        own = (node.owner, self.operator(node_id, event))
        share = reporter_share(amount, row.reporter_bps)
        if reporter == NOBODY or reporter in own:
            share = 0
        if row.suspension:
            node.suspended_until = max(node.suspended_until, time + row.suspension)
        node.banned = node.banned or row.ban
        from_stake = min(node.stake, amount)
        node.stake -= from_stake
        node.unbonding -= amount - from_stake
        self.bounties[reporter] += share
        self.bounties[self._treasury] += amount - share
        wanted = {
            "amount": amount,
            "reporter": reporter,
            "reporter_share": share,
            "treasury_share": amount - share,
            "suspended_until": node.suspended_until,
            "strikes": node.strikes,
            "banned": node.banned,
        }
        self.slashes.append(Slash(event, cause, wanted))

    def _take_cause(self, event: Event) -> Cause | None:
        causes = self._open[event.tx_hash]
        for cause in causes:
            if (cause.node, cause.violation) == (event.args["node_id"], event.args["violation"]):
                causes.remove(cause)
                return cause
        return None

    def _reporter(self, cause: Cause) -> str:
        if cause.reporter is not None:
            return cause.reporter
        return self._record.sender(cause.event)


def check_slashes(registry: StakeBook, part: Part, job_id: int) -> None:
    """The slashes whose cause lies in this round; for round 0 all others, and the nodes' state."""
    for slash in registry.slashes:
        cause = slash.cause
        mine = cause is not None and cause.job_id == job_id
        if (cause.round_id if cause is not None and mine else 0) != part.round_id:
            continue
        args = slash.event.args
        who = f"node {args['node_id']}"
        kind = _violation(args["violation"])
        part.hold("slashes", cause is not None, who, f"it was slashed for {kind} without a cause.")
        for name, wanted in slash.wanted.items():
            part.same("slashes", who, f"{name} of its slash for {kind}", args[name], wanted)
        if cause is not None and cause.amount is not None:
            what = f"the amount in {cause.event.name}"
            part.same("slashes", who, what, cause.amount, slash.wanted["amount"])
    for cause in registry.unpunished:
        if (cause.round_id if cause.job_id == job_id else 0) == part.round_id:
            kind = _violation(cause.violation)
            sentence = f"{cause.event.name} says {kind}, but the registry logged no such slash."
            part.differ("slashes", f"node {cause.node}", sentence)


def _violation(number: int) -> str:
    known = number in Violation._value2member_map_
    return Violation(number).name if known else f"violation {number}"
