# SPDX-License-Identifier: Apache-2.0
"""The cosine transform: by hand, beside scipy's, integers that no machine can round differently."""

import math

import numpy as np
import pytest
import scipy.fft
import torch

from agents.mechanisms.codec.parts import dct
from agents.mechanisms.codec.parts.chunks import Group, Region
from agents.mechanisms.codec.parts.transform import Synthesis, _product, analysis


def test_two_and_four_numbers_by_hand():
    half = math.sqrt(0.5)
    assert np.abs(dct.basis(2).numpy() - [[half, half], [half, -half]]).max() < 1e-7
    a, b = math.cos(math.pi / 8) * half, math.cos(3 * math.pi / 8) * half
    wanted = [[0.5] * 4, [a, b, -b, -a], [0.5, -0.5, -0.5, 0.5], [b, -a, a, -b]]
    for u in range(4):
        for x in range(4):
            assert dct.entry(4, u, x) == pytest.approx(wanted[u][x], abs=1e-15)
    # 2^10 * 0.653281 = 668.96, 2^10 * 0.270598 = 277.09.
    assert dct.integers(4, 10).tolist() == [
        [512, 512, 512, 512],
        [669, 277, -277, -669],
        [512, -512, -512, 512],
        [277, -669, 669, -277],
    ]
    assert dct.basis(1).tolist() == [[1.0]]


@pytest.mark.parametrize("n", [3, 8, 37, 64, 127, 128])
def test_the_matrix_is_scipys(n):
    wanted = scipy.fft.dct(np.eye(n), axis=0, norm="ortho")
    ours = np.array([[dct.entry(n, u, x) for x in range(n)] for u in range(n)])
    assert np.abs(ours - wanted).max() < 1e-13
    assert np.abs(ours @ ours.T - np.eye(n)).max() < 1e-13


def test_no_entry_is_near_a_tie_between_integers():
    # math.cos is right to 2^-52 or so; 2^20 times that is far below 1e-7.
    for n in range(1, dct.MAX_SIDE + 1):
        size = np.array(
            [dct.entry(n, u, 0) for u in range(n)] + [dct.entry(n, 1 % n, x) for x in range(n)]
        )
        angles = np.arange(n) / (2 * n) * np.pi
        size = np.concatenate([size, np.cos(angles) * math.sqrt(2 / n)])
        for bits in range(dct.LEAST_BITS, dct.MOST_BITS + 1):
            off = np.abs(size) * 2.0**bits % 1.0
            assert np.abs(off - 0.5).min() > 1e-7, (n, bits)


def test_sums_stay_below_two_to_the_53():
    for height, width, codes, top in [(64, 64, 32, 128), (64, 64, 4096, 1 << 23), (1, 64, 64, 128)]:
        bits = dct.bits_for(height, width, codes, top)
        most = codes * top
        for n in (height, width):
            most *= int(dct.integers(n, bits).abs().max())
        assert most < 2**53
    assert dct.bits_for(64, 64, 32, 128 << 8) == 18
    with pytest.raises(ValueError, match="too large to be decoded exactly"):
        dct.bits_for(64, 64, 4096, 1 << 60)


@pytest.mark.parametrize(("height", "width"), [(1, 9), (2, 3), (5, 8), (51, 52), (64, 64)])
def test_forth_is_scipys(height, width, monkeypatch):
    block = torch.randn(2, height, 3, width, generator=torch.Generator().manual_seed(2))
    wanted = scipy.fft.dctn(block.numpy().astype(np.float64), axes=(1, 3), norm="ortho")
    found = analysis(block, torch.empty_like(block))
    assert torch.equal(analysis(block[:1], torch.empty_like(block[:1])), found[:1])
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    _product.cache_clear()
    other = analysis(block, torch.empty_like(block))
    _product.cache_clear()
    assert (other - found).abs().max() < 1e-6 * math.sqrt(height * width)
    assert np.abs(found.numpy() - wanted).max() < 2e-6 * math.sqrt(height * width)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize(("height", "width"), [(1, 9), (2, 3), (5, 8), (51, 52), (64, 64)])
def test_back_is_scipys(height, width, few):
    out = torch.full((2 * height, 3 * width), 9.0)
    group = Group(height, width, 6, (Region("a", *out.shape, 0, 0, 2, 3, 0),))
    (piece,) = group.pieces()
    rng = np.random.default_rng(3)
    sent = max(1, group.size // 20) if few else group.size
    places = np.sort(rng.permuted(np.tile(np.arange(group.size), (6, 1)), axis=1)[:, :sent])
    values = rng.integers(-128, 129, places.shape) * 0.25
    bits = dct.bits_for(height, width, sent, 128)
    Synthesis(group, bits).write(piece, places, values, out)
    table = np.zeros((6, group.size))
    np.put_along_axis(table, places, values, axis=1)
    blocks = table.reshape(2, 3, height, width).transpose(0, 2, 1, 3)
    wanted = scipy.fft.idctn(blocks, axes=(1, 3), norm="ortho").reshape(out.shape)
    worst = np.abs(values).sum(axis=1).max() * 2.0**-bits * 2 + 1e-5
    assert np.abs(out.numpy() - wanted).max() < worst
