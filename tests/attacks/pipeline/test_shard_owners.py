# SPDX-License-Identifier: Apache-2.0
"""Owners of a butterfly's shards that lie about what they have merged."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from agents.jobs.job import JobContext
from agents.mechanisms import merge as merges
from agents.pipeline.butterfly import Butterfly
from agents.pipeline.shards import Settlement, Statement, flat, merge_shards, settle
from agents.rounds.outcome import Outcome, compute
from agents.rounds.shares import Shares
from agents.training.spec import PipelineSpec
from tests.stage.memory.honest_round import DEVICE
from tests.stage.memory.mined_round import PIPELINE, MinedRound
from tests.stage.memory.miners_pot import POISON_WORTH, SEED, SLASH, pay, seeds, won

OWNERS = range(8)
ROWS = [torch.randn(280, generator=torch.Generator().manual_seed(n)) for n in OWNERS]


def settled(seed: bytes, liars: Collection[int]) -> tuple[bool, Settlement]:
    """(whether a lie got into the weights, what was settled) where liars state the same lie of the
    shard that two of them own, or of all of theirs if there is one."""
    butterfly, mean = Butterfly.draw(seed, OWNERS, 280), merges.get("mean")()
    merged, said = mean([{"shard": row} for row in ROWS])["shard"], dict[int, Statement]()
    for owner in OWNERS:
        lies_in = [
            shard
            for shard in butterfly.owned(owner)
            if owner in liars and (len(liars) == 1 or {*butterfly.pairs[shard]} <= {*liars})
        ]
        made = merge_shards(butterfly, owner, ROWS, mean)
        told = tuple(butterfly.digest(s, one + (s in lies_in)) for s, one in made.items())
        said[owner] = Statement(1, 1, owner, seed, tuple(OWNERS), SEED, told)
    found = settle(butterfly, merged, OWNERS, said, Fraction(1), lambda owner, shard: None)
    return not torch.equal(found.update, merged), found


def test_lying_owner__it_is_convicted_always() -> None:
    """Control: with no liar nobody is convicted."""
    assert settled(SEED, ())[1].liars == {}
    for seed in seeds(5):
        entered, found = settled(seed, (3,))
        assert not entered and found.liars.keys() == {3}
    assert won("lying owner", -float(SLASH)) == -200


def test_pair_of_owners_agrees_on_a_lie__it_would_win_by_votes_and_loses() -> None:
    """Where only shards were merged again whose owners disagree, nobody would look at theirs."""
    for seed in seeds(20):
        entered, found = settled(seed, (3, 6))
        assert found.matrix[3][6] is True and not any(False in row for row in found.matrix)
        assert not entered and found.liars.keys() == {3, 6}
    assert won("pair of owners, told by votes", float(POISON_WORTH)) == 40
    assert won("pair of owners, merged again", -2 * float(SLASH)) == -400


@pytest.mark.parametrize("count", [1, 2])
def test_owner_lies_in_a_round__it_moves_nothing_and_is_convicted(
    mined: MinedRound, count: int
) -> None:
    """One owner, and a pair that agrees on the lie in its shard. Control: who merges right is not
    accused."""
    pipeline = {**PIPELINE, "all_reduce": "butterfly", "least_valid": 0.5}
    spec = mined.job.spec.model_copy(update={"pipeline": PipelineSpec(**pipeline)})
    round_, epoch = replace(mined, job=JobContext(spec, mined.store)), mined.plan.epoch
    assert epoch is not None
    friends, found = epoch.stages[0][:count], round_.honest()

    def merged(liars: Collection[int]) -> Outcome:
        shares, said = Shares(SEED, frozenset(mined.works)), dict[int, Statement]()
        for miners in epoch.stages:
            rows = [flat(mined.works[miner].change) for miner in miners]
            butterfly = shares.butterfly(epoch, epoch.stages.index(miners), len(rows[0]))
            assert butterfly is not None
            for owner in miners:
                made = merge_shards(butterfly, owner, rows, round_.job.merge)
                digests = tuple(
                    butterfly.digest(
                        shard, values + (owner in liars and {*liars} <= {*butterfly.pairs[shard]})
                    )
                    for shard, values in made.items()
                )
                place = epoch.job, epoch.number, owner, butterfly.seed, miners
                said[owner] = Statement(*place, SEED, digests)
        given = replace(shares, statements=said)
        facts = round_.job, 1, 1, round_.plan, round_.before, found
        return compute(*facts, DEVICE, shares=given)

    fair, outcome = merged(()), merged(friends)
    assert not fair.lies and outcome.lies.keys() == {*friends}
    assert outcome.model == fair.model
    lost = pay(fair.paid(), friends) - (pay(outcome.paid(), ()) - SLASH * len(friends))
    assert won(f"{count} lying owners in a round", -lost) < -SLASH * count
