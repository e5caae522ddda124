# SPDX-License-Identifier: Apache-2.0
"""Fast evaluation: the cheap checks that every node of a snapshot gets in every round.

Rule: in this order, the first that fails is the reason: committed and revealed (the contract holds
both to their windows by chain time), payload there and readable, bound to the data it was assigned,
of a plausible norm, not found invalid, and a sync sample that is posted, there, proven against the
root that was committed, and at most `sync_limit` steps away from the round's model.

A node whose sample fails may still be evaluated, because its payload is there. A node that fails an
earlier check has nothing to evaluate. All nodes of the snapshot are checked, whoever is merged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agents.gauntlet.record import MAX_REASON
from agents.gauntlet.sample_search import Source
from agents.gauntlet.sync_score import sync_score
from agents.jobs.job import JobContext
from agents.jobs.outer_step import weights_of
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission
from agents.rounds.sync_sample import max_samples_bytes, read_samples, values_at
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.assignment import input_root
from agents.training.norms import norm
from agents.training.outer import VELOCITY
from agents.training.state import PayloadError, State, model_hash

NO_SAMPLE = "no sync sample posted"
SAMPLE_LOST = "sync sample cannot be had"
NO_BATCHES = "no batches were assigned"
OTHER_DATA = "the commitment binds other data or another model than those assigned"
IMPLAUSIBLE = "the payload's norm is not plausible beside the others'"
INVALID = "found invalid in this round"
_SMALLEST_STEP = 1e-30  # stands for a step of zero: any difference is then infinitely many


@dataclass(frozen=True)
class Checked:
    """What fast evaluation found. `failure`: empty if nothing; `sync`: in steps, if proven."""

    failure: str
    usable: bool
    sync: float | None = None


@dataclass(frozen=True)
class Facts:
    """What the chain says about a round's nodes.

    `nodes`: the snapshot's. `samples`: digest of the sync sample by node. `invalid`: nodes already
    found invalid in the round.
    """

    nodes: Sequence[int]
    committed: Collection[int]
    samples: Mapping[int, bytes]
    invalid: Collection[int]


def check_nodes(
    facts: Facts,
    job: JobContext,
    options: Gauntlet,
    plan: Plan,
    before: State,
    submissions: Sequence[Submission],
    audit_seed: bytes,
    step_size: float,
    store: Source,
) -> dict[int, Checked]:
    """What is wrong with each node of the snapshot, by node.

    Args:
        before: the round's model.
        submissions: of every node that revealed.
        store: gives the sync samples.
        step_size: mean |change| of a parameter in the last update; see `step_size`.

    Raises:
        StoreUnavailable: the store itself is down.
    """
    sent = {s.reveal.node: s for s in submissions}
    plausible = options.plausible_norms(
        {node: norm(s.gradient) for node, s in sent.items() if s.gradient is not None}
    )
    found = {}
    for node in facts.nodes:
        failure = _payload(node, facts, sent.get(node), plan, before, plausible)
        if failure:
            found[node] = Checked(failure[:MAX_REASON], usable=False)
            continue
        root = sent[node].reveal.trace_root
        steps, failure = _sync(
            facts.samples.get(node), root, job, options, before, audit_seed, step_size, store
        )
        found[node] = Checked(failure[:MAX_REASON], usable=True, sync=steps)
    return found


def step_size(before: State, earlier: State | None) -> float:
    """Mean |change| of a parameter from one round's model to the next: the unit of SyncScore.

    Under a merge of signs it is the paper's alpha, times the share of parameters that moved; under
    any other the like of it, measured. `earlier`: the model one round before, None in the first
    round, where nobody can be behind: the unit is then 0 and any difference too much.
    """
    if earlier is None:
        return 0.0
    weights = [name for name in before if not name.startswith(VELOCITY)]
    total = sum(
        float((before[name].double() - earlier[name].double()).abs().sum()) for name in weights
    )
    return total / sum(before[name].numel() for name in weights)


def _payload(
    node: int,
    facts: Facts,
    submission: Submission | None,
    plan: Plan,
    before: State,
    plausible: Collection[int],
) -> str:
    if node not in facts.committed:
        return "not committed in time"
    if submission is None:
        return "not revealed in time"
    if submission.gradient is None:
        return submission.reason or "bad payload"
    if plan.manifest.of(node) is None:
        return NO_BATCHES
    if submission.reveal.input_root != input_root(plan.manifest, node, model_hash(before)):
        return OTHER_DATA
    if node not in plausible:
        return IMPLAUSIBLE
    if node in facts.invalid:
        return INVALID
    return ""


def _sync(
    digest: bytes | None,
    root: bytes,
    job: JobContext,
    options: Gauntlet,
    before: State,
    audit_seed: bytes,
    unit: float,
    store: Source,
) -> tuple[float | None, str]:
    """(SyncScore, why it fails): the score is None if no sample is proven."""
    if digest is None:
        return None, NO_SAMPLE
    shapes, count = job.shapes, options.samples
    try:
        raw = store.get_digest(digest, max_samples_bytes(shapes, count))
        theirs = read_samples(raw, root, shapes, audit_seed, count)
    except StoreUnavailable:
        raise
    except StoreError as error:
        return None, f"{SAMPLE_LOST}: {error}"
    except PayloadError as error:
        return None, f"bad sync sample: {error}"
    ours = values_at(weights_of(before, shapes), audit_seed, count)
    score = sync_score(theirs, ours, max(unit, _SMALLEST_STEP))
    if score <= options.sync_limit:
        return score, ""
    return score, f"out of sync by {score:.3g} steps, at most {options.sync_limit:g}"
