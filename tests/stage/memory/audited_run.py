# SPDX-License-Identifier: Apache-2.0
"""Two finalized rounds of the tiny split model, and an audit of them without a chain.

Rule: what the audit reads from the chain (terms, snapshots, reveals, results) a test may set. The
audit's own functions do the rest, by the artefacts in a store. The job has all that a round's
report can say of a split model: owners of shards, declared memory, measured paths, CLASP.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agents.audit.chain.opening import Opened
from agents.audit.chain.votes import Tally
from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.audit.work.training import Training
from agents.pipeline.shards import Statement, flat, merge_shards
from agents.protocol.structs import Reveal
from agents.rounds.outcome import Outcome
from agents.rounds.quality import samples_that_count
from agents.rounds.shares import Shares
from agents.rounds.stagewise import contributors_of
from agents.rounds.submissions import Submission
from tests.stage.memory.honest_round import AUDIT_SEED, DEVICE, JOB, proposal_of
from tests.stage.memory.mined_round import WALLETS, WHERE, MinedRound
from tests.stage.memory.mined_run import Run, run

NODES = (2, 3, 4, 5, 6, 7, 8, 9, 10)  # three a stage
MEMORY = {node: 1_000_000 * node for node in NODES}  # enough for every stage
_PIPELINE: dict[str, Any] = {
    "all_reduce": "butterfly",
    "least_valid": 0.5,
    "paths": "measured",
    "declared_memory": True,
    "sharing": {"full_every": 1},
}


def audited_run(folder: Path, **pipeline: Any) -> Run:
    """The two rounds. `pipeline`: further options of the spec's block."""
    block = {**_PIPELINE, **pipeline}
    return run(
        *(folder, (NODES, NODES), MEMORY, _busy, honest_shares),
        score="clasp",
        batches_per_round=12,
        pipeline=block,
    )


def _busy(mined: MinedRound, node: int) -> int:
    """Milliseconds that a miner states of its epoch: 10 an event, and twice that of one of them."""
    return 10 * len(mined.works[node].log.events) * (2 if node == NODES[0] else 1)


def honest_shares(mined: MinedRound, submissions: Sequence[Submission]) -> Shares:
    """What all owners of shards say, none of whom lies."""
    bare, found = Shares(AUDIT_SEED, frozenset(s.reveal.node for s in submissions)), {}
    for owner in sorted(mined.works):
        found[owner] = statement(mined, submissions, owner)
    return replace(bare, statements=found)


def statement(
    mined: MinedRound, submissions: Sequence[Submission], owner: int, off: float = 0.0
) -> Statement:
    """What an owner states. `off`: what it adds to each number of its shards."""
    job, epoch = mined.job, mined.plan.epoch
    assert epoch is not None
    stage = epoch.stage_of(owner)
    assert stage is not None
    length = sum(map(math.prod, job.stage_shapes(stage).values()))
    shares = Shares(AUDIT_SEED, frozenset(s.reveal.node for s in submissions))
    butterfly = shares.butterfly(epoch, stage, length)
    assert butterfly is not None
    passes = {n: len(done) for n, done in samples_that_count(epoch, submissions).items()}
    named = contributors_of(job, epoch, stage, passes)
    rows = [flat(s.gradient) for s in submissions if s.reveal.node in named and s.gradient]
    made = merge_shards(butterfly, owner, rows, job.merge)
    digests = tuple(butterfly.digest(shard, values + off) for shard, values in made.items())
    said = Statement(
        *(JOB, epoch.number, owner, butterfly.seed, named), content=b"\1" * 32, digests=digests
    )
    return said.by(WALLETS[owner], WHERE)


@dataclass(frozen=True)
class Past:
    """A finalized round as an audit finds it. `outcome`: what was proposed in it."""

    mined: MinedRound
    opened: Opened
    reveals: tuple[Reveal, ...]
    tally: Tally
    outcome: Outcome

    @property
    def number(self) -> int:
        assert self.mined.plan.epoch is not None
        return self.mined.plan.epoch.number

    def proposed(self, **changes: Any) -> Past:
        """The same with another result on chain. `changes`: fields of the proposal."""
        proposal = replace(self.tally.proposal, **changes)
        return replace(self, tally=replace(self.tally, proposal=proposal))

    def revealed(self, reveal: Reveal) -> Past:
        """The same with this reveal in place of the node's own."""
        said = [reveal if one.node == reveal.node else one for one in self.reveals]
        return replace(self, reveals=tuple(said))


def past_of(made: Run, step: int, outcome: Outcome | None = None) -> Past:
    """A round of the run. `outcome`: what was proposed in place of the honest one."""
    mined, outcome = made.rounds[step], outcome or made.outcomes[step]
    snapshot = made.facts.snapshots[step + 1]
    opened = Opened(
        event=SimpleNamespace(block=step + 1),  # type: ignore[arg-type]
        time=0,
        prev_model=bytes.fromhex(made.outcomes[step].report.prev_model),
        nodes=snapshot.nodes,
        weights=snapshot.weights,
        verifiers={},
        aggregators=(),
    )
    reveals = tuple(made.facts.by_round[step + 1].values())
    tally = Tally(proposal_of(outcome), {}, frozenset(), frozenset())
    return Past(mined, opened, reveals, tally, outcome)


@dataclass
class _Record:
    """What `Record` would say of the job."""

    network: Any
    job: Any
    current: Mapping[int, Any]
    job_id: int = JOB
    chain_id: int = WHERE["chainId"]

    def of(self, event: str, round_id: int | None = None) -> tuple[Any, ...]:
        """None of its work was found invalid."""
        return ()


@dataclass
class _Stakes:
    """What `StakeBook` would say: as much of everybody as `ChainFacts` says."""

    facts: Any
    known: dict[int, int] = field(default_factory=dict)

    def stakes(self, nodes: Sequence[int], block: int) -> dict[int, int]:
        found: dict[int, int] = self.facts.stakes_at(nodes, block)
        return found


def audit(made: Run, rounds: Sequence[Past], store: Any = None, deep: bool = False) -> list[Part]:
    """The parts of these rounds, and last that of the job."""
    facts, spec = made.facts, made.rounds[0].job.spec
    terms = facts.job(JOB).terms
    terms.rounds, terms.commit_s = spec.rounds, 600
    current = {past.number: SimpleNamespace(audit_seed=AUDIT_SEED) for past in rounds}
    record: Any = _Record(facts, SimpleNamespace(terms=terms), current)
    job, parts = Part(0), list[Part]()
    stakes: Any = _Stakes(facts)
    artefacts = Artefacts(store or made.rounds[0].store)
    training = Training(record, artefacts, stakes, DEVICE, job, lambda text: None)
    for past in rounds:
        part = Part(past.number)
        plan = training.plan(past.opened, past.mined.plan.manifest.seed, part)
        assert plan is not None
        place = part, past.opened, plan, past.reveals, past.tally, deep, frozenset[int]()
        training.replay(*place)
        parts.append(part)
    return [*parts, job]
