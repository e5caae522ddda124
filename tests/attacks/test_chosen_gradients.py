# SPDX-License-Identifier: Apache-2.0
"""A miner sends back a gradient whose sums are nothing but rounding.

Rows that begin with one token have one code at the first place, for it sees nothing before it. A
gradient of u, u/2 and -3u/2 there sums to zero in every weight of the receiver's stage, but for
rounding; and u may be so large that this rounding outweighs the honest gradients of the step. The
receiver works honestly. What it makes is what its own machine's rounding makes of it, and by
tolerances a verifier of another class finds it wrong. So its friend among the verifiers would earn
the finder's part of an honest miner's stake.

The defence (`agents.verify.rounding`): the verifier sees that rounding decides this, finds nobody
wrong for it, and looks at who sent the receiver anything. Its own work then shows the gradient to
be none. A miner that has a friend send it such a gradient, to be excused for work that it did not
do, is judged up to this gradient, and its friend is slashed in its place.

`python -m tests.attacks.test_chosen_gradients FOLDER SPEC` is the miners' process.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from eth_utils import keccak
from torch import Tensor

from agents.pipeline.hand_over import Passage, most_sent
from agents.pipeline.miner_log import Kind
from agents.protocol.numbers import Violation
from agents.rounds.inputs import RoundInputs
from agents.storage.embedded import EmbeddedStore
from agents.verify import miners
from agents.verify.spot_checks import Finding, malformed, reexecute, suspects_by_findings
from tests.attacks.test_pipeline import PAY, SLASH, won
from tests.stage.memory.honest_round import DEVICE, TinyJob
from tests.stage.memory.mined_round import (
    MINERS,
    PIPELINE,
    MinedRound,
    make_mined_job,
    work_through,
)
from tests.stage.memory.other_machine import SLOW, answer, asked, on_another_machine
from tests.stage.memory.spoilt_messages import at_random

BATCH, SEQ = 12, 16
F, B = Kind.FORWARD, Kind.BACKWARD
CHEAT, VICTIM = 3, 5  # of the middle stage; of the first, which gets gradients from it
HOW = ["honest", "chosen", "chosen, and the receiver lied before"]
ELSEWHERE = SLOW | {"MKL_CBWR": "" if os.environ.get("MKL_CBWR") else "COMPATIBLE"}
"""Products are rounded otherwise there than here, too."""


def spec(inner: str) -> dict[str, Any]:
    optimizer: dict[str, Any] = {"batch_size": BATCH, "seq_len": SEQ, "lr": 1e-2}
    if inner == "muon":
        optimizer |= {"inner": "muon", "inner_options": {"lr_ratio": 3.0}}
    return {"pipeline": PIPELINE, "optimizer": optimizer, "batches_per_round": 4}


def chosen(tiny: TinyJob, sample: int, most: float) -> bytes:
    """Nothing but at the first place of three rows that begin alike."""
    tokens: Tensor = tiny.job.data.batch(sample)[:, 0]
    token = tokens.mode().values
    rows = torch.nonzero(tokens == token).flatten()[:3]
    assert len(rows) == 3, "no three rows of the sample begin alike"
    slices = tiny.job.slices
    assert slices is not None
    values = torch.zeros(slices.code_shape(BATCH, SEQ))
    own = torch.tensor([1.0, -0.75, 0.625, 0.5]) * most / 2
    for row, share in zip(rows, (1.0, 0.5, -1.5), strict=True):
        values[row, 0] = share * own
    return slices.boundary.gradients.pack(values)


def played(store: EmbeddedStore, fields: dict[str, Any], how: str) -> MinedRound:
    """All miners' work. Who sends another message than it made logs what it sent."""
    tiny, plan = make_mined_job(store, **fields)
    epoch = plan.epoch
    assert epoch is not None
    told: dict[tuple[int, Kind, int], bytes] = {}

    def sent(passage: Passage, message: bytes) -> bytes:
        way = passage.sender, passage.kind
        first = all((node, kind) != way for node, kind, _ in told)
        if how != HOW[0] and first and way == (CHEAT, B) and passage.receiver == VICTIM:
            message = chosen(tiny, passage.sample, most_sent(epoch, B, CHEAT))
        elif how == HOW[2] and first and way == (VICTIM, F):
            message = at_random(passage, message, 0)
        else:
            return message
        told[*way, passage.sample] = keccak(message)
        return message

    works = work_through(tiny, plan, (), sent)
    for node, work in works.items():
        log = work.log
        events = tuple(
            replace(e, digest_out=told.get((node, e.kind, e.number), e.digest_out))
            for e in log.events
        )
        works[node] = replace(work, log=replace(log, events=events))
    return MinedRound(store, tiny.published, tiny.job, tiny.before, plan, works)


def elsewhere(folder: Path, inner: str, how: str) -> tuple[RoundInputs, EmbeddedStore]:
    """What a verifier's checks start from; the miners are on another machine."""
    fields = spec(inner)
    told = {"how": how, "fields": fields}
    reveals = on_another_machine(folder, told, ELSEWHERE, "tests.attacks.test_chosen_gradients")
    store = EmbeddedStore(folder)
    tiny, plan = make_mined_job(store, **fields)
    mined = MinedRound(store, tiny.published, tiny.job, tiny.before, plan, {})
    inputs = mined.inputs([mined.fetch(reveal) for reveal in reveals.values()])
    assert malformed(inputs) == []
    return inputs, store


def look(inputs: RoundInputs, store: EmbeddedStore, node: int) -> Finding:
    return reexecute(inputs, node, DEVICE, store)


@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_who_sends_it_is_slashed_and_who_worked_with_it_is_not(tmp_path: Path, inner: str) -> None:
    """Control: without the rule a verifier of another class finds the receiver wrong."""
    inputs, store = elsewhere(tmp_path, inner, "chosen")
    with mock.patch.object(miners, "excusers", return_value=()):
        wronged = look(inputs, store, VICTIM)
    assert wronged.violation is Violation.INVALID
    print(f"{inner}, without the rule: {wronged.reason}")
    finding = look(inputs, store, VICTIM)
    assert finding.violation is None and finding.ask == (CHEAT,) and finding.unsure
    # The verifier looks at the sender, drawn or not, and at nobody that it has looked at.
    assert [*suspects_by_findings(inputs, [finding])] == [CHEAT]
    sender = look(inputs, store, CHEAT)
    assert sender.violation is Violation.INVALID
    assert suspects_by_findings(inputs, [finding, sender]) == {}
    for node in set(MINERS) - {CHEAT}:
        assert look(inputs, store, node).violation is None
    assert won(f"a chosen gradient has its receiver slashed ({inner})", -PAY - SLASH) < 0


def test_who_lied_before_it_came_is_not_excused_by_it(tmp_path: Path) -> None:
    inputs, store = elsewhere(tmp_path, "adamw", HOW[2])
    finding = look(inputs, store, VICTIM)
    assert finding.violation is Violation.INVALID and "What it handed on" in finding.reason
    assert look(inputs, store, CHEAT).violation is Violation.INVALID


def test_honest_work_of_that_machine_asks_nobody(tmp_path: Path) -> None:
    inputs, store = elsewhere(tmp_path, "adamw", "honest")
    with mock.patch.object(miners, "excusers", side_effect=AssertionError):
        assert all(look(inputs, store, node).violation is None for node in MINERS)


if __name__ == "__main__":
    place, given = asked()
    answer(played(place, given["fields"], given["how"]).honest())
