# SPDX-License-Identifier: Apache-2.0
"""The codec `directions`: beside a table of all of them, what is refused, what a bit is worth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec import SupportCodec
from agents.mechanisms.codec.parts.bits import from_bf16, to_bf16, wrap
from agents.mechanisms.codec.parts.container import ContainerError
from agents.mechanisms.codec.parts.vector import signs
from tests.agents.mechanisms.codec.by_hand import SEED, bf16, low_first, packed

CELL, BASES = 16, 4
SHAPES = {"a": (5, 10), "few": (5,), "h": (4,)}  # of a the last cell has 2 of 16 numbers


def codec(**options):
    given = {"cell": CELL, "directions": CELL * BASES, "fine": "h", "fine_share": 1.0}
    return codecs.get("directions")(**{**given, **options})


def drawn(seed: int = 1) -> dict[str, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=source) for name, shape in SHAPES.items()}


def table() -> np.ndarray:
    """Every direction of a cell of `a`: [64, 16], made with another library's transform."""
    turns = signs(SEED, "directions a", (BASES - 1) * CELL).reshape(-1, CELL)
    return np.concatenate([np.eye(CELL), *(hadamard(CELL) * turn / 4 for turn in turns)])


def body(a: list[tuple[int, bool]], few: str = "000" * 2, scales=(1.0, 1.0, 0.0)) -> bytes:
    said = "".join(low_first(code + 64 * negative, 7) for code, negative in a)
    parts = zip(scales, (said, few, "0000"), strict=True)
    return wrap(b"".join(bf16(scale) + packed(bits) for scale, bits in parts))


def test_the_nearest_of_all_directions_is_named_and_decoded():
    sent = drawn()
    data = codec().encode(sent, None, SEED)
    got = codec().decode(data, SHAPES, SEED)
    cells = np.pad(sent["a"].numpy().reshape(-1), (0, 14)).reshape(4, CELL).astype(np.float64)
    lengths = cells @ table().T
    best = np.abs(lengths).argmax(axis=1)
    longest = lengths[np.arange(4), best]
    size = from_bf16(to_bf16(np.array([np.abs(longest).mean()])))[0]
    expected = (table()[best] * np.sign(longest)[:, None] * size).reshape(-1)[:50]
    assert set(best // CELL) != {0}
    assert got["a"].reshape(-1).numpy() == pytest.approx(expected, rel=1e-6)


def test_of_a_tensor_of_few_numbers_the_largest_are_named():
    """Five numbers: cells of four and of one."""
    sent = {**drawn(), "few": torch.tensor([1.0, -3.0, 0.0, 2.0, 1.0])}
    got = codec().decode(codec().encode(sent, None, SEED), SHAPES, SEED)
    assert got["few"].tolist() == [0, -2, 0, 0, 2]


def test_a_tensor_named_by_fine_is_sent_by_signs():
    sent = {**drawn(), "h": torch.tensor([1.0, -1.0, 0.5, -1.5])}
    got = codec().decode(codec().encode(sent, None, SEED), SHAPES, SEED)
    assert got["h"].tolist() == [1, -1, 1, -1]


def test_what_is_not_said_is_kept():
    sent = drawn()
    got = codec().decode(codec().encode(sent, None, SEED), SHAPES, SEED)
    left = codec(decay=0.5).remember(sent, None, got)
    assert torch.equal(left["a"], (sent["a"] - got["a"]) * 0.5)


def test_a_number_of_its_own_is_named_where_it_is_most():
    sent = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    sent["a"].view(-1)[[3, 20, 40, 49]] = torch.tensor([2.0, -2.0, 2.0, -2.0])
    got = codec().decode(codec().encode(sent, None, SEED), SHAPES, SEED)
    assert torch.equal(got["a"], sent["a"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (body([(0, False)] * 4, "000100", (1.0, 0.0, 0.0)), "scale of 'few' is 0"),
        (body([(0, False)] * 3 + [(2, False)]), "'a' names a number past the end of only 50"),
        (body([(0, False)] * 4, "000100"), "number 5 of only 5"),
        (body([(0, False)] * 4, scales=(-1.0, 1.0, 0.0)), "negative, not finite"),
    ],
)
def test_other_spellings_are_refused(data, message):
    with pytest.raises(ContainerError, match=message):
        codec().decode(data, SHAPES, SEED)


def test_a_place_past_the_end_is_no_nearer_than_any():
    data = body([(0, False)] * 3 + [(2, False)])
    with pytest.raises(ContainerError, match="past the end"):
        codec().least_change(drawn(), None, data, SEED)


def test_a_direction_of_the_last_cell_goes_past_its_end():
    """Only its own numbers are in the tensor; the last number of a named place is."""
    got = codec().decode(body([(0, False)] * 3 + [(1, True)]), SHAPES, SEED)
    assert got["a"].view(-1)[[0, 16, 32, 49]].tolist() == [1, 1, 1, -1]
    got = codec().decode(body([(63, False)] * 4), SHAPES, SEED)
    assert got["a"].abs().unique().tolist() == [0.25]


def test_each_node_draws_its_own_signs_and_cells():
    shapes = {"a": (64, 64)}
    sent = {"a": torch.randn(shapes["a"], generator=torch.Generator().manual_seed(2))}
    made = codecs.get("directions")(cell=64, directions=1024, share=0.25)
    decoded = []
    for number in range(16):
        seed = bytes([number]) * 32
        data = made.encode(sent, None, seed)
        assert len(data) == made.wire_size(shapes)
        decoded.append(made.decode(data, shapes, seed)["a"])
        assert torch.count_nonzero(decoded[-1].view(64, 64).any(dim=1)) == 16
    assert torch.stack(decoded).any(dim=0).float().mean() > 0.9
    assert not isinstance(made, SupportCodec)


@pytest.mark.parametrize("size", [1e30, 3e38])
def test_sums_beyond_the_largest_number_are_refused(size):
    sent = {**drawn(), "a": torch.full(SHAPES["a"], size)}
    with pytest.raises(ValueError, match="far too large for the directions codec"):
        codec().encode(sent, None, SEED)


def test_a_bit_says_more_of_gaussian_numbers_than_one_of_cells():
    """Of their mean square, less the error's, at equal bytes."""
    shapes = {"a": (512, 512)}
    sent = {"a": torch.randn(shapes["a"], generator=torch.Generator().manual_seed(3))}
    worth, sizes = {}, set()
    for name, options in (("cells", {"cell": 64}), ("directions", {})):
        made = codecs.get(name)(**options)
        data = made.encode(sent, None, SEED)
        got = made.decode(data, shapes, SEED)["a"].double()
        worth[name] = float((2 * got * sent["a"] - got * got).sum()) / (8 * len(data))
        sizes.add(len(data))
    assert len(sizes) == 1
    assert worth["cells"] == pytest.approx(0.95, abs=0.02)
    assert worth["directions"] == pytest.approx(1.05, abs=0.02)
