# SPDX-License-Identifier: Apache-2.0
"""Rule: over random histories NodeRegistry equals its reference model in every view, every refusal
and every token balance, after every step."""

from __future__ import annotations

from functools import cache
from typing import Any

import boa
from eth_abi import encode
from eth_utils import keccak
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.contracts.chain_time import block, hash_of, install_block_hashes, mine, now
from tests.contracts.registry.registry_world import (
    CHECK_DOMAIN,
    DAY,
    DEFAULT_ROWS,
    GAS_CAP,
    SEED_DOMAIN,
    account,
    draw_key,
)
from tests.contracts.stateful.registry_model import (
    EMPTY,
    ROLES,
    ZERO,
    ZOO,
    Attempt,
    Draw,
    Refused,
    RegistryModel,
    Settings,
)

OWNERS = [account(f"owner {i}") for i in range(3)]
OPERATORS = [account(f"operator {i}") for i in range(7)]
SLASHERS = [account(f"slasher {i}") for i in range(2)]
COORDINATOR, TREASURY, REPORTER = account("coordinator"), account("treasury"), account("reporter")
PEOPLE = [*OWNERS, *OPERATORS, *SLASHERS, COORDINATOR, TREASURY, REPORTER]
ADDRESSES = [str(person.address) for person in PEOPLE]
KEYS = dict(zip(ADDRESSES, PEOPLE, strict=True))
OWNER_ADDRESSES = [str(a.address) for a in OWNERS]
OPERATOR_ADDRESSES = [str(a.address) for a in OPERATORS]
SLASHER_ADDRESSES = [str(a.address) for a in SLASHERS]
WEALTH = 10**7 * ZOO
MOST_NODES = 6
SPEC = "1x H200"

anyone = st.sampled_from(ADDRESSES)
# Mostly the rightful sender, so that histories get somewhere.
rightly = st.sampled_from([True] * 6 + [False])
picks = st.integers(0, MOST_NODES - 1)
amounts = st.one_of(
    st.integers(99 * ZOO, 1_200 * ZOO),
    st.sampled_from([ZOO - 1, ZOO, 100 * ZOO - 1, 100 * ZOO, 500 * ZOO, 1_000 * ZOO + 1]),
)
roles = st.sampled_from([1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 7, 0, 8])
offences = st.sampled_from([1, 1, 1, 2, 3, 4, 5, 6, 7, 16, 0, 17])
rows = st.tuples(
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.sampled_from([0, 1, DAY]),
    st.booleans(),
    st.sampled_from([False, False, True]),
    st.integers(0, 5_000),
)


@cache
def codes() -> tuple[Any, Any]:
    return boa.load_partial("contracts/ZooToken.vy"), boa.load_partial("contracts/NodeRegistry.vy")


class RegistryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        token_code, registry_code = codes()
        self.anchor = boa.env.anchor()
        self.anchor.__enter__()
        boa.env.evm.patch.gas_limit = GAS_CAP
        install_block_hashes()
        mine(1_000)
        self.token = token_code.deploy(OWNER_ADDRESSES[0], 3 * WEALTH)
        self.registry_code = registry_code

    def teardown(self) -> None:
        self.anchor.__exit__(None, None, None)

    @initialize(quorum=st.integers(1, 2))
    def deploy(self, quorum: int) -> None:
        chosen = Settings(
            10 * DAY,
            {1: 100 * ZOO, 2: 500 * ZOO, 4: 1_000 * ZOO},
            3_600,
            quorum,
            str(TREASURY.address),
        )
        self.registry = self.registry_code.deploy(
            self.token.address,
            COORDINATOR.address,
            SLASHER_ADDRESSES,
            self.as_parameters(chosen),
            ZERO,
        )
        self.model = RegistryModel(
            str(COORDINATOR.address), SLASHER_ADDRESSES, chosen, dict(DEFAULT_ROWS)
        )
        for owner in OWNER_ADDRESSES:
            self.token.approve(self.registry.address, 2**256 - 1, sender=owner)
            self.model.wallets[owner] = WEALTH
        for owner in OWNER_ADDRESSES[1:]:
            self.token.transfer(owner, WEALTH, sender=OWNER_ADDRESSES[0])

    # Driving both

    @staticmethod
    def as_parameters(s: Settings) -> tuple[Any, ...]:
        return (s.unbonding, *(s.stakes[r] for r in ROLES), s.window, s.quorum, s.treasury)

    def both(self, function: str, sender: str, *arguments: Any, chain: tuple[Any, ...] = ()) -> Any:
        """Calls the model and the contract and compares outcome and answer; `chain` replaces the
        contract's arguments where they differ."""
        self.model.now, self.model.block = now(), block()
        call = getattr(self.registry, function)
        given = chain or arguments
        try:
            expected = getattr(self.model, function)(sender, *arguments)
        except Refused as refusal:
            with boa.reverts(str(refusal)):
                call(*given, sender=sender)
            return None
        got = call(*given, sender=sender)
        if expected is not None:
            assert got == expected
        return expected

    def node(self, pick: int) -> int:
        """A known node, or 0, 1 when there are none."""
        return pick % len(self.model.nodes) + 1 if self.model.nodes else pick % 2

    def owner_of(self, node_id: int, right: bool, other: str) -> str:
        known = self.model.nodes.get(node_id)
        return known.owner if known and right else other

    def server_of(self, node_id: int, right: bool, other: str) -> str:
        known = self.model.nodes.get(node_id)
        return known.operator if known and right and known.operator != ZERO else other

    # Node life

    @precondition(lambda self: len(self.model.nodes) < MOST_NODES)
    @rule(
        owner=st.sampled_from(OWNER_ADDRESSES),
        operator=st.sampled_from([*OPERATOR_ADDRESSES, ZERO]),
        payout=st.sampled_from([*ADDRESSES, ZERO]),
        wanted=roles,
        stake=amounts,
    )
    def register_node(
        self, owner: str, operator: str, payout: str, wanted: int, stake: int
    ) -> None:
        arguments = (operator, payout, wanted, stake)
        self.both("register_node", owner, *arguments, chain=(*arguments, SPEC, EMPTY))

    @rule(pick=picks, right=rightly, other=st.sampled_from(OWNER_ADDRESSES), amount=amounts)
    def add_stake(self, pick: int, right: bool, other: str, amount: int) -> None:
        node_id = self.node(pick)
        self.both("add_stake", self.owner_of(node_id, right, other), node_id, amount)

    @rule(pick=picks, right=rightly, other=anyone)
    def begin_exit(self, pick: int, right: bool, other: str) -> None:
        node_id = self.node(pick)
        self.both("begin_exit", self.owner_of(node_id, right, other), node_id)

    @rule(pick=picks, right=rightly, other=anyone)
    def withdraw(self, pick: int, right: bool, other: str) -> None:
        node_id = self.node(pick)
        self.both("withdraw", self.owner_of(node_id, right, other), node_id)

    @rule(
        pick=picks,
        right=rightly,
        other=anyone,
        operator=st.sampled_from([*OPERATOR_ADDRESSES, ZERO]),
    )
    def set_operator(self, pick: int, right: bool, other: str, operator: str) -> None:
        node_id = self.node(pick)
        self.both("set_operator", self.owner_of(node_id, right, other), node_id, operator)

    @rule(pick=picks, right=rightly, other=anyone, payout=st.sampled_from([*ADDRESSES, ZERO]))
    def set_payout(self, pick: int, right: bool, other: str, payout: str) -> None:
        node_id = self.node(pick)
        self.both("set_payout", self.owner_of(node_id, right, other), node_id, payout)

    @rule(pick=picks, right=rightly, other=anyone, wanted=roles)
    def set_roles(self, pick: int, right: bool, other: str, wanted: int) -> None:
        node_id = self.node(pick)
        self.both("set_roles", self.owner_of(node_id, right, other), node_id, wanted)

    @rule(pick=picks, right=rightly, other=anyone, active=st.sampled_from([True, True, False]))
    def set_active(self, pick: int, right: bool, other: str, active: bool) -> None:
        node_id = self.node(pick)
        self.both("set_active", self.server_of(node_id, right, other), node_id, active)

    @rule(account=anyone)
    def claim_bounty(self, account: str) -> None:
        credited = [a for a, amount in self.model.bounties.items() if amount]
        self.both("claim_bounty", credited[0] if credited else account)

    # Benchmark

    @rule(pick=picks, right=rightly, other=anyone)
    def request_benchmark(self, pick: int, right: bool, other: str) -> None:
        node_id = self.node(pick)
        self.both("request_benchmark", self.server_of(node_id, right, other), node_id)

    @rule(pick=picks, other=anyone, function=st.sampled_from(["benchmark", "check"]))
    def capture(self, pick: int, other: str, function: str) -> None:
        self.both(f"capture_{function}_seed", other, self.node(pick))

    @rule(
        pick=picks,
        right=rightly,
        other=anyone,
        units=st.sampled_from([0, 1, 1_000_000, 1_000_001, 777]),
        root=st.sampled_from([b"\x01" * 32, b"\x01" * 32, EMPTY]),
        blocks=st.sampled_from([0, 2]),
    )
    def submit_benchmark(
        self, pick: int, right: bool, other: str, units: int, root: bytes, blocks: int
    ) -> None:
        node_id = self.node(pick)
        mine(blocks)
        sender = self.server_of(node_id, right, other)
        self.both("submit_benchmark", sender, node_id, units, root, b"\x02" * 32)

    @rule(
        pick=picks,
        passed=st.booleans(),
        given=st.lists(picks, max_size=3),
        honest=rightly,
        blocks=st.sampled_from([0, 2]),
    )
    def submit_verdicts(
        self, pick: int, passed: bool, given: list[int], honest: bool, blocks: int
    ) -> None:
        mine(blocks)
        node_id = self.node(pick)
        listed = self.model.lists[2]
        verifiers = [listed[g % len(listed)] if listed else self.node(g) for g in given]
        operators = [
            self.model.nodes[v].operator if v in self.model.nodes else ZERO for v in verifiers
        ]
        signers = [
            o if honest and o in KEYS else OPERATOR_ADDRESSES[g % 7]
            for o, g in zip(operators, given, strict=True)
        ]
        try:
            digest = bytes(self.registry.verdict_digest(node_id, passed))
        except boa.BoaError:
            digest = bytes(32)  # refused before a signature is looked at
        signatures = [bytes(KEYS[s].unsafe_sign_hash(digest).signature) for s in signers]
        self.both(
            "submit_verdicts",
            REPORTER.address,
            node_id,
            passed,
            verifiers,
            signers,
            chain=(node_id, passed, verifiers, signatures),
        )

    # Slashers

    @rule(
        pick=picks,
        right=rightly,
        other=anyone,
        violation=offences,
        ago=st.sampled_from([0, 0, 1, 12, 100, DAY, -1]),
        reporter=st.sampled_from([*ADDRESSES, ZERO]),
    )
    def slash(
        self, pick: int, right: bool, other: str, violation: int, ago: int, reporter: str
    ) -> None:
        sender = SLASHER_ADDRESSES[pick % 2] if right else other
        self.both("slash", sender, self.node(pick), violation, now() - ago, reporter)

    @rule(
        pick=picks,
        right=rightly,
        other=anyone,
        function=st.sampled_from(["lock", "unlock", "unlock"]),
        which=st.integers(0, 1),
    )
    def lock_or_unlock(
        self, pick: int, right: bool, other: str, function: str, which: int
    ) -> None:
        sender = SLASHER_ADDRESSES[which] if right else other
        self.both(function, sender, self.node(pick))

    # Coordinator

    def coordinator_or(self, right: bool, other: str) -> str:
        return str(COORDINATOR.address) if right else other

    @rule(
        pick=picks,
        right=rightly,
        other=anyone,
        role=st.sampled_from([2, 2, 2, 4, 4, 1, 6]),
        approved=st.sampled_from([True, True, True, False]),
    )
    def approve_role(
        self, pick: int, right: bool, other: str, role: int, approved: bool
    ) -> None:
        sender = self.coordinator_or(right, other)
        self.both("approve_role", sender, self.node(pick), role, approved)

    @rule(
        right=rightly,
        other=anyone,
        change=st.sampled_from(["slasher", "penalty", "paused", "parameters"]),
        which=st.integers(0, 1),
        flag=st.booleans(),
        violation=offences,
        row=rows,
        bits=st.sampled_from([0, 0, 0, 1, 2, 3, 4]),
    )
    def govern(
        self,
        right: bool,
        other: str,
        change: str,
        which: int,
        flag: bool,
        violation: int,
        row: Any,
        bits: int,
    ) -> None:
        sender = self.coordinator_or(right, other)
        if change == "slasher":
            self.both("set_slasher", sender, SLASHER_ADDRESSES[which], flag)
        elif change == "penalty":
            self.both("set_penalty", sender, violation, row)
        elif change == "paused":
            self.both("set_paused", sender, bits)
        else:
            old = self.model.settings
            new = Settings(
                (5 + 5 * which) * DAY,
                {1: 100 * ZOO, 2: (400 + row[0]) * ZOO, 4: 1_000 * ZOO},
                old.window,
                1 + which,
                ADDRESSES[row[5] % len(ADDRESSES)] if flag else old.treasury,
            )
            self.both("set_parameters", sender, new, chain=(self.as_parameters(new),))

    # Time

    @rule(
        blocks=st.sampled_from([1, 1, 2, 3, 300]),
        seconds=st.sampled_from([0, 1, 12, 60, 3_601, DAY, 10 * DAY]),
    )
    def time_passes(self, blocks: int, seconds: int) -> None:
        mine(blocks, seconds)

    # Everything, after every step

    def seed_of(self, draw: Draw, domain: bytes, node_id: int, attempt: int) -> bytes:
        if not draw.captured:
            return EMPTY
        values = [
            hash_of(draw.target),
            draw_key(domain, node_id, attempt),
            boa.env.evm.patch.chain_id,
            self.registry.address,
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

    @invariant()
    def nodes_agree(self) -> None:
        model, registry = self.model, self.registry
        model.now, model.block = now(), block()
        assert registry.node_count() == len(model.nodes)
        for node_id, n in model.nodes.items():
            assert tuple(registry.node(node_id)) == (
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
                model.locks(node_id),
                n.score,
                n.registered_at,
                EMPTY,
                SPEC,
            )
            assert registry.owner_of(node_id) == n.owner
            assert registry.operator_of(node_id) == n.operator
            assert registry.bonded(node_id) == model.bonded(node_id)
            expected = self.expected_attempt(node_id, n.attempt)
            assert tuple(registry.benchmark(node_id)) == expected
            for violation in set(n.offences):
                assert registry.offences(node_id, violation) == n.offences[violation]
        ids = list(model.nodes)
        assert registry.payouts(ids) == [n.payout for n in model.nodes.values()]
        for operator in OPERATOR_ADDRESSES:
            assert registry.node_of(operator) == model.node_of(operator)

    @invariant()
    def lists_agree(self) -> None:
        model, registry = self.model, self.registry
        model.now = now()
        for role in ROLES:
            assert registry.role_count(role) == len(model.lists[role])
            assert registry.role_nodes(role, 0, 128) == model.lists[role]
            for start, limit in ((0, 128), (now(), 2)):
                expected = model.eligible(role, start, limit)
                assert tuple(registry.eligible_nodes(role, start, limit)) == expected
            for node_id in model.nodes:
                assert registry.is_eligible(node_id, role) == model.is_eligible(node_id, role)

    @invariant()
    def money_agrees(self) -> None:
        model, registry, token = self.model, self.registry, self.token
        stakes = sum(map(model.bonded, model.nodes))
        bounties = sum(model.bounties.values())
        assert registry.total_stake() == stakes
        assert registry.total_bounties() == bounties
        assert token.balanceOf(registry.address) == model.held == stakes + bounties
        assert registry.bounty(ZERO) == 0
        for address in ADDRESSES:
            assert registry.bounty(address) == model.bounties[address]
            assert token.balanceOf(address) == model.wallets[address]

    @invariant()
    def settings_agree(self) -> None:
        model, registry = self.model, self.registry
        assert registry.paused() == model.paused
        assert tuple(registry.parameters()) == self.as_parameters(model.settings)
        for slasher in SLASHER_ADDRESSES:
            assert registry.is_slasher(slasher) == (slasher in model.slashers)
        for violation in range(1, 8):
            assert tuple(registry.penalty(violation)) == model.rows[violation]


RegistryMachine.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestRegistryMachine = RegistryMachine.TestCase
