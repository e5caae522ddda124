# SPDX-License-Identifier: Apache-2.0
"""Passes over payloads in C++: the library's bits, any threads, and the library when they fail."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import built
from agents.mechanisms import merge as merge_rules
from agents.mechanisms.merge.parts import gram as module
from agents.mechanisms.merge.parts import passes
from agents.mechanisms.merge.parts.combine import combine
from tests.agents.mechanisms.conftest import two_threads
from tests.stage.memory.payloads import cluster, same_bits

pytestmark = pytest.mark.skipif(built.compiler() is None, reason="no C++ compiler here")
RULES = ("multi_krum", "mean", "norm_clip", "geometric_median", "centred_clipping")


@pytest.fixture(scope="module")
def library():
    """The library, built once for this file."""
    return passes.CODE.made() if built.compiler() else None


@pytest.fixture(autouse=True)
def fresh(monkeypatch, library):
    monkeypatch.setattr(passes.CODE, "library", library)
    monkeypatch.setattr(passes.CODE, "asked", True)


def any_numbers(seed: int, count: int, width: int) -> list[torch.Tensor]:
    """Any finite bits, so also zeros of both signs and subnormal numbers."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 0x7F000000, (count, width), np.uint32) >> rng.integers(0, 31)
    signs = rng.integers(0, 2, bits.shape, np.uint32) << np.uint32(31)
    return [torch.from_numpy(row) for row in (bits | signs).view(np.float32)]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(0, 2500),
    weights=st.lists(st.integers(0, 2**29 - 1), min_size=1, max_size=14),
    divisor=st.integers(1, 2**40),
)
def test_sums_have_the_same_bits(seed, width, weights, divisor):
    payloads = [{"a": row} for row in any_numbers(seed, len(weights), width)]
    with built.disabled():
        plain = combine(payloads, weights, divisor)
    assert same_bits(combine(payloads, weights, divisor), plain)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 2500),
    centre=st.sampled_from([None, 0, 2]),
    bad=st.sampled_from([0.0, float("nan"), float("inf"), float("-inf"), -3.4e38]),
    place=st.integers(0, 2499),
)
def test_magnitudes_are_the_same(seed, width, centre, bad, place):
    rows = any_numbers(seed, 3, width)
    rows[1][place % width] = bad
    payloads = [{"a": row, "b": row[:1].clone()} for row in rows]
    found = module._largest_natively(payloads, centre)
    assert found is not None
    plain = module._largest_by_library(payloads, centre)
    assert np.array_equal(found, plain, equal_nan=True)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(bad):
    payloads = cluster(5, 3000)
    payloads[3]["w"][-1] = bad
    with pytest.raises(ValueError, match="Payload 3 holds a value that is not finite"):
        merge_rules.get("multi_krum")()(payloads)


def test_nothing_is_reordered_or_rounded_before_its_time():
    # 2^60 - 2^60 + 1 in another order is 0; the third product needs its exact bits.
    payloads = [{"a": torch.full((2050,), v)} for v in (2.0**60, -(2.0**60), 1 + 2.0**-23)]
    expected = torch.tensor((2.0**29 - 1) * (1 + 2.0**-23) / 3, dtype=torch.float64).float()
    found = combine(payloads, [1, 1, 2**29 - 1], 3)["a"]
    assert torch.equal(found, expected.expand(2050))


@pytest.mark.parametrize("rule", RULES)
def test_rules_merge_to_the_same_bits_with_any_threads(monkeypatch, rule):
    payloads = cluster(9, 30_011, 1e-2)
    with built.disabled():
        plain = merge_rules.get(rule)()(payloads)
    monkeypatch.setattr(passes, "_LEAST", 1000)
    assert same_bits(merge_rules.get(rule)()(payloads), plain)
    with two_threads():
        assert same_bits(merge_rules.get(rule)()(payloads), plain)


def test_views_with_gaps_are_read_in_their_order():
    wide = cluster(1, 4000)[0]["w"]
    gaps = [wide[0:3000:3], wide[1:3001:3]]
    assert passes.largest(gaps, None) == [float(row.abs().max()) for row in gaps]


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ("most > bits ? most : bits", "most < bits ? most : bits", "other magnitudes"),
        ("bits &= 0x7fffffff", "bits &= 0x7f7fffff", "other magnitudes|see a NaN"),
        ("value == 0 ? 0.0f : value", "value", "another sum"),
        ("weights[i] * rows[i]", "float(weights[i]) * rows[i]", "another sum"),
    ],
)
def test_code_that_computes_something_else_is_refused(monkeypatch, tmp_path, line, wrong, message):
    source = passes.CODE.source.read_text()
    assert line in source
    path = tmp_path / "wrong.cpp"
    path.write_text(source.replace(line, wrong))
    monkeypatch.setattr(passes.CODE, "source", path)
    with pytest.warns(RuntimeWarning, match=message):
        assert passes.CODE.warm() is False
    assert passes.largest([torch.ones(3)], None) is None
