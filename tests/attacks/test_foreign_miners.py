# SPDX-License-Identifier: Apache-2.0
"""A miner of a pipeline that spoils what it hands on, and states another determinism class.

It does its own work, so its payload, its losses and its log are what its entries give. Within a
class the log's digests say what it handed on. Across classes they say nothing, since rounding
gives others; there its neighbours' entries are compared (`agents.verify.handed_on`). No chain is
needed. Amounts are those of `test_pipeline.py`: 40 ZOO an epoch, half of which is what the work
costs, and a fifth of 1,000 ZOO for INVALID. `pytest -s` prints profits.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from agents.mechanisms.boundary.parts.wire import HEADER_BYTES
from agents.pipeline.hand_over import Passage
from agents.pipeline.miner_log import Kind
from agents.protocol.numbers import Violation
from agents.rounds.inputs import RoundInputs
from agents.storage.embedded import EmbeddedStore
from agents.verify import handed_on
from agents.verify.spot_checks import malformed, reexecute
from tests.stage.memory.honest_round import DEVICE
from tests.stage.memory.mined_round import OTHER_CLASS, MinedRound
from tests.stage.memory.miners_pot import PAY, SLASH, won
from tests.stage.memory.spoilt_messages import (
    Spoil,
    as_it_is,
    at_random,
    make_spoilt_round,
)

SPOILER, FRIEND = 3, 5  # of the middle stage; of the first, which gets gradients from it


def the_other_way(passage: Passage, message: bytes, number: int) -> bytes:
    """Gradients that lead uphill, as long as the true ones; codes as they are."""
    if passage.kind is Kind.FORWARD:
        return message
    body = np.frombuffer(message[HEADER_BYTES:], "<u2") ^ np.uint16(0x8000)
    return message[:HEADER_BYTES] + body.tobytes()


def one_in_five(passage: Passage, message: bytes, number: int) -> bytes:
    return at_random(passage, message, number) if number % 5 == 0 else message


def spoilt(folder: Path, spoil: Spoil, samples: int = 24) -> tuple[MinedRound, RoundInputs]:
    store = EmbeddedStore(folder / "store")
    return make_spoilt_round(store, SPOILER, spoil, batches_per_round=samples)


def verdicts(mined: MinedRound, inputs: RoundInputs) -> dict[int, Violation | None]:
    assert malformed(inputs) == []
    return {n: reexecute(inputs, n, DEVICE, mined.store).violation for n in mined.works}


def loss(mined: MinedRound) -> float:
    """Mean of all samples of the epoch, nats a token."""
    told = [loss for work in mined.works.values() for _, loss in work.losses]
    return statistics.fmean(told) / 1e6


@pytest.mark.parametrize("spoil", [at_random, the_other_way, one_in_five])
def test_a_foreign_miner_that_spoils_what_it_hands_on__loses_its_pay_and_is_slashed(
    tmp_path: Path, spoil: Spoil
) -> None:
    """Control: digests alone find nobody. It is paid for honest work on its own weights, and what
    the others learn is spoilt."""
    mined, inputs = spoilt(tmp_path, spoil)
    right = dict.fromkeys(mined.works)
    with mock.patch.object(handed_on, "messages", return_value={}):
        assert verdicts(mined, inputs) == right
    how = spoil.__name__.replace("_", " ")
    assert won(f"spoils messages ({how}) in another class, by digests alone", 0.0) == 0
    assert verdicts(mined, inputs) == right | {SPOILER: Violation.INVALID}
    assert won(f"spoils messages ({how}) in another class", -PAY - SLASH) < 0


def test_what_it_spoils__is_what_others_learn(tmp_path: Path) -> None:
    """Half of the samples pass through it."""
    honest, _ = spoilt(tmp_path / "honest", as_it_is, 60)
    random, _ = spoilt(tmp_path / "random", at_random, 60)
    print(
        f"loss of the epoch: honest {loss(honest):.3f}, half of the codes random {loss(random):.3f}"
    )
    assert loss(random) > loss(honest)


def test_honest_neighbours_of_a_spoiler__stand_also_where_they_state_another_class(
    tmp_path: Path,
) -> None:
    """They worked on what it signed, and handed that on."""
    mined, inputs = spoilt(tmp_path, at_random)
    foreign = [
        one
        if one.reveal.node == SPOILER
        else mined.submit(one.reveal.node, determinism=OTHER_CLASS)
        for one in inputs.submissions
    ]
    found = verdicts(mined, replace(inputs, submissions=foreign))
    assert {node for node, violation in found.items() if violation} == {SPOILER}


def test_a_friend_that_hides_its_entries__is_unpaid_and_hides_no_other_message(
    tmp_path: Path,
) -> None:
    """What the friend received can't be compared then. Who shows no entries is not paid, and what
    the spoiler sent to others is found."""
    mined, inputs = spoilt(tmp_path, at_random)
    left = [one for one in inputs.submissions if one.reveal.node != FRIEND]
    finding = reexecute(replace(inputs, submissions=left), SPOILER, DEVICE, mined.store)
    assert finding.violation is Violation.INVALID
