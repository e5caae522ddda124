# SPDX-License-Identifier: Apache-2.0
"""The audit draw is fair and reproducible; public screening flags those it should."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import merge as merge_rules
from agents.protocol.draw import draw
from agents.training.norms import cosine
from agents.verify.similarity import (
    DIRECTION,
    DUPLICATE,
    NEAR_COPY,
    NORM,
    Flag,
    Limits,
    fingerprint,
    screen,
)

SEED = b"\x07" * 32


@settings(max_examples=100, deadline=None)
@given(
    st.binary(min_size=32, max_size=32),
    st.sets(st.integers(0, 10**9), max_size=12),
    st.integers(0, 14),
)
def test_draw_is_a_function_of_seed_and_set(seed, nodes, count):
    got = draw(seed, sorted(nodes), count)
    assert got == draw(seed, sorted(nodes, reverse=True), count)
    assert got == sorted(set(got)) and set(got) <= nodes and len(got) == min(count, len(nodes))


def test_draw_is_uniform():
    drawn = Counter(
        node for seed in range(2000) for node in draw(seed.to_bytes(32, "big"), range(1, 9), 3)
    )
    # 750 expected each; five standard deviations are 5 * sqrt(2000 * 3/8 * 5/8) = 108.
    assert set(drawn) == set(range(1, 9))
    assert all(abs(count - 750) < 108 for count in drawn.values())


def test_draw_refuses_nonsense():
    with pytest.raises(ValueError, match="given twice"):
        draw(SEED, [1, 1], 1)
    with pytest.raises(ValueError, match="ask for 0 or more"):
        draw(SEED, [1], -1)


def honest(count: int = 6, spread: float = 1.0) -> dict[int, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(3)
    common = torch.randn(20_003, generator=generator)
    nodes = {}
    for node in range(1, count + 1):
        own = common + spread * torch.randn(20_003, generator=generator)
        nodes[node] = {"w": own[:20_000].reshape(100, 200), "b": own[20_000:]}
    return nodes


def flags_of(payloads, limits: Limits | None = None) -> list[Flag]:
    merged = merge_rules.get("median")()([payloads[node] for node in sorted(payloads)])
    return screen(payloads, merged, SEED, limits)


def scaled(payload, factor: float):
    return {name: tensor * factor for name, tensor in payload.items()}


def mixed(payload, share: float, seed: int = 9):
    generator = torch.Generator().manual_seed(seed)
    noise = {name: torch.randn(t.shape, generator=generator) for name, t in payload.items()}
    return {name: tensor + share * noise[name] for name, tensor in payload.items()}


def test_honest_nodes_are_not_flagged():
    assert flags_of(honest()) == []
    assert screen({}, {}, SEED) == []


def test_duplicates_name_each_other():
    nodes = honest()
    nodes[9] = {name: tensor.clone() for name, tensor in nodes[2].items()}
    nodes[11] = nodes[2]
    others = {2: (9, 11), 9: (2, 11), 11: (2, 9)}
    assert flags_of(nodes) == [Flag(node, DUPLICATE, alike, 1.0) for node, alike in others.items()]


@pytest.mark.parametrize("copy", [lambda p: scaled(p, 1.01), lambda p: mixed(p, 0.1)])
def test_near_copies_are_flagged_with_their_victim(copy):
    nodes = honest()
    nodes[9] = copy(nodes[2])
    value = cosine(nodes[2], nodes[9])
    assert flags_of(nodes) == [Flag(2, NEAR_COPY, (9,), value), Flag(9, NEAR_COPY, (2,), value)]


def test_stated_limit_of_near_copies():
    nodes = honest()
    nodes[9] = mixed(nodes[2], 0.5)
    assert flags_of(nodes) == []


@pytest.mark.parametrize("factor", [0.0, 0.1, 10.0])
def test_odd_norms_are_flagged(factor):
    nodes = honest()
    nodes[9] = scaled(mixed(nodes[1], 1.0), factor)
    assert NORM in {flag.kind for flag in flags_of(nodes) if flag.node_id == 9}
    assert {flag.node_id for flag in flags_of(nodes)} == {9}


def test_noise_and_opposition_are_flagged_by_direction():
    nodes = honest()
    nodes[8] = mixed(scaled(nodes[1], 0.0), 1.4)
    nodes[9] = scaled(nodes[2], -1.0)
    assert [(f.node_id, f.kind) for f in flags_of(nodes)] == [(8, DIRECTION), (9, DIRECTION)]


def test_limits_are_honoured():
    loose = Limits(near_copy_cosine=0.3)
    assert {flag.kind for flag in flags_of(honest(), loose)} == {NEAR_COPY}


def test_flags_do_not_depend_on_insertion_order():
    nodes = honest()
    nodes[9] = mixed(nodes[2], 0.05)
    assert flags_of(nodes) == flags_of(dict(sorted(nodes.items(), reverse=True)))


def test_fingerprint_estimates_the_cosine():
    nodes = honest(2)
    errors = []
    for number in range(30):
        seed = number.to_bytes(32, "big")
        a, b = fingerprint(nodes[1], seed), fingerprint(nodes[2], seed)
        errors.append(a @ b / np.linalg.norm(a) / np.linalg.norm(b) - cosine(nodes[1], nodes[2]))
    assert abs(np.mean(errors)) < 0.04 and np.std(errors) < 0.09
    assert not np.array_equal(fingerprint(nodes[1], SEED), fingerprint(nodes[1], b"\x08" * 32))


def test_fingerprint_by_hand():
    values = torch.zeros(300)
    values[3], values[259] = 2.0, 5.0  # the same lane, 259 = 3 + 256
    (lane,) = np.flatnonzero(fingerprint({"a": values}, SEED))
    assert lane == 3 and abs(fingerprint({"a": values}, SEED)[3]) in (3.0, 7.0)
