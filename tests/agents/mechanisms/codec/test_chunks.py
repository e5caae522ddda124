# SPDX-License-Identifier: Apache-2.0
"""Chunks: every number lies in exactly one, their sizes are as even as can be."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.codec.parts import chunks
from agents.mechanisms.codec.parts.chunks import cut


def numbered(shapes):
    """Per tensor its numbers, counted through."""
    found, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape, dtype=int))
        found[name] = torch.arange(start, start + size).reshape(shape)
        start += size
    return found, start


def sizes(shapes, side, line):
    return [(group.height, group.width, group.count) for group in cut(shapes, side, line)]


def test_chunks_by_hand():
    assert sizes({"a": (128, 192)}, 64, 64) == [(64, 64, 6)]
    assert sizes({"a": (100,), "s": ()}, 64, 64) == [(1, 1, 1), (1, 50, 2)]
    # Four parts of 257 would be longer than 64, so five.
    assert sizes({"a": (257, 64)}, 64, 64) == [(51, 64, 3), (52, 64, 2)]
    assert sizes({"a": (8, 3, 5, 5)}, 64, 64) == [(8, 37, 1), (8, 38, 1)]
    assert sizes({"a": (128, 192)}, 0, 4096) == [(1, 4096, 6)]
    assert sizes({"a": (1, 130), "b": (130, 1)}, 64, 64) == [(1, 43, 4), (1, 44, 2)]
    assert sizes({"a": (0, 5), "b": (3,)}, 64, 64) == [(1, 3, 1)]
    with pytest.raises(ValueError, match="hold none"):
        cut({"a": (0,)}, 64, 64)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=3), min_size=1, max_size=3),
    st.sampled_from([0, 4, 16]),
    st.integers(1, 30),
    st.sampled_from([1, 64, 1 << 18]),
)
def test_every_number_lies_in_one_chunk(dimensions, side, line, piece_size):
    shapes = {f"t{number}": tuple(shape) for number, shape in enumerate(dimensions)}
    tensors, total = numbered(shapes)
    if not total:
        return
    before, chunks.PIECE = chunks.PIECE, piece_size
    try:
        groups = cut(shapes, side, line)
        pieces = [list(group.pieces()) for group in groups]
    finally:
        chunks.PIECE = before
    seen = []
    for group, found in zip(groups, pieces, strict=True):
        table = np.full((group.count, group.size), -1)
        for piece in found:
            view = group.view(tensors[piece.region.name], piece)
            every = np.tile(np.arange(group.size), (piece.count, 1))
            numbers = view.reshape(-1).numpy()[group.flat(piece, every)]
            flat = tensors[piece.region.name].reshape(-1).numpy()
            assert np.array_equal(flat[group.inside(piece, every)], numbers)
            start = 0
            for span in piece.spans:
                table[span] = numbers[start : start + span.stop - span.start]
                start += span.stop - span.start
            assert start == piece.count
        for region in group.regions:
            every = np.tile(np.arange(group.size), (region.whole.count, 1))
            flat = tensors[region.name].reshape(-1).numpy()[group.inside(region.whole, every)]
            assert np.array_equal(flat, table[region.whole.spans[0]])
        seen.append(table.reshape(-1))
        assert group.height <= max(1, side) and group.width <= (
            side if group.height > 1 else max(side, line)
        )
    assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(total))
