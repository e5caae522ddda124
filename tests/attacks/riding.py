# SPDX-License-Identifier: Apache-2.0
"""Riders: nodes that train nothing and send a function of what everybody can read.

Rule: a rider knows every payload of the rounds before, the model and the rule that scores it. It
takes out of its direction what the rule takes out, stretches what is left to the norm that honest
nodes had left in the round before, and adds a fifth of that norm in noise, so that riders are no
copies of each other. It sends what the job's codec carries. `fitted` is the best of them: it looks
up in the rounds before which mix of all the directions came nearest to the honest updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from tests.stage.memory.public_rounds import PublicRound, Trajectory

HISTORY = 8
FIRST = 2  # round, from 0; before, nothing is known of what is left
NOISE = 0.2
_LOOK_BACK = 4
_RIDGE = 1e-2

Past = Sequence[PublicRound]  # newest first
Direction = Callable[[Past, Tensor], Tensor]  # the rounds before, the model


class Rests(Protocol):
    """What a scoring rule leaves of updates in one round."""

    def left(self, rows: Tensor) -> Tensor:
        """Of `rows` [k, n], as the rule compares them."""
        ...

    def back(self, rows: Tensor) -> Tensor:
        """Updates [k, n] of which `rows` are what is left."""
        ...


def decayed(rows: Sequence[Tensor]) -> Tensor:
    """The sum of 0.8^age * row, newest first."""
    return torch.stack([0.8**age * row for age, row in enumerate(rows)]).sum(0)


def merges(past: Past) -> Tensor:
    """The decayed sum of the newest merged updates."""
    return decayed([one.merged for one in past[:HISTORY]])


def means(past: Past) -> Tensor:
    """The decayed sum of the newest means of all payloads."""
    return decayed([last(one) for one in past[:HISTORY]])


def squares(past: Past) -> Tensor:
    """The decayed sum of the payloads' mean squares."""
    return decayed([one.sent.square().mean(0) for one in past[:HISTORY]])


def last(one: PublicRound) -> Tensor:
    """The mean of a round's payloads."""
    return one.sent.mean(0)


def root(row: Tensor) -> Tensor:
    """The square root of each magnitude, with its sign."""
    return row.sign() * row.abs().sqrt()


def _adam(row: Tensor, past: Past) -> Tensor:
    return row / (squares(past).sqrt() + 1e-12)


def _masked(past: Past, model: Tensor) -> Tensor:
    source = torch.Generator().manual_seed(len(past))
    return last(past[0]) * (torch.rand(model.shape, generator=source) < 0.01)


DIRECTIONS: dict[str, Direction] = {
    "decayed mean of merges": lambda past, model: merges(past),
    "merges older than history": lambda past, model: merges(past[HISTORY:] or past),
    "signs of the mean of merges": lambda past, model: merges(past).sign(),
    "cube of that mean": lambda past, model: merges(past) ** 3,
    "square root of it": lambda past, model: root(merges(past)),
    "the model": lambda past, model: -model,
    "mean of the last payloads": lambda past, model: last(past[0]),
    "its cube": lambda past, model: last(past[0]) ** 3,
    "its signs": lambda past, model: last(past[0]).sign(),
    "a random 1 % of it": _masked,
    "decayed mean of payloads": lambda past, model: means(past),
    "payloads older than history": lambda past, model: means(past[HISTORY:] or past),
    "cube of the mean of payloads": lambda past, model: means(past) ** 3,
    "square root of that": lambda past, model: root(means(past)),
    "difference of the two newest means": lambda past, model: last(past[0]) - last(past[1]),
    "product of two public directions": lambda past, model: merges(past) * means(past).abs(),
    "product with the model's squares": lambda past, model: means(past) * model.square(),
    "mean over root of mean squares": lambda past, model: _adam(means(past), past),
    "last mean over the same root": lambda past, model: _adam(last(past[0]), past),
    "mean times that root": lambda past, model: means(past) * squares(past).sqrt(),
    "median of the last payloads": lambda past, model: past[0].sent.median(0).values,
    "mean of half of the nodes": lambda past, model: past[0].sent[:5].mean(0),
    "decayed mean of half of the nodes": lambda past, model: decayed(
        [one.sent[:5].mean(0) for one in past[:HISTORY]]
    ),
    "mean of square roots": lambda past, model: root(past[0].sent).mean(0),
    "mean of signs": lambda past, model: past[0].sent.sign().mean(0),
}
FITTED, BY_TENSOR = "best mix in the rounds before", "the same, tensor by tensor"
QUARTER, HELPED = "a quarter of the steps", "the same, and the best mix"
KINDS = (*DIRECTIONS, FITTED, BY_TENSOR, QUARTER, HELPED)


class Field:
    """All riders in one trajectory under one rule, and what honest nodes have left beside them."""

    def __init__(self, made: Trajectory, rests: Sequence[Rests]) -> None:
        """`rests`: of the rule, by round; those before round 1 are not asked."""
        self._made = made
        self._rests = rests
        rows = [torch.cat([one.sent, one.quarter, one.half, one.twice]) for one in made.rounds]
        self._left = [
            rest.left(row) if number else row
            for number, (rest, row) in enumerate(zip(rests, rows, strict=True))
        ]
        self._usual = [float(left[:10].norm(dim=1).median()) for left in self._left]
        self._units: dict[tuple[str, int], Tensor] = {}
        self._mixes: dict[tuple[str, int], Tensor] = {}

    @property
    def rounds(self) -> range:
        """The rounds that are ridden."""
        return range(FIRST, len(self._left))

    def honest(self, number: int) -> Tensor:
        """What is left of a round's payloads [15, n]: of all ten, then of those that `PublicRound`
        holds besides."""
        return self._left[number]

    def past(self, number: int) -> Past:
        return self._made.rounds[:number][::-1]

    def sent(self, kind: str, number: int, riders: int) -> Tensor:
        """What riders send in a round [riders, n], as the codec carries it."""
        if kind in (QUARTER, HELPED):
            own = self._left[number][10:13][3 - riders :]
            rows = own / own.norm(dim=1, keepdim=True)
            if kind == HELPED:
                rows = rows + 0.7 * self._unit(self._mix(BY_TENSOR, number))
                rows = rows / rows.norm(dim=1, keepdim=True)
            rows = rows * self._usual[number - 1]
        else:
            row = self.direction(kind, number) * self._usual[number - 1]
            rows = torch.stack([row + self._noise(row, number, rider) for rider in range(riders)])
        back = self._rests[number].back(rows)
        return torch.stack([self._made.sendable(row) for row in back])

    def left(self, kind: str, number: int, riders: int) -> Tensor:
        """What the rule leaves of it."""
        return self._rests[number].left(self.sent(kind, number, riders))

    def direction(self, kind: str, number: int) -> Tensor:
        """What is left of a direction [n], of length 1; 0 if nothing is."""
        if kind in (FITTED, BY_TENSOR):
            return self._unit(self._mix(kind, number))
        if (kind, number) not in self._units:
            past, model = self.past(number), self._made.rounds[number].model
            row = DIRECTIONS[kind](past if len(past) > 1 else [*past, *past], model)
            self._units[kind, number] = self._unit(self._rests[number].left(row[None])[0])
        return self._units[kind, number]

    def _mix(self, kind: str, number: int) -> Tensor:
        if (kind, number) not in self._mixes:
            whole = slice(0, self._left[0].shape[1])
            pieces = self._made.tensors() if kind == BY_TENSOR else [whole]
            found = torch.cat([self._fit(number, piece) for piece in pieces])
            self._mixes[kind, number] = found
        return self._mixes[kind, number]

    def _fit(self, number: int, piece: slice) -> Tensor:
        """Ridge regression of what honest nodes had left on all directions, over past rounds."""
        count = len(DIRECTIONS)
        products, target = torch.zeros(count, count).double(), torch.zeros(count).double()
        for then in range(max(1, number - _LOOK_BACK), number):
            known = self._stack(then, piece)
            mean = self._left[then][:10, piece].mean(0).double() / self._usual[then]
            products += known @ known.T
            target += known @ mean
        ridge = float(_RIDGE * products.diagonal().mean()) + 1e-12
        weights = torch.linalg.solve(products + ridge * torch.eye(count).double(), target)
        return (weights @ self._stack(number, piece)).float()

    def _stack(self, number: int, piece: slice) -> Tensor:
        return torch.stack([self.direction(kind, number)[piece] for kind in DIRECTIONS]).double()

    @staticmethod
    def _unit(row: Tensor) -> Tensor:
        length = row.norm()
        return row / length if length > 0 else row

    def _noise(self, like: Tensor, number: int, rider: int) -> Tensor:
        source = torch.Generator().manual_seed(1000 * number + rider)
        row = torch.randn(like.shape, generator=source)
        return row * (NOISE * self._usual[number - 1] / row.norm())
