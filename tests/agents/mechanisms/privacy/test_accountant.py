# SPDX-License-Identifier: Apache-2.0
"""The account: against dp-accounting and known tables, ZIP-400's mistakes, its invariants."""

import json
import math
import sys

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld_library
from dp_accounting.rdp import rdp_privacy_accountant as rdp_library
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from agents.mechanisms.privacy import Accountant, BudgetExceeded, Charge
from agents.mechanisms.privacy.parts import analytic, pld, rdp

DELTA = 1e-6
# sigma: epsilon after 1, 10, 100, 1000 releases at delta 1e-6, rounded to three digits.
PLAIN = {
    0.5: (11.0, 49.3, 294, 2300),
    1.0: (4.89, 19.4, 96.7, 649),
    2.0: (2.25, 8.31, 35.6, 199),
    4.0: (1.06, 3.75, 14.5, 68.1),
}
PLAIN_ZIP = {
    0.5: (12.6, 53.8, 414, 4014),
    1.0: (5.76, 21.9, 114, 1014),
    2.0: (2.76, 9.61, 38.8, 264),
    4.0: (1.35, 4.47, 16.3, 76.3),
}
SAMPLED = {
    0.5: (4.29, 5.52, 7.92, 15.5),
    1.0: (0.364, 0.592, 0.954, 2.13),
    2.0: (0.0437, 0.0854, 0.228, 0.721),
    4.0: (0.0116, 0.0308, 0.0963, 0.319),
}
TIMES = (1, 10, 100, 1000)


def spent(noise: float, steps: int, q: float = 1.0, unit: str = "node") -> Accountant:
    account = Accountant(1e6 if q == 1.0 else 16.0, DELTA)
    account.record_participation(Charge(unit, noise, q, steps))
    return account


@pytest.mark.parametrize("noise", sorted(PLAIN))
def test_table_without_subsampling(noise):
    for steps, tight, zipped in zip(TIMES, PLAIN[noise], PLAIN_ZIP[noise], strict=True):
        account = spent(noise, steps)
        assert account.epsilon() == pytest.approx(tight, rel=5e-3)
        assert account.epsilon_rdp() == pytest.approx(zipped, rel=5e-3)


@pytest.mark.parametrize("noise", sorted(SAMPLED))
def test_table_with_poisson_sampling_of_one_percent(noise):
    """dp-accounting's own figures."""
    for steps, tight in zip(TIMES, SAMPLED[noise], strict=True):
        found = spent(noise, steps, 0.01, "example").epsilon()
        assert found == pytest.approx(tight, rel=6e-3)


@pytest.mark.parametrize(("noise", "q", "steps"), [(0.8, 0.02, 300), (1.5, 0.2, 40)])
def test_tight_figure_is_an_upper_bound_of_the_librarys_finest(noise, q, steps):
    reference = pld_library.from_gaussian_mechanism(
        noise, sampling_prob=q, value_discretization_interval=2.0**-13
    ).self_compose(steps)
    fine = reference.get_epsilon_for_delta(DELTA)
    found = spent(noise, steps, q, "example").epsilon()
    assert fine - 1e-9 <= found <= fine * 1.003 + 1e-9


@pytest.mark.parametrize("q", [1.0, 0.3, 0.01])
@pytest.mark.parametrize("noise", [0.5, 1.0, 8.0])
def test_renyi_curve_is_the_librarys(noise, q):
    library = rdp_library.RdpAccountant(orders=list(rdp.ORDERS))
    library.compose(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(noise)), 7)
    for mine, theirs in zip(rdp.step_rdp(noise, q), library._rdp, strict=True):
        assert 7 * mine == pytest.approx(theirs, rel=1e-6, abs=1e-12)


def test_closed_form_against_numerical_composition():
    """A mix of noise levels is one Gaussian; the library composes it numerically."""
    account = Accountant(100.0, DELTA)
    total = None
    for noise, steps in ((2.0, 3), (1.3, 2), (6.0, 10)):
        account.record_participation(Charge("node", noise, 1.0, steps))
        part = pld_library.from_gaussian_mechanism(noise, value_discretization_interval=1e-3)
        part = part.self_compose(steps)
        total = part if total is None else total.compose(part)
    assert account.epsilon() == pytest.approx(total.get_epsilon_for_delta(DELTA), rel=1e-3)


def test_subsampled_and_plain_releases_compose():
    both = Accountant(100.0, DELTA)
    both.record_participation(Charge("example", 3.0, 1.0, 2))
    both.record_participation(Charge("example", 1.0, 0.05, 100))
    parts = [spent(3.0, 2).epsilon(), spent(1.0, 100, 0.05, "example").epsilon()]
    assert max(parts) < both.epsilon() < sum(parts)
    assert both.epsilon() < both.epsilon_rdp()


@given(x=st.floats(-1e4, 8.0))
def test_log_of_the_normal_distribution(x):
    assert analytic.log_normal_cdf(x) == pytest.approx(float(log_ndtr(x)), rel=1e-11)


@given(mu=st.floats(1e-3, 50.0), exponent=st.floats(-12.0, -4.0))
def test_inversions_end_on_the_safe_side(mu, exponent):
    delta = 10.0**exponent
    epsilon = analytic.epsilon_of(mu, delta)
    assert analytic.delta_of(epsilon, mu) <= delta * (1 + 1e-9)
    if epsilon > 1e-3:
        assert analytic.delta_of(epsilon * (1 - 1e-6), mu) > delta * (1 - 1e-9)
        again = analytic.mu_for(epsilon, delta)
        assert again == pytest.approx(mu, rel=1e-6)
        assert analytic.epsilon_of(again, delta) <= epsilon


# What ZIP-400 gets wrong.


def classic_sigma(epsilon: float, sensitivity: float = 1.0) -> float:
    """ZIP-400's sigma = Delta sqrt(2 ln(1.25/delta)) / epsilon."""
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / DELTA)) / epsilon


def real_epsilon(sigma: float, clip: float = 1.0) -> float:
    return Accountant(1e6, DELTA).epsilon_after(Charge.gaussian("node", 2.0 * clip, sigma))


def test_zip400_takes_sensitivity_one_after_clipping_the_whole_update_to_one():
    assert real_epsilon(classic_sigma(8.0)) == pytest.approx(18.3, abs=0.1)
    assert real_epsilon(analytic.multiplier_for(8.0, DELTA, 1)) == pytest.approx(18.7, abs=0.1)
    assert real_epsilon(classic_sigma(1.0)) == pytest.approx(1.66, abs=0.01)
    assert real_epsilon(analytic.multiplier_for(1.0, DELTA, 1)) == pytest.approx(2.12, abs=0.01)


def test_zip400_sigma_is_wrong_above_epsilon_nine_and_wasteful_at_one():
    def with_right_sensitivity(epsilon: float) -> float:
        return real_epsilon(classic_sigma(epsilon, sensitivity=2.0))

    assert with_right_sensitivity(8.7) < 8.7
    assert with_right_sensitivity(10.0) == pytest.approx(10.25, abs=0.01)
    assert with_right_sensitivity(100.0) == pytest.approx(267, abs=1)
    waste = classic_sigma(1.0) / analytic.multiplier_for(1.0, DELTA, 1)
    assert waste == pytest.approx(1.25, abs=0.01)


def test_zip400_renyi_figure_is_valid_but_loose():
    for noise in PLAIN:
        for steps in TIMES:
            account = spent(noise, steps)
            assert account.epsilon() < account.epsilon_rdp()


# The account's own invariants.

charges = st.builds(
    Charge, st.just("node"), st.floats(0.3, 50.0), st.just(1.0), st.integers(1, 500)
)
sampled = st.builds(
    Charge,
    st.just("node"),
    st.sampled_from([0.7, 1.0, 3.0]),
    st.sampled_from([1.0, 0.1, 0.01]),
    st.integers(1, 300),
)


@given(st.lists(charges, max_size=12))
def test_never_over_budget_and_never_cheaper(sequence):
    account = Accountant(8.0, DELTA)
    before = account.epsilon()
    for charge in sequence:
        if account.can_participate(charge):
            account.record_participation(charge)
        else:
            with pytest.raises(BudgetExceeded, match="the budget is 8"):
                account.record_participation(charge)
            assert account.epsilon_after(charge) > 8.0
        after = account.epsilon()
        assert before * (1 - 1e-12) <= after <= 8.0
        assert account.remaining_budget() == pytest.approx(8.0 - after)
        before = after


@settings(max_examples=8, deadline=None)
@given(st.lists(sampled, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_order_and_grouping_do_not_matter_and_a_round_trip_loses_nothing(sequence, random):
    one, other = Accountant(1e6, DELTA), Accountant(1e6, DELTA)
    for charge in sequence:
        one.record_participation(charge)
    mixed = list(sequence)
    random.shuffle(mixed)
    for charge in mixed:
        half = charge.steps // 2
        for steps in (half, charge.steps - half):
            if steps:
                other.record_participation(
                    Charge(charge.unit, charge.noise_multiplier, charge.probability, steps)
                )
    assert one.to_dict() == other.to_dict()
    again = Accountant.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again.to_dict() == one.to_dict()
    assert again.epsilon() == other.epsilon() == one.epsilon()
    assert again.epsilon_rdp() == one.epsilon_rdp() >= one.epsilon()


@settings(max_examples=8, deadline=None)
@given(sampled, sampled, st.floats(4.0, 20.0))
def test_a_further_step_never_makes_it_cheaper_at_any_grid(first, second, budget):
    account = Accountant(budget, DELTA)
    more = Charge(first.unit, first.noise_multiplier, first.probability, first.steps + second.steps)
    assert account.epsilon_after(first) <= account.epsilon_after(more) * (1 + 1e-9)


def test_a_coarse_grid_only_overstates():
    steps = {(1.0, 0.05): 50}
    fine, coarse = (pld._epsilon(steps, 0.1, DELTA, 2.0**width) for width in (-12, -8))
    assert fine < coarse < 1.01 * fine
    assert pld.epsilon_of(steps, 0.1, DELTA, coarse / 3) == coarse
    assert pld.epsilon_of(steps, 0.1, DELTA, coarse) == fine
    assert pld.epsilon_of(steps, 0.1, DELTA, coarse, enough=coarse) == coarse


@settings(max_examples=8, deadline=None)
@given(sampled, st.floats(4.0, 12.0))
def test_the_quick_answer_is_that_of_the_enforced_figure(charge, budget):
    account = Accountant(budget, DELTA)
    assert account.can_participate(charge) == (account.epsilon_after(charge) <= budget)


def test_spends_exactly_the_rounds_it_was_solved_for():
    noise = analytic.multiplier_for(8.0, DELTA, 10)
    account = Accountant(8.0, DELTA)
    for _ in range(10):
        account.record_participation(Charge("node", noise))
    assert 7.999 < account.epsilon() <= 8.0
    with pytest.raises(BudgetExceeded, match="stops taking part"):
        account.record_participation(Charge("node", noise))
    assert account.summary()["steps"] == 10


def test_units_do_not_mix():
    account = spent(1.0, 1)
    with pytest.raises(ValueError, match="protects each node"):
        account.can_participate(Charge("example", 1.0))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("unit", "none"), ("probability", 0.0), ("probability", 1.5)],
        *(("noise_multiplier", wrong) for wrong in (0.0, math.nan, True)),
        *(("steps", wrong) for wrong in (0, 1.0, True)),
    ],
)
def test_charges_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError):
        Charge(**{"unit": "node", "noise_multiplier": 1.0, name: value})


GOOD = {
    "version": 1,
    "max_epsilon": 8.0,
    "delta": 1e-6,
    "unit": "node",
    "spent": [[1.0, 1.0, 1], [2.0, 0.5, 3], [2.0, 1.0, 3]],
}


def test_a_written_account_is_read():
    assert Accountant.from_dict(GOOD).to_dict() == GOOD
    empty = Accountant().to_dict()
    assert Accountant.from_dict(empty).to_dict() == empty


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("version", 2), ("version", True), ("max_epsilon", "8"), ("max_epsilon", math.inf)],
        *[("delta", 0.0), ("delta", 0.5), ("unit", None), ("unit", "people"), ("unit", 3)],
        *[("more", 1), ("spent", []), ("spent", None), ("spent", [[1.0, 1.0]])],
        *(("spent", [[1.0, 1.0, steps]]) for steps in (-1, 1.5, True)),
        *(("spent", [[noise, 1.0, 1]]) for noise in (math.nan, "1")),
        *(("spent", [[noise, 1.0, 1], [1.0, 1.0, 1]]) for noise in (2.0, 1.0)),
        ("spent", [[1.0 + i, 1.0, 1] for i in range(257)]),
    ],
)
def test_a_corrupted_account_is_refused(name, value):
    with pytest.raises(ValueError):
        Accountant.from_dict({**GOOD, name: value})


@pytest.mark.parametrize("value", [None, [], "x", {}, {"version": 1}])
def test_something_else_is_no_account(value):
    with pytest.raises(ValueError):
        Accountant.from_dict(value)


def test_without_the_library_plain_noise_is_still_accounted_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    pld._step.cache_clear()
    assert Accountant().can_participate(Charge("node", 4.0, 1.0, 10))
    with pytest.raises(pld.ExtraMissing, match=r"menagerie\[privacy\]"):
        spent(1.0, 10, 0.37, "example").epsilon()
    pld._step.cache_clear()
