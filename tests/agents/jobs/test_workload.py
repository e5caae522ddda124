# SPDX-License-Identifier: Apache-2.0
"""What a round takes to compute: a trainer its training, a verifier what it does again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from agents.jobs.deterrence import Checking, checking
from agents.jobs.job import JobContext
from agents.jobs.workload import evaluating, measuring, recomputing, training, verifying
from agents.protocol.draw_chance import Exposure
from agents.protocol.numbers import ZOO
from agents.protocol.slashing import DEFAULTS
from agents.training.spec import JobSpec
from tests.stage.memory.honest_round import HonestRound
from tests.stage.memory.tiny_specs import GAUNTLET, tiny_model

SURE, NEVER = Exposure(ZOO, 0), Exposure(0, ZOO)
BATCHES, TOKENS, EVALUATED = 12, 2 * 16, 2  # of the tiny job


def context(tiny: HonestRound, **changes: Any) -> JobContext:
    fields = {**tiny.job.spec.model_dump(mode="json"), **changes}
    return JobContext(JobSpec.from_dict(fields), tiny.store)


def drawn(sure: int, never: int) -> Checking:
    return Checking((SURE,) * sure + (NEVER,) * never, 0, None)


def test_training_is_six_operations_for_each_parameter_and_token(tiny: HonestRound) -> None:
    assert training(tiny.job, 4) == 6 * tiny.job.parameters * BATCHES * TOKENS


def test_a_result_is_evaluated_before_and_after(tiny: HonestRound) -> None:
    """And after each update alone, where the score asks for gains."""
    once = 2 * tiny.job.parameters * EVALUATED * TOKENS
    assert evaluating(tiny.job, 4) == 2 * once
    gaining = context(tiny, score="alignment")
    assert gaining.score.needs_gains
    assert evaluating(gaining, 4) == 6 * once


def test_a_result_is_recomputed_on_no_more_text_than_there_is(tiny: HonestRound) -> None:
    """A spec may name a hundred thousand batches of a few sequences."""
    assert recomputing(tiny.job, 4) == evaluating(tiny.job, 4)
    greedy = context(tiny, eval_batches=100_000)
    tokens = greedy.data.val_sequences * 16
    assert recomputing(greedy, 4) == pytest.approx(2 * 2 * greedy.parameters * tokens)


def test_a_verifier_does_the_expected_number_of_trainers_again(tiny: HonestRound) -> None:
    alone = evaluating(tiny.job, 4)
    assert verifying(tiny.job, drawn(0, 4)) == alone
    assert verifying(tiny.job, drawn(1, 3)) == alone + training(tiny.job, 4) / 4
    assert verifying(tiny.job, drawn(4, 0)) == alone + training(tiny.job, 4)
    assert verifying(tiny.job, Checking((), 2, None)) == evaluating(tiny.job, 0)


def test_a_verifier_does_one_segment_of_a_drawn_miner_again(tiny: HonestRound) -> None:
    """Of 24 samples each of four miners in two stages has 12, so six steps of two passes."""
    whole, some = (
        context(
            tiny,
            mode="pipeline",
            score="backward_passes",
            model={**tiny_model(16, 24, 16, layers=2), "tie_embeddings": False},
            batches_per_round=24,
            classes=["torch=0;device=abacus"],
            pipeline={
                "layers": [1, 1],
                "boundary_options": {"width": 4},
                "local_batch": 2,
                "segment": segment,
            },
        )
        for segment in (0, 2)
    )
    alone, all_of_it = evaluating(whole, 4), training(whole, 4)
    assert verifying(whole, drawn(4, 0)) == alone + all_of_it
    assert verifying(some, drawn(4, 0)) == pytest.approx(alone + all_of_it / 3)


def test_more_reward_beside_the_same_stake_is_more_work(tiny: HonestRound) -> None:
    """And the share of the training is the one that deterrence expects."""

    def at(reward: int) -> Checking:
        return checking(reward, 0, 500, [100 * ZOO] * 8, DEFAULTS, 0)

    work = [verifying(tiny.job, at(reward * ZOO)) for reward in (0, 1, 100, 10_000)]
    assert work == sorted(work) and len(set(work)) == 4
    redone = at(100 * ZOO).redone * Fraction(1, 8)
    assert work[2] - work[0] == pytest.approx(float(redone) * training(tiny.job, 8))


def test_nothing_is_done_again_under_screening(tiny: HonestRound) -> None:
    screened = context(tiny, access="local", verify="screening")
    assert verifying(screened, drawn(4, 0)) == evaluating(screened, 4)


def test_a_validator_tries_each_update_on_everybodys_batches(tiny: HonestRound) -> None:
    """Four trainers with two batches and two extra ones each, as many as count. On the random
    batches an update is tried whole and by two parts."""
    options = {"evaluated": 3, "eval_batches": 2}
    optimizer = {"batch_size": 2, "seq_len": 16, "inner": "gradient"}
    free = context(tiny, **GAUNTLET, score_options=options, optimizer=optimizer)
    passes = (1 + 3 * 3) * 2 + (1 + 3) * 3 * (2 + 2)
    assert measuring(free, 4) == 2 * free.parameters * TOKENS * passes
    assert verifying(free, drawn(4, 0)) == measuring(free, 4) + evaluating(free, 4)
    assert training(free, 4) == 6 * free.parameters * TOKENS * 4 * 2
    assert measuring(tiny.job, 4) == 0 and measuring(free, 0) == 0
