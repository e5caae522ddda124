# SPDX-License-Identifier: Apache-2.0
"""The verifiers' cut that pays for doing work again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from agents.jobs.verifying_pay import MOST_CUTS, WORTH, Duty, done_again, part_done_again
from agents.protocol.numbers import ZOO
from agents.protocol.slashing import DEFAULTS
from agents.training.spec import PipelineSpec

HALF = Fraction(1, 2)
DUTY = Duty(
    reward=1_000 * ZOO,
    verifier_bps=1_000,
    aggregator_bps=500,
    stakes=(100 * ZOO,) * 9,
    table=DEFAULTS,
    sample=2,
    retain_rounds=8,
    rounds=50,
    verifiers=3,
)


def chance(loss: Fraction) -> Fraction:
    """Of being drawn, by the bound, or as one of two of nine."""
    gain = Fraction(5, 4) * Fraction(950, 9)
    return 1 - (1 - gain / (gain + loss)) * Fraction(7, 9)


def test_pay_and_what_is_done_again_in_a_round__by_hand() -> None:
    assert DUTY.pay == Fraction(100 * ZOO, 3)
    assert float(DUTY.trainer_pay) / ZOO == pytest.approx(850 / 9)
    assert float(DUTY.redone_in(1)) == pytest.approx(9 * float(chance(Fraction(9))), abs=1e-6)
    full = float(chance(9 + 8 * Fraction(850, 9)))
    for later in (9, 10, 50):
        assert float(DUTY.redone_in(later)) == pytest.approx(9 * full, abs=1e-6)


def test_redone__is_the_mean_of_all_rounds() -> None:
    each = [DUTY.redone_in(number) for number in range(1, 51)]
    assert DUTY.redone == sum(each, Fraction(0)) / 50
    assert replace(DUTY, rounds=3).redone == sum(each[:3], Fraction(0)) / 3


@pytest.mark.parametrize("compute", [Fraction(2, 25), Fraction(1, 4), HALF])
@pytest.mark.parametrize("retained", [8, 32])
def test_least_cut__pays_and_half_a_percent_less_does_not(retained: int, compute: Fraction) -> None:
    duty = replace(DUTY, retain_rounds=retained)
    least = duty.least_cut(compute)
    assert least is not None
    paid, less = (replace(duty, verifier_bps=least - below) for below in (0, 50))
    assert paid.pay >= WORTH * paid.redone * compute * paid.trainer_pay
    assert less.pay < WORTH * less.redone * compute * less.trainer_pay


def test_least_cut__where_no_permitted_one_pays__is_none() -> None:
    """With nothing retained nearly all nine are done again by each of three, at full price."""
    assert replace(DUTY, retain_rounds=0).least_cut(HALF) is None


def test_least_cut__of_work_that_costs_nothing__is_none_of_the_pay() -> None:
    assert DUTY.least_cut(Fraction(0)) == 0


def test_least_cut__with_the_aggregators__is_what_the_contracts_permit() -> None:
    least = replace(DUTY, retain_rounds=32, verifiers=4).least_cut(HALF)
    assert least is not None and least + DUTY.aggregator_bps <= MOST_CUTS


def test_more_verifiers__need_more() -> None:
    cuts = [replace(DUTY, verifiers=n).least_cut(Fraction(1, 10)) for n in (2, 3, 5)]
    assert None not in cuts and cuts == sorted(cuts, key=lambda cut: cut or 0)


@pytest.mark.parametrize(
    ("segment", "samples", "trainers", "part"),
    [
        (0, 384, 12, Fraction(1)),  # epochs are done again as a whole
        (8, 384, 12, Fraction(8, 32)),  # three miners a stage have 128 samples each, four a step
        (8, 385, 12, Fraction(8, 33)),
        (32, 384, 12, Fraction(1)),
        (90, 384, 12, Fraction(1)),
        (8, 384, 3, Fraction(8, 96)),  # fewer trainers than stages
    ],
)
def test_part_done_again__is_one_segment_of_a_miners_steps(
    segment: int, samples: int, trainers: int, part: Fraction
) -> None:
    pipeline = PipelineSpec(layers=(1, 1, 1, 1), local_batch=4, segment=segment)
    assert part_done_again(pipeline, samples, trainers) == part
    assert part_done_again(None, samples, trainers) == 1


def test_a_part_of_the_work__costs_a_part_and_needs_less() -> None:
    whole, part = DUTY, replace(DUTY, part=Fraction(1, 4))
    assert part.redone * 4 == whole.redone and part.pay == whole.pay
    least, most = part.least_cut(HALF), whole.least_cut(HALF)
    assert least is not None and most is not None and least < most


# -- what nodes take from round to round -----------------------------------------------------------


def test_a_round_is_done_again_if_its_node_is_drawn_before_the_next_reset__by_hand() -> None:
    half = Fraction(1, 2)
    assert done_again([half]) == half
    assert done_again([half, half]) == Fraction(3, 4) + half
    assert done_again([Fraction(0), Fraction(1)]) == 2, "the drawn one and the one before"
    assert done_again([Fraction(1), Fraction(0)]) == 1


@pytest.mark.parametrize("rounds", [20, 50, 53])
def test_redone__counts_the_rounds_since_the_reset(rounds: int) -> None:
    """As by the sum over all spans, and far more than is drawn."""
    duty = replace(DUTY, rounds=rounds, carried=20)
    drawn = [duty.redone_in(number) / 9 for number in range(1, rounds + 1)]
    spans = [drawn[first : first + 20] for first in range(0, rounds, 20)]
    exact = 9 * sum(float(done_again([Fraction(float(p)) for p in span])) for span in spans)
    assert float(duty.redone) == pytest.approx(exact / rounds, rel=1e-4)
    assert duty.redone > 1.7 * replace(duty, carried=0).redone
    assert replace(duty, carried=1).redone == replace(duty, carried=0).redone


def test_a_verifier_that_looks_back_was_paid_less_than_its_cost() -> None:
    """Nine trainers, 16 rounds' pay retained, a codec with the usual memory: by the cut that was
    taken, for what is drawn alone, a verifier lost ZOO in each round of honest work."""
    duty = replace(DUTY, retain_rounds=16, carried=20)
    before = replace(duty, carried=0)
    cut = before.least_cut(HALF)
    assert cut is not None
    paid = replace(duty, verifier_bps=cut)
    lost = paid.redone * HALF * paid.trainer_pay - paid.pay
    print(
        f"a cut of {cut / 100:g} %: {float(lost / ZOO):.0f} ZOO lost of {float(paid.pay / ZOO):.0f}"
    )
    assert lost > paid.pay / 4
    assert not paid.pays(HALF) and replace(before, verifier_bps=cut).pays(HALF)
