# SPDX-License-Identifier: Apache-2.0
"""Gradient and memory are added, transformed and searched a piece at a time.

So no array as large as the model is made. The buffers of one piece are used for all pieces, because
the page faults of a fresh allocation cost more time than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.codec.parts import native
from agents.mechanisms.codec.parts.chunks import Group, Piece
from agents.mechanisms.codec.parts.container import Payload
from agents.mechanisms.codec.parts.largest import largest

# (chunks, block) -> the transformed chunks, in the buffer or new: contiguous fp32 [down, height,
# across, width]. The chunks may be a view of a tensor, or the buffer.
Transform = Callable[[Tensor, Tensor], Tensor]


class Source:
    """The sum of a gradient and a codec's memory, to be read in pieces."""

    def __init__(self, gradient: Payload, memory: Payload | None, codec: str) -> None:
        """fp32 dicts on any device; ValueError, naming the codec, if a tensor is not fp32."""
        for name, tensor in gradient.items():
            if tensor.dtype != torch.float32:
                raise ValueError(
                    f"Tensor {name!r} is {tensor.dtype}; the {codec} codec needs float32."
                )
        self._gradient = {name: _plain(tensor) for name, tensor in gradient.items()}
        self._memory = None if memory is None else {n: _plain(memory[n]) for n in gradient}
        self._numbers, self._marks = torch.empty(2, 0), np.empty(0, np.bool_)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the gradient's tensors."""
        return {name: tuple(tensor.shape) for name, tensor in self._gradient.items()}

    def largest(
        self, group: Group, sent: int, transform: Transform | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Places, ascending, and values of the `sent` largest of each chunk: [count, sent] each.

        ValueError if a number is NaN or infinite.
        """
        places = np.empty((group.count, sent), np.int64)
        values = np.empty((group.count, sent), np.float32)
        native.CODE.ask(group.count * group.size)
        library = native.CODE.get()
        for piece in self._pieces(group, transform, library is not None):
            chunks, more = self._chunks(group, piece, transform)
            if library is not None:
                found, numbers = native.largest_of(library, chunks, more, sent)
            else:
                found, numbers = self._searched(group, piece, sent, chunks, more)
            start = 0
            for span in piece.spans:
                stop = start + span.stop - span.start
                places[span], values[span] = found[start:stop], numbers[start:stop]
                start = stop
        return places, values

    def at(self, group: Group, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The sum's numbers at places of each chunk: [count, k] each."""
        found = np.empty(places.shape, np.float32)
        for region in group.regions:
            (chunks,) = region.whole.spans
            inside = group.inside(region.whole, places[chunks])
            found[chunks] = self._gradient[region.name].numpy().reshape(-1)[inside]
            if self._memory is not None:
                found[chunks] += self._memory[region.name].numpy().reshape(-1)[inside]
        return found

    def _pieces(self, group: Group, transform: Transform | None, native: bool) -> Iterable[Piece]:
        """As much at once as is worked on together: buffers stay in a cache. C++ has none."""
        if transform is not None:
            return group.pieces()
        return (region.whole for region in group.regions) if native else group.pieces(2)

    def _chunks(
        self, group: Group, piece: Piece, transform: Transform | None
    ) -> tuple[Tensor, Tensor | None]:
        """The piece's chunks, and what is to be added to them; nothing is once transformed."""
        name = piece.region.name
        chunks = group.view(self._gradient[name], piece)
        more = None if self._memory is None else group.view(self._memory[name], piece)
        if transform is None:
            return chunks, more
        block = self._scratch(piece.count * group.size)[0].view(chunks.shape)
        if more is not None:
            chunks = torch.add(chunks, more, out=block)
        return transform(chunks, block), None

    def _searched(
        self, group: Group, piece: Piece, sent: int, chunks: Tensor, more: Tensor | None
    ) -> native.Found:
        """The piece's largest numbers by a library's operations."""
        block, magnitudes, marks = self._scratch(piece.count * group.size)
        if more is not None:
            chunks = torch.add(chunks, more, out=block.view(chunks.shape))
        table = magnitudes.view(piece.down, piece.across, group.height, group.width)
        torch.abs(chunks.permute(0, 2, 1, 3), out=table)
        found = largest(magnitudes.view(piece.count, group.size), sent, marks)
        if chunks.is_contiguous():
            return found, chunks.numpy().reshape(-1)[group.flat(piece, found)]
        place = group.inside(piece, found)
        return found, self._gradient[piece.region.name].numpy().reshape(-1)[place]

    def _scratch(self, size: int) -> tuple[Tensor, Tensor, NDArray[np.bool_]]:
        if self._marks.size < size:
            self._numbers, self._marks = torch.empty(2, size), np.empty(size, np.bool_)
        block, magnitudes = self._numbers[:, :size]
        return block, magnitudes, self._marks


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()
