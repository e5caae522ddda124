# SPDX-License-Identifier: Apache-2.0
"""Random histories of the reward pool against a model: money is conserved to the wei, nobody is
credited more than its pro rata share, dust is below one unit a node, and what is owed is paid."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import boa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.contracts.stateful.machine import Machine, run
from tests.stage.contracts.pool import PoolStage, make_pool
from tests.stage.contracts.system import System

N_NODES = 5
UNKNOWN_NODE = 99
RESERVED, DISTRIBUTING, CLOSED = 1, 2, 3

amounts = st.integers(1, 10**21)
picks = st.integers(0, 2**16)


@dataclass
class ModelJob:
    sponsor: str
    retain: int = 0  # rounds' pay of a trainer
    ended: bool = False
    escrow: int = 0
    carried: int = 0  # what rounds did not pay
    for_trainers: int = 0  # of it
    rounds: int = 0


@dataclass
class ModelPool:
    amount: int
    brought: int = 0  # the part that was carried to it
    for_trainers: int = 0  # of that
    status: int = RESERVED
    trainer_amount: int = 0
    total: int = 0
    distributed: int = 0
    paid: int = 0
    last_node: int = 0
    unpayable: int = 0  # share or cut of a node without payout
    plan: list[tuple[int, int]] = field(default_factory=list)  # (node, contribution) still to come
    turns: int = 0  # nodes whose contribution was distributed


class PoolMachine(Machine):
    stage: PoolStage

    def __init__(self) -> None:
        super().__init__()
        self.pool = self.stage.pool
        self.results = self.stage.results
        self.jobs: dict[int, ModelJob] = {}
        self.pools: dict[tuple[int, int], ModelPool] = {}
        self.donated = 0
        self.forfeited = 0  # what the treasury got: retained and carried pay, and nobody's
        self.locks: set[int] = set()  # nodes with a lock
        self.held: dict[int, int] = {}  # by node
        self.aside: dict[tuple[int, int, int], int] = {}  # by job, round and node
        self.retained: dict[tuple[int, int], int] = {}  # by job and node

    @initialize()
    def set_up(self) -> None:
        wallets = [str(boa.env.generate_address()) for _ in range(4)]
        self.sponsors = [self.stage.rich(f"sponsor {i}", 10**27 // 4) for i in range(2)]
        self.pending = dict.fromkeys(wallets, 0)
        self.wallets = dict.fromkeys(wallets, 0) | dict.fromkeys(self.sponsors, 10**27 // 4)
        self.payout_of = {}
        for i in range(N_NODES):
            self.payout_of[self.stage.add_node(wallets[i % 3])] = wallets[i % 3]
        self.new_job(0)

    # Pickers

    def job_at(self, pick: int) -> tuple[int, ModelJob]:
        return list(self.jobs.items())[pick % len(self.jobs)]

    def pool_at(self, pick: int, status: int | None = None) -> tuple[tuple[int, int], ModelPool]:
        """Any pool one time in eight, else one of this status, if there is one."""
        every = list(self.pools.items())
        wanted = [item for item in every if item[1].status == status]
        chosen = wanted if wanted and pick % 8 else every
        return chosen[pick % len(chosen)]

    # Jobs and escrow

    @precondition(lambda self: len(self.jobs) < 4)
    @rule(pick=picks)
    def new_job(self, pick: int) -> None:
        sponsor, retain = self.sponsors[pick % 2], (0, 1, 3)[pick % 3]
        self.jobs[self.stage.add_job(sponsor, retain)] = ModelJob(sponsor, retain)

    @rule(pick=picks)
    def end_job(self, pick: int) -> None:
        job_id, job = self.job_at(pick)
        if pick % 8 == 0 and not job.ended:
            self.stage.end_job(job_id, job.sponsor)
            job.ended = True

    @rule(pick=picks, funder=picks, amount=amounts)
    def fund(self, pick: int, funder: int, amount: int) -> None:
        job_id, job = self.job_at(pick)
        sender = self.sponsors[funder % 2]
        if self.attempt(
            {"pool: job ended": job.ended}, lambda: self.stage.fund(job_id, amount, sender)
        ):
            job.escrow += amount
            self.wallets[sender] -= amount

    @rule(pick=picks)
    def refund(self, pick: int) -> None:
        job_id, job = self.job_at(pick)
        reasons = {"pool: job not ended": not job.ended, "pool: nothing to refund": job.escrow == 0}
        if self.attempt(
            reasons, lambda: self.pool.refund(job_id, sender=job.sponsor), answer=job.escrow
        ):
            self.wallets[job.sponsor] += job.escrow
            job.escrow = 0

    @rule(amount=amounts)
    def donate(self, amount: int) -> None:
        self.stage.token.transfer(self.pool.address, amount, sender=self.sponsors[0])
        self.wallets[self.sponsors[0]] -= amount
        self.donated += amount

    # Rounds

    @rule(pick=picks, part=st.integers(0, 120), exact=amounts)
    def reserve(self, pick: int, part: int, exact: int) -> None:
        job_id, job = self.job_at(pick)
        amount = job.escrow * part // 100 if pick % 2 else min(exact, job.escrow)
        if self.attempt(
            {"pool: escrow too low": amount > job.escrow},
            lambda: self.pool.reserve(job_id, job.rounds + 1, amount, sender=self.results),
        ):
            job.rounds += 1
            job.escrow -= amount
            self.pools[job_id, job.rounds] = ModelPool(
                amount + job.carried, job.carried, job.for_trainers
            )
            job.carried = job.for_trainers = 0

    @precondition(lambda self: self.pools)
    @rule(pick=picks)
    def reserve_again(self, pick: int) -> None:
        (job_id, round_id), _ = self.pool_at(pick)
        with boa.reverts("pool: already reserved"):
            self.pool.reserve(job_id, round_id, 0, sender=self.results)

    @precondition(lambda self: self.pools)
    @rule(
        pick=picks,
        bps=st.lists(st.integers(0, 4_000), max_size=3),
        contributions=st.lists(
            st.integers(0, 3) | st.integers(0, 10**18), min_size=N_NODES + 1, max_size=N_NODES + 1
        ),
        stranger=st.booleans(),
        nobody=st.booleans(),
    )
    def start(
        self,
        pick: int,
        bps: list[int],
        contributions: list[int],
        stranger: bool,
        nobody: bool = False,
    ) -> None:
        key, pool = self.pool_at(pick, RESERVED)
        ids = [*self.payout_of, UNKNOWN_NODE][: N_NODES + stranger]
        cut_nodes = [ids[(pick + i) % len(ids)] for i in range(len(bps))]
        cuts = [pool.amount * share // 10_000 for share in bps]
        plan = list(zip([0, *ids] if nobody else ids, contributions, strict=False))
        total = sum(contribution for _, contribution in plan)
        arguments = (*key, [], total, cut_nodes, cuts)
        reasons = {
            "pool: already distributing": pool.status == DISTRIBUTING,
            "pool: closed": pool.status == CLOSED,
            "pool: cuts too high": sum(cuts) > pool.amount,
        }
        if not self.attempt(
            reasons, lambda: self.pool.start_distribution(*arguments, sender=self.results)
        ):
            return
        pool.status = DISTRIBUTING
        pool.total = total
        pool.plan = plan
        pool.trainer_amount = pool.amount - sum(cuts)
        for node, cut in zip(cut_nodes, cuts, strict=True):
            if node == UNKNOWN_NODE:
                pool.unpayable += cut
            else:
                pool.paid += cut
                self.credit(node, cut)

    @precondition(lambda self: self.pools)
    @rule(pick=picks, count=st.integers(0, N_NODES + 1), bits=st.just(0) | st.integers(0, 255))
    def distribute(self, pick: int, count: int, bits: int = 0) -> None:
        key, pool = self.pool_at(pick, DISTRIBUTING)
        batch = pool.plan[:count]
        ids = [node for node, _ in batch]
        contributions = [contribution for _, contribution in batch]
        reasons = {
            "pool: closed": pool.status == CLOSED,
            "pool: not distributing": pool.status == RESERVED,
            "pool: zero total": pool.total == 0,
        }
        if not self.attempt(
            reasons,
            lambda: self.pool.distribute(*key, ids, contributions, bits, sender=self.results),
        ):
            return
        pool.plan = pool.plan[count:]
        for place, (node, contribution) in enumerate(batch):
            pool.last_node = node
            pool.distributed += contribution
            pool.turns += 1
            exact = Fraction(pool.trainer_amount * contribution, pool.total)
            credit = exact.numerator // exact.denominator
            assert 0 <= exact - credit < 1
            if node == UNKNOWN_NODE:
                pool.unpayable += credit
            elif node == 0:
                pool.paid += credit
                self.forfeited += credit
            else:
                pool.paid += credit
                if bits >> place & 1:
                    self.aside[(*key, node)] = credit
                else:
                    have = self.retained.get((key[0], node), 0)
                    lacks = max(0, self.jobs[key[0]].retain * credit - have)
                    self.retained[key[0], node] = have + min(credit, lacks)
                    self.credit(node, credit - min(credit, lacks))

    @precondition(lambda self: any(pool.last_node for pool in self.pools.values()))
    @rule(pick=picks)
    def distribute_again(self, pick: int) -> None:
        """A node that had its turn can't have another, in whatever batch."""
        key, pool = self.pool_at(pick, DISTRIBUTING)
        if pool.status != DISTRIBUTING or not pool.last_node or not pool.total:
            return
        again = pool.last_node if pick % 2 else 1 + pick % pool.last_node
        with boa.reverts("pool: node order"):
            self.pool.distribute(*key, [again], [0], 0, sender=self.results)
        if pool.distributed:
            with boa.reverts("pool: node order"):
                self.pool.distribute(*key, [0], [0], 0, sender=self.results)

    @precondition(lambda self: self.pools)
    @rule(pick=picks, excess=st.integers(1, 2**64))
    def distribute_too_much(self, pick: int, excess: int) -> None:
        key, pool = self.pool_at(pick, DISTRIBUTING)
        if pool.status != DISTRIBUTING or pool.total == 0:
            return
        left = pool.total - pool.distributed
        with boa.reverts("pool: over-distributed"):
            self.pool.distribute(*key, [UNKNOWN_NODE + 1], [left + excess], 0, sender=self.results)

    @precondition(lambda self: self.pools)
    @rule(pick=picks, spoiled=st.booleans())
    def close(self, pick: int, spoiled: bool = True) -> None:
        key, pool = self.pool_at(pick, DISTRIBUTING)
        unpaid = pool.amount - pool.paid
        if not self.attempt(
            {"pool: closed": pool.status == CLOSED},
            lambda: self.pool.close(*key, spoiled, sender=self.results),
            answer=(pool.paid, unpaid),
        ):
            return
        if pool.status == DISTRIBUTING and pool.total and pool.distributed == pool.total:
            assert 0 <= unpaid - pool.unpayable < pool.turns
        kept = unpaid if spoiled else min(unpaid, pool.brought)
        job = self.jobs[key[0]]
        job.carried += kept
        job.for_trainers += pool.for_trainers if pool.status == RESERVED else kept
        job.escrow += unpaid - kept
        pool.status = CLOSED

    @rule(pick=picks)
    def forfeit_carried(self, pick: int) -> None:
        job_id, job = self.job_at(pick)
        reasons = {
            "pool: job not ended": not job.ended,
            "pool: nothing carried": job.ended and job.carried == 0,
        }
        if self.attempt(reasons, lambda: self.pool.forfeit_carried(job_id), answer=job.carried):
            self.forfeited += job.carried
            job.carried = job.for_trainers = 0

    # Who stands accused

    def credit(self, node: int, amount: int) -> None:
        if node in self.locks:
            self.held[node] = self.held.get(node, 0) + amount
        else:
            self.pending[self.payout_of[node]] += amount

    @rule(pick=picks)
    def lock_or_unlock(self, pick: int) -> None:
        node = list(self.payout_of)[pick % N_NODES]
        if node in self.locks:
            self.stage.registry.unlock(node, sender=self.results)
        else:
            self.stage.registry.lock(node, sender=self.results)
        self.locks ^= {node}

    @rule(pick=picks)
    def release(self, pick: int) -> None:
        node = list(self.payout_of)[pick % N_NODES]
        if not self.held.get(node):
            with boa.reverts("pool: nothing held"):
                self.pool.release(node)
        elif node in self.locks:
            with boa.reverts("pool: node locked"):
                self.pool.release(node)
        else:
            assert self.pool.release(node) == self.held[node]
            self.pending[self.payout_of[node]] += self.held.pop(node)

    @precondition(lambda self: any(self.retained.values()))
    @rule(pick=picks)
    def release_retained(self, pick: int) -> None:
        places = [place for place, amount in self.retained.items() if amount]
        job_id, node = places[pick % len(places)]
        reasons = {
            "pool: node locked": node in self.locks,
            "pool: still working": node not in self.locks and not self.jobs[job_id].ended,
        }
        amount = self.retained[job_id, node]
        if self.attempt(reasons, lambda: self.pool.release_retained(job_id, node), answer=amount):
            self.pending[self.payout_of[node]] += amount
            self.retained[job_id, node] = 0

    @precondition(lambda self: self.aside)
    @rule(pick=picks, guilty=st.booleans())
    def settle_share(self, pick: int, guilty: bool) -> None:
        job_id, round_id, node = list(self.aside)[pick % len(self.aside)]
        amount = self.aside.pop((job_id, round_id, node))
        self.pool.settle_share(job_id, round_id, node, guilty, sender=self.stage.reports)
        if guilty:
            self.jobs[job_id].carried += amount
            self.jobs[job_id].for_trainers += amount
            self.forfeited += self.retained.pop((job_id, node), 0)
        else:
            self.pending[self.payout_of[node]] += amount
        if node not in self.locks:
            self.pending[self.payout_of[node]] += self.held.pop(node, 0)

    # Receivers

    @rule(pick=picks)
    def claim(self, pick: int) -> None:
        wallet = list(self.pending)[pick % len(self.pending)]
        if self.attempt(
            {"pool: nothing to claim": self.pending[wallet] == 0},
            lambda: self.pool.claim(sender=wallet),
            answer=self.pending[wallet],
        ):
            self.wallets[wallet] += self.pending[wallet]
            self.pending[wallet] = 0

    @rule(pick=picks, to=picks)
    def set_payout(self, pick: int, to: int) -> None:
        node = list(self.payout_of)[pick % N_NODES]
        wallet = list(self.pending)[to % len(self.pending)]
        if wallet != self.payout_of[node]:
            self.stage.registry.set_payout(node, wallet, sender=self.stage.holder)
            self.payout_of[node] = wallet

    @rule(pick=picks)
    def outsider_settles(self, pick: int) -> None:
        job_id, job = self.job_at(pick)
        calls = [
            lambda: self.pool.reserve(job_id, job.rounds + 1, 0, sender=job.sponsor),
            lambda: self.pool.start_distribution(job_id, 1, [], 0, [], [], sender=job.sponsor),
            lambda: self.pool.distribute(job_id, 1, [], [], 0, sender=job.sponsor),
            lambda: self.pool.close(job_id, 1, True, sender=job.sponsor),
        ]
        with boa.reverts("pool: not results"):
            calls[pick % 4]()

    # The whole model, after every step

    @invariant()
    def chain_equals_model(self) -> None:
        if not self.jobs:
            return
        for job_id, job in self.jobs.items():
            assert self.pool.escrow(job_id) == job.escrow
            assert self.pool.carried(job_id) == job.carried
            assert self.pool.carried_for_trainers(job_id) == job.for_trainers
        for wallet, amount in self.pending.items():
            assert self.pool.pending(wallet) == amount
        for wallet, amount in self.wallets.items():
            assert self.stage.token.balanceOf(wallet) == amount
        for key, pool in self.pools.items():
            assert tuple(self.pool.pool(*key)) == (
                pool.amount,
                pool.for_trainers,
                pool.trainer_amount,
                pool.total,
                pool.distributed,
                pool.paid,
                pool.last_node,
                pool.status,
                False,
            )
            assert pool.paid + pool.unpayable <= pool.amount
        open_pools = [pool for pool in self.pools.values() if pool.status != CLOSED]
        escrow = sum(job.escrow for job in self.jobs.values())
        reserved = sum(pool.amount - pool.paid for pool in open_pools)
        reserved += sum(job.carried for job in self.jobs.values())
        owed = sum(self.pending.values()) + self.forfeited
        assert self.pool.pending(self.stage.registry.parameters().treasury) == self.forfeited
        assert self.pool.total_escrow() == escrow
        assert self.pool.total_reserved() == reserved
        assert self.pool.total_pending() == owed
        for (job_id, node), amount in self.retained.items():
            assert self.pool.retained(job_id, node) == amount
        kept = sum((*self.held.values(), *self.aside.values(), *self.retained.values()))
        assert self.pool.total_held() == kept
        for node in self.payout_of:
            assert self.pool.held(node) == self.held.get(node, 0)
        held = self.stage.token.balanceOf(self.pool.address)
        assert held == escrow + reserved + owed + kept + self.donated


@pytest.fixture
def stage(system: System) -> PoolStage:
    return make_pool(system)


def test_pool_machine__random_histories__money_is_conserved(stage: PoolStage) -> None:
    machine = type("PoolMachineHere", (PoolMachine,), {"stage": stage})
    run(machine, examples=30, steps=50)


def test_pool_machine__whatever_was_owed__can_be_paid_out(stage: PoolStage) -> None:
    """The longest way round: everything open is closed, everybody claims and is refunded, and
    the pool holds nothing but donations."""
    machine: Any = type("PoolMachineHere", (PoolMachine,), {"stage": stage})()
    try:
        machine.set_up()
        machine.new_job(1)
        for pick in range(2):
            machine.fund(pick, pick, 10**20 + 7)
            machine.reserve(pick, 50, 10**19 + 3)
            machine.start(pick, [1_000, 333], [3, 1, 4, 1, 5, 9], bool(pick))
            machine.distribute(pick, 4)
        machine.donate(11)
        for pick in range(2):
            machine.close(pick)
            job_id, job = machine.job_at(pick)
            machine.stage.end_job(job_id, job.sponsor)
            job.ended = True
            machine.refund(pick)
            machine.forfeit_carried(pick)
        treasury = machine.stage.registry.parameters().treasury
        assert machine.pool.claim(sender=treasury) == machine.forfeited > 0
        machine.forfeited = 0
        assert any(machine.retained.values())
        while any(machine.retained.values()):
            machine.release_retained(0)
        for pick in range(4):
            machine.claim(pick)
        machine.chain_equals_model()
        assert machine.stage.token.balanceOf(machine.pool.address) == machine.donated == 11
    finally:
        machine.teardown()
