# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels: the same bits as eager code, no waiting, and eager code when they fail."""

import threading
import warnings

import pytest
import torch

from agents.mechanisms import built
from agents.mechanisms import merge as merge_rules
from agents.mechanisms.merge.parts import compiled
from tests.stage.memory.payloads import payload, same_bits

COUNT = 5
RULES = {
    "median": compiled.MiddleOf(COUNT),
    "trimmed_mean": compiled.MeanOfRanks(COUNT, 1, 4),
}
needs_compiler = pytest.mark.skipif(not compiled.available(), reason="no C++ compiler here")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(compiled, "_kernels", {})


def awkward(count: int = COUNT) -> list[dict[str, torch.Tensor]]:
    """Ties, zeros of both signs, magnitudes far apart; two kernel calls' worth and a small one."""
    generator = torch.Generator().manual_seed(2)
    found = []
    for _ in range(count):
        wide = torch.randn(2 * compiled.SMALLEST + 13, generator=generator)
        wide *= 10.0 ** torch.randint(-30, 18, wide.shape, generator=generator)
        ties = torch.randint(-1, 2, (compiled.SMALLEST + 1,), generator=generator)
        signs = torch.randn(ties.shape, generator=generator).sign()
        found.append({"wide": wide, "ties": ties * signs, "few": wide[:9].clone()})
    return found


@needs_compiler
@pytest.mark.parametrize("rule", RULES)
def test_compiled_and_eager_give_the_same_bits(rule):
    merge = merge_rules.get(rule)()
    payloads = awkward()
    eager = merge(payloads)
    assert compiled.warm(RULES[rule])
    calls = []
    real = compiled._kernels[RULES[rule]]
    compiled._kernels[RULES[rule]] = lambda *given: calls.append(1) or real(*given)
    assert same_bits(merge(payloads), eager)
    assert len(calls) == 2
    with built.disabled():
        assert same_bits(merge(payloads), eager)
    assert len(calls) == 2


def test_small_merges_start_no_compiler(monkeypatch):
    monkeypatch.setattr(compiled, "warm", lambda recipe: pytest.fail("compiled"))
    rows = [payload(1.0)] * 3
    assert compiled.run(rows, compiled.MiddleOf(3), rows[0]) == set()
    assert compiled._kernels == {}


def test_merges_of_many_payloads_start_no_compiler(monkeypatch):
    """A kernel for so many takes longer than eager code."""
    monkeypatch.setattr(compiled, "PAYS", 10)
    monkeypatch.setattr(compiled, "available", lambda: True)
    monkeypatch.setattr(compiled, "warm", lambda recipe: pytest.fail("compiled"))
    rows = [payload(*range(9))] * (compiled.MOST + 1)
    assert merge_rules.get("median")()(rows)["a"].tolist() == list(range(9))
    assert compiled._kernels == {}


def test_a_large_merge_compiles_behind_the_callers_back(monkeypatch):
    started, release = threading.Event(), threading.Event()

    def slow(recipe):
        started.set()
        release.wait(20)

    monkeypatch.setattr(compiled, "PAYS", 10)
    monkeypatch.setattr(compiled, "available", lambda: True)
    monkeypatch.setattr(compiled, "warm", slow)
    rows = [payload(*range(9))] * 3
    try:
        for _ in range(3):
            assert merge_rules.get("median")()(rows)["a"].tolist() == list(range(9))
        assert started.wait(20)
        assert compiled._kernels == {compiled.MiddleOf(3): None}
    finally:
        release.set()


def test_without_a_compiler_nothing_is_tried(monkeypatch):
    monkeypatch.setattr(compiled, "PAYS", 1)
    monkeypatch.setattr(compiled, "available", lambda: False)
    monkeypatch.setattr(compiled, "warm", lambda recipe: pytest.fail("compiled"))
    assert merge_rules.get("median")()([payload(1.0)] * 3)["a"].item() == 1.0


def test_a_failed_compilation_warns_once_and_falls_back(monkeypatch):
    def fail(*given, **named):
        raise RuntimeError("no linker")

    monkeypatch.setattr(compiled.torch, "compile", fail)
    recipe = compiled.MiddleOf(COUNT)
    with pytest.warns(RuntimeWarning, match="uncompiled, with the same result: no linker"):
        assert compiled.warm(recipe) is False
    monkeypatch.setattr(compiled, "PAYS", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merged = merge_rules.get("median")()(awkward())
    assert set(merged) == {"wide", "ties", "few"}
    assert compiled._kernels == {recipe: None}


def test_a_kernel_that_fails_later_leaves_the_result_to_the_eager_code():
    def broken(rows):
        raise RuntimeError("a recompilation is not allowed")

    merge = merge_rules.get("median")()
    expected = merge(awkward())
    compiled._kernels[compiled.MiddleOf(COUNT)] = broken
    with pytest.warns(RuntimeWarning, match="goes on uncompiled"):
        assert same_bits(merge(awkward()), expected)
    assert same_bits(merge(awkward()), expected)


@needs_compiler
def test_a_ready_kernel_never_compiles_again(monkeypatch):
    merge, recipe = merge_rules.get("median")(), compiled.MiddleOf(3)
    assert compiled.warm(recipe)
    monkeypatch.setattr(compiled, "_PIECE", compiled.SMALLEST)
    base = torch.randn(3, 4 * compiled.SMALLEST, generator=torch.Generator().manual_seed(1))
    for width in (compiled.SMALLEST, compiled.SMALLEST + 1, 3 * compiled.SMALLEST + 7):
        rows = [{"a": row[5 : 5 + width]} for row in base]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = merge(rows)
        assert torch.equal(got["a"], base[:, 5 : 5 + width].median(0).values)
    assert compiled._kernels[recipe] is not None
