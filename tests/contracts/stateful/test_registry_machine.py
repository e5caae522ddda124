# SPDX-License-Identifier: Apache-2.0
"""Rule: over random histories NodeRegistry and NodeBenchmarks equal their reference model in every
view, every refusal and every token balance, after every step."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from random import Random
from typing import Any

import boa
from eth_abi import encode
from eth_utils import keccak
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from tests.contracts.stateful.machine import Machine, Refused, limits
from tests.contracts.stateful.registry_model import (
    EMPTY,
    ROLES,
    ZERO,
    ZOO,
    Attempt,
    Draw,
    ModelNode,
    RegistryModel,
    Settings,
)
from tests.stage.contracts.clock import block, hash_of, install_block_hashes, mine, now
from tests.stage.contracts.registry import (
    CHECK_DOMAIN,
    DAY,
    DEFAULT_ROWS,
    GAS_CAP,
    SEED_DOMAIN,
    account,
    address_of,
    consent,
    deploy_registry,
    draw_key,
    seed_now,
)

OPERATORS = [account(f"operator {i}") for i in range(7)]
KEYS = {str(key.address): key for key in OPERATORS}
OPERATOR_ADDRESSES = list(KEYS)
OWNERS = [str(account(f"owner {i}").address) for i in range(3)]
SLASHERS = [str(account(f"slasher {i}").address) for i in range(2)]
COORDINATOR, TREASURY, REPORTER, BENCHMARKS = map(
    address_of, ("coordinator", "treasury", "reporter", "benchmarks contract")
)
PEOPLE = [*OWNERS, *OPERATOR_ADDRESSES, *SLASHERS, COORDINATOR, TREASURY, REPORTER]
WEALTH = 10**7 * ZOO
MOST_NODES = 6

AMOUNTS = [ZOO - 1, ZOO, 100 * ZOO - 1, 100 * ZOO, 500 * ZOO, 1_000 * ZOO + 1]
ROLE_BITS = [1, 1, 2, 3, 3, 4, 5, 6, 7, 7, 0, 8]

# How often each action is tried, out of the sum.
WEIGHTS = {
    "register_node": 3,
    "add_stake": 4,
    "begin_exit": 1,
    "withdraw": 2,
    "set_operator": 1,
    "set_payout": 1,
    "set_roles": 2,
    "set_active": 4,
    "claim_bounty": 2,
    "request_benchmark": 3,
    "capture": 2,
    "submit_benchmark": 6,
    "submit_verdicts": 8,
    "overrule": 2,
    "condemn": 3,
    "slash": 8,
    "lock_or_unlock": 3,
    "approve_role": 4,
    "set_slasher": 1,
    "set_penalty": 1,
    "set_parameters": 3,
    "set_paused": 2,
    "pause_benchmarks": 1,
    "time_passes": 5,
}
# Every step looks at the node it acted on; every so many steps, and at the end, at everything.
FULL_EVERY = 10

seeds = st.integers(0, 2**32 - 1)


@cache
def codes() -> tuple[Any, Any, Any]:
    names = "ZooToken", "NodeRegistry", "NodeBenchmarks"
    token, registry, benchmarks = (boa.load_partial(f"contracts/{name}.vy") for name in names)
    return token, registry, benchmarks


# What NodeBenchmarks does; everything else is the registry's.
MEASURING = {
    "request_benchmark",
    "capture_benchmark_seed",
    "submit_benchmark",
    "capture_check_seed",
    "submit_verdicts",
    "overrule",
    "condemn",
    "pause_benchmarks",
}


def amount(r: Random) -> int:
    """Mostly a useful stake with odd wei, sometimes a limit."""
    return r.choice(AMOUNTS) if r.random() < 0.3 else r.randint(100 * ZOO, 1_500 * ZOO)


def as_parameters(s: Settings) -> tuple[Any, ...]:
    return (s.unbonding, *(s.stakes[r] for r in ROLES), s.window, s.quorum, s.treasury)


class RegistryMachine(Machine):
    def __init__(self) -> None:
        super().__init__()
        token_code, registry_code, benchmarks_code = codes()
        boa.env.evm.patch.gas_limit = GAS_CAP
        install_block_hashes()
        mine(1_000)
        start = Settings(10 * DAY, {1: 100 * ZOO, 2: 500 * ZOO, 4: 1_000 * ZOO}, 3_600, 2, TREASURY)
        self.token = token_code.deploy(OWNERS[0], 3 * WEALTH)
        self.registry, self.benchmarks = deploy_registry(
            registry_code,
            benchmarks_code,
            self.token,
            COORDINATOR,
            [*SLASHERS, BENCHMARKS],
            as_parameters(start),
        )
        self.model = RegistryModel(COORDINATOR, BENCHMARKS, SLASHERS, start, dict(DEFAULT_ROWS))
        for owner in OWNERS:
            self.token.approve(self.registry.address, 2**256 - 1, sender=owner)
            self.model.wallets[owner] = WEALTH
            if owner != OWNERS[0]:
                self.token.transfer(owner, WEALTH, sender=OWNERS[0])

        self.steps = 0
        self.touched: set[int] = set()

    def teardown(self) -> None:
        self.check(range(1, len(self.model.nodes) + 1), ROLES, PEOPLE)
        super().teardown()

    @initialize(seed=seeds)
    def first_nodes(self, seed: int) -> None:
        """Three owners, each with a node for every role that may verify; two have a score."""
        self.seed = seed
        r = Random(seed)
        for i in range(3):
            stake = r.randint(600 * ZOO, 1_500 * ZOO)
            self.register(OWNERS[i], OPERATOR_ADDRESSES[i], PEOPLE[i + 9], 7, stake)
            self.both("approve_role", COORDINATOR, i + 1, 2, True)
        self.measure(1, [2, 3])
        self.measure(2, [3, 1])

    # Hypothesis likes to repeat a value; history and step number keep the choices well spread.
    @rule(seed=seeds)
    def act(self, seed: int) -> None:
        r = Random(f"{self.seed} {self.steps} {seed}")
        (action,) = r.choices(list(WEIGHTS), list(WEIGHTS.values()))
        getattr(self, f"do_{action}")(r)

    # Driving both

    def both(
        self, function: str, sender: str, *arguments: Any, chain: tuple[Any, ...] = ()
    ) -> None:
        """Calls the model and the contract and compares outcome and answer; `chain` replaces the
        contract's arguments where they differ."""
        self.model.now, self.model.block = now(), block()
        self.touched |= {a for a in arguments[:1] if isinstance(a, int)}
        contract = self.benchmarks if function in MEASURING else self.registry
        call = getattr(contract, "set_paused" if function == "pause_benchmarks" else function)
        given = chain or arguments
        reasons, answer = {}, None
        try:
            answer = getattr(self.model, function)(sender, *arguments)
        except Refused as refusal:
            reasons[str(refusal)] = True
        self.attempt(reasons, lambda: call(*given, sender=sender), answer)

    def node(self, r: Random) -> int:
        """Mostly a known node, often one with a score, sometimes the next unknown one."""
        known = len(self.model.nodes)
        scored = [i for i, n in self.model.nodes.items() if n.score and not n.unlock_at]
        if scored and r.random() < 0.3:
            return r.choice(scored)
        return r.randint(1, known) if r.random() < 0.95 else known + 1

    def sender(self, r: Random, rightful: str) -> str:
        """Mostly the rightful sender, so that histories get somewhere."""
        wrong = r.random() < 0.1
        return r.choice(PEOPLE) if wrong or rightful == ZERO else rightful

    def owner(self, r: Random, node_id: int) -> str:
        return self.sender(r, getattr(self.model.nodes.get(node_id), "owner", ZERO))

    def server(self, r: Random, node_id: int) -> str:
        return self.sender(r, getattr(self.model.nodes.get(node_id), "operator", ZERO))

    # Node life

    def consent(self, operator: str, owner: str) -> bytes:
        """The operator's signature that it serves a node of the owner."""
        return b"" if operator == ZERO else consent(self.registry, KEYS[operator], owner)

    def register(self, owner: str, *arguments: Any) -> None:
        signed = self.consent(arguments[0], owner)
        self.both("register_node", owner, *arguments, chain=(*arguments, EMPTY, signed))
        self.touched.add(len(self.model.nodes))

    def do_register_node(self, r: Random) -> None:
        if len(self.model.nodes) < MOST_NODES:
            owner = r.choice(OWNERS)
            self.register(
                owner,
                r.choice([*OPERATOR_ADDRESSES, ZERO]),
                r.choice([*PEOPLE, ZERO]),
                r.choice(ROLE_BITS),
                amount(r),
            )

    def do_add_stake(self, r: Random) -> None:
        nodes = {i: n for i, n in self.model.nodes.items() if n.score and not n.banned}
        least = self.model.settings.stakes[1]
        poor = [i for i, n in nodes.items() if n.stake < least and not n.unlock_at]
        node_id, added = self.node(r), amount(r)
        if poor and r.random() < 0.8:
            node_id = r.choice(poor)
            added = max(added, least - nodes[node_id].stake)
        sender = self.owner(r, node_id)
        if sender in OWNERS:  # the others have no tokens
            self.both("add_stake", sender, node_id, added)

    def do_begin_exit(self, r: Random) -> None:
        node_id = r.randint(1, len(self.model.nodes) + 1)
        self.both("begin_exit", self.owner(r, node_id), node_id)

    def do_withdraw(self, r: Random) -> None:
        leaving = [i for i, n in self.model.nodes.items() if n.unlock_at]
        node_id = r.choice(leaving) if leaving else self.node(r)
        if leaving and r.random() < 0.5:
            mine(1, max(self.model.nodes[node_id].unlock_at - now(), 0))
        self.both("withdraw", self.owner(r, node_id), node_id)

    def do_set_operator(self, r: Random) -> None:
        node_id = self.node(r)
        sender, operator = self.owner(r, node_id), r.choice([*OPERATOR_ADDRESSES, ZERO])
        signed = self.consent(operator, sender)
        chain = node_id, operator, signed
        self.both("set_operator", sender, node_id, operator, chain=chain)

    def do_set_payout(self, r: Random) -> None:
        node_id = self.node(r)
        self.both("set_payout", self.owner(r, node_id), node_id, r.choice([*PEOPLE, ZERO]))

    def do_set_roles(self, r: Random) -> None:
        node_id = self.node(r)
        self.both("set_roles", self.owner(r, node_id), node_id, r.choice(ROLE_BITS))

    def do_set_active(self, r: Random) -> None:
        resting = [i for i, n in self.model.nodes.items() if not n.active]
        node_id = r.choice(resting) if resting and r.random() < 0.5 else self.node(r)
        active = r.random() < (0.9 if node_id in resting else 0.4)
        self.both("set_active", self.server(r, node_id), node_id, active)

    def do_claim_bounty(self, r: Random) -> None:
        credited = [a for a, amount in self.model.bounties.items() if amount]
        self.both("claim_bounty", r.choice(credited) if credited else r.choice(PEOPLE))

    # Benchmark

    def do_request_benchmark(self, r: Random) -> None:
        node_id = self.node(r)
        self.both("request_benchmark", self.server(r, node_id), node_id)

    def do_capture(self, r: Random) -> None:
        which = r.choice(["capture_benchmark_seed", "capture_check_seed"])
        self.both(which, r.choice(PEOPLE), self.node(r))

    def do_submit_benchmark(self, r: Random) -> None:
        waiting = [i for i, n in self.model.nodes.items() if not n.attempt.submitted_at]
        node_id = r.choice(waiting) if waiting and r.random() < 0.9 else self.node(r)
        if r.random() < 0.5:
            self.both("request_benchmark", self.server(r, node_id), node_id)
        mine(r.choice([0, 2, 2]))
        units = r.choice([1, 777, 1_000_000] if r.random() < 0.9 else [0, 1_000_001])
        root = EMPTY if r.random() < 0.05 else b"\x01" * 32
        self.answer(node_id, self.server(r, node_id), units, root, r.random() < 0.95)

    def do_submit_verdicts(self, r: Random) -> None:
        mine(r.choice([0, 2, 2]))
        attempts = {i: n.attempt for i, n in self.model.nodes.items()}
        waiting = [i for i, a in attempts.items() if a.submitted_at and not a.settled]
        node_id = r.choice(waiting) if waiting else self.node(r)
        passed = r.random() < 0.7
        listed = self.model.lists[2] or [0]
        verifiers = r.choices(listed, k=r.randint(0, 2)) if r.random() < 0.3 else listed[:3]
        known: list[ModelNode | None] = [self.model.nodes.get(v) for v in verifiers]
        signers = [n.operator if n and n.operator != ZERO else OPERATOR_ADDRESSES[0] for n in known]
        if r.random() < 0.1:
            signers = signers[1:] + signers[:1]
        self.relay(node_id, passed, verifiers, signers)

    def measure(self, node_id: int, verifiers: list[int]) -> None:
        """Takes a new attempt of a node to a passed score."""
        operators = {i: n.operator for i, n in self.model.nodes.items()}
        self.both("request_benchmark", operators[node_id], node_id)
        # Its verifiers must have been bonded for a while before the answer.
        mine(2, min(self.model.maturity(), self.model.settings.window))
        self.answer(node_id, operators[node_id], 777, b"\x01" * 32)
        mine(2)
        self.relay(node_id, True, verifiers, [operators[v] for v in verifiers])

    def answer(
        self, node_id: int, sender: str, units: int, root: bytes, its_seed: bool = True
    ) -> None:
        """Answers a node's attempt, in the name of its seed or of another."""
        rest = units, root, b"\x02" * 32
        try:
            seed = seed_now(self.benchmarks, node_id) if its_seed else b"\x03" * 32
        except boa.BoaError:
            seed = EMPTY  # refused before the seed is looked at
        chain = node_id, seed, *rest
        self.both("submit_benchmark", sender, node_id, its_seed, *rest, chain=chain)

    def do_overrule(self, r: Random) -> None:
        node_id, number = self.judged(r)
        known = self.model.attempts.get((node_id, number), Attempt())
        passed = r.random() < 0.6
        gave = [v for v, (vote, _) in known.voted.items() if vote is passed]
        named = gave if r.random() < 0.8 else r.choices(range(1, 4), k=2)
        self.touched |= set(named)
        sender = self.sender(r, COORDINATOR)
        self.both("overrule", sender, node_id, number, passed, named[: r.randint(0, 3)])

    def do_condemn(self, r: Random) -> None:
        self.both("condemn", self.sender(r, COORDINATOR), *self.judged(r))

    def judged(self, r: Random) -> tuple[int, int]:
        """An attempt, mostly one that was settled, of now or long ago; sometimes one of nobody."""
        settled = [place for place, a in self.model.attempts.items() if a.settled and a.fails]
        if settled and r.random() < 0.6:
            return r.choice(settled)
        if r.random() < 0.9:
            return r.choice(list(self.model.attempts))
        return self.node(r), r.randint(0, 9)

    def relay(self, node_id: int, passed: bool, verifiers: list[int], signers: list[str]) -> None:
        """Sends the verdicts of `verifiers`, signed by `signers`."""
        try:
            digest = bytes(self.benchmarks.verdict_digest(node_id, passed))
        except boa.BoaError:
            digest = bytes(32)  # refused before a signature is looked at
        signatures = [bytes(KEYS[s].unsafe_sign_hash(digest).signature) for s in signers]
        self.both(
            "submit_verdicts",
            REPORTER,
            node_id,
            passed,
            verifiers,
            signers,
            chain=(node_id, passed, verifiers, signatures),
        )

    # Slashers

    def do_slash(self, r: Random) -> None:
        sender = self.sender(r, r.choice(SLASHERS))
        violation = r.choice(
            [1, 1, 1, 2, 2, 3, 5, 6, 4, 7, 8, 9] if r.random() < 0.9 else [0, 16, 17]
        )
        ago = r.choice([0, 0, 1, 12, 100, DAY, -1])
        reporter = r.choice([*PEOPLE, ZERO])
        self.both("slash", sender, self.node(r), violation, now() - ago, reporter)

    def do_lock_or_unlock(self, r: Random) -> None:
        function = r.choice(["lock", "unlock"])
        sender = self.sender(r, r.choice(SLASHERS))
        self.both(function, sender, self.node(r))

    # Coordinator

    def do_approve_role(self, r: Random) -> None:
        role = r.choice([2, 2, 2, 4, 4, 1, 6])
        approved = r.random() < 0.8
        sender = self.sender(r, COORDINATOR)
        self.both("approve_role", sender, self.node(r), role, approved)

    def do_set_slasher(self, r: Random) -> None:
        slasher = r.choice(SLASHERS)
        sender = self.sender(r, COORDINATOR)
        self.both("set_slasher", sender, slasher, slasher not in self.model.slashers)

    def do_set_penalty(self, r: Random) -> None:
        row = (
            r.randint(0, 10_000),
            r.randint(0, 10_000),
            r.choice((0, 1, DAY)),
            r.random() < 0.5,
            r.random() < 0.2,
            r.randint(0, 5_000),
        )
        sender = self.sender(r, COORDINATOR)
        self.both("set_penalty", sender, r.randint(0, 9), row)

    def do_set_parameters(self, r: Random) -> None:
        new = Settings(
            r.choice([5, 10]) * DAY,
            {1: r.choice([50, 600, 1_000]) * ZOO, 2: r.randint(400, 600) * ZOO, 4: 1_000 * ZOO},
            3_600,
            r.randint(1, 2),
            r.choice(PEOPLE),
        )
        sender = self.sender(r, COORDINATOR)
        self.both("set_parameters", sender, new, chain=(as_parameters(new),))

    def do_set_paused(self, r: Random) -> None:
        bits = 0 if self.model.paused or r.random() < 0.6 else r.randint(1, 3)
        self.both("set_paused", self.sender(r, COORDINATOR), bits)

    def do_pause_benchmarks(self, r: Random) -> None:
        bits = 0 if self.model.benchmarks_paused or r.random() < 0.6 else r.randint(1, 3)
        self.both("pause_benchmarks", self.sender(r, COORDINATOR), bits)

    def do_time_passes(self, r: Random) -> None:
        blocks = r.choice([1, 1, 2, 3, 300])
        mine(blocks, r.choice([0, 1, 12, 60, 600, 3_601, DAY]))

    # Everything, after every step

    def seed_of(self, draw: Draw, domain: bytes, node_id: int, attempt: int) -> bytes:
        if not draw.captured:
            return EMPTY
        values = [
            hash_of(draw.target),
            draw_key(domain, node_id, attempt),
            boa.env.evm.patch.chain_id,
            self.benchmarks.address,
        ]
        return keccak(encode(["bytes32", "bytes32", "uint256", "address"], values))

    def expected_attempt(self, node_id: int, a: Attempt) -> tuple[Any, ...]:
        return (
            a.attempt,
            a.requested_at,
            a.seed.target,
            self.seed_of(a.seed, SEED_DOMAIN, node_id, a.attempt),
            a.submitted_at,
            a.units,
            a.root,
            a.artefact,
            a.check.target,
            self.seed_of(a.check, CHECK_DOMAIN, node_id, a.attempt),
            a.passes,
            a.fails,
            a.settled,
        )

    def expected_record(self, node_id: int, n: ModelNode) -> tuple[Any, ...]:
        return (
            n.owner,
            n.operator,
            n.payout,
            n.roles,
            n.approved,
            n.stake,
            n.unbonding,
            n.unlock_at,
            n.suspended_until,
            n.banned,
            n.active,
            n.strikes,
            self.model.locks(node_id),
            self.model.score(node_id),
            n.registered_at,
            EMPTY,
        )

    @invariant()
    def agree(self) -> None:
        self.steps += 1
        if self.steps % FULL_EVERY == 0:
            self.check(range(1, len(self.model.nodes) + 1), ROLES, PEOPLE)
        else:
            node_ids = self.touched & set(self.model.nodes)
            owners = [self.model.nodes[i].owner for i in node_ids]
            self.check(node_ids, (ROLES[self.steps % 3],), [*owners, TREASURY])
        self.touched = set()

    def check(self, node_ids: Iterable[int], roles: Iterable[int], people: Iterable[str]) -> None:
        """Compares every view of these nodes, roles and people, and the sums of the money."""
        self.model.now, self.model.block = now(), block()
        for node_id in node_ids:
            self.check_node(node_id, self.model.nodes[node_id])
        for role in roles:
            self.check_list(role)
        for person in people:
            self.check_person(person)
        total_stake, total_bounties = self.registry.total_stake(), self.registry.total_bounties()
        assert total_stake == sum(map(self.model.bonded, self.model.nodes))
        assert total_bounties == sum(self.model.bounties.values())
        held = self.token.balanceOf(self.registry.address)
        assert held == self.model.held == total_stake + total_bounties
        if people is PEOPLE:
            self.check_settings()

    def check_node(self, node_id: int, n: ModelNode) -> None:
        model, registry = self.model, self.registry
        assert tuple(registry.node(node_id)) == self.expected_record(node_id, n)
        expected = self.expected_attempt(node_id, n.attempt)
        assert tuple(self.benchmarks.benchmark(node_id)) == expected
        assert registry.owner_of(node_id) == n.owner
        assert registry.operator_of(node_id) == n.operator
        assert registry.bonded(node_id) == model.bonded(node_id)
        assert registry.acting_operator(node_id) == model.acting(node_id)
        for since, until in ((now() - DAY, now()), (now(), now() + DAY)):
            at_risk = model.stake_at_risk(node_id, since, until)
            assert registry.stake_at_risk(node_id, since, until) == at_risk
        for violation in n.offences:
            assert registry.offences(node_id, violation) == n.offences[violation]
        for role in ROLES:
            assert registry.is_eligible(node_id, role) == model.is_eligible(node_id, role)

    def check_list(self, role: int) -> None:
        listed = self.model.lists[role]
        assert self.registry.role_count(role) == len(listed)
        assert self.registry.role_nodes(role, 0, 128) == listed
        start, limit = (now(), 2) if self.steps % 2 else (0, 128)
        expected = self.model.eligible(role, start, limit)
        assert tuple(self.registry.eligible_nodes(role, start, limit)) == expected
        if role == 2:
            for before in (now() - DAY, now()):
                assert tuple(self.registry.voters(before)) == self.model.voters(before)

    def check_person(self, person: str) -> None:
        assert self.registry.node_of(person) == self.model.node_of(person)
        assert self.registry.bounty(person) == self.model.bounties[person]
        assert self.token.balanceOf(person) == self.model.wallets[person]

    def check_settings(self) -> None:
        model, registry = self.model, self.registry
        assert registry.node_count() == len(model.nodes)
        assert registry.payouts(list(model.nodes)) == [n.payout for n in model.nodes.values()]
        assert registry.bounty(ZERO) == 0
        assert registry.paused() == model.paused
        assert self.benchmarks.paused() == model.benchmarks_paused
        assert tuple(registry.parameters()) == as_parameters(model.settings)
        for slasher in SLASHERS:
            assert registry.is_slasher(slasher) == (slasher in model.slashers)
        for violation in range(1, 10):
            assert tuple(registry.penalty(violation)) == model.rows[violation]


RegistryMachine.TestCase.settings = limits(examples=18, steps=60, derandomize=False)
TestRegistryMachine = RegistryMachine.TestCase
