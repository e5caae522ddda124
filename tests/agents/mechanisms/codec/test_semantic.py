# SPDX-License-Identifier: Apache-2.0
"""The semantic codec: orthonormal rows, a public range, right on average, post-processing only."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec import LinearCodec
from agents.mechanisms.codec.parts.vector import flatten, norm
from tests.agents.mechanisms.codec.conftest import gradient

SEED = bytes(range(32))
SEEDS = [number.to_bytes(32, "big") for number in range(400)]


def codec(**options):
    return codecs.get("semantic")(**options)


def rows(made, count: int, seed: bytes) -> np.ndarray:
    """P, float64 [k, d], from its columns."""
    unit = torch.eye(count)
    return np.stack([made.linear({"a": row}, seed).numpy() for row in unit], axis=1)


@pytest.mark.parametrize(("count", "k"), [(5, 5), (7, 3), (64, 9), (100, 1), (100, 99)])
def test_rows_are_orthonormal(count, k):
    projection = rows(codec(dimension=k), count, SEED)
    assert projection.shape == (k, count)
    assert np.allclose(projection @ projection.T, np.eye(k), atol=1e-14)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 400), st.binary(min_size=32, max_size=32))
def test_no_norm_grows(count, k, seed):
    sent = gradient({"a": (count,), "b": (3,)}, count)
    image = codec(dimension=k).linear(sent, seed).numpy()
    assert image.size == min(k, count + 3)
    assert norm(image) <= norm(flatten(sent, "")) * (1 + 1e-12)


def test_five_numbers_by_hand():
    # k = d: every row, in order. Rotated (test_rotation): [1 7 0 -2 1]. clip 10 is beyond the
    # norm sqrt(55). range = 2 * sqrt(100 / 5) = 8.944, 16 levels: step 1.1926.
    made = codec(dimension=5, clip=10.0, width=2.0)
    sent, shapes = {"a": torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])}, {"a": (5,)}
    assert made.linear(sent, SEED).tolist() == [1, 7, 0, -2, 1]
    reach = 2 * math.sqrt(20)
    step = 2 * reach / 15
    data = made.encode(sent, None, SEED)
    codes = [data[-3] & 15, data[-3] >> 4, data[-2] & 15, data[-2] >> 4, data[-1]]
    for code, value in zip(codes, [1, 7, 0, -2, 1], strict=True):
        assert abs(code * step - reach - value) < step
    assert made.measured(data, shapes, SEED).tolist() == [code * step - reach for code in codes]
    assert made.rounding_std(shapes) == step / 2
    assert isinstance(made, LinearCodec)


def test_rounding_is_right_on_average():
    sent, shapes = gradient({"a": (40,)}), {"a": (40,)}
    made = codec(dimension=40, clip=2 * norm(flatten(sent, "")), bits=2)
    errors = []
    for seed in SEEDS:
        measured = made.measured(made.encode(sent, None, seed), shapes, seed)
        errors.append((measured - made.linear(sent, seed)).numpy())
    found = np.array(errors)
    assert np.abs(found).max() < 2 * made.rounding_std(shapes)
    assert found.std() < made.rounding_std(shapes)
    assert abs(found.mean()) < 4 * found.std() / math.sqrt(found.size)


def test_unbiased_decoder_is_right_on_average_and_transpose_gives_the_share_sent():
    sent, shapes = gradient({"a": (500,)}), {"a": (500,)}
    x = flatten(sent, "")
    options = {"dimension": 50, "clip": 1.1 * norm(x), "bits": 8}
    means = {}
    for decoder in ("unbiased", "transpose"):
        made = codec(decoder=decoder, **options)
        found = [made.decode(made.encode(sent, None, s), shapes, s)["a"].double() for s in SEEDS]
        means[decoder] = torch.stack(found).mean(0).numpy()
    # One payload errs by sqrt(d/k) = 3 norms; 400 of them by 0.15.
    assert norm(means["unbiased"] - x) < 0.2 * norm(x)
    assert (means["transpose"] @ x) / (x @ x) == pytest.approx(0.1, abs=0.01)


def test_shrunk_decoder_has_the_least_squares_gain():
    shapes, clip, noise = {"a": (4000,)}, 3.0, 0.05
    generator = torch.Generator().manual_seed(7)
    plain = torch.randn(4000, generator=generator)
    plain *= clip / plain.norm()
    noised = {"a": plain + noise * torch.randn(4000, generator=generator)}

    def decoded(decoder: str) -> torch.Tensor:
        made = codec(dimension=4000, clip=clip, noise_std=noise, decoder=decoder)
        return made.decode(made.encode(noised, None, SEED), shapes, SEED)["a"].double()

    y, shrunk, x = decoded("transpose"), decoded("shrunk"), plain.double()
    assert float(shrunk[0] / y[0]) == pytest.approx(float(x @ y / (y @ y)), abs=0.02)
    assert (shrunk - x).norm() < (y - x).norm()


def test_long_updates_are_clipped_and_the_range_does_not_depend_on_them():
    shapes = {"a": (64,)}
    made = codec(dimension=64, clip=1.0, bits=8, width=16.0)
    data = made.encode({"a": torch.full((64,), 1e20)}, None, SEED)
    assert float(made.measured(data, shapes, SEED).norm()) == pytest.approx(1.0, abs=0.1)
    # Twice as long, the same after clipping, hence the same bytes: no scale leaks.
    assert data == made.encode({"a": torch.full((64,), 2e20)}, None, SEED)


def test_noise_keeps_its_deviation():
    shapes, noise = {"a": (20_000,)}, 0.3
    made = codec(dimension=2000, clip=1.0, noise_std=noise, bits=4)
    sent = {"a": noise * torch.randn(20_000, generator=torch.Generator().manual_seed(5))}
    assert made.linear(sent, SEED).numpy().std() == pytest.approx(noise, rel=0.06)
    measured = made.measured(made.encode(sent, None, SEED), shapes, SEED).numpy()
    within = math.hypot(noise, made.rounding_std(shapes))
    assert 0.94 * noise < measured.std() < 1.06 * within


def test_dimension_and_ratio():
    shapes = {"a": (100_000,)}
    assert codec().rows(100_000) == 256
    assert codec().rows(100) == 100
    assert codec().wire_size(shapes) == len(codec().encode(gradient(shapes), None, SEED)) == 200
    made = codec(ratio=100)
    assert 3984 <= made.wire_size(shapes) <= 4000
    assert made.rows(100_000) == (made.wire_size(shapes) - 72) * 2
    with pytest.raises(ValueError, match="100 times shorter"):
        made.rows(1000)


def test_errors_of_nodes_that_share_their_rows_are_independent():
    """Two nodes whose updates have nothing in common. Where both round by the same draws, which is
    the control, their payloads are alike all the same, so noise passed for an honest update."""
    made, shapes = codec(ratio=100.0, clip=6.0), {"a": (100_000,)}
    sent = [gradient(shapes, number) for number in (1, 2)]
    sent = [{"a": each["a"] / norm(flatten(each, ""))} for each in sent]

    def likeness(seeds):
        vectors = [
            made.measured(made.encode(each, None, seed), shapes, seed).numpy()
            for each, seed in zip(sent, seeds, strict=True)
        ]
        return float(vectors[0] @ vectors[1] / norm(vectors[0]) / norm(vectors[1]))

    chance = 4 / math.sqrt(made.rows(100_000))
    alike, apart = likeness([SEED, SEED]), likeness([SEED + SEEDS[1], SEED + SEEDS[2]])
    print(f"\ncosine {alike:.3f} with shared draws, {apart:.3f} with own ones")
    assert alike > 3 * chance
    assert abs(apart) < chance


def test_rows_are_those_of_the_shared_part_of_the_seed():
    made, shapes = codec(dimension=50), {"a": (400,)}
    sent = gradient(shapes, 3)
    own = [SEED + SEEDS[number] for number in (1, 2)]
    assert torch.equal(made.linear(sent, own[0]), made.linear(sent, SEED))
    payloads = [made.encode(sent, None, seed) for seed in own]
    assert payloads[0] != payloads[1]
    found = [made.decode(payloads[0], shapes, seed)["a"] for seed in (*own, SEED)]
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
