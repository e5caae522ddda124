# SPDX-License-Identifier: Apache-2.0
"""A backward pass is paid in gamma rounds, of which its own is the first, and then no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from eth_utils import keccak

from agents.pipeline.credit import EpochPasses, scores
from agents.protocol.numbers import UNCLAIMED
from agents.rounds.models import Models
from agents.rounds.outcome import compute
from agents.rounds.plan import Plan, Plans
from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.honest_round import DEVICE, JOB, ChainFacts
from tests.stage.memory.mined_round import MINERS, MinedRound, make_mined_round

PPM = 1_000_000
DONE = ({2: 6, 3: 1}, {2: 4, 5: 2}, {3: 5})  # passes by node, of three rounds
Made = Callable[[int], MinedRound]


@pytest.fixture(scope="module")
def with_gamma(tmp_path_factory: pytest.TempPathFactory) -> Made:
    def make(gamma: int) -> MinedRound:
        folder: Path = tmp_path_factory.mktemp("store")
        changes = {"batches_per_round": 6, "score_options": {"gamma": gamma}}
        return make_mined_round(EmbeddedStore(folder), **changes)

    return make


def finish(mined: MinedRound, facts: ChainFacts, number: int, done: dict[int, int]) -> None:
    """Open a round, and record it with a report that says that these passes count."""
    facts.open(number, keccak(text=f"seed {number}"), MINERS)
    plan = Plan(mined.plan.manifest, number - 1, (), 0, mined.plan.epoch)
    outcome = compute(mined.job, JOB, number, plan, mined.before, mined.honest(), DEVICE)
    lines = [
        line.model_copy(update={"batches": done.get(line.node, 0)}) for line in outcome.report.nodes
    ]
    report = outcome.report.model_copy(update={"nodes": lines})
    facts.record(number, replace(outcome, report=report), mined.store)


def next_plan(mined: MinedRound, facts: ChainFacts) -> Plan:
    number = len(facts.entries) + 1
    view = facts.open(number, keccak(text=f"seed {number}"), MINERS)
    found = Plans(facts, Models(facts, mined.store)).of(view)
    assert found is not None
    return found


def known(plan: Plan) -> list[dict[int, int]]:
    return [{node: n for node, n in one.items() if n} for one in plan.earlier]


@pytest.mark.parametrize("gamma", [1, 2, 3, 5])
def test_the_plan_knows_the_passes_that_are_still_paid(with_gamma: Made, gamma: int) -> None:
    mined = with_gamma(gamma)
    facts = ChainFacts(mined.published)
    for number, done in enumerate(DONE, start=1):
        finish(mined, facts, number, done)
    assert known(next_plan(mined, facts)) == [*DONE][max(0, len(DONE) - gamma + 1) :]


def test_a_miner_that_is_cleared_later_is_paid_by_the_rounds_that_open_then(
    with_gamma: Made,
) -> None:
    mined = with_gamma(3)
    facts = ChainFacts(mined.published)
    for number, done in enumerate(DONE[:2], start=1):
        finish(mined, facts, number, done)
    facts.invalid = {(2, 5)}
    view = facts.open(3, keccak(text="seed 3"), MINERS)
    facts.invalid.clear()
    found = Plans(facts, Models(facts, mined.store)).of(view)
    assert found is not None and known(found) == [DONE[0], {2: 4}]
    finish(mined, facts, 3, DONE[2])
    assert known(next_plan(mined, facts)) == [DONE[1], DONE[2]]


def test_they_are_paid_as_the_primer_says(with_gamma: Made) -> None:
    """Beside IOTA's formula, with a miner that was found wrong in the second round."""
    mined = with_gamma(3)
    facts = ChainFacts(mined.published)
    for number, done in enumerate(DONE[:2], start=1):
        finish(mined, facts, number, done)
    facts.invalid = {(2, 5)}
    earlier = next_plan(mined, facts).earlier
    now = mined.compute(mined.honest()).report.delivered(())
    plan = Plan(mined.plan.manifest, 2, (), 0, mined.plan.epoch, earlier)
    outcome = compute(mined.job, JOB, 3, plan, mined.before, mined.honest(), DEVICE)
    rounds = (DONE[0], {2: 4}, now)
    records = [
        EpochPasses(node, at, count, count, count)
        for at, done in enumerate(rounds)
        for node, count in done.items()
    ]
    paid = outcome.paid()
    # What three rounds handed out and nobody is paid for, the wrong miner's passes among it.
    epoch = mined.plan.epoch
    assert epoch is not None
    handed_out = 3 * len(epoch.samples) * len(epoch.stages) * PPM
    assert paid.pop(UNCLAIMED) == handed_out - sum(paid.values()) > 0
    assert paid == {node: worth for node, worth in scores(records, 2, 3).items() if worth}
    assert paid[2] == (now[2] + 10) * PPM
    # The report says what was done in this round, whatever is paid beside it.
    assert outcome.report.delivered(()) == now
    assert outcome.worth(mined.job) == {node: 3 * passes * PPM for node, passes in now.items()}


def test_where_a_pass_is_paid_once_its_worth_is_the_rounds_contribution(with_gamma: Made) -> None:
    mined = with_gamma(1)
    assert mined.compute(mined.honest()).worth(mined.job) == {}
