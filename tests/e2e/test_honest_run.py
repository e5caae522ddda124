# SPDX-License-Identifier: Apache-2.0
"""Nothing goes wrong: the model learns, everybody is paid to the last unit, nobody is slashed."""

from __future__ import annotations

from itertools import pairwise

from agents.tasks.compute.classes import CPU_CLASS
from scripts._report.story import losses
from tests.stage.network import TERMS, LocalNetwork


def test_two_honest_rounds_lower_the_loss_and_are_paid(local: LocalNetwork) -> None:
    """Two rounds are final, the loss falls in each, a reward can be claimed by its owner only."""
    job = local.job(rounds=2)
    local.finish(job)
    history = local.assert_whole(job)

    curve = losses(history)
    assert len(curve) == 3
    assert all(after < before for before, after in pairwise(curve)), curve
    trained = sum(history.nodes[local.node_id(n)].earned for n in local.names("trainer"))
    # What verifiers and aggregators do not get; each payment is rounded down by less than a unit,
    # and the second round pays what the first one lost so.
    share = 10_000 - TERMS.verifier_bps - TERMS.aggregator_bps
    pool = 2 * TERMS.reward_per_round * share // 10_000
    assert abs(trained - pool) <= 2 * len(local.net.seats)

    owed, received = local.claim("trainer-1")
    assert owed == received > 0
    assert all(check.holds for check in local.books(job))


def test_a_job_that_lists_its_trainers_class_is_trained_and_paid(local: LocalNetwork) -> None:
    """In bf16, where the list is what shuts foreign classes out."""
    job = local.job(precision="bf16", classes=[CPU_CLASS])
    local.finish(job)
    local.assert_whole(job)
    assert int(local.round(job).n_committed) == len(local.names("trainer"))
