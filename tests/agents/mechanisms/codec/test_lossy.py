# SPDX-License-Identifier: Apache-2.0
"""What every lossy codec must hold: size, one result everywhere, memory, hostile bytes."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.mechanisms import codec as codecs
from agents.rounds.payload import read_payload
from agents.training.state import PayloadError
from tests.agents.mechanisms.codec.conftest import gradient
from tests.agents.mechanisms.codec.digests import SEED, digests
from tests.measure.codec_figures import cosine, measure

SMALL = {"b": (40, 70), "a": (5000,)}


def test_size_is_exact_and_a_hundredth_of_the_models_bytes(lossy, demo_shapes):
    data = lossy.encode(gradient(demo_shapes), None, SEED)
    assert len(data) == lossy.wire_size(demo_shapes)
    assert 100 * len(data) <= 4 * 108_864
    got = read_payload(data, lossy, demo_shapes, SEED)
    assert {name: tuple(t.shape) for name, t in got.items()} == demo_shapes
    assert all(t.dtype == torch.float32 for t in got.values())
    assert cosine(gradient(demo_shapes), got) > 0.2


def test_zeros_stay_finite(lossy):
    data = lossy.encode({name: torch.zeros(shape) for name, shape in SMALL.items()}, None, SEED)
    got = read_payload(data, lossy, SMALL, SEED)
    assert all(torch.isfinite(t).all() for t in got.values())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(lossy, bad):
    sent = gradient(SMALL)
    sent["a"][17] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        lossy.encode(sent, None, SEED)
    with pytest.raises(ValueError, match="needs float32"):
        lossy.encode({name: t.double() for name, t in gradient(SMALL).items()}, None, SEED)


def test_nothing_depends_on_order_strides_or_repetition(lossy):
    sent = gradient(SMALL)
    turned = {name: sent[name] for name in reversed(sent)}
    turned["b"] = sent["b"].t().contiguous().t()
    data = lossy.encode(sent, None, SEED)
    assert lossy.encode(turned, None, SEED) == data
    first, again = (lossy.decode(data, SMALL, SEED) for _ in range(2))
    first["a"].zero_()
    assert not torch.equal(first["a"], again["a"])


def test_bits_do_not_depend_on_threads_or_instruction_set():
    env = {
        "ATEN_CPU_CAPABILITY": "default",
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F",
        "PYTHONPATH": ".",
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    root = Path(__file__).parents[4]
    command = [sys.executable, "-m", "tests.agents.mechanisms.codec.digests"]
    done = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == digests()


def test_decoded_plus_memory_is_the_sum_of_updates(lossy):
    if not lossy.has_memory:
        assert lossy.remember(gradient(SMALL), None, gradient(SMALL, 1)) is None
        assert lossy.memory_rounds == 0
        return
    assert lossy.memory_rounds >= 1
    memory = None
    updates = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in SMALL.items()}
    sent = {name: tensor.clone() for name, tensor in updates.items()}
    for number in range(6):
        update, seed = gradient(SMALL, number), bytes([number]) * 32
        decoded = lossy.decode(lossy.encode(update, memory, seed), SMALL, seed)
        memory = lossy.remember(update, memory, decoded)
        for name in SMALL:
            updates[name] += update[name]
            sent[name] += decoded[name]
    for name in SMALL:
        assert memory[name].dtype == torch.float32
        assert torch.allclose(sent[name] + memory[name], updates[name], atol=1e-7)


def test_nothing_given_is_changed(lossy):
    given = [gradient(SMALL, number) for number in range(3)]
    before = [{name: tensor.clone() for name, tensor in one.items()} for one in given]
    lossy.encode(given[0], given[1] if lossy.has_memory else None, SEED)
    lossy.remember(*given)
    lossy.remember(given[0], None, given[2])
    for one, other in zip(given, before, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in SMALL)


def test_memory_changes_what_is_sent(lossy):
    sent, memory = gradient(SMALL), gradient(SMALL, 9)
    plain = lossy.encode(sent, None, SEED)
    assert (lossy.encode(sent, memory, SEED) != plain) == lossy.has_memory
    assert lossy.encode(sent, {n: torch.zeros(s) for n, s in SMALL.items()}, SEED) == plain


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_strangers_bytes_are_refused_or_finite(lossy, data):
    size = lossy.wire_size(SMALL)
    good = lossy.encode(gradient(SMALL), None, SEED)
    head = size - (size - int.from_bytes(good[:8], "little") - 8)
    noise = hashlib.shake_256(data.draw(st.binary(max_size=8))).digest(size - head)
    start = data.draw(st.integers(0, size - head))
    body = good[head : head + start] + noise[start:]
    try:
        got = read_payload(good[:head] + body, lossy, SMALL, SEED)
    except PayloadError as error:
        assert str(error).endswith(".")
    else:
        assert all(torch.isfinite(t).all() and t.abs().max() < 2.0**64 for t in got.values())


CONTAINERS = {
    "short": lambda good: good[:-1],
    "long": lambda good: good + b"\0",
    "empty": lambda good: b"",
    "header": lambda good: good.replace(b"U8", b"I8", 1),
}


@pytest.mark.parametrize("change", CONTAINERS)
def test_another_container_is_refused(lossy, change):
    good = lossy.encode(gradient(SMALL), None, SEED)
    with pytest.raises(PayloadError):
        read_payload(CONTAINERS[change](good), lossy, SMALL, SEED)


def test_figures_are_those_of_the_payload():
    codec, sent = codecs.get("polytope")(), gradient(SMALL)
    figures = measure(codec, sent, None, SEED, SMALL)
    assert figures.payload == codec.encode(sent, None, SEED)
    assert figures.wire_bytes == len(figures.payload)
    assert figures.ratio == 4 * 7800 / figures.wire_bytes
    assert figures.cosine == cosine(sent, codec.decode(figures.payload, SMALL, SEED))
    assert min(figures.encode_s, figures.decode_s) > 0
    assert measure(codecs.get("dense")(), sent, None, SEED, SMALL).cosine == pytest.approx(1.0)
    assert cosine({"a": torch.zeros(3)}, {"a": torch.ones(3)}) == 0.0
    assert cosine({"a": torch.ones(3)}, {"a": -torch.ones(3)}) == pytest.approx(-1.0)


@pytest.mark.parametrize("name", ["cells", "demo", "directions", "polytope", "sparse"])
def test_numbers_too_large_are_refused(name):
    with pytest.raises(ValueError, match="far too large"):
        codecs.get(name)().encode({"a": torch.full((5,), 1e30)}, None, SEED)


FEEDBACK = {"error_feedback": True, "memory_rounds": 5}
WRONG_OPTIONS = {
    "cells": [
        *({"cell": 1}, {"cell": 48}, {"cell": True}, {"share": 0}, {"share": 1.5}, {"gain": 9}),
        *({"fine": 3}, {"fine": "a" * 65}, {"fine_share": 0.0}, {"decay": -0.1}),
        {"memory_rounds": 0},
    ],
    "demo": [
        *({"chunk": 3}, {"chunk": 129}, {"per_chunk": 0}, {"chunk": 8, "per_chunk": 65}),
        *({"value_bits": 9}, {"value_bits": True}, {"decay": 1.5}, {"memory_rounds": 0}),
    ],
    "directions": [
        *({"cell": 8}, {"cell": 48}, {"cell": 2048}, {"directions": 64}, {"directions": 65_536}),
        *({"directions": 8191}, {"cell": 16}, {"cell": 128.0}, {"share": 0}, {"decay": 1.5}),
        {"memory_rounds": 0},
    ],
    "polytope": [{"cell": 12}, {"cell": 16.0}, {"cell": True}, {"cell": 1}, {"gain": 0}],
    "semantic": [
        *({"dimension": 0}, {"dimension": 2.0}, {"dimension": True}, {"ratio": -1}, {"clip": 0}),
        *({"clip": float("nan")}, {"bits": 9}, {"width": 0.1}, {"noise_std": -0.1}),
        *({"decoder": "median"}, {"error_feedback": 1}, {"memory_rounds": 3}, FEEDBACK),
        {"error_feedback": True, "decoder": "shrunk"},
        {**FEEDBACK, "decoder": "shrunk", "noise_std": 0.1},
    ],
    "sparse": [
        *({"per_chunk": 0}, {"per_chunk": 5000}, {"block": 48}, {"value_bits": 3}, {"gain": 9}),
        *({"decay": 1.5}, {"memory_rounds": 0}),
    ],
}


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, wrong) for name, rows in WRONG_OPTIONS.items() for wrong in rows],
    ids=str,
)
def test_options_out_of_range_are_refused(name, options):
    with pytest.raises(ValueError, match=r"must be|error_feedback needs"):
        codecs.get(name)(**options)
