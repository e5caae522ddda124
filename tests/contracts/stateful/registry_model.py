# SPDX-License-Identifier: Apache-2.0
"""A reference model of NodeRegistry and NodeBenchmarks in plain Python, written from their rules
and not from their code.

Every method checks first and changes afterwards, so a refusal leaves the model as it was. Amounts
are in wei, times in seconds. `now` and `block` are set by whoever drives the model."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.contracts.stateful.machine import Refused, need

TRAINER, VERIFIER, AGGREGATOR = ROLES = 1, 2, 4
REPEATED, FALSE_REPORT = 4, 6
REDUNDANCY_MISMATCH, ABORT = 7, 8
ZOO = 10**18
ZERO = "0x" + "00" * 20
EMPTY = bytes(32)
RING = 16
MAX_VOICES, VOICE_CAP, SCORE_PERIODS = 32, 2, 4
LIFETIME = 256

Row = tuple[int, int, int, bool, bool, int]  # as IPenalties.Penalty


@dataclass
class Draw:
    """A seed pinned to the hash of block `target`."""

    target: int = 0
    captured: bool = False


@dataclass
class Attempt:
    attempt: int = 0
    requested_at: int = 0
    submitted_at: int = 0
    units: int = 0
    root: bytes = EMPTY
    artefact: bytes = EMPTY
    passes: int = 0
    fails: int = 0
    settled: bool = False
    seed: Draw = field(default_factory=Draw)
    check: Draw = field(default_factory=Draw)
    voted: dict[int, tuple[bool, int]] = field(default_factory=dict)
    """By verifier: its verdict, and when it gave it."""
    overruled: set[int] = field(default_factory=set)
    passed: bool = False  # what it was settled to
    condemned: bool = False


@dataclass
class ModelNode:
    owner: str
    operator: str
    payout: str
    roles: int
    stake: int
    registered_at: int
    approved: int = 0
    unbonding: int = 0
    unlock_at: int = 0
    suspended_until: int = 0
    banned: bool = False
    active: bool = True
    strikes: int = 0
    score: int = 0  # as it was given; it expires
    scored_at: int = 0
    locked: int = 0  # locks at the last change of the record
    locks: Counter[str] = field(default_factory=Counter)
    offences: Counter[int] = field(default_factory=Counter)
    additions: list[tuple[int, int]] = field(default_factory=list)  # (amount, time)
    attempt: Attempt = field(default_factory=Attempt)

    def added_since(self, time: int) -> int:
        """What was added later than `time`, among the additions that are remembered."""
        return sum(amount for amount, added in self.additions[-RING:] if added > time)


@dataclass
class Settings:
    unbonding: int
    stakes: dict[int, int]
    window: int
    quorum: int
    treasury: str


class RegistryModel:
    def __init__(
        self,
        coordinator: str,
        benchmarks: str,
        slashers: list[str],
        settings: Settings,
        rows: dict[int, Row],
    ) -> None:
        self.coordinator = coordinator
        self.benchmarks = benchmarks
        self.slashers = [*slashers, benchmarks]
        self.settings = settings
        self.rows: dict[int, Row] = defaultdict(lambda: (0, 0, 0, False, False, 0), rows)
        self.nodes: dict[int, ModelNode] = {}
        self.attempts: dict[tuple[int, int], Attempt] = {}  # by node and number, all of them
        self.lists: dict[int, list[int]] = {role: [] for role in ROLES}
        self.bounties: Counter[str] = Counter()
        self.wallets: Counter[str] = Counter()
        self.held = 0
        self.paused = 0
        self.benchmarks_paused = 0
        self.now = 0
        self.block = 0

    # What can be read

    def locks(self, node_id: int) -> int:
        return sum(self.nodes[node_id].locks[s] for s in self.slashers)

    def score(self, node_id: int) -> int:
        """The benchmark score, 0 once it has expired."""
        n = self.nodes[node_id]
        return n.score if self.now < n.scored_at + SCORE_PERIODS * self.settings.unbonding else 0

    def maturity(self) -> int:
        return max(self.settings.unbonding // 1_000, 1)

    def voters(self, before: int) -> tuple[list[int], list[int]]:
        """Verifiers at rest or not, one an owner, by the stake that each had at `before`."""
        least = self.settings.stakes[VERIFIER]
        found: dict[int, int] = {}
        owners: set[str] = set()
        for node_id in self.lists[VERIFIER]:
            n = self.nodes[node_id]
            old = max(n.stake - n.added_since(before), 0)
            if n.registered_at <= before and old >= least and n.owner not in owners:
                owners.add(n.owner)
                found[node_id] = min(old, VOICE_CAP * least)
        ids = list(found)[:MAX_VOICES]
        return ids, [found[i] for i in ids]

    def acting(self, node_id: int) -> str:
        """The key that votes for a node."""
        n = self.nodes[node_id]
        return ZERO if n.banned or self.now < n.suspended_until else n.operator

    def bonded(self, node_id: int) -> int:
        return self.nodes[node_id].stake + self.nodes[node_id].unbonding

    def stake_at_risk(self, node_id: int, since: int, until: int) -> int:
        n = self.nodes.get(node_id)
        leaves = n is not None and 0 < n.unlock_at < until
        if n is None or n.banned or n.locked or n.suspended_until > since or leaves:
            return 0
        return max(self.bonded(node_id) - n.added_since(since), 0)

    def node_of(self, operator: str) -> int:
        owners = [i for i, n in self.nodes.items() if n.operator == operator != ZERO]
        assert len(owners) <= 1
        return owners[0] if owners else 0

    def is_eligible(self, node_id: int, role: int) -> bool:
        if node_id not in self.nodes or role not in ROLES:
            return False
        n = self.nodes[node_id]
        return (
            bool(n.roles & role)
            # A lowered minimum counts for a trainer from the node's next change on, and so do the
            # locks of a slasher that was delisted.
            and node_id in self.lists[role]
            and (role == TRAINER or bool(n.approved & role))
            and (role != TRAINER or self.score(node_id) > 0)
            and n.active
            and not n.banned
            and n.unlock_at == 0
            and self.now >= n.suspended_until
            and n.stake >= self.settings.stakes[role]
        )

    def eligible(self, role: int, start: int, limit: int) -> tuple[list[int], list[int]]:
        entries = self.lists[role]
        if not entries:
            return [], []
        at = start % len(entries)
        ids = [i for i in (entries[at:] + entries[:at])[:limit] if self.is_eligible(i, role)]
        return ids, [self.score(i) if role == TRAINER else self.nodes[i].stake for i in ids]

    # Node life

    def register_node(self, sender: str, operator: str, payout: str, roles: int, stake: int) -> int:
        need(not self.paused & 1, "pausing: paused")
        need(operator != ZERO, "registry: zero address")
        need(self.node_of(operator) == 0, "registry: operator in use")
        need(payout != ZERO, "registry: zero address")
        self._need_roles(roles, stake)
        node_id = len(self.nodes) + 1
        self.nodes[node_id] = ModelNode(sender, operator, payout, roles, stake, self.now)
        self._pay_in(sender, stake)
        self._relist(node_id)
        return node_id

    def add_stake(self, sender: str, node_id: int, amount: int) -> None:
        n = self._owned(sender, node_id)
        self._need_staying(n)
        need(amount >= ZOO, "registry: addition too small")
        forgotten = n.additions[-RING][1] if len(n.additions) >= RING else None
        free = forgotten is None or self.now >= forgotten + self.settings.unbonding
        need(free, "registry: too many additions")
        n.stake += amount
        n.additions.append((amount, self.now))
        self._pay_in(sender, amount)
        self._relist(node_id)

    def begin_exit(self, sender: str, node_id: int) -> None:
        n = self._owned(sender, node_id)
        need(n.unlock_at == 0, "registry: exiting")
        n.stake, n.unbonding = 0, n.stake
        n.unlock_at = self.now + self.settings.unbonding
        self._relist(node_id)

    def withdraw(self, sender: str, node_id: int) -> None:
        n = self._owned(sender, node_id)
        need(n.unlock_at != 0, "registry: not exiting")
        need(n.operator != ZERO, "registry: closed")
        need(self.now >= n.unlock_at, "registry: still unbonding")
        need(self.locks(node_id) == 0, "registry: stake locked")
        self._pay_out(sender, n.unbonding)
        n.unbonding = 0
        n.operator = ZERO

    def set_operator(self, sender: str, node_id: int, operator: str) -> None:
        n = self._owned(sender, node_id)
        need(n.operator != ZERO, "registry: closed")
        need(operator != ZERO, "registry: zero address")
        need(self.node_of(operator) == 0, "registry: operator in use")
        n.operator = operator

    def set_payout(self, sender: str, node_id: int, payout: str) -> None:
        n = self._owned(sender, node_id)
        need(payout != ZERO, "registry: zero address")
        n.payout = payout

    def set_roles(self, sender: str, node_id: int, roles: int) -> None:
        n = self._owned(sender, node_id)
        self._need_staying(n)
        self._need_roles(roles, n.stake)
        n.roles = roles
        n.approved &= roles
        self._relist(node_id)

    def set_active(self, sender: str, node_id: int, active: bool) -> None:
        self._served(sender, node_id).active = active
        self._relist(node_id)

    def claim_bounty(self, sender: str) -> int:
        amount = self.bounties[sender]
        need(amount > 0, "registry: nothing to claim")
        del self.bounties[sender]
        self._pay_out(sender, amount)
        return amount

    # NodeBenchmarks

    def request_benchmark(self, sender: str, node_id: int) -> None:
        n = self._measuring(sender, node_id)
        need(bool(n.roles & TRAINER), "benchmarks: not a trainer")
        need(not self._pending(n.attempt), "benchmarks: benchmark pending")
        n.attempt = Attempt(n.attempt.attempt + 1, self.now, seed=Draw(self.block + 1))
        self.attempts[node_id, n.attempt.attempt] = n.attempt

    def capture_benchmark_seed(self, _sender: str, node_id: int) -> None:
        self._capture(self._attempt(node_id).seed)

    def capture_check_seed(self, _sender: str, node_id: int) -> None:
        self._capture(self._attempt(node_id).check)

    def submit_benchmark(
        self, sender: str, node_id: int, its_seed: bool, units: int, root: bytes, artefact: bytes
    ) -> None:
        """`its_seed`: whether the answer names the attempt's seed."""
        a = self._measuring(sender, node_id).attempt
        need(a.attempt != 0 and a.submitted_at == 0, "benchmarks: no benchmark pending")
        need(self._pending(a), "benchmarks: benchmark window passed")
        need(0 < units <= 1_000_000, "benchmarks: bad units")
        need(root != EMPTY and artefact != EMPTY, "benchmarks: empty benchmark")
        captured = a.seed.captured
        self._capture_now(a.seed)
        if not its_seed:
            a.seed.captured = captured
        need(its_seed, "benchmarks: not its seed")
        a.submitted_at, a.units, a.root, a.artefact = self.now, units, root, artefact
        a.check.target = self.block + 1

    def submit_verdicts(
        self, _sender: str, node_id: int, passed: bool, verifiers: list[int], signers: list[str]
    ) -> None:
        """`signers` are the addresses that signed this very verdict."""
        need(not self.benchmarks_paused, "pausing: paused")
        a = self._attempt(node_id)
        need(a.submitted_at != 0, "benchmarks: no benchmark submitted")
        need(not a.settled, "benchmarks: benchmark settled")
        need(len(verifiers) > 0, "benchmarks: bad verdicts")
        captured = a.check.captured
        self._capture_now(a.check)
        votes = a.passes if passed else a.fails
        ids, weights = self.voters(a.submitted_at - self.maturity())
        voices = dict(zip(ids, weights, strict=True))
        owner = self.nodes[node_id].owner
        total = sum(w for v, w in voices.items() if self.nodes[v].owner != owner)
        weight = sum(w for v, w in voices.items() if a.voted.get(v, (None, 0))[0] is passed)
        voted: set[int] = set()
        try:
            for verifier, signer in zip(verifiers, signers, strict=True):
                if votes >= self.settings.quorum and 2 * weight > total:
                    break
                need(verifier in voices, "benchmarks: not a verifier")
                need(self.nodes[verifier].owner != owner, "benchmarks: own benchmark")
                need(verifier not in a.voted.keys() | voted, "benchmarks: verdict already given")
                need(signer == self.acting(verifier), "benchmarks: bad signature")
                voted.add(verifier)
                votes += 1
                weight += voices[verifier]
        except Refused:
            a.check.captured = captured
            raise
        a.voted |= dict.fromkeys(voted, (passed, self.now))
        if passed:
            a.passes = votes
        else:
            a.fails = votes
        if votes >= self.settings.quorum and 2 * weight > total:
            a.settled, a.passed = True, passed
            if passed:
                elapsed = max(a.submitted_at - a.requested_at, 1)
                self._give_score(node_id, a.units * 10**6 // elapsed)

    def overrule(
        self, sender: str, node_id: int, number: int, passed: bool, verifiers: list[int]
    ) -> None:
        self._need_coordinator(sender)
        a = self.attempts.get((node_id, number), Attempt())
        for i, verifier in enumerate(verifiers):
            once = verifier not in a.overruled and verifier not in verifiers[:i]
            gave = a.voted.get(verifier, (not passed, 0))[0] is passed
            need(once and gave, "benchmarks: not its verdict")
        if passed:
            need(node_id in self.nodes, "registry: unknown node")
        for verifier in verifiers:
            a.overruled.add(verifier)
            self._punish(verifier, a.voted[verifier][1])
        if passed:
            self._give_score(node_id, 0)
            if a.settled and not a.condemned:
                self._condemn(node_id, a)

    def condemn(self, sender: str, node_id: int, number: int) -> None:
        self._need_coordinator(sender)
        a = self.attempts.get((node_id, number), Attempt())
        due = a.settled and a.fails > 0 and not a.condemned
        need(due, "benchmarks: nothing to condemn")
        self._condemn(node_id, a)
        if a.passed:
            self._give_score(node_id, 0)

    def _condemn(self, node_id: int, a: Attempt) -> None:
        a.condemned = True
        self._punish(node_id, a.submitted_at)

    def _punish(self, node_id: int, offence_time: int) -> None:
        self.slash(self.benchmarks, node_id, FALSE_REPORT, offence_time, ZERO)

    def _give_score(self, node_id: int, score: int) -> None:
        self.nodes[node_id].score, self.nodes[node_id].scored_at = score, self.now
        self._relist(node_id)

    # Slashers

    def slash(
        self, sender: str, node_id: int, violation: int, offence_time: int, reporter: str
    ) -> int:
        need(sender in self.slashers, "registry: not a slasher")
        need(node_id in self.nodes, "registry: unknown node")
        need(offence_time <= self.now, "registry: offence in the future")
        need(1 <= violation <= 16, "penalties: unknown violation")
        n = self.nodes[node_id]
        bps, suspension, strike, ban, reporter_bps = self._offence(n, violation)
        if strike:
            n.strikes += 1
            if n.strikes >= 3:
                bps, suspension, _, ban, reporter_bps = self._offence(n, REPEATED)
        base = max(self.bonded(node_id) - n.added_since(offence_time), 0)
        amount = -(-base * bps // 10_000)
        from_stake = min(amount, n.stake)
        n.stake -= from_stake
        n.unbonding -= amount - from_stake
        share = amount * reporter_bps // 10_000
        if reporter != sender and reporter in (ZERO, n.owner, n.operator):
            share = 0
        self.bounties[reporter] += share
        self.bounties[self.settings.treasury] += amount - share
        if suspension:
            n.suspended_until = max(n.suspended_until, self.now + suspension)
        n.banned = n.banned or ban
        self._relist(node_id)
        return amount

    def lock(self, sender: str, node_id: int) -> None:
        need(sender in self.slashers, "registry: not a slasher")
        need(node_id in self.nodes, "registry: unknown node")
        self.nodes[node_id].locks[sender] += 1
        self._relist(node_id)

    def unlock(self, sender: str, node_id: int) -> None:
        need(node_id in self.nodes and self.nodes[node_id].locks[sender] > 0, "registry: no lock")
        self.nodes[node_id].locks[sender] -= 1
        self._relist(node_id)

    # Coordinator

    def approve_role(self, sender: str, node_id: int, role: int, approved: bool) -> None:
        self._need_coordinator(sender)
        need(node_id in self.nodes, "registry: unknown node")
        need(role in (VERIFIER, AGGREGATOR), "registry: role needs no approval")
        n = self.nodes[node_id]
        need(bool(n.roles & role), "registry: role not requested")
        n.approved = n.approved | role if approved else n.approved & ~role
        self._relist(node_id)

    def set_slasher(self, sender: str, slasher: str, allowed: bool) -> None:
        self._need_coordinator(sender)
        need((slasher in self.slashers) != allowed, "registry: slasher unchanged")
        if allowed:
            self.slashers.append(slasher)
        else:
            self.slashers.remove(slasher)

    def set_parameters(self, sender: str, settings: Settings) -> None:
        self._need_coordinator(sender)
        self.settings = settings

    def set_penalty(self, sender: str, violation: int, row: Row) -> None:
        self._need_coordinator(sender)
        need(1 <= violation <= 16, "penalties: unknown violation")
        rows = {i: self.rows[i] for i in (REDUNDANCY_MISMATCH, ABORT)} | {violation: row}
        columns = zip(rows[ABORT], rows[REDUNDANCY_MISMATCH], strict=True)
        # All but the last, the reporter's share.
        dearer = all(abort >= mismatch for abort, mismatch in list(columns)[:-1])
        need(dearer, "penalties: abort below mismatch")
        self.rows[violation] = row

    def set_paused(self, sender: str, bits: int) -> None:
        self._need_coordinator(sender)
        need(bits <= 1, "pausing: unknown bit")
        self.paused = bits

    def pause_benchmarks(self, sender: str, bits: int) -> None:
        """`set_paused` of NodeBenchmarks."""
        self._need_coordinator(sender)
        need(bits <= 1, "pausing: unknown bit")
        self.benchmarks_paused = bits

    # Inside

    def _owned(self, sender: str, node_id: int) -> ModelNode:
        need(node_id in self.nodes, "registry: unknown node")
        need(sender == self.nodes[node_id].owner, "registry: not the owner")
        return self.nodes[node_id]

    def _served(self, sender: str, node_id: int) -> ModelNode:
        need(node_id in self.nodes, "registry: unknown node")
        n = self.nodes[node_id]
        need(sender in (n.owner, n.operator), "registry: not the owner or operator")
        return n

    def _measuring(self, sender: str, node_id: int) -> ModelNode:
        need(not self.benchmarks_paused, "pausing: paused")
        need(node_id in self.nodes, "benchmarks: unknown node")
        n = self.nodes[node_id]
        need(sender in (n.owner, n.operator), "benchmarks: not the owner or operator")
        need(n.unlock_at == 0, "benchmarks: exiting")
        need(not n.banned, "benchmarks: banned")
        return n

    def _need_coordinator(self, sender: str) -> None:
        need(sender == self.coordinator, "ownable: caller is not the owner")

    def _need_staying(self, n: ModelNode) -> None:
        need(n.unlock_at == 0, "registry: exiting")
        need(not n.banned, "registry: banned")

    def _need_roles(self, roles: int, stake: int) -> None:
        need(0 < roles <= 7, "registry: bad roles")
        least = min(self.settings.stakes[role] for role in ROLES if roles & role)
        need(stake >= least, "registry: stake too low")

    def _pay_in(self, account: str, amount: int) -> None:
        self.wallets[account] -= amount
        self.held += amount

    def _pay_out(self, account: str, amount: int) -> None:
        self.wallets[account] += amount
        self.held -= amount

    def _offence(self, n: ModelNode, violation: int) -> tuple[int, int, bool, bool, int]:
        bps, escalation, suspension, strike, ban, reporter_bps = self.rows[violation]
        bps = min(10_000, bps + escalation * n.offences[violation])
        n.offences[violation] += 1
        return bps, suspension, strike, ban, reporter_bps

    def _relist(self, node_id: int) -> None:
        n = self.nodes[node_id]
        n.locked = self.locks(node_id)
        free = n.locked == 0 and n.unlock_at == 0 and not n.banned
        for role in ROLES:
            entries = self.lists[role]
            belongs = bool(n.roles & role) and free
            if role == TRAINER:
                bonded = n.stake >= self.settings.stakes[role]
                belongs = belongs and n.active and self.score(node_id) > 0 and bonded
            else:
                belongs = belongs and bool(n.approved & role)
            if belongs and node_id not in entries:
                entries.append(node_id)
            elif not belongs and node_id in entries:
                place, last = entries.index(node_id), entries.pop()
                if last != node_id:
                    entries[place] = last

    def _attempt(self, node_id: int) -> Attempt:
        return self.nodes[node_id].attempt if node_id in self.nodes else Attempt()

    def _pending(self, a: Attempt) -> bool:
        in_time = self.now <= a.requested_at + self.settings.window
        return a.attempt != 0 and not a.settled and in_time

    def _capture(self, draw: Draw) -> None:
        if draw.captured:
            return
        need(draw.target != 0, "randomness: not requested")
        need(self.block > draw.target, "randomness: too early")
        if self.block - draw.target <= LIFETIME:
            draw.captured = True
        else:
            draw.target = self.block + 1

    def _capture_now(self, draw: Draw) -> None:
        expired = not draw.captured and self.block - draw.target > LIFETIME
        need(not expired, "benchmarks: seed expired")
        self._capture(draw)
