# SPDX-License-Identifier: Apache-2.0
"""The robust rules: hand values, independent references, symmetries, breakdown, refusals."""

import math

import numpy as np
import pytest
import torch

from agents.mechanisms import merge as merge_rules
from agents.mechanisms.merge import MergeRefused
from agents.mechanisms.merge.multi_krum import capped, krum_scores, select
from agents.mechanisms.merge.parts.combine import combine, shares
from agents.mechanisms.merge.parts.gram import gram
from tests.measure import peer_byzfl
from tests.stage.memory.payloads import (
    Payload,
    cluster,
    krum_choice,
    matrix,
    payload,
    same_bits,
    squared_distances,
)

ROBUST = ["multi_krum", "trimmed_mean", "geometric_median", "centred_clipping"]
SELECTING = ["multi_krum", "geometric_median", "centred_clipping"]
PLAIN_KRUM = {"clip": False}


def rule(name: str, **options):
    return merge_rules.get(name)(**options)


def unclipped(name: str):
    return rule(name, **(PLAIN_KRUM if name == "multi_krum" else {}))


def flat(update: Payload) -> np.ndarray:
    return matrix([update])[0]


# Hand values


def test_multi_krum_by_hand():
    # n = 5, f = 1: scores are the sums of the 2 smallest squared distances, 2 rows are chosen.
    rows = [payload(value) for value in (0.0, 1.0, 3.0, 4.0, 100.0)]
    krum = rule("multi_krum", clip=False)
    # Scores: 0: 1+9=10; 1: 1+4=5; 3: 1+4=5; 4: 1+9=10; 100: large.
    assert krum.selected(rows) == [1, 2]
    assert krum(rows)["a"].item() == 2.0
    assert krum(rows, [10, 30, 60, 10, 10])["a"].item() == pytest.approx(2.0)  # both capped at 20
    assert krum(rows, [10, 10, 20, 10, 10])["a"].item() == pytest.approx((1 + 2 * 3) / 3)


def test_multi_krum_adds_squares():
    # Distances 1 and 5 beat sqrt(10) and sqrt(11) when added plainly, and lose squared.
    assert krum_scores(((0, 1, 25, 99), (10, 0, 11, 99), (0,) * 4, (0,) * 4), 0)[:2] == [26, 21]


def test_ties_go_to_the_lower_node():
    rows = [payload(value) for value in (1.0, 0.0, -1.0, 2.0, -2.0)]
    assert select(gram([rows[1]] * 5), 1) == [0, 1]
    mirrored = rule("multi_krum", clip=False)
    # Scores of 2.0 and -2.0 are equal, as are those of 1.0 and -1.0.
    assert mirrored.selected(rows) == [0, 1]
    assert mirrored.selected([rows[2], rows[1], rows[0], rows[3], rows[4]]) == [0, 1]


def test_multi_krum_clips_to_the_lower_median_norm():
    rows = [payload(value, 0.0) for value in (2.0, 2.0, 2.0, 3.0, 8.0)]
    # All five are equal once clipped: the first two are averaged, exactly.
    assert rule("multi_krum").selected(rows) == [0, 1]
    assert rule("multi_krum")(rows)["a"].tolist() == [2.0, 0.0]
    long = [payload(8.0, 0.0), payload(8.0, 0.0), *rows[:3]]
    assert rule("multi_krum")(long)["a"].tolist() == [2.0, 0.0]


def test_mixing_by_hand():
    rows = [payload(value) for value in (0.0, 1.0, 2.0, 3.0, 50.0)]
    # n - f = 4 nearest: the first four groups are {0, 1, 2, 3}, the last {1, 2, 3, 4}.
    assert rule("multi_krum", clip=False, mixing=True)(rows)["a"].item() == 1.5


def test_trimmed_mean_by_hand():
    rows = [payload(value, -value) for value in (1.0, 2.0, 4.0, 6.0, -1e18)]
    got = rule("trimmed_mean", byzantine_fraction=0.2)(rows)["a"].tolist()
    assert got == [float(np.float32(7 / 3)), float(np.float32(-7 / 3))]
    assert rule("trimmed_mean", byzantine_fraction=0.4)(rows)["a"].tolist() == [2.0, -2.0]


def test_geometric_median_by_hand():
    # On a line it is the median; of a triangle the Fermat point; of a majority its own point.
    line = [payload(value) for value in (0.0, 1.0, 2.0, 10.0, 1000.0)]
    assert rule("geometric_median")(line)["a"].item() == pytest.approx(2.0, abs=1e-3)
    height = math.sqrt(3) / 2
    corners = [payload(0.0, 0.0), payload(1.0, 0.0), payload(0.5, height)]
    got = rule("geometric_median")(corners)["a"].tolist()
    assert got == pytest.approx([0.5, height / 3], abs=1e-6)
    most = [payload(7.0, 1.0)] * 3 + [payload(-9.0, 5.0), payload(0.0, 1e9)]
    assert rule("geometric_median")(most)["a"].tolist() == [7.0, 1.0]


def test_centred_clipping_by_hand():
    # From zero, once: limit = median norm 2, so (1 + 2 + 2) / 3.
    rows = [payload(1.0), payload(2.0), payload(50.0)]
    once = rule("centred_clipping", anchor="zero", iterations=1)(rows)["a"].item()
    assert once == pytest.approx(5 / 3, rel=1e-6)
    # From the medoid 1 (a tie with 2, lower index; distances 0, 1, 49): 1 + (0 + 1 + 1) / 3.
    assert rule("centred_clipping", iterations=1)(rows)["a"].item() == pytest.approx(5 / 3)
    wide = rule("centred_clipping", radius=49.0, iterations=1)(rows)["a"].item()
    assert wide == pytest.approx(53 / 3, rel=1e-6)


# References


@pytest.mark.parametrize("count", [3, 5, 7, 10, 16, 33])
@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_multi_krum_against_its_definition(count, spread):
    payloads = cluster(count, 500, spread, seed=count)
    payloads[1] = {name: -tensor for name, tensor in payloads[1].items()}
    krum = rule("multi_krum", clip=False)
    bad = int(0.3 * count)
    rows = matrix(payloads)
    chosen = krum_choice(squared_distances(rows), bad)
    assert krum.selected(payloads) == chosen and len(chosen) == count - bad - 2
    assert np.allclose(flat(krum(payloads)), rows[chosen].mean(0), rtol=1e-6, atol=1e-7)
    norms = np.linalg.norm(rows, axis=1)
    clipped = rows * np.minimum(1, np.sort(norms)[(count - 1) // 2] / norms)[:, None]
    chosen = krum_choice(squared_distances(clipped), bad)
    assert rule("multi_krum").selected(payloads) == chosen
    merged = flat(rule("multi_krum")(payloads))
    # Norms are those of the rounded payloads.
    assert np.allclose(merged, clipped[chosen].mean(0), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 10, 17, 32])
def test_trimmed_mean_against_numpy(count):
    payloads = cluster(count, 400, seed=count)
    bad = int(0.3 * count)
    kept = np.sort(matrix(payloads), axis=0)[bad : count - bad]
    got = flat(rule("trimmed_mean")(payloads))
    assert np.array_equal(got, (kept.cumsum(0)[-1] / len(kept)).astype(np.float32))


@pytest.mark.parametrize("count", [3, 5, 10, 32])
def test_geometric_median_is_least(count):
    payloads = cluster(count, 300, seed=count)
    payloads[0] = {name: tensor * 300 for name, tensor in payloads[0].items()}
    rows = matrix(payloads)
    point = rows.mean(0)
    for _ in range(3000):
        pull = 1 / np.linalg.norm(rows - point, axis=1).clip(1e-9)
        point = pull @ rows / pull.sum()
    got = flat(rule("geometric_median", iterations=1000)(payloads))

    def cost(place):
        return np.linalg.norm(rows - place, axis=1).sum()

    assert cost(got) <= cost(point) * (1 + 1e-7)


@pytest.mark.parametrize("anchor", ["medoid", "zero"])
def test_centred_clipping_against_its_definition(anchor):
    payloads = cluster(9, 300, seed=4)
    payloads[2] = {name: -50 * tensor for name, tensor in payloads[2].items()}
    rows = matrix(payloads)
    distances = np.sqrt(squared_distances(rows))
    halves = [np.sort(np.delete(distances[i], i))[3] for i in range(9)]
    point = rows[int(np.argmin(halves))] if anchor == "medoid" else np.zeros(300)
    for _ in range(5):
        far = np.linalg.norm(rows - point, axis=1)
        pull = np.minimum(1, np.sort(far)[4] / far.clip(1e-30))
        point = point + (pull[:, None] * (rows - point)).mean(0)
    got = flat(rule("centred_clipping", anchor=anchor)(payloads))
    assert np.allclose(got, point, rtol=1e-5, atol=1e-6)


def test_byzfl_agrees():
    try:
        aggregators = peer_byzfl.load(fetch=False)
    except peer_byzfl.NoPeer as error:
        pytest.skip(str(error))
    stack = torch.randn(11, 200, generator=torch.Generator().manual_seed(5))
    for name, other, tolerance in [
        ("trimmed_mean", aggregators.TrMean(3), 1e-6),
        ("median", aggregators.Median(), 1e-6),
        ("geometric_median", aggregators.GeometricMedian(nu=1e-6, T=100), 1e-3),
    ]:
        merged = rule(name)([{"a": row} for row in stack])["a"]
        assert torch.allclose(merged, other(stack), atol=tolerance), name


# Symmetries


@pytest.mark.parametrize("name", ROBUST)
def test_permuting_payloads_changes_at_most_the_last_bit(name):
    payloads = cluster(7, 200, seed=6)
    first = flat(rule(name)(payloads))
    for order in ([6, 5, 4, 3, 2, 1, 0], [3, 1, 6, 0, 5, 2, 4]):
        other = flat(rule(name)([payloads[index] for index in order]))
        assert np.allclose(first, other, rtol=3e-7, atol=1e-9)


@pytest.mark.parametrize("name", ROBUST)
def test_scaling_by_a_power_of_two_scales_the_result_exactly(name):
    payloads = cluster(7, 200, 0.01, seed=7)
    small = [{key: tensor * 2.0**-9 for key, tensor in entry.items()} for entry in payloads]
    grown = {key: tensor * 2.0**9 for key, tensor in rule(name)(small).items()}
    assert same_bits(grown, rule(name)(payloads))


@pytest.mark.parametrize("name", ROBUST)
def test_moving_all_payloads_moves_the_result(name):
    payloads = cluster(9, 200, seed=8)
    shift = torch.linspace(-40, 40, 193)
    moved = [{"w": entry["w"] + shift, "b": entry["b"]} for entry in payloads]
    difference = unclipped(name)(moved)["w"] - unclipped(name)(payloads)["w"]
    assert torch.allclose(difference, shift, atol=2e-5)


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("count", [3, 5, 7, 12, 32])
def test_equal_payloads_come_back_bit_for_bit(name, count):
    (one,) = cluster(1, 3000, seed=9)
    one["b"][:] = torch.tensor([1e-30, -1e18, 2.0**-149, 0.1, 1 / 3, -7.0, 0.0])
    assert same_bits(rule(name)([one] * count), one)
    assert same_bits(rule(name)([one] * count, list(range(1, count + 1))), one)


# Breakdown


ATTACKS = {
    "huge": lambda honest: 1e18 * torch.ones_like(honest),
    "sign flip": lambda honest: -10 * honest,
    "1000 x": lambda honest: 1000 * honest,
    "zero": torch.zeros_like,
    "far and equal": lambda honest: torch.full_like(honest, 37.0),
}


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("places", [(0, 1, 2), (3, 6, 9)])
def test_with_f_liars_the_result_stays_with_the_honest(name, attack, places):
    payloads = cluster(10, 400, 0.3, seed=11)
    honest = [entry for index, entry in enumerate(payloads) if index not in places]
    for index in places:
        payloads[index] = {key: ATTACKS[attack](t) for key, t in payloads[index].items()}
    rows = matrix(honest)
    centre = rows.mean(0)
    diameter = np.sqrt(squared_distances(rows).max())
    merged = flat(rule(name)(payloads))
    assert np.linalg.norm(merged - centre) <= diameter
    assert merged @ centre / np.linalg.norm(merged) / np.linalg.norm(centre) > 0.9
    if name == "trimmed_mean":
        assert (merged >= rows.min(0) - 1e-6).all() and (merged <= rows.max(0) + 1e-6).all()
    if name == "multi_krum":
        chosen = rule(name, clip=False).selected(payloads)
        assert not set(chosen) & set(places)


@pytest.mark.parametrize("anchor", [None, "medoid", "zero"])
@pytest.mark.parametrize("far", [2.0**20, 2.0**40, 2.0**53, 2.0**63])
def test_a_payload_of_any_length_hides_no_other(far, anchor):
    """Two of ten lie together: one is as long as numbers may be, the other one less so. Alone they
    move the result by a small part of the median distance."""
    name, options = ("centred_clipping", {"anchor": anchor}) if anchor else ("geometric_median", {})
    generator = torch.Generator().manual_seed(1)
    honest = [torch.randn(2_000, generator=generator) * 0.01 for _ in range(8)]
    centre, usual = torch.stack(honest).mean(0), float((honest[0] - honest[1]).norm())
    way = torch.randn(2_000, generator=generator)
    way /= way.abs().max()
    for power in range(0, 60, 4):
        near = -way / way.norm() * usual * 2.0**power
        found = rule(name, **options)([{"a": one} for one in (*honest, way * far, near)])
        assert float((found["a"] - centre).norm()) < 0.3 * usual


def test_the_mean_breaks_where_the_others_hold():
    payloads = [*cluster(9, 50, 0.1), {"w": torch.full((43,), 1e18), "b": torch.zeros(7)}]
    assert flat(rule("mean")(payloads)).max() > 1e16
    assert all(abs(flat(rule(name)(payloads))).max() < 10 for name in ROBUST)


def test_unselected_rows_leave_no_trace():
    payloads = cluster(7, 100, 0.1, seed=12)
    krum = rule("multi_krum", clip=False)
    out = {name: torch.full_like(tensor, -3e38) for name, tensor in payloads[0].items()}
    less = {name: torch.full_like(tensor, 1e37) for name, tensor in payloads[0].items()}
    first, second = krum([out, *payloads[1:]]), krum([less, *payloads[1:]])
    assert same_bits(first, second)
    assert np.isfinite(flat(first)).all()


# Stakes


def test_a_whale_cannot_exceed_its_cap():
    rows = [payload(value) for value in (0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)]
    stakes = [10**21] * 4 + [10**27] + [10**21] * 2
    assert capped(stakes, 7, 2.0) == [10**21] * 4 + [2 * 10**21] + [10**21] * 2
    krum = rule("multi_krum", clip=False, byzantine_fraction=0.0)
    chosen = krum.selected(rows)
    assert 4 not in chosen
    near = [payload(value) for value in (-1.0, 1.0, -1.0, 1.0, 0.5, 2.0, -2.0)]
    chosen = krum.selected(near)
    assert 4 in chosen and len(chosen) == 5
    # The whale counts twice among five: a sixth in all would be (rest + 2 * 0.5) / 6.
    rest = sum(near[index]["a"].item() for index in chosen if index != 4)
    assert krum(near, stakes)["a"].item() == pytest.approx((rest + 2 * 0.5) / 6)
    tight = rule("multi_krum", clip=False, byzantine_fraction=0.0, stake_cap=1)
    assert same_bits(tight(near, stakes), tight(near))


def test_stakes_of_zero_and_wrong_stakes():
    rows = [payload(float(value)) for value in range(5)]
    krum = rule("multi_krum")
    assert same_bits(krum(rows, [0] * 5), krum(rows))
    assert same_bits(krum(rows, [0, 0, 0, 0, 10**30]), krum(rows))
    for stakes in ([1] * 4, [1, 1, 1, 1, -1], [1.0] * 5, [True] * 5):
        with pytest.raises(ValueError, match="Stakes must be 5 integers"):
            krum(rows, stakes)


# Refusals


@pytest.mark.parametrize("count", [3, 5])
def test_multi_krum_merges_where_enough_nodes_are_there(count):
    rule("multi_krum")([payload(float(value)) for value in range(count)])


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_multi_krum_needs_enough_nodes(count):
    with pytest.raises(MergeRefused, match="which does not hold"):
        rule("multi_krum")([payload(float(value)) for value in range(count)])


def test_f_is_floored_in_decimal():
    assert rule("multi_krum", byzantine_fraction=0.29).tolerated(100) == 29
    assert [rule("multi_krum").tolerated(n) for n in (3, 5, 7, 10, 20, 32)] == [0, 1, 2, 3, 6, 9]


def test_one_of_three_moves_the_trimmed_mean_as_far_as_one_that_is_alone():
    """So to refuse fewer than three kept nobody from it: f is 0 for all of them."""
    honest = [payload(1.0, 2.0), payload(3.0, -4.0)]
    aim = torch.tensor([-50.0, 70.0])
    lie = 3 * aim - honest[0]["a"] - honest[1]["a"]
    merged = rule("trimmed_mean")
    assert same_bits(merged([*honest, {"a": lie}]), {"a": aim})
    assert same_bits(merged([{"a": aim}]), {"a": aim})


@pytest.mark.parametrize("name", ["geometric_median", "centred_clipping"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_others_need_three(name, count):
    with pytest.raises(MergeRefused, match=f"needs at least 3 updates and got {count}"):
        rule(name)([payload(1.0)] * count)


@pytest.mark.parametrize("name", SELECTING)
def test_infinity_is_refused(name):
    with pytest.raises(ValueError, match="not finite"):
        rule(name)([payload(1.0), payload(2.0), payload(math.inf)])


WRONG_OPTIONS = {
    "multi_krum": [
        *({"byzantine_fraction": value} for value in (0.5, True, math.nan)),
        *({"stake_cap": 0.5}, {"clip": 1}, {"mixing": "yes"}),
    ],
    "trimmed_mean": [{"byzantine_fraction": -0.1}],
    "geometric_median": [{"iterations": 0}, {"iterations": 5.0}, {"smoothing": 0.1}],
    "centred_clipping": [{"anchor": "last"}, {"anchor": 0}, {"radius": 0}, {"iterations": True}],
}


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, wrong) for name, rows in WRONG_OPTIONS.items() for wrong in rows],
    ids=str,
)
def test_wrong_options_are_refused(name, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} of {name} must"):
        rule(name, **options)


def test_whole_numbers_are_taken_as_options():
    assert rule("multi_krum", stake_cap=3, byzantine_fraction=0).tolerated(10) == 0


# The weighted sum


def test_combine_rounds_once():
    rows = [payload(2.0**24, 1.0), payload(1.0, 2.0), payload(-(2.0**24), 4.0)]
    assert combine(rows, [1, 1, 1], 3)["a"].tolist() == [
        float(np.float32(1 / 3)),
        float(np.float32(7 / 3)),
    ]
    assert combine(rows, [0, 5, 0], 2)["a"].tolist() == [2.5, 5.0]
    assert combine(rows, [0, 0, 0], 1)["a"].tolist() == [0.0, 0.0]
    broken = [payload(math.nan, math.inf), rows[1]]
    assert combine(broken, [0, 1], 1)["a"].tolist() == [1.0, 2.0]


def test_combine_and_shares_refuse_nonsense():
    rows = [payload(1.0), payload(2.0)]
    for weights in ([1], [1, -1], [1, 1 << 29]):
        with pytest.raises(ValueError, match="Weights must be 2 integers"):
            combine(rows, weights, 1)
    with pytest.raises(ValueError, match="divisor"):
        combine(rows, [1, 1], 0)
    for weights in ([0, 0], [1, -1], []):
        with pytest.raises(ValueError, match="must not be negative"):
            shares(weights)


def test_shares_keep_proportions():
    assert shares([7, 7, 7]) == [(1 << 28) // 3] * 3
    big = shares([10**27, 3 * 10**27])
    assert big[1] == 3 * big[0] and sum(big) <= 1 << 28
    assert sum(shares([0.1, 0.2, 0.7])) <= 1 << 28
