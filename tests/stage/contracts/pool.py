# SPDX-License-Identifier: Apache-2.0
"""A reward pool among the real token, registry and TrainingJobs, with jobs and paid nodes.

Settlement calls are sent from `results`, the address that stands for TrainingResults: the pool
checks its sender, and asks TrainingJobs who sponsors a job and whether it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import boa

from tests.stage.contracts.registry import account, consent

GAS_CAP = 16_777_216  # EIP-7825
ZOO = 10**18
DAY = 86_400
ZERO = "0x" + "00" * 20
SUPPLY = 10**9 * ZOO
TRAINER = 1
STAKE = 100 * ZOO
UNLIMITED = 2**256 - 1

PARAMETERS = (14 * DAY, STAKE, STAKE, STAKE, 3_600, 1)
TERMS = (
    b"\x01" * 32,  # spec
    b"\x02" * 32,  # genesis model
    b"\x03" * 32,  # genesis checkpoint
    10,  # rounds
    ZOO,  # reward per round
    1_000,  # verifiers' cut
    500,  # aggregator's cut
    128,  # nodes
    600,
    600,
    600,
    600,
    600,
    600,
    ZOO,  # challenge bond
)
BOUNDS = (ZOO, 1_000 * ZOO, ZOO)  # least and most challenge bond, least reward


@dataclass(frozen=True)
class Codes:
    """Compiled contracts, made once for all tests."""

    token: Any
    registry: Any
    jobs: Any
    pool: Any
    scores: Any


def compile_all() -> Codes:
    return Codes(
        token=boa.load_partial("contracts/ZooToken.vy"),
        registry=boa.load_partial("contracts/NodeRegistry.vy"),
        jobs=boa.load_partial("contracts/TrainingJobs.vy"),
        pool=boa.load_partial("contracts/RewardPool.vy"),
        scores=boa.load_partial("contracts/ScoreConsensus.vy"),
    )


@dataclass
class PoolStage:
    """The contracts, the account that holds all ZOO, and the committee's account."""

    token: Any
    registry: Any
    jobs: Any
    results: str
    pool: Any
    scores: Any
    reports: str
    holder: str
    committee: str

    def rich(self, name: str, amount: int = 1_000 * ZOO) -> str:
        """A new account with `amount` ZOO which the registry and the pool may take."""
        made = str(boa.env.generate_address(name))
        self.token.transfer(made, amount, sender=self.holder)
        for spender in (self.registry, self.pool):
            self.token.approve(spender.address, UNLIMITED, sender=made)
        return made

    def add_node(self, payout: str) -> int:
        """Registers a trainer that is paid at `payout`; returns its node id."""
        key = account(f"operator {self.registry.node_count() + 1}")
        signed = consent(self.registry, key, self.holder)
        return int(
            self.registry.register_node(
                key.address, payout, TRAINER, STAKE, bytes(32), signed, sender=self.holder
            )
        )

    def add_job(self, sponsor: str) -> int:
        return int(self.jobs.create_job(TERMS, sender=sponsor))

    def fund(self, job_id: int, amount: int, funder: str) -> None:
        """Money for a job, as one who has read whose it is and for what."""
        sponsor, spec = self.jobs.origin_of(job_id)
        self.pool.fund(job_id, sponsor, spec, amount, sender=funder)

    def end_job(self, job_id: int, sponsor: str) -> None:
        """Cancels a job that has no open round, which ends it at once."""
        self.jobs.cancel_job(job_id, sender=sponsor)


def make_pool(codes: Codes, pool_token: Any = None) -> PoolStage:
    """Deploys everything; `pool_token` replaces ZOO in the pool alone."""
    holder = str(boa.env.generate_address("holder"))
    committee = str(boa.env.generate_address("committee"))
    names = ("rounds", "results", "reports")
    rounds, results, reports = (str(boa.env.generate_address(name)) for name in names)
    token = codes.token.deploy(holder, SUPPLY)
    # No node is measured.
    benchmarks = boa.env.generate_address("benchmarks")
    registry = codes.registry.deploy(
        token.address, benchmarks, committee, [results], (*PARAMETERS, committee)
    )
    paid_in = token if pool_token is None else pool_token
    jobs = codes.jobs.deploy(registry.address, rounds, results, committee, BOUNDS)
    scores = codes.scores.deploy(registry.address, jobs.address, rounds, results, committee)
    pool = codes.pool.deploy(
        paid_in.address, registry.address, jobs.address, results, scores.address, reports
    )
    for spender in (registry, pool):
        token.approve(spender.address, UNLIMITED, sender=holder)
    return PoolStage(token, registry, jobs, results, pool, scores, reports, holder, committee)
