# SPDX-License-Identifier: Apache-2.0
"""A mined round in which one miner spoils what it hands on, and logs what it really sent.

Its payload, its losses and the rest of its log are what its own entries give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from eth_utils import keccak

from agents.mechanisms.boundary.parts.wire import HEADER_BYTES
from agents.pipeline.hand_over import Passage
from agents.pipeline.miner_log import Kind
from agents.rounds.inputs import RoundInputs
from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.mined_round import OTHER_CLASS, MinedRound, make_mined_round

Spoil = Callable[[Passage, bytes, int], bytes]
"""What is sent in place of a message; the number is that of messages spoilt before."""


def as_it_is(passage: Passage, message: bytes, number: int) -> bytes:
    return message


def at_random(passage: Passage, message: bytes, number: int) -> bytes:
    """Random numbers in the place of a code or a gradient in bf16."""
    values = np.random.default_rng(number).standard_normal((len(message) - HEADER_BYTES) // 2)
    body = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().tobytes()
    return message[:HEADER_BYTES] + body


def make_spoilt_round(
    store: EmbeddedStore, spoiler: int, spoil: Spoil, **changes: Any
) -> tuple[MinedRound, RoundInputs]:
    """The round, and what a verifier's checks of it start from. The spoiler, which comes first,
    states `OTHER_CLASS`; all others are honest. `changes`: fields of the spec."""
    told: dict[tuple[Kind, int], bytes] = {}

    def instead(passage: Passage, message: bytes) -> bytes:
        if passage.sender != spoiler:
            return message
        message = spoil(passage, message, len(told))
        told[passage.kind, passage.sample] = keccak(message)
        return message

    mined = make_mined_round(store, sent=instead, **changes)
    log = mined.works[spoiler].log
    events = [replace(e, digest_out=told.get((e.kind, e.number), e.digest_out)) for e in log.events]
    shown = replace(log, events=tuple(events))
    place: dict[str, Any] = {"trace": shown.to_bytes(), "root": shown.root()}
    liar = mined.submit(spoiler, determinism=OTHER_CLASS, **place)
    return mined, mined.inputs([liar, *mined.honest(without=(spoiler,))])
