# SPDX-License-Identifier: Apache-2.0
"""Trains honestly and sends something else: the attack that CHEAT_ATTACK names.

    sign_flip   the update, reversed
    blow_up     the update, reversed and a thousand times as long
    inflate     the update, a hundred times as long, to outweigh all others in a mean
    noise       random numbers of the update's norm
    alie        the update, every number lowered by a little: a lone node's "A Little Is Enough"
                (Baruch et al., NeurIPS 2019), with the spread of its own numbers in place of the
                spread between nodes, which it can't see before it has to commit

Trace and proof are those of the honest work; what gives it away is that the payload is not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import torch

from agents.runtime.context import Context
from agents.storage.content_store import ContentStore
from agents.storage.several import open_stores
from agents.trainer import Trainer
from agents.training.norms import norm
from agents.training.state import State

ATTACK = "CHEAT_ATTACK"
_BLOW_UP = 1000.0
_INFLATE = 100.0
_ALIE_SHIFT = 0.5  # in root mean squares of each tensor


def sign_flip(update: State) -> State:
    """Minus the update."""
    return {name: -tensor for name, tensor in update.items()}


def blow_up(update: State) -> State:
    """Minus the update, times 1000."""
    return {name: -_BLOW_UP * tensor for name, tensor in update.items()}


def inflate(update: State) -> State:
    """The update, times 100."""
    return {name: _INFLATE * tensor for name, tensor in update.items()}


def noise(update: State) -> State:
    """Fresh Gaussian numbers with the update's norm."""
    draw = np.random.default_rng()
    drawn = {
        name: torch.from_numpy(draw.standard_normal(tuple(tensor.shape)).astype(np.float32))
        for name, tensor in update.items()
    }
    factor = norm(update) / norm(drawn)
    return {name: tensor * factor for name, tensor in drawn.items()}


def alie(update: State) -> State:
    """The update minus half of each tensor's root mean square, in every coordinate."""
    return {
        name: tensor - _ALIE_SHIFT * tensor.square().mean().sqrt()
        for name, tensor in update.items()
    }


ATTACKS: Mapping[str, Callable[[State], State]] = MappingProxyType(
    {
        "sign_flip": sign_flip,
        "blow_up": blow_up,
        "inflate": inflate,
        "noise": noise,
        "alie": alie,
    }
)


class Poisoner(Trainer):
    """Wants the model worse."""

    def __init__(self, context: Context, store: ContentStore) -> None:
        """ValueError if CHEAT_ATTACK names no attack."""
        super().__init__(context, store)
        name = os.environ.get(ATTACK, "")
        if name not in ATTACKS:
            raise ValueError(f"{ATTACK} is {name!r}; set it to one of {', '.join(ATTACKS)}.")
        self._attack = ATTACKS[name]

    def outgoing(self, update: State, memory: State | None) -> State:
        """The attack in place of the update."""
        return self._attack(update)


def build(context: Context) -> Poisoner:
    """The cheat of a started agent."""
    return Poisoner(context, open_stores(context.settings.store))
