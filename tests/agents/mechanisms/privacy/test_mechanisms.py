# SPDX-License-Identifier: Apache-2.0
"""Clipping, noise and the mechanisms a spec can name."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from agents.mechanisms import merge as merge_rules
from agents.mechanisms import privacy
from agents.mechanisms.privacy import Accountant
from agents.mechanisms.privacy.aggregate import REASONS, sensitivity
from agents.mechanisms.privacy.parts import clipping, noise
from tests.stage.memory.payloads import same_bits as same
from tests.stage.memory.seeded_noise import Seeded


def update(seed: int = 0, scale: float = 1.0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"w": (20, 30), "b": (7,), "s": ()}
    return {n: scale * torch.randn(shape, generator=generator) for n, shape in shapes.items()}


def exact_norm(tensors: dict[str, torch.Tensor]) -> float:
    """Correctly rounded: squares of fp32 numbers are exact in float64."""
    values = torch.cat([t.reshape(-1) for t in tensors.values()]).double().tolist()
    return math.sqrt(math.fsum(v * v for v in values))


# Clipping.


@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50),
    st.floats(1e-12, 1e12),
)
def test_norm_never_exceeds_the_bound(values, bound):
    clipped = clipping.clip({"a": torch.tensor(values, dtype=torch.float32)}, bound)
    assert exact_norm(clipped) <= bound
    original = exact_norm({"a": torch.tensor(values, dtype=torch.float32)})
    assert exact_norm(clipped) >= min(original, bound) * (1 - 1e-5) - 1e-40


@pytest.mark.parametrize("seed", range(200))
def test_rounding_to_fp32_never_lifts_it_over_the_bound(seed):
    bound = 0.1 + seed / 7
    assert exact_norm(clipping.clip(update(seed, 100.0), bound)) <= bound


def test_short_updates_stay_as_they_are_and_direction_is_kept():
    small = update(1, 1e-3)
    assert same(clipping.clip(small, 1.0), small)
    clipped = clipping.clip(update(1), 1.0)
    ratio = clipped["w"] / update(1)["w"]
    assert float(ratio.max() / ratio.min()) == pytest.approx(1.0, abs=1e-6)
    assert clipped["w"].dtype == torch.float32


def test_the_norm_is_of_all_tensors_and_in_float64():
    big = torch.full((1 << 24,), 0.1)
    assert clipping.norm({"a": big, "b": big}) == pytest.approx(
        math.sqrt(2.0**25) * float(big[0]), rel=1e-10
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_not_finite_is_refused_by_clip_and_zeroed_by_release(value):
    bad = update()
    bad["b"][3] = value
    with pytest.raises(ValueError, match="NaN or infinity"):
        clipping.clip(bad, 1.0)
    mechanism = privacy.get("gaussian")(clip=1.0, noise_multiplier=2.0)
    zero = {name: torch.zeros_like(tensor) for name, tensor in bad.items()}
    assert same(mechanism.release(bad, Seeded(1)), mechanism.release(zero, Seeded(1)))


@pytest.mark.parametrize(
    ("given", "bound", "words"),
    [
        *((update(), bound, "positive") for bound in (0.0, -1.0, math.nan)),
        ({"a": torch.zeros(3, dtype=torch.float64)}, 1.0, "float32"),
        ({}, 1.0, "without tensors"),
    ],
)
def test_what_can_not_be_clipped_is_refused(given, bound, words):
    with pytest.raises(ValueError, match=words):
        clipping.clip(given, bound)


# Noise.


def test_draws_have_the_moments_of_the_normal_distribution():
    draws = noise.normals(400_000, Seeded(5))
    assert stats.kstest(draws, "norm").pvalue > 1e-4
    assert np.abs(draws).max() < 9.5
    assert abs(np.corrcoef(draws[:200_000], draws[200_000:])[0, 1]) < 0.01


def test_extreme_words_give_finite_draws():
    class Ends:
        def __init__(self, word: int) -> None:
            self.word = word

        def words(self, count):
            return np.full(count, self.word, np.uint64)

    for word in (0, 2**64 - 1):
        assert np.isfinite(noise.normals(8, Ends(word))).all()
    assert np.abs(noise.normals(2, Ends(0))).max() == pytest.approx(9.49, abs=0.01)


@pytest.mark.parametrize("sigma", [1e-6, 0.37, 1.0, 1.5, 4096.0])
def test_released_values_lie_on_a_public_grid_whatever_was_noised(sigma):
    step = noise.grid(sigma)
    assert sigma / 2048 < step <= sigma / 1024
    assert math.frexp(step)[0] == 0.5  # a power of two
    values = np.linspace(-5 * sigma, 5 * sigma, 20_001).astype(np.float32)
    out = noise.noised(values, sigma, Seeded(2)).astype(np.float64) / step
    assert np.array_equal(out, np.rint(out))
    assert len(set((out % 2).tolist())) == 2  # and use all of it


def test_low_bits_tell_nothing_of_the_value():
    """Without the grid, whether the sum is a multiple of 2^-40, say, gives the value away."""
    sigma, size = 1.0, 60_000
    step = noise.grid(sigma)
    counts = []
    for value in (0.0, 1.0 / 3.0):
        out = noise.noised(np.full(size, value, np.float32), sigma, Seeded(9))
        low = np.rint(out.astype(np.float64) / step).astype(np.int64) % 16
        counts.append(np.bincount(low, minlength=16))
    assert stats.chi2_contingency(np.array(counts)).pvalue > 1e-4


@pytest.mark.parametrize("value", [0.0, 0.001, -2.5])
def test_noise_has_the_promised_mean_and_deviation(value):
    out = noise.noised(np.full(300_000, value, np.float32), 0.8, Seeded(4))
    assert out.mean(dtype=np.float64) == pytest.approx(value, abs=5 * 0.8 / 300_000**0.5)
    assert out.std(dtype=np.float64) == pytest.approx(0.8, rel=0.01)


def test_production_noise_is_never_the_same_twice():
    mechanism = privacy.get("gaussian")(clip=1.0, noise_multiplier=1.0)
    assert not same(mechanism.release(update()), mechanism.release(update()))


@pytest.mark.parametrize(
    "seeded", [torch.Generator(), np.random.default_rng(0)], ids=["torch", "np"]
)
def test_production_noise_takes_no_seed(seeded):
    mechanism = privacy.get("gaussian")(clip=1.0, noise_multiplier=1.0)
    with pytest.raises(TypeError, match="secret randomness"):
        mechanism.release(update(), seeded)


def test_values_far_beyond_the_noise_are_refused():
    with pytest.raises(ValueError, match="clip the update"):
        noise.noised(np.array([20_000.0], np.float32), 1.0, Seeded())


def test_a_generator_must_give_words():
    class Short:
        def words(self, count):
            return np.zeros(1, np.uint64)

    with pytest.raises(ValueError, match="uint64 words"):
        noise.normals(10, Short())


# Mechanisms.


def test_none_promises_and_changes_nothing():
    mechanism = privacy.get("none")()
    assert (mechanism.unit, mechanism.place, mechanism.charge(3)) == ("none", "none", None)
    assert same(mechanism.release(update()), update())


def test_gaussian_noise_is_calibrated_to_twice_the_clip():
    mechanism = privacy.get("gaussian")(clip=3, noise_multiplier=2)
    assert (mechanism.unit, mechanism.place) == ("node", "node")
    assert mechanism.sensitivity == 6.0 and mechanism.sigma == 12.0
    charge = mechanism.charge(5, steps=7)
    assert (charge.unit, charge.noise_multiplier, charge.steps) == ("node", 2.0, 5)
    zero = {"a": torch.zeros(200_000)}
    assert float(mechanism.release(zero, Seeded())["a"].std()) == pytest.approx(12.0, rel=0.01)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 20.0), st.integers(1, 200), st.floats(1e-3, 1e3))
def test_solved_noise_spends_the_target_in_exactly_those_rounds(epsilon, rounds, clip):
    mechanism = privacy.get("gaussian")(
        clip=clip, epsilon=epsilon, rounds=rounds, max_epsilon=epsilon
    )
    account = Accountant(mechanism.max_epsilon, mechanism.delta)
    account.record_participation(mechanism.charge(rounds))
    assert epsilon * (1 - 1e-6) < account.epsilon() <= epsilon
    assert not account.can_participate(mechanism.charge())


NOISY = [
    *({}, {"epsilon": 8.0}, {"rounds": 3}, {"epsilon": 8.0, "rounds": 0}),
    *({"epsilon": 8.0, "rounds": 1.0}, {"noise_multiplier": 1.0, "epsilon": 8.0, "rounds": 3}),
    *({"noise_multiplier": wrong} for wrong in (True, "1", math.nan, 0.0)),
    {"noise_multiplier": 0.1},  # one round is beyond max_epsilon
    *({"noise_multiplier": 1.0, "clip": wrong} for wrong in (0.0, math.inf)),
    *({"noise_multiplier": 1.0, **wrong} for wrong in ({"delta": 0.01}, {"max_epsilon": -1.0})),
]
WRONG_OPTIONS = {
    "gaussian": [*NOISY, {"noise_multiplier": 1.0, "accept_blinding": 1}],
    "aggregate": NOISY,
    "dp_sgd": [
        *({"lot": 0}, {"lot": 1.5}, {"sampling": "shuffled"}, {"clip": -1}),
        *({"noise_multiplier": 0}, {"noise_multiplier": 0.015, "sampling": "assigned"}),
    ],
}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [(name, wrong) for name, rows in WRONG_OPTIONS.items() for wrong in rows],
    ids=str,
)
def test_wrong_options_are_refused(name, wrong):
    with pytest.raises(ValueError):
        privacy.get(name)(**wrong)


def test_dp_sgd_charges_steps_at_the_rate_of_its_secret_sample():
    mechanism = privacy.get("dp_sgd")(clip=0.5, noise_multiplier=1.2, lot=32)
    assert (mechanism.unit, mechanism.place, mechanism.sigma) == ("example", "node", 0.6)
    charge = mechanism.charge(3, steps=10, batch=8, examples=3200)
    assert (charge.probability, charge.steps, charge.noise_multiplier) == (0.01, 30, 1.2)
    assert privacy.get("dp_sgd")().charge(steps=1, batch=8, examples=80).probability == 0.1
    assert same(mechanism.release(update()), update())


def test_public_batches_and_tiny_shards_earn_no_amplification():
    assigned = privacy.get("dp_sgd")(lot=32, sampling="assigned")
    assert assigned.charge(steps=5, batch=32, examples=10**6).probability == 1.0
    assert privacy.get("dp_sgd")(lot=32).charge(steps=5, batch=32, examples=20).probability == 1.0
    assert privacy.get("dp_sgd")().charge(steps=5).probability == 1.0


@pytest.mark.parametrize("facts", [{"steps": -1}, {"examples": 0}, {"batch": -1}, {"steps": True}])
def test_wrong_facts_are_refused(facts):
    with pytest.raises(ValueError):
        privacy.get("dp_sgd")().charge(**{"steps": 1, "batch": 1, "examples": 10, **facts})


# Noise of the aggregator.


def test_sensitivity_depends_on_the_merge_rule():
    assert sensitivity("mean", 10, 0.5) == pytest.approx(0.1, rel=2e-6)
    assert sensitivity("mean", 10, 0.5, largest_weight=0.3) == pytest.approx(0.3, rel=2e-6)
    for rule in set(REASONS) - {"mean"}:
        assert sensitivity(rule, 10, 0.5) == 1.0


@pytest.mark.parametrize(
    "wrong", [("demo_sign", 10, 1.0), ("mean", 0, 1.0), ("mean", 4, 0.0), ("mean", 4, 1.0, 0.1)]
)
def test_no_noise_without_a_known_bound(wrong):
    with pytest.raises(ValueError):
        sensitivity(*wrong)


def test_every_merge_rule_has_a_sensitivity():
    assert set(REASONS) <= set(merge_rules.names())


@pytest.mark.parametrize("rule", sorted(REASONS))
def test_real_merges_stay_within_the_stated_sensitivity(rule):
    merge = merge_rules.get(rule)()
    mechanism = privacy.get("aggregate")(clip=1.0, noise_multiplier=1.0)
    worst, n = 0.0, 6
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        rows = [{"a": 3 * torch.randn(6, generator=generator)} for _ in range(n)]
        other = [*rows[:-1], {"a": -rows[-1]["a"]}]
        one, two = (
            clipping.clip(merge(mechanism.prepare(group)), mechanism.clip)
            for group in (rows, other)
        )
        worst = max(worst, float((one["a"] - two["a"]).norm()))
    bound = sensitivity(rule, n, 1.0)
    assert worst <= bound * (1 + 1e-6)
    if rule == "mean":
        assert worst > 0.99 * bound


def test_the_median_of_clipped_updates_can_leave_the_ball():
    """Why results of coordinate rules are clipped again."""
    half = 0.5**0.5
    rows = torch.tensor([[half, half, 0.0], [half, 0.0, half], [0.0, half, half]])
    assert float(rows.median(dim=0).values.norm()) > 1.2


def test_aggregate_noises_the_merged_update_only():
    mechanism = privacy.get("aggregate")(clip=1.0, noise_multiplier=2.0)
    assert (mechanism.unit, mechanism.place) == ("node", "aggregate")
    assert same(mechanism.release(update()), clipping.clip(update(), 1.0))
    assert mechanism.sigma("mean", 10) == pytest.approx(0.4, rel=2e-6)
    merged = {"a": torch.zeros(200_000)}
    out = mechanism.release_merged(merged, "mean", 10, rng=Seeded())
    assert float(out["a"].std()) == pytest.approx(0.4, rel=0.01)
    assert mechanism.charge(2).noise_multiplier == 2.0


def test_a_lying_node_does_not_raise_the_sensitivity():
    mechanism = privacy.get("aggregate")(clip=1.0, noise_multiplier=2.0)
    broken = {"a": torch.tensor([math.nan, 1.0])}
    prepared = mechanism.prepare([update(scale=1e6), broken])
    assert exact_norm(prepared[0]) <= 1.0
    assert exact_norm(prepared[1]) == 0.0


def test_a_round_without_a_step_costs_nothing():
    assert privacy.get("dp_sgd")().charge(steps=0, batch=32, examples=100) is None


def test_aggregate_refuses_a_budget_that_does_not_pay_for_a_round():
    """Multiplier 2 costs 2.25 once and 3.3 twice: a round is charged for two releases."""
    with pytest.raises(ValueError, match="charged for 2 releases"):
        privacy.get("aggregate")(noise_multiplier=2.0, max_epsilon=2.5)
    assert privacy.get("aggregate")(noise_multiplier=2.0, max_epsilon=3.5).charge().steps == 2
