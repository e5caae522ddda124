# SPDX-License-Identifier: Apache-2.0
"""Who was paid what, and that every unit of the escrow is somewhere.

Rule: a round's pool is split by TrainingResults and RewardPool: cuts of the attesters by stake and
of the proposer, the rest by contribution, every division rounded down. What a spoiled round does
not pay is carried to the next one (carry.py); any other round gives the escrow back what it took
from there and did not pay. The share of a node whose report is confirmed is set aside until the
report ends, or is carried when it has ended in a slash. Of any other share the node's retained pay
is filled first; what a node with a lock earns beyond that is held until it has none. In a job that
adopted ScoreConsensus the rest is split by consensus, its own or the newest one, among all that
have one or all that the result names, and cuts are scaled by trust. The events, the pool as stored
and the sums over all events must agree to the last unit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import astuple

from agents.audit.chain.carry import pool_of
from agents.audit.chain.opening import guilty_at
from agents.audit.chain.scores import Scored
from agents.audit.chain.stakes import StakeBook
from agents.audit.chain.votes import Tally
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record, place
from agents.protocol import formulas
from agents.protocol.numbers import NOBODY, UNCLAIMED, Phase
from agents.protocol.slashing import NO_ROW
from agents.runtime.contracts import Event

_STATE = (
    *("owner", "stake", "unbonding", "unlock_at", "locks", "strikes", "suspended_until"),
    "banned",
)
_CLOSED = 3
_BATCH = 64


def check_payouts(
    record: Record,
    part: Part,
    standing: Tally | None,
    registry: StakeBook,
    scored: Scored | None = None,
    spared: bool = False,
) -> None:
    """The payments of a finished round.

    `scored`: of a job that adopted ScoreConsensus. `spared`: no scoring could be opened in it.
    """
    number, terms = part.round_id, record.job.terms
    reward, for_trainers = pool_of(record, number)
    cuts = record.of("CutCredited", number)
    batches = record.of("RewardsDistributed", number)
    closed = record.of("PoolClosed", number)
    part.same("payouts", "PoolClosed", "their number", len(closed), 1)
    pool = record.pools[record.job_id, number]
    part.same("payouts", "RewardPool", "the pool's status", pool.status, _CLOSED)
    final = record.current[number].phase == Phase.FINALIZED
    voids = [e.args["reason"] for e in record.of("RoundVoided", number)]
    wanted_voids = [] if final else [_why_void(record, number)]
    part.same("payouts", "RoundVoided", "reason", voids, wanted_voids)
    if standing is None or not final:
        part.same("payouts", "CutCredited", "their number", len(cuts), 0)
        part.same("payouts", "RewardsDistributed", "their number", len(batches), 0)
        spoiled = bool(record.of("ResultProposed", number))
        _check_closed(record, part, 0, reward, spoiled, for_trainers)
        return
    source, split = split_of(record, number, standing, scored, spared)
    paid = standing.contributions
    part.same("payouts", "RewardPool", "scored_round", pool.scored_round, source)
    for event in record.of("RoundFinalized", number):
        total = event.args["total_contribution"]
        part.same("payouts", "RoundFinalized", "total_contribution", total, sum(paid.values()))
    credited = 0
    wanted: list[tuple[int, str, int]] = []
    holding: list[tuple[int, int]] = []
    setting: list[tuple[int, int]] = []
    retaining: list[tuple[int, int]] = []
    if cuts or split.cuts:
        at = (record.of("RoundFinalized", number) or record.of("RoundOpened", number))[0]
        for node, amount in split.cuts:
            payout = registry.payout(node, at)
            if amount and is_locked(record, node, at):
                holding.append((node, amount))
                credited += amount
            elif amount and payout != NOBODY:
                wanted.append((node, payout, amount))
                credited += amount
    found = [(e.args["node_id"], e.args["payout"], e.args["amount"]) for e in cuts]
    for index in range(max(len(found), len(wanted))):
        one = found[index] if index < len(found) else None
        other = wanted[index] if index < len(wanted) else None
        who = f"node {(other or one or (0,))[0]}"
        part.same("payouts", who, f"cut {index} (node, payout, amount)", one, other)
    nodes: list[int] = []
    queue = list(split.parts)
    seen: list[int] = []
    for event in batches:
        args = event.args
        invalid, convicts = guilty_at(record, number, event), executed_at(record, number, event)
        last_of_batch = max(args["nodes"], default=0)
        while queue and (queue[0] <= last_of_batch or event is batches[-1]):
            node = queue.pop(0)
            if node not in invalid or node not in convicts:
                nodes.append(node)
        seen += list(args["nodes"])
        part.hold(
            "payouts",
            len(args["nodes"]) == len(args["payouts"]) == len(args["amounts"]) <= _BATCH,
            "RewardsDistributed",
            "its lists have different lengths.",
        )
        for node, payout, amount in zip(
            args["nodes"], args["payouts"], args["amounts"], strict=False
        ):
            where = registry.payout(node, event)
            due = split.shares.get(node, 0) if where != NOBODY else 0
            credited += due
            if due and node in invalid:
                setting.append((node, due))
                due = 0
            elif due and terms.retain_rounds and node != UNCLAIMED:
                before = retained_before(record, node, event)
                wanting = min(due, max(0, terms.retain_rounds * due - before))
                if wanting:
                    retaining.append((node, wanting))
                due -= wanting
            if due and is_locked(record, node, event):
                holding.append((node, due))
                due = 0
            part.same("payouts", f"node {node}", "where it was paid", payout, where)
            part.same("payouts", f"node {node}", "its pay", amount, due)
    part.same("payouts", "RewardsDistributed", "the nodes paid", seen, nodes)
    kept_as = (("PayHeld", holding), ("ShareSetAside", setting), ("PayRetained", retaining))
    for name, amounts in kept_as:
        kept = [(e.args["node_id"], e.args["amount"]) for e in record.of(name, number)]
        part.same("payouts", name, "(node, amount)", kept, amounts)
    part.same("payouts", "RewardPool", "trainer_amount", pool.trainer_amount, split.trainer_amount)
    total, brought = split.total, sum(split.parts.get(node, 0) for node in nodes)
    part.same("payouts", "RewardPool", "total_contribution", pool.total_contribution, total)
    part.same("payouts", "RewardPool", "distributed", pool.distributed, brought)
    last = nodes[-1] if nodes else 0
    part.same("payouts", "RewardPool", "last_node", pool.last_node, last)
    spoiled = any(guilty_at(record, number, event) for event in closed)
    _check_closed(record, part, credited, reward - credited, spoiled, None)
    settled = [(e.args["paid"], e.args["returned"]) for e in record.of("RoundSettled", number)]
    wanted_settled = [(credited, reward - credited)]
    part.same("payouts", "RoundSettled", "(paid, returned)", settled, wanted_settled)
    part.figures["paid"] = str(credited)


def split_of(
    record: Record, round_id: int, standing: Tally, scored: Scored | None, spared: bool
) -> tuple[int, formulas.Split]:
    """What each part of a finished round's pool is, and the round whose consensus it follows, 0 for
    none. The arguments are those of `check_payouts`."""
    terms, paid = record.job.terms, standing.contributions
    reward, for_trainers = pool_of(record, round_id)
    source, scores = (0, None) if scored is None else scored.pays(round_id, paid)
    factors = None if scored is None else {v: scored.factor(v, spared) for v in standing.attesters}
    split = formulas.split(
        reward,
        terms.verifier_bps,
        terms.aggregator_bps,
        standing.proposal.proposer,
        standing.attesters,
        paid,
        factors,
        scores,
        for_trainers,
    )
    return source, split


def is_locked(record: Record, node: int, at: Event) -> bool:
    """Whether a node's stake was locked when an event happened."""
    locks = 0
    for event in record.all("StakeLocked", "StakeUnlocked"):
        if event.args["node_id"] == node and place(event) < place(at):
            locks = event.args["locks"]
    return locks != 0


def retained_before(record: Record, node: int, at: Event) -> int:
    """What was retained of a node's pay in the job before the transaction of a RewardsDistributed.

    The contract logs what it retains before that event, in the same transaction and round.
    """
    found = 0
    for event in record.all("PayRetained", "RetainedReleased", "RetainedForfeited"):
        args = event.args
        if (args["job_id"], args["node_id"]) != (record.job_id, node) or place(event) > place(at):
            continue
        if event.name != "PayRetained":
            found = 0
        elif args["round_id"] != at.args["round_id"]:
            found += args["amount"]
    return found


def executed_at(record: Record, round_id: int, at: Event) -> set[int]:
    """Nodes that were slashed by a report of a round when an event happened."""
    mine = {e.args["report_id"] for e in record.of("ViolationReported", round_id)}
    return {
        event.args["node_id"]
        for event in record.all("ReportExecuted")
        if event.args["report_id"] in mine and place(event) < place(at)
    }


def _why_void(record: Record, round_id: int) -> str:
    """The reason that TrainingRounds or TrainingResults gives for a void round."""
    state = record.current[round_id]
    if not state.n_committed:
        return "no commits"
    if not state.n_revealed:
        return "no reveals"
    events = record.of("PhaseChanged", round_id)
    before = events[-2] if len(events) > 1 else None
    if before is None or before.args["phase"] == Phase.REVEAL:
        return "no time left"
    late = record.time(events[-1]) > before.args["deadline"]
    if before.args["phase"] == Phase.DISPUTED:
        return "dispute not resolved" if late else "no time left"
    windows = sum(e.args["phase"] == Phase.AGGREGATE for e in events)
    return "no result" if windows > 1 else "no time left"


def _check_closed(
    record: Record, part: Part, paid: int, unpaid: int, spoiled: bool, for_trainers: int | None
) -> None:
    """`for_trainers`: the part of what is carried that no cut is taken of; None for all of it."""
    pool = record.pools[record.job_id, part.round_id]
    brought = pool_of(record, part.round_id)[0] - record.job.terms.reward_per_round
    carried = unpaid if spoiled else min(unpaid, brought)
    alone = carried if for_trainers is None else for_trainers
    part.same("payouts", "RewardPool", "the amount paid", pool.paid, paid)
    for event in record.of("PoolClosed", part.round_id):
        part.same("payouts", "PoolClosed", "paid", event.args["paid"], paid)
        returned = unpaid - carried
        part.same("payouts", "PoolClosed", "returned", event.args["returned"], returned)
    events = record.of("PayCarried", part.round_id)
    kept = [(e.args["amount"], e.args["for_trainers"]) for e in events]
    wanted = [(carried, alone)] if carried else []
    part.same("payouts", "PayCarried", "(amount, for_trainers)", kept, wanted)


def check_balances(record: Record, part: Part, registry: StakeBook) -> None:
    """The escrow, what is pending for everybody, bounties, and every node's stake."""
    escrow: dict[int, int] = defaultdict(int)
    carry: dict[int, int] = defaultdict(int)
    pending: dict[str, int] = defaultdict(int)
    reserved = 0
    held: dict[int, int] = defaultdict(int)
    aside: dict[tuple[int, int, int], int] = defaultdict(int)
    names = ("JobFunded", "PoolReserved", "PoolClosed", "EscrowRefunded", "RewardClaimed")
    carries = ("PayCarried", "CarriedForfeited")
    retained: dict[tuple[int, int], int] = defaultdict(int)
    retentions = ("PayRetained", "RetainedReleased", "RetainedForfeited")
    holdings = ("PayHeld", "PayReleased", "ShareSetAside", "ShareSettled", *retentions)
    for event in record.all(*names, *carries, *holdings, "CutCredited", "RewardsDistributed"):
        args = event.args
        if event.name in holdings:
            node, amount = args["node_id"], args["amount"]
            if event.name == "PayHeld":
                held[node] += amount
                reserved -= amount
            elif event.name == "PayRetained":
                retained[args["job_id"], node] += amount
                reserved -= amount
            elif event.name in retentions:
                was = retained.pop((args["job_id"], node), 0)
                part.same("balances", event.name, f"node {node}", amount, was)
                freed = event.name == "RetainedReleased"
                pending[args["payout" if freed else "treasury"]] += amount
            elif event.name == "ShareSetAside":
                aside[args["job_id"], args["round_id"], node] += amount
                reserved -= amount
            elif event.name == "PayReleased":
                part.same("balances", "PayReleased", f"node {node}", amount, held.pop(node, 0))
                pending[args["payout"]] += amount
            else:
                share = aside.pop((args["job_id"], args["round_id"], node), 0)
                part.same("balances", "ShareSettled", f"node {node}", amount, share)
                if args["guilty"]:
                    carry[args["job_id"]] += amount
                    reserved += amount
                else:
                    pending[registry.payout(node, event)] += amount
            continue
        if event.name == "JobFunded":
            escrow[args["job_id"]] += args["amount"]
            what = f"escrow of job {args['job_id']}"
            part.same("balances", "JobFunded", what, args["escrow"], escrow[args["job_id"]])
        elif event.name == "PoolReserved":
            taken = args["amount"] - carry.pop(args["job_id"], 0)
            escrow[args["job_id"]] -= taken
            reserved += taken
        elif event.name == "PoolClosed":
            escrow[args["job_id"]] += args["returned"]
            reserved -= args["returned"]
        elif event.name == "PayCarried":
            carry[args["job_id"]] += args["amount"]
        elif event.name == "CarriedForfeited":
            what = f"what job {args['job_id']} carried"
            amount = carry.pop(args["job_id"], 0)
            part.same("balances", "CarriedForfeited", what, args["amount"], amount)
            pending[args["treasury"]] += args["amount"]
            reserved -= args["amount"]
        elif event.name == "EscrowRefunded":
            what = f"what the sponsor of job {args['job_id']} got back"
            part.same("balances", "EscrowRefunded", what, args["amount"], escrow[args["job_id"]])
            if args["job_id"] == record.job_id:
                sponsor = record.job.sponsor
                part.same("balances", "EscrowRefunded", "sponsor", args["sponsor"], sponsor)
            escrow[args["job_id"]] = 0
        elif event.name == "RewardClaimed":
            what = f"what {args['account']} claimed"
            part.same("balances", "RewardClaimed", what, args["amount"], pending[args["account"]])
            pending[args["account"]] = 0
        elif event.name == "CutCredited":
            pending[args["payout"]] += args["amount"]
            reserved -= args["amount"]
        else:
            for payout, amount in zip(args["payouts"], args["amounts"], strict=False):
                pending[payout] += amount
                reserved -= amount
    part.same("balances", "RewardPool", "the job's escrow", record.escrow, escrow[record.job_id])
    part.same("balances", "RewardPool", "carried", record.carried, carry[record.job_id])
    for account, amount in pending.items():
        part.same(
            "balances",
            "RewardPool",
            f"pending of {account}",
            record.pending.get(account, 0),
            amount,
        )
    sums = {
        "total_escrow": sum(escrow.values()),
        "total_reserved": reserved,
        "total_pending": sum(pending.values()),
        "total_held": sum(held.values()) + sum(aside.values()) + sum(retained.values()),
    }
    for name, wanted in sums.items():
        part.same("balances", "RewardPool", name, record.totals[name], wanted)
    for sentence in registry.odd:
        part.differ("balances", "NodeRegistry", sentence)
    part.same(
        "balances", "NodeRegistry", "the number of nodes", len(registry.nodes), len(record.nodes)
    )
    for number, node in registry.nodes.items():
        state = record.nodes.get(number)
        if state is None:
            continue
        last = record.last
        for name, found in (
            ("operator", registry.operator(number, last)),
            ("payout", registry.payout(number, last)),
        ):
            part.same("balances", f"node {number}", name, getattr(state, name), found)
        part.same("balances", f"node {number}", "roles", state.roles, node.roles)
        approved = state.approved_roles
        part.same("balances", f"node {number}", "approved_roles", approved, node.approved)
        for name in _STATE:
            part.same("balances", f"node {number}", name, getattr(state, name), getattr(node, name))
    for violation, kept in record.penalties.items():
        row = registry.rows.get(violation, NO_ROW)
        part.same("balances", "slashing table", f"row {violation}", astuple(kept), astuple(row))
    part.same("balances", "NodeRegistry", "parameters", record.parameters, registry.parameters)
    for account, amount in registry.bounties.items():
        if account != NOBODY:
            owed = record.bounties.get(account, 0)
            part.same("balances", "NodeRegistry", f"bounty of {account}", owed, amount)
