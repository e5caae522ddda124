# SPDX-License-Identifier: Apache-2.0
"""The score `alignment` gives what a fair person would, and nothing more to who games it.

Updates are u_i = s + noise, as strangers' updates are: a common direction and much that is their
own.
"""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import score as score_rules
from agents.mechanisms.score import Evidence
from agents.mechanisms.score.parts.peers import UNIT
from agents.mechanisms.score.shares import PPM
from tests.agents.mechanisms.conftest import two_threads

SCORE = score_rules.get("alignment")()
GAIN = 20_000
WIDTH = 20_000


def nodes(count: int, spread: float = 1.0, seed: int = 1, width: int = WIDTH) -> list[torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    common = torch.randn(width, generator=source)
    return [common + spread * torch.randn(width, generator=source) for _ in range(count)]


def stranger(seed: int, width: int = WIDTH) -> torch.Tensor:
    """Pure noise of the norm of an honest update."""
    source = torch.Generator().manual_seed(1_000_000 + seed)  # no seed of `nodes`
    return 2**0.5 * torch.randn(width, generator=source)


def evidence(rows: list[torch.Tensor], gains: list[int] | None = None) -> Evidence:
    published = [GAIN] * len(rows) if gains is None else gains
    return Evidence({"a": torch.zeros_like(rows[0])}, tuple(published))


def quality(rows: list[torch.Tensor], gains: list[int] | None = None, score=SCORE) -> list[int]:
    payloads = [{"a": row} for row in rows]
    return list(score(payloads, [5] * len(rows), evidence(rows, gains)).quality_ppm)


def parts(rows: list[torch.Tensor], gains: list[int] | None = None):
    return SCORE.parts([{"a": row} for row in rows], [5] * len(rows), evidence(rows, gains))


# -- What was known before -----------------------------------------------------------------------


def known(rows: list[torch.Tensor], before: list[torch.Tensor]) -> list[int]:
    """Qualities where `before` was known to everybody; all have the usual gain."""
    published = replace(evidence(rows), known=tuple({"a": row} for row in before))
    return list(SCORE([{"a": row} for row in rows], [5] * len(rows), published).quality_ppm)


def test_who_resends_past_updates_gets_nothing():
    # The past points where this round's work does, better than any honest node by itself.
    source = torch.Generator().manual_seed(5)
    past = [torch.randn(WIDTH, generator=source) for _ in range(8)]
    drift = sum(0.8**age * row for age, row in enumerate(past))
    honest = [row + 0.4 * drift for row in nodes(7)]
    rider = drift
    assert rider.norm() > 0.9 * honest[0].norm()
    noisy = [rider + 0.2 * stranger(seed) for seed in (1, 2, 3)]
    rode = quality([*honest, rider, *noisy])
    assert min(rode[7:]) > 500_000  # not knowing the past
    found = known([*honest, rider, *noisy], past)
    assert max(found[7:]) < 10_000
    assert found[:7] == pytest.approx(quality(nodes(7)), rel=0.02)  # as if they had sent the rest


def test_part_of_the_past_earns_as_little_as_all_of_it():
    source = torch.Generator().manual_seed(6)
    past = [torch.randn(WIDTH, generator=source) for _ in range(3)]
    rows = [row + past[0] for row in nodes(7)]
    assert known([*rows, past[0] - 2 * past[2]], past)[7] == 0
    filled = past[0] + stranger(1)  # noise of the norm of honest work: size without direction
    assert known([*rows, filled], past)[7] < 20_000


def test_a_known_vector_twice_is_one():
    source = torch.Generator().manual_seed(7)
    past = torch.randn(WIDTH, generator=source)
    rows = [row + past for row in nodes(5)]
    once = known(rows, [past])
    assert known(rows, [past, past]) == once
    assert known(rows, [past, 4 * past, torch.zeros(WIDTH)]) == once


# -- What a fair person would give ---------------------------------------------------------------


def test_honest_nodes_get_the_sum_of_their_parts():
    # The cosine with the common direction is 1 / sqrt(2); all else is full.
    expected = (0.5 / 2**0.5 + 0.3 + 0.2) * PPM
    assert quality(nodes(8)) == pytest.approx([expected] * 8, rel=0.02)


def test_contribution_is_batches_times_quality():
    rows = nodes(3)
    found = SCORE([{"a": row} for row in rows], [4, 0, 9], evidence(rows))
    first, second, third = found.quality_ppm
    assert found.contributions == (4 * first, 0 * second, 9 * third)


def test_noise_gets_nothing():
    # It has the norm of work and no direction: the gate keeps the magnitude part from it. Against
    # a mean that contains it its cosine would be 0.2.
    found = quality([*nodes(7), stranger(1), stranger(2), stranger(3)], [GAIN] * 7 + [-50, 0, 3])
    assert min(found[:7]) > 800_000
    assert max(found[7:]) < 20_000


def test_noise_in_few_dimensions_needs_the_chance_option():
    # Among 256 numbers, noise has a cosine of 1/16 with anything, one standard deviation.
    rows = [*nodes(7, width=256), stranger(6, 256)]
    gains = [GAIN] * 7 + [0]
    assert quality(rows, gains)[7] > 100_000
    strict = quality(rows, gains, score_rules.get("alignment")(chance=3 / 256**0.5))
    assert strict[7] == 0
    assert min(strict[:7]) > 700_000


def test_a_round_whose_updates_are_all_noise_pays_nobody():
    """Without the option the luckiest share the pool of every third round or so."""
    strict, lots = score_rules.get("alignment")(chance=3 / WIDTH**0.5), 0
    for first in range(0, 200, 10):
        rows = [stranger(first + node) for node in range(10)]
        lots += max(quality(rows)) > 100_000
        assert max(quality(rows, score=strict)) == 0
    assert lots > 5


def test_zero_gets_nothing_and_has_no_say():
    rows, zero = nodes(4), torch.zeros(WIDTH)
    found = quality([*rows, zero, zero, zero, zero, zero])
    # Idle nodes are the majority, and the four others are scored as if they were by themselves.
    assert found == [*quality(rows), 0, 0, 0, 0, 0]
    assert quality([zero, zero]) == [0, 0]


def test_near_zero_is_paid_in_proportion_to_its_norm():
    # The direction is right and its gain too, but what was sent hardly moves the model.
    rows = nodes(6)
    full = quality(rows)[5]
    for factor, share in ((1 / 8, 1 / 4), (1 / 64, 1 / 32), (2.0**-30, 0)):
        found = quality([*rows[:5], rows[5] * factor])[5]
        assert found == pytest.approx(share * full, rel=0.05, abs=2)


def test_opposed_gets_nothing():
    rows = nodes(7)
    assert quality([*rows, -rows[0]], [GAIN] * 7 + [-GAIN])[7] == 0
    # Nor should the text like it: a gain without the others' direction is worth nothing.
    assert quality([*rows, -rows[0]])[7] == 0


def test_copies_share_what_one_would_get():
    # Otherwise an operator would train once and be paid under every name it has.
    rows = nodes(8)
    alone = quality(rows)[7]
    for count in (2, 3, 4):
        found = quality([*rows, *[rows[7]] * (count - 1)])
        copied = found[7:]
        assert len(set(copied)) == 1
        assert sum(copied) == pytest.approx(alone, rel=0.02)
        assert min(found[:7]) > 800_000
    scaled = quality([*rows, 1.7 * rows[7], 0.6 * rows[7]])
    assert sum(scaled[7:]) == pytest.approx(alone, rel=0.02)


@pytest.mark.parametrize("spread", (0.02, 0.1))
def test_nodes_whose_gradients_have_little_noise_are_no_copies(spread):
    # Means over large batches: cosines of 0.9996 and 0.99 between honest nodes.
    rows = nodes(8, spread)
    assert {part.sharers for part in parts(rows)} == {1}
    shared = parts([*rows, rows[0] + 0.1 * spread * stranger(1)])
    assert [part.sharers for part in shared] == [2, *[1] * 7, 2]


@pytest.mark.parametrize(("honest", "noisy", "most"), [(9, 1, 1), (8, 2, 8), (4, 1, 4)])
def test_limit_honest_nodes_are_copies_where_a_few_of_little_noise_add_some(honest, noisy, most):
    # The usual cosine is a lower quartile, and these few lower it. So no job pays mean gradients by
    # alignment (`agents.jobs.combinations.pay`).
    rows = nodes(honest + noisy, 0.02)
    added = [row + 0.2 * stranger(seed) for seed, row in enumerate(rows[honest:])]
    crowd = [*rows[:honest], *added]
    assert [part.sharers for part in parts(crowd)] == [most] * honest + [1] * noisy
    found = quality(crowd)
    assert found[-1] / found[0] == pytest.approx(most, rel=0.03)


def test_copies_share_up_to_three_quarters_of_the_nodes():
    rows, copied = nodes(4), nodes(1, seed=9)[0]
    made = [copied + 0.01 * stranger(seed) for seed in range(9)]
    assert [part.sharers for part in parts([*rows[:3], *made])] == [1] * 3 + [9] * 9


def test_copies_of_noise_do_not_vouch_for_each_other():
    lie = stranger(1)
    assert max(quality([*nodes(7), lie, lie, lie], [GAIN] * 7 + [0] * 3)[7:]) < 20_000


def test_equal_honest_nodes_are_not_taken_for_a_clique():
    # Same data, same result: three of four agree to the bit. They share evenly, noise gets nothing.
    row = nodes(1)[0]
    *equal, noise = quality([row, row, row, stranger(1)], [GAIN] * 3 + [0])
    assert equal == [PPM // 3] * 3 and noise < 20_000


def test_the_only_one_left_is_taken_at_its_word():
    row = nodes(1)[0]
    assert quality([row]) == [PPM]
    # Nobody contradicts it but the validation loss.
    assert quality([row], [-GAIN]) == [800_000]
    assert quality([row, torch.zeros(WIDTH)]) == [PPM, 0]


def test_two_that_disagree_have_no_witness():
    # Neither can be believed over the other.
    row = nodes(1)[0]
    assert quality([row, -row], [GAIN, -GAIN]) == [0, 0]
    # Orthogonal but for chance: alike, and little beside the 650,000 of two that agree.
    first, second = quality([row, stranger(1)], [0, 0])
    assert first == second < 250_000


def test_two_that_agree_are_paid_alike():
    first, second = quality(nodes(2))
    assert first == second == pytest.approx(850_000, rel=0.02)


def test_two_of_three_outvote_a_liar_of_any_size():
    for lie in (-nodes(1)[0], stranger(1), 1e6 * stranger(1), 1e-6 * stranger(1)):
        first, second, liar = quality([*nodes(2), lie], [GAIN, GAIN, -GAIN])
        assert min(first, second) > 800_000 and liar < 20_000


def test_no_gains_at_all_leave_the_other_parts():
    # Late in training, or with too large a step, nobody helps alone: nobody has that part.
    rows = nodes(5)
    expected = (0.5 / 2**0.5 + 0.3) * PPM
    for gains in ([0] * 5, [-GAIN] * 5):
        assert quality(rows, gains) == pytest.approx([expected] * 5, rel=0.02)


def test_an_enormous_gain_earns_no_more_than_a_usual_one():
    # Who trains on the public validation text reaches any gain; a fifth of the score is all of it.
    rows = nodes(5)
    assert quality(rows, [PPM, *[GAIN] * 4]) == quality(rows)


def test_measurement_noise_is_no_gain():
    rows = nodes(5)
    helped, *others = quality(rows, [100, 0, 0, 0, 0])
    assert helped - quality(rows, [0] * 5)[0] == 20_000  # a tenth of the validation part
    assert others == quality(rows, [0] * 5)[1:]


def test_limit_a_majority_decides_what_is_right():
    # Six of ten agree on another direction. From the updates alone they are the honest ones, and
    # only what does not ask the nodes, re-execution or the validation loss, tells the difference.
    found = quality([*nodes(4), *nodes(6, seed=2)], [GAIN] * 4 + [0] * 6)
    assert min(found[4:]) > 600_000
    assert max(found[:4]) < 240_000


def test_a_clique_gains_nothing_that_the_sum_of_the_others_would_give_it():
    # Three liars share an invented direction and keep just below the copies' cosine. Their cosine
    # with the sum of all others is half of an honest node's; with the median node it is 0.
    lie, honest = stranger(1), nodes(7)
    clique = [lie + 0.3 * stranger(seed) for seed in (2, 3, 4)]
    rows = [*honest, *clique]
    unit = torch.stack([row / row.norm() for row in rows])
    naive = [float(torch.cosine_similarity(unit[i], unit.sum(0) - unit[i], 0)) for i in range(10)]
    assert min(naive[7:]) > 0.5 * max(naive[:7])
    found = parts(rows)
    assert max(part.alignment for part in found[7:]) < UNIT // 50
    assert all(part.sharers == 1 for part in found)


# -- Properties ----------------------------------------------------------------------------------

ROWS = st.tuples(st.integers(1, 7), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 3.0]))


def crowd(choice: tuple[int, int, float], kinds: list[str]) -> list[torch.Tensor]:
    """Honest nodes, some of them replaced by something worse."""
    count, seed, spread = choice
    rows = nodes(count, spread, seed, width=256)
    bad = {
        "noise": lambda i: stranger(seed + i, 256),
        "flip": lambda i: -rows[i],
        "copy": lambda i: rows[0],
        "zero": lambda i: torch.zeros(256),
        "loud": lambda i: 1e3 * rows[i],
        "faint": lambda i: 1e-3 * rows[i],
        "honest": lambda i: rows[i],
    }
    return [bad[kind](i) for i, kind in zip(range(count), kinds, strict=False)]


KINDS = st.lists(
    st.sampled_from(["honest", "noise", "flip", "copy", "zero", "loud", "faint"]),
    min_size=7,
    max_size=7,
)
GAINS = st.lists(st.integers(-PPM, PPM), min_size=7, max_size=7)


@settings(max_examples=60, deadline=None)
@given(ROWS, KINDS, GAINS)
def test_every_part_of_a_score_is_within_its_bounds(choice, kinds, gains):
    rows = crowd(choice, kinds)
    found = quality(rows, gains[: len(rows)])
    assert all(type(value) is int and 0 <= value <= PPM for value in found)
    for part in parts(rows, gains[: len(rows)]):
        for value in (part.alignment, part.size, part.validation):
            assert type(value) is int and 0 <= value <= UNIT


@settings(max_examples=60, deadline=None)
@given(ROWS, KINDS, GAINS, st.randoms(use_true_random=False))
def test_order_of_nodes_only_permutes_the_scores(choice, kinds, gains, random):
    rows = crowd(choice, kinds)
    gains = gains[: len(rows)]
    order = list(range(len(rows)))
    random.shuffle(order)
    found = quality(rows, gains)
    assert quality([rows[i] for i in order], [gains[i] for i in order]) == [found[i] for i in order]


@settings(max_examples=60, deadline=None)
@given(ROWS, KINDS, GAINS, st.integers(0, 6), st.integers(-40, 20))
def test_nobody_raises_its_score_by_scaling(choice, kinds, gains, who, power):
    rows = crowd(choice, kinds)
    gains = gains[: len(rows)]
    who %= len(rows)
    before = parts(rows, gains)
    after = parts([*rows[:who], rows[who] * 2.0**power, *rows[who + 1 :]], gains)
    # Direction, usefulness and sharers of everyone stay the same to the last digit ...
    same = [(part.alignment, part.validation, part.sharers) for part in before]
    assert [(part.alignment, part.validation, part.sharers) for part in after] == same
    # ... so the most that a norm can do is to lie in the band, and there all are equal.
    best = SCORE.quality_ppm(replace(before[who], size=UNIT))
    assert SCORE.quality_ppm(after[who]) <= best
    if before[who].size == UNIT:
        assert SCORE.quality_ppm(before[who]) == best


@pytest.mark.parametrize("factor", [0.71, 1.3, 1.9])
def test_inside_the_band_all_norms_earn_the_same(factor):
    # Factors that are no powers of two round the payload itself: a millionth at most.
    rows = nodes(5)
    assert quality([rows[0] * factor, *rows[1:]]) == pytest.approx(quality(rows), abs=1)


def test_threads_and_splitting_change_nothing():
    rows = nodes(5, width=150_000)
    found = quality(rows)
    with two_threads():
        assert quality(rows) == found
    split = [{"x": row[:77].reshape(7, 11), "y": row[77:]} for row in rows]
    assert list(SCORE(split, [5] * 5, evidence(rows)).quality_ppm) == found


# -- Options and input ---------------------------------------------------------------------------


def test_options_change_the_rule():
    rows = nodes(4)
    only = score_rules.get("alignment")(
        weight_alignment=0, weight_magnitude=1, weight_validation=0, gate=1.0
    )
    expected = PPM / 2  # (cosine / gate)^2
    assert quality(rows, [0] * 4, only) == pytest.approx([expected] * 4, rel=0.05)
    # Cosines of 0.5; a median of three may be 0.36 by chance, and 0.22 of what is left is above.
    strict = score_rules.get("alignment")(chance=0.5)
    least = 0.5 * (math.pi / 6) ** 0.5
    expected = (0.5 * (0.5 - least) / (1 - least) * 2**0.5 + 0.3) * PPM
    assert quality(rows, [0] * 4, strict) == pytest.approx([expected] * 4, rel=0.05)
    wide = score_rules.get("alignment")(band_low=0.01)
    assert quality([rows[0] * 0.02, *rows[1:]], score=wide) == pytest.approx(quality(rows), abs=1)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("weight_alignment", 0.6, "three weights of alignment must add up to 1"),
        ("weight_alignment", -0.1, "weight_alignment of alignment must lie from 0 to 1"),
        ("gate", 0, "gate of alignment must lie from 0.001 to 1"),
        ("gate", float("nan"), "gate of alignment must lie from"),
        ("chance", 0.95, "chance of alignment must lie from 0 to 0.9"),
        ("band_low", True, "band_low of alignment must be a number, not True"),
        ("band_high", "2", "band_high of alignment must be a number, not '2'"),
        ("copy_cosine", 0.5, "copy_cosine of alignment must lie from 0.9 to 1"),
        ("least_gain_ppm", 0, "least_gain_ppm of alignment must lie from 1 to"),
        ("least_gain_ppm", 1.5, "least_gain_ppm of alignment must be an integer"),
    ],
)
def test_bad_options_are_refused(name, value, words):
    with pytest.raises(ValueError, match=words):
        score_rules.get("alignment")(**{name: value})


def test_bad_input_is_refused():
    rows = nodes(2)
    payloads = [{"a": row} for row in rows]
    assert SCORE.needs_gains
    with pytest.raises(ValueError, match="needs the validation gains"):
        SCORE(payloads, [5, 5], Evidence({"a": rows[0]}))
    with pytest.raises(ValueError, match="2 payloads, 2 batch counts and 3 gains"):
        SCORE(payloads, [5, 5], evidence(nodes(3)))
    with pytest.raises(ValueError, match="2 payloads, 1 batch counts"):
        SCORE(payloads, [5], evidence(rows))
    with pytest.raises(ValueError, match="must not be negative"):
        SCORE(payloads, [5, -1], evidence(rows))
    with pytest.raises(ValueError, match="no payload"):
        SCORE([], [], Evidence({}, ()))
