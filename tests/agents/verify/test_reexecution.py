# SPDX-License-Identifier: Apache-2.0
"""Replay verdicts: exact within a class, by direction and distance across, in honest float64."""

import math

import pytest
import torch

from agents.training.norms import cosine, distance, dot, norm
from agents.verify.reexecution import Encoding, Tolerances, compare, compare_encoded


def vector(*values: float) -> dict[str, torch.Tensor]:
    return {"a": torch.tensor(values[:1]), "b": torch.tensor(values[1:]).reshape(1, -1)}


LIMITS = Tolerances(cosine_min=0.99, rel_l2_max=0.1)
OWN = vector(3.0, 0.0, 4.0)


def test_norms_by_hand():
    assert norm(OWN) == 5.0
    assert dot(OWN, vector(1.0, 9.0, -2.0)) == -5.0
    assert distance(OWN, vector(0.0, 0.0, 0.0)) == 5.0
    assert cosine(OWN, vector(-6.0, 0.0, -8.0)) == -1.0
    assert cosine(OWN, vector(0.0, 0.0, 0.0)) == 0.0


def test_long_norm_is_not_under_read():
    values = torch.full((3_000_001,), 0.1)
    expected = math.sqrt(3_000_001) * float(values[0])
    assert abs(norm({"a": values}) / expected - 1) < 1e-14


def test_norms_do_not_depend_on_threads_or_layout():
    matrix = torch.randn(300, 257)
    turned = {"a": matrix.t().contiguous().t()}
    before = norm({"a": matrix})
    torch.set_num_threads(2)
    try:
        assert norm(turned) == before
    finally:
        torch.set_num_threads(1)


def test_exact_replay_is_accepted_in_any_class():
    for same_class in (True, False):
        verdict = compare(OWN, vector(3.0, 0.0, 4.0), same_class, LIMITS)
        assert (verdict.ok, verdict.exact, verdict.cosine, verdict.rel_l2) == (True, True, 1.0, 0.0)


def test_one_bit_decides_within_a_class_only():
    near = vector(3.0000002, 0.0, 4.0)
    inside = compare(OWN, near, True, LIMITS)
    assert not inside.ok and "same determinism class gives other bits" in inside.reason
    assert compare(OWN, near, False, LIMITS).ok
    assert not compare(OWN, vector(3.0, -0.0, 4.0), True, LIMITS).exact


@pytest.mark.parametrize(
    ("revealed", "part"),
    [
        (vector(6.0, 0.0, 8.0), "cosine 1.000000, relative L2 1.000000"),
        (vector(0.003, 0.0, 0.004), "relative L2 0.999000"),
        (vector(3.0, 0.8, 4.0), "cosine 0.987441, relative L2 0.160000"),
        (vector(-3.0, 0.0, -4.0), "cosine -1.000000"),
        (vector(0.0, 0.0, 0.0), "cosine 0.000000, relative L2 1.000000"),
    ],
    ids=["doubled", "shrunk", "turned", "opposed", "zero"],
)
def test_across_classes_direction_and_length_both_count(revealed, part):
    verdict = compare(OWN, revealed, False, LIMITS)
    assert not verdict.ok and part in verdict.reason
    near = vector(3.0, 0.1, 4.0)  # relative L2 0.02
    assert compare(OWN, near, False, Tolerances(cosine_min=0.99, rel_l2_max=0.03)).ok
    assert not compare(OWN, near, False, Tolerances(cosine_min=0.99, rel_l2_max=0.01)).ok
    assert not compare(OWN, near, False, Tolerances(cosine_min=0.9999, rel_l2_max=0.03)).ok


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_replay_that_is_not_finite_is_near_nothing(broken):
    verdict = compare(vector(3.0, broken, 4.0), vector(3.0, 0.0, 4.0), False, LIMITS)
    assert not verdict.ok and "cosine 0.000000, relative L2 inf" in verdict.reason


def test_a_reference_of_zeros_is_matched_by_zeros_only():
    zero = vector(0.0, 0.0, 0.0)
    assert compare(zero, vector(0.0, -0.0, 0.0), False, LIMITS).rel_l2 == 0.0
    verdict = compare(zero, OWN, False, LIMITS)
    assert not verdict.ok and verdict.rel_l2 == math.inf


def test_steps_are_compared_within_a_class():
    mine, theirs = [b"0" * 32, b"1" * 32, b"2" * 32], [b"0" * 32, b"x" * 32, b"2" * 32]
    same = vector(3.0, 0.0, 4.0)
    assert compare(OWN, same, True, LIMITS, own_steps=mine, revealed_steps=mine).ok
    verdict = compare(OWN, same, True, LIMITS, own_steps=mine, revealed_steps=theirs)
    assert not verdict.ok and verdict.exact and "at hash 1" in verdict.reason
    short = compare(OWN, same, True, LIMITS, own_steps=mine, revealed_steps=mine[:2])
    assert not short.ok and "has 2 hashes; 3 are right" in short.reason
    assert compare(OWN, same, False, LIMITS, own_steps=mine, revealed_steps=theirs).ok


def test_other_template_is_refused():
    with pytest.raises(ValueError, match="differ in tensor names or shapes"):
        compare(OWN, {"a": torch.zeros(1)}, True, LIMITS)


class Narrow:
    """A codec that can say the update, and none that is the least bit longer or elsewhere."""

    def least_change(self, gradient, memory, data, seed):
        return 1.0

    def encode(self, gradient, memory, seed):
        raise ValueError("The gradient's numbers are far too large for the codec.")


def test_a_rounding_that_the_codec_can_not_say_allows_nothing_and_raises_nothing():
    """Whoever sent nonsense before has a memory near the codec's bound."""
    found = compare(OWN, vector(3.0, 0.5, 4.0), False, LIMITS)
    how = Encoding(Narrow(), None, bytes(32), limit=0.1, floor=1e-6)
    encoded = compare_encoded(OWN, b"", how, found)
    assert not encoded.ok and encoded.reason.startswith("Replay disagrees")
