# SPDX-License-Identifier: Apache-2.0
"""Inner products of payloads as exact integers, so that all machines get the same ones.

A floating-point Gram matrix depends on the BLAS, its thread count and its use of FMA, and where
payloads are close to one another its differences are mostly rounding. Here each payload is rounded
once, elementwise, to integers q with |q| <= 2^19 times a power of two; everything after that is
exact. A float64 product of at most 2^14 columns of such integers sums at most 2^14 terms of at most
2^38, so every partial sum in any order is an integer below 2^53 and no rounding can happen, fused
or not. Those sums are added as integers.

What the one rounding costs: payloads share a step unless one's largest magnitude is over twice the
median one's, so two payloads whose difference is large beside the step keep their distance. If the
payloads lie so close together that the step could matter, they are read a second time, as
differences from the payload in their middle, which makes the step as small as their spread. That
centre is chosen from exact integers too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agents.mechanisms.merge.parts import native, passes
from agents.mechanisms.rows import Payload, check, chunks

WIDTH = 1 << 14
_BITS = 19
# The finest step. Above it a scale is a normal fp32 number, and subnormal inputs, which some
# devices flush to zero, round to zero everywhere.
_FINEST = -120
# int64 sums of blocks (each at most 2^52) are moved to Python integers before they can overflow.
_BLOCKS = 512
# Payloads are read again when this many squared steps per coordinate exceed their squared distance:
# the step is then more than 1/1024 of the difference in a typical coordinate.
_CLOSE = 1 << 20

Integers = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Gram:
    """Inner products <x_i, x_j> = products[i][j] * 2^exponent of n payloads, exact integers."""

    products: Integers
    exponent: int

    @property
    def count(self) -> int:
        """The number of payloads, n."""
        return len(self.products)

    def distances(self) -> Integers:
        """Squared Euclidean distances, n by n, in units of 2^exponent; exact and never negative."""
        own = [self.products[index][index] for index in range(self.count)]
        return tuple(
            tuple(own[row] + own[column] - 2 * value for column, value in enumerate(values))
            for row, values in enumerate(self.products)
        )


def gram(payloads: Sequence[Payload]) -> Gram:
    """The Gram matrix of `payloads` (n fp32 dicts of equal names and shapes), read chunk by chunk.

    Memory beyond the input: 12 n WIDTH bytes. Equal on every machine, device and thread count, and
    independent of how the coordinates are split into tensors. ValueError for an empty or mixed
    input and for a value that is not finite.
    """
    check(payloads)
    return _read(payloads, _largest(payloads), [0] * len(payloads))


def gram_of_scaled(payloads: Sequence[Payload], powers: Sequence[int]) -> Gram:
    """`gram` of payloads times 2^-power each, which takes every largest magnitude into [0.5, 1).

    They are neither checked nor copied: the power of two goes into the factor by which a number is
    rounded to an integer. What underflows on the way would have been rounded to 0.
    """
    return _read(payloads, [0.5] * len(payloads), powers)


def _read(payloads: Sequence[Payload], largest: Sequence[float], powers: Sequence[int]) -> Gram:
    """The Gram matrix of payloads times 2^-power, whose largest magnitudes after that are given."""
    steps = _steps(largest)
    coarse = _measure(payloads, steps, None, powers)
    elements = sum(tensor.numel() for tensor in payloads[0].values())
    distances = coarse.distances()
    centre, spread = middle(distances)
    squared_step = 1 << 2 * (sorted(steps)[(len(steps) - 1) // 2] - min(steps))
    if not 0 < spread < elements * squared_step * _CLOSE:
        return coarse
    if any(powers):  # differences are of scaled numbers
        payloads = [_Scaled(one, 2.0**-power) for one, power in zip(payloads, powers, strict=True)]
    finer = _steps(_largest(payloads, centre))
    if sorted(finer) >= sorted(steps):
        return coarse
    return _moved(coarse, _measure(payloads, finer, centre), centre)


class _Scaled(Mapping[str, Tensor]):
    """A payload times a power of two, one tensor at a time."""

    def __init__(self, payload: Payload, factor: float) -> None:
        self._payload = payload
        self._factor = factor

    def __getitem__(self, name: str) -> Tensor:
        return self._payload[name] * self._factor

    def __iter__(self) -> Iterator[str]:
        return iter(self._payload)

    def __len__(self) -> int:
        return len(self._payload)


def middle(distances: Integers) -> tuple[int, int]:
    """The payload whose median squared distance to the others is least, and that distance.

    With fewer than n / 2 liars it lies within two honest diameters of an honest payload, however
    far away the liars are. Ties go to the lower index; (0, 0) for a single payload.
    """
    best = (0, 0)
    for index, row in enumerate(distances):
        others = sorted(row[:index] + row[index + 1 :]) or [0]
        half = others[(len(others) - 1) // 2]
        if index == 0 or half < best[1]:
            best = (index, half)
    return best


def _largest(payloads: Sequence[Payload], centre: int | None = None) -> list[float]:
    """Largest magnitude of each payload, or of its fp32 difference from payload `centre`."""
    largest = _largest_natively(payloads, centre) or _largest_by_library(payloads, centre)
    for index, value in enumerate(largest):
        if not math.isfinite(value):
            raise ValueError(
                f"Payload {index} holds a value that is not finite, or one so large that its "
                "difference from another payload is not; such payloads can't be merged."
            )
    return largest


def _largest_natively(payloads: Sequence[Payload], centre: int | None) -> list[float] | None:
    passes.CODE.ask(len(payloads) * sum(tensor.numel() for tensor in payloads[0].values()))
    most = torch.zeros(len(payloads))
    for name in payloads[0]:
        rows = [payload[name].detach().reshape(-1) for payload in payloads]
        found = passes.largest(rows, centre)
        if found is None:
            return None
        most = torch.maximum(most, torch.tensor(found))  # of a NaN and a number the NaN
    return most.tolist()


def _largest_by_library(payloads: Sequence[Payload], centre: int | None) -> list[float]:
    found: list[list[Tensor]] = [[] for _ in payloads]
    for _, _, rows in chunks(payloads, 1 << 20 if centre is None else WIDTH):
        for index, row in enumerate(rows):
            values = row if centre is None else row - rows[centre]
            found[index].extend(torch.aminmax(values))
    return [torch.stack(values).abs().max().item() if values else 0.0 for values in found]


def _steps(largest: Sequence[float]) -> list[int]:
    """Exponent of each payload's step: q = x / 2^step, rounded, has |q| <= 2^19."""
    # frexp: value = mantissa * 2^power with mantissa in [0.5, 1).
    powers = [math.frexp(value)[1] if value else -1000 for value in largest]
    shared = sorted(powers)[(len(powers) - 1) // 2] + 1
    return [max(_FINEST, max(power, shared) - _BITS) for power in powers]


def _measure(
    payloads: Sequence[Payload],
    steps: Sequence[int],
    centre: int | None,
    powers: Sequence[int] | None = None,
) -> Gram:
    """The exact Gram matrix of the rounded payloads minus payload `centre`, if given; or of the
    payloads times 2^-power each."""
    count, least = len(payloads), min(steps)
    whole = [step + power for step, power in zip(steps, powers or [0] * count, strict=True)]
    totals = _natively(payloads, whole, centre) or _by_library(payloads, whole, centre)
    return Gram(
        products=tuple(
            tuple(
                totals[min(row, column)][max(row, column)]
                << (steps[row] - least + steps[column] - least)
                for column in range(count)
            )
            for row in range(count)
        ),
        exponent=2 * least,
    )


def _natively(
    payloads: Sequence[Payload], steps: Sequence[int], centre: int | None
) -> list[list[int]] | None:
    """Sums of integer products, the upper right half of n by n, where `native` can take them."""
    count = len(payloads)
    native.CODE.ask(count * sum(tensor.numel() for tensor in payloads[0].values()))
    totals = [[0] * count for _ in range(count)]
    for name in sorted(payloads[0]):
        rows = [payload[name].detach().reshape(-1) for payload in payloads]
        found = native.inner_products(rows, _scales(steps), centre)
        if found is None:
            return None
        _add(totals, found)
    return totals


def _by_library(
    payloads: Sequence[Payload], steps: Sequence[int], centre: int | None
) -> list[list[int]]:
    """Sums of integer products, n by n."""
    count = len(payloads)
    totals = [[0] * count for _ in range(count)]
    blocks: list[Tensor] = []

    def flush() -> None:
        if blocks:
            _add(totals, torch.stack(blocks).to(torch.int64).sum(0).tolist())
            blocks.clear()

    rounder: _Rounder | None = None
    for _, _, rows in chunks(payloads, WIDTH):
        rounder = rounder or _Rounder(steps, rows[0].device)
        blocks.append(_product(rounder(rows, centre)))
        if len(blocks) == _BLOCKS:
            flush()
    flush()
    return totals


def _product(integers: Tensor) -> Tensor:
    """float64 [n, width] times its transpose."""
    if integers.device.type != "cpu":
        return integers @ integers.t()
    # numpy sees that it is symmetric and does half the work, whatever branch MKL was told to take.
    table = integers.numpy()
    return torch.from_numpy(table @ table.T)


def _add(totals: list[list[int]], sums: Sequence[Sequence[int]]) -> None:
    for total, row in zip(totals, sums, strict=True):
        total[:] = [old + new for old, new in zip(total, row, strict=True)]


def _scales(steps: Sequence[int]) -> list[float]:
    return [2.0**-step for step in steps]


class _Rounder:
    """Rounds chunks to integers, with scratch memory reused from call to call."""

    def __init__(self, steps: Sequence[int], device: torch.device) -> None:
        scales = torch.tensor(_scales(steps), dtype=torch.float32, device=device)
        self._scales = scales.unsqueeze(1)
        size = len(steps) * WIDTH
        self._narrow = torch.empty(size, dtype=torch.float32, device=device)
        self._wide = torch.empty(size, dtype=torch.float64, device=device)

    def __call__(self, rows: Sequence[Tensor], centre: int | None) -> Tensor:
        """Integers as float64 [n, width]; a view of scratch memory, overwritten by the next call.

        Scaling by a power of two and rounding half to even are exact and correctly rounded fp32
        operations, as is the difference from the centre, so the integers are the same everywhere.
        """
        shape = (len(rows), rows[0].numel())
        narrow = self._narrow[: shape[0] * shape[1]].view(shape)
        wide = self._wide[: shape[0] * shape[1]].view(shape)
        if narrow.device.type == "cpu":
            # By numpy: torch's threads would wait for one another after each short operation.
            table = narrow.numpy()
            np.stack([row.detach().numpy() for row in rows], out=table)
            if centre is not None:
                np.subtract(table, table[centre].copy(), out=table)
            np.multiply(table, self._scales.numpy(), out=table)
            np.rint(table, out=table)
            np.copyto(wide.numpy(), table)
            return wide
        torch.stack(list(rows), out=narrow)
        if centre is not None:
            narrow.sub_(narrow[centre].clone())
        narrow.mul_(self._scales).round_()
        return wide.copy_(narrow)


def _moved(coarse: Gram, fine: Gram, centre: int) -> Gram:
    """Inner products about the origin whose distances are those of `fine`, taken about `centre`.

    <x_i, x_j> = <x_i - c, x_j - c> + <x_i, c> + <c, x_j> - <c, c>; the last three come from
    `coarse` and cancel in every distance.
    """
    least = min(coarse.exponent, fine.exponent)
    far, near = coarse.exponent - least, fine.exponent - least
    to_centre = [value << far for value in coarse.products[centre]]
    products = tuple(
        tuple(
            (value << near) + to_centre[row] + to_centre[column] - to_centre[centre]
            for column, value in enumerate(values)
        )
        for row, values in enumerate(fine.products)
    )
    return Gram(products, least)
