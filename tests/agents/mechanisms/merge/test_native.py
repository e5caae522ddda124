# SPDX-License-Identifier: Apache-2.0
"""The Gram matrix in C++: the library's integers, no waiting, and the library when it fails."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import built
from agents.mechanisms import merge as merge_rules
from agents.mechanisms.merge.parts import gram as module
from agents.mechanisms.merge.parts import native
from agents.mechanisms.merge.parts.gram import WIDTH, gram
from tests.agents.mechanisms.conftest import two_threads
from tests.stage.memory.payloads import cluster, same_bits

needs_compiler = pytest.mark.skipif(built.compiler() is None, reason="no C++ compiler here")


@pytest.fixture(scope="module")
def library():
    """The library, built once for this file."""
    return native.CODE.made() if built.compiler() else None


@pytest.fixture(autouse=True)
def fresh(monkeypatch, library):
    monkeypatch.setattr(native.CODE, "library", library)
    monkeypatch.setattr(native.CODE, "asked", True)


@needs_compiler
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 32])
@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_both_ways_give_the_same_integers(count, spread):
    # Of spread 1e-4 the payloads are read twice, the second time about a centre.
    payloads = cluster(count, WIDTH + 301, spread, seed=count)
    with built.disabled():
        plain = gram(payloads)
    assert gram(payloads) == plain


@needs_compiler
@settings(max_examples=80, deadline=None)
@given(
    bits=st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=60),
    centre=st.sampled_from([None, 0, 2]),
    power=st.integers(-30, 30),
)
def test_any_numbers_are_rounded_like_the_library_rounds(bits, centre, power):
    rows = np.array(bits[: len(bits) // 3 * 3], np.uint32).view(np.float32).reshape(3, -1)
    rows = np.where(np.isfinite(rows), np.clip(rows, -1e30, 1e30), np.float32(1))
    # A third of them lie half-way between two integers, or next to it.
    rows[:, ::3] = np.round(rows[:, ::3] % 8) / np.float32(2) * np.float32(2.0**power)
    payloads = [{"a": torch.from_numpy(row.copy())} for row in rows]
    steps = module._steps(module._largest(payloads, centre))
    assert module._natively(payloads, steps, centre) is not None
    with built.disabled():
        plain = module._measure(payloads, steps, centre)
    assert module._measure(payloads, steps, centre) == plain


@needs_compiler
def test_by_hand():
    rows = [torch.tensor([1.0, 2.5, -0.5]), torch.tensor([3.5, -1.5, 4.0])]
    # Half goes to the even neighbour: 1, 2, 0 and, times 2, 7, -3, 8.
    found = native.inner_products(rows, [1.0, 2.0], None)
    assert [found[0], found[1][1:]] == [[5, 1], [122]]


@needs_compiler
@pytest.mark.parametrize("columns", [1, 127, 128, 129, 400, WIDTH + 1])
@pytest.mark.parametrize("count", [*range(1, 15), 136])
def test_any_number_of_rows_and_columns(count, columns):
    # Rows are taken in tiles of 4 by 3 or 2, columns 128 at a time.
    random = np.random.default_rng(count)
    whole = random.integers(-(2**19), 2**19, (count, columns), endpoint=True)
    rows = [torch.from_numpy(row.astype(np.float32)) for row in whole]
    found = np.array(native.inner_products(rows, [1.0] * count, None))
    assert np.array_equal(np.triu(found), np.triu(whole @ whole.T))


@needs_compiler
def test_sums_at_the_limit_and_threads_and_pieces_change_nothing(monkeypatch):
    # Every product is 2^38 - 2^20 + 1: one bit more in a block of 2^14 and a double would round.
    values = torch.full((5 * WIDTH + 77,), 2.0**19 - 1)
    total = (2**19 - 1) ** 2 * len(values)
    monkeypatch.setattr(native, "_LEAST", WIDTH + 1)
    with two_threads():
        found = native.inner_products([values, -values], [1.0, 1.0], None)
    assert [found[0], found[1][1:]] == [[total, -total], [total]]


@needs_compiler
def test_views_with_gaps_are_read_in_their_order():
    wide = cluster(1, 4000)[0]["w"]
    gaps = [wide[0:3000:3], wide[1:3001:3]]
    plain = native.inner_products([row.clone() for row in gaps], [2.0**12] * 2, None)
    assert native.inner_products(gaps, [2.0**12] * 2, None) == plain


@needs_compiler
def test_multi_krum_merges_to_the_same_bits():
    payloads = cluster(9, 30_000, 1e-3)
    merge = merge_rules.get("multi_krum")()
    with built.disabled():
        plain = merge(payloads)
    assert same_bits(merge(payloads), plain)


def test_small_merges_do_not_build_anything(monkeypatch):
    monkeypatch.setattr(native.CODE, "asked", False)
    native.CODE.ask(native.CODE.pays - 1)
    assert native.CODE.asked is False


def test_code_that_does_not_compile_is_said_once_and_the_library_is_used(monkeypatch, tmp_path):
    broken = tmp_path / "broken.cpp"
    broken.write_text("int inner_products( {")
    monkeypatch.setattr(native.CODE, "source", broken)
    with pytest.warns(RuntimeWarning, match=r"built from broken\.cpp.*same result"):
        assert native.CODE.warm() is False
    assert gram(cluster(4, 900)).count == 4


@needs_compiler
def test_code_that_computes_something_else_is_refused(monkeypatch, tmp_path):
    wrong = tmp_path / "wrong.cpp"
    source = native.CODE.source.read_text()
    assert "12582912.0f" in source
    wrong.write_text(source.replace("12582912.0f", "12582912.5f * 2"))  # to even numbers only
    monkeypatch.setattr(native.CODE, "source", wrong)
    with pytest.warns(RuntimeWarning, match="other integers"):
        assert native.CODE.warm() is False
    assert native.inner_products([torch.ones(3)], [1.0], None) is None
