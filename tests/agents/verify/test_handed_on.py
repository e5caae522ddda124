# SPDX-License-Identifier: Apache-2.0
"""What a miner of another determinism class hands on: rounding passes, anything else is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from eth_utils import keccak
from torch import Tensor

from agents.mechanisms.boundary import Wire
from agents.pipeline.hand_over import Passage
from agents.pipeline.miner_log import Event, Kind
from agents.pipeline.stage import Passed
from agents.protocol.numbers import Violation
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined, fetch_mined
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.storage.sink import Sink
from agents.verify.handed_on import HandedOn, messages
from agents.verify.spot_checks import malformed, reexecute
from tests.stage.memory.honest_round import AUDIT_SEED, DEVICE
from tests.stage.memory.mined_round import (
    MINERS,
    PIPELINE,
    MinedRound,
    make_mined_job,
    stage_before,
)
from tests.stage.memory.other_machine import on_another_machine
from tests.stage.memory.spoilt_messages import Spoil, as_it_is, at_random, make_spoilt_round

NODE, FRIEND = 3, 5  # of the middle stage: it sends codes and gradients; of the first
F, B = Kind.FORWARD, Kind.BACKWARD
LIMIT = 0.005
FORMS = ["fp32", "bf16", "int8", "int4", "fp8", "fp6", "fp4"]
SHAPE = (2, 128, 16)


# -- one message ----------------------------------------------------------------------------------


@cache
def numbers() -> Tensor:
    """Like activations: tokens of different lengths, a few long channels."""
    source = torch.Generator().manual_seed(1)
    drawn = torch.randn(SHAPE, generator=source)
    return drawn * torch.rand(2, 128, 1, generator=source).exp() * torch.linspace(0.2, 3.0, 16)


def noise(share: float) -> Tensor:
    """As long as this share of the numbers."""
    drawn = torch.from_numpy(np.random.default_rng(2).standard_normal(SHAPE, dtype=np.float32))
    own = numbers()
    return drawn * (share * own.norm() / drawn.norm())


def said_of(form: str, told: Tensor | bytes, own: Tensor | None = None) -> str:
    wire, own = Wire(form), numbers() if own is None else own
    message = told if isinstance(told, bytes) else wire.pack(told)
    sent = HandedOn({(F, 7): message}, wire, Wire("fp32"), LIMIT)
    found = sent.wrong(Event(F, 7, bytes(32), keccak(message)), Passed(wire.pack(own), None, own))
    return "" if found is None else found.reason


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [0.0, 1e-6, 1e-4, LIMIT / 5])
def test_rounding_of_another_machine_passes(form: str, share: float) -> None:
    """Up to forty times as much as honest machines were seen to differ by in settled rounds."""
    assert said_of(form, numbers() + noise(share)) == ""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_largest_number_at_an_edge_may_come_out_on_either_side(form: str, sign: int) -> None:
    """A power of two for the whole message, or a scale for a token, turns with it."""
    for power in (1.0, 0.9999999, 448.0, 28.0, 7.5, 6.0, 127.5):
        own = numbers() / numbers().abs().max() * power
        assert said_of(form, own * (1 + sign * 1e-6), own) == ""
        assert said_of(form, -own * (1 + sign * 1e-6), -own) == ""


@pytest.mark.parametrize("form", FORMS)
def test_a_single_number_at_an_edge_passes_in_a_message_of_one_token(form: str) -> None:
    """There one step of the rounding is a large part of the message."""
    source = np.random.default_rng(3)
    for _ in range(50):
        own = torch.from_numpy(source.standard_normal((1, 1, 4), dtype=np.float32))
        near = own * torch.from_numpy(1 + 1e-5 * source.standard_normal(4, dtype=np.float32))
        assert said_of(form, near, own) == ""


SPOILT: dict[str, Callable[[], Tensor]] = {
    "random": lambda: noise(1.0),
    "nothing": lambda: torch.zeros(SHAPE),
    "the other way": lambda: -numbers(),
    "of another sample": lambda: numbers().roll(1, 0),
    "a twentieth longer": lambda: numbers() * 1.05,
    "noise of a tenth": lambda: numbers() + noise(0.1),
    "one token of another sample": lambda: torch.cat(
        (numbers()[:, :1].roll(1, 0), numbers()[:, 1:]), 1
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", SPOILT)
def test_anything_else_is_found(form: str, how: str) -> None:
    assert "of its length beyond what rounding makes" in said_of(form, SPOILT[how]())


@pytest.mark.parametrize("form", FORMS)
def test_bytes_that_are_no_message_are_found(form: str) -> None:
    assert "is no message" in said_of(form, Wire(form).pack(numbers())[:-1])


@pytest.mark.parametrize("form", FORMS)
def test_of_nothing_comes_nothing(form: str) -> None:
    zeros = torch.zeros(SHAPE)
    assert said_of(form, zeros, zeros) == ""
    assert "inf of its length" in said_of(form, numbers(), zeros)


def test_what_nobody_shows_is_not_compared() -> None:
    sent = HandedOn({}, Wire("bf16"), Wire("bf16"), LIMIT)
    assert sent.wrong(Event(F, 7, bytes(32), b"\5" * 32), Passed(b"own", None, numbers())) is None


# -- a round --------------------------------------------------------------------------------------


def spoilt(folder: Path, kind: Kind, spoil: Spoil) -> tuple[MinedRound, RoundInputs]:
    """Miner 3 spoils each message of a kind."""

    def of_kind(passage: Passage, message: bytes, number: int) -> bytes:
        return spoil(passage, message, number) if passage.kind is kind else message

    return make_spoilt_round(EmbeddedStore(folder / "store"), NODE, of_kind)


@pytest.mark.parametrize("kind", [F, B])
def test_who_hands_on_rubbish_and_logs_it_is_found_whatever_class_it_states(
    tmp_path: Path, kind: Kind
) -> None:
    """Its payload, its losses and its log are what its own entries give; its neighbours, who worked
    on what it sent, are right."""
    mined, inputs = spoilt(tmp_path, kind, at_random)
    assert malformed(inputs) == []
    finding = reexecute(inputs, NODE, DEVICE, mined.store)
    assert finding.violation is Violation.INVALID and "What it handed on" in finding.reason
    for node in MINERS:
        if node != NODE:
            assert reexecute(inputs, node, DEVICE, mined.store).violation is None


def test_what_it_would_have_been_had_it_been_honest_passes(tmp_path: Path) -> None:
    """The same miner that hands on what it made: right."""
    mined, inputs = spoilt(tmp_path, F, as_it_is)
    finding = reexecute(inputs, NODE, DEVICE, mined.store)
    assert finding.violation is None


def test_messages_are_those_that_neighbours_show_and_the_miner_logged(tmp_path: Path) -> None:
    mined, inputs = spoilt(tmp_path, F, at_random)
    assert mined.plan.epoch is not None
    liar, others = inputs.submissions[0], inputs.submissions[1:]
    found = messages(inputs, liar, mined.store)  # type: ignore[arg-type]
    logged = {(e.kind, e.number): e.digest_out for e in liar.log.events}  # type: ignore[union-attr]
    assert {place: keccak(message) for place, message in found.items()}.items() <= logged.items()
    received = [e for one in others for e in one.received if e.sender == NODE]  # type: ignore[attr-defined]
    assert len(found) == len(received) > 0
    assert messages(replace(inputs, submissions=[liar]), liar, mined.store) == {}  # type: ignore[arg-type]


def test_a_neighbour_that_takes_its_entries_down_shields_nobody(tmp_path: Path) -> None:
    """A patient verifier waits for them. Once time is short it judges by the others' entries."""
    mined, inputs = spoilt(tmp_path, B, at_random)
    friend = next(one for one in inputs.submissions if one.reveal.node == FRIEND)
    assert isinstance(friend, Mined) and friend.proof is not None
    assert any(entry.sender == NODE for entry in friend.received)

    class Without(EmbeddedStore):
        def stream(self, cid: str, sink: Sink, max_bytes: int) -> int:
            if friend.proof is not None and cid == friend.proof.inbox:
                raise NotFound("it is gone")
            return super().stream(cid, sink, max_bytes)

    store = Without(mined.store.root)
    with pytest.raises(NotFound):
        reexecute(inputs, NODE, DEVICE, store)
    finding = reexecute(replace(inputs, patient=False), NODE, DEVICE, store)
    assert finding.violation is Violation.INVALID


@pytest.mark.parametrize(
    "options",
    [{"width": 4}, {"width": 8, "code": "fp8", "gradient": "fp8"}],
    ids=["bf16", "fp8"],
)
def test_miners_of_another_machine_pass(tmp_path: Path, options: dict[str, Any]) -> None:
    """Real rounding: a process without vector instructions did the work of all miners."""
    spec: dict[str, Any] = {
        "pipeline": {**PIPELINE, "boundary_options": options},
        "batches_per_round": 40,
    }
    reveals = on_another_machine(tmp_path, spec)
    store = EmbeddedStore(tmp_path)
    tiny, plan = make_mined_job(store, **spec)
    assert plan.epoch is not None
    found = []
    for node in MINERS:
        stage = plan.epoch.stage_of(node)
        assert stage is not None
        place = reveals[node], tiny.job, store, plan, stage_before(tiny, stage), AUDIT_SEED
        found.append(fetch_mined(*place))
    assert [one.reason for one in found] == [""] * len(MINERS)
    mined = MinedRound(store, tiny.published, tiny.job, tiny.before, plan, {})
    inputs = mined.inputs(found)
    assert malformed(inputs) == []
    for node in MINERS:
        finding = reexecute(inputs, node, DEVICE, store)
        assert finding.violation is None, finding.reason
