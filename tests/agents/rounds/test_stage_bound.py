# SPDX-License-Identifier: Apache-2.0
"""A payload that no honest work can make is refused by everybody, and leaves no trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.pipeline.inbox import Inbox
from agents.protocol.numbers import Violation
from agents.rounds.stage_bound import check_bound
from agents.rounds.stage_payload import packed
from agents.storage.embedded import EmbeddedStore
from agents.training.most_moved import MARGIN
from agents.training.norms import norm
from agents.training.state import State, model_hash
from agents.verify.spot_checks import malformed
from tests.stage.memory.mined_round import (
    MINERS,
    PIPELINE,
    MinedRound,
    copied,
    make_mined_round,
    stage_before,
)
from tests.stage.memory.mined_run import Run, run

NODE = MINERS[1]
MUON = {"inner": "muon", "batch_size": 2, "seq_len": 16, "lr": 1e-2}


@pytest.fixture(scope="module", params=["adamw", "muon"])
def each(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    store = EmbeddedStore(tmp_path_factory.mktemp(request.param) / "store")
    changes: dict[str, Any] = {"optimizer": MUON} if request.param == "muon" else {}
    return make_mined_round(store, **changes)


def one_number(change: State) -> None:
    change[matrix_of(change)].view(-1)[7] = 1.0


def a_vector(change: State) -> None:
    next(t for t in change.values() if t.dim() == 1).fill_(-1.0)


def all_of_it(change: State) -> None:
    for tensor in change.values():
        tensor.mul_(1e15)


def matrix_of(change: State) -> str:
    return max(change, key=lambda name: change[name].numel())


@pytest.mark.parametrize("spoil", [one_number, a_vector, all_of_it])
def test_a_spoilt_payload_is_a_bad_one_and_moves_nothing(
    each: MinedRound, spoil: Callable[[State], None]
) -> None:
    spoilt = copied(each.works[NODE].change)
    spoil(spoilt)
    found = each.submit(NODE, payload=each.encode(spoilt))
    assert found.gradient is None and found.log is None
    assert found.reason.startswith("bad payload: ") and "moved further than a round" in (
        found.reason
    )
    others = each.honest(without=[NODE])
    with_it = sorted([*others, found], key=lambda one: one.reveal.node)
    assert model_hash(each.compute(with_it).state) == model_hash(each.compute(others).state)
    assert NODE not in each.compute(with_it).report.accepted()
    (finding,) = malformed(each.inputs(with_it))
    assert (finding.node, finding.violation) == (NODE, Violation.INVALID)


@pytest.mark.parametrize("node", MINERS)
def test_an_honest_payload_is_below_the_bound_itself(each: MinedRound, node: int) -> None:
    """Not only below `MARGIN` times as much: so much longer it still is none."""
    work = each.works[node]
    longer = {name: MARGIN * tensor for name, tensor in work.change.items()}
    place = each.job, each.plan, work.stage
    before = stage_before(each, work.stage)
    check_bound(*place, longer, before)


def test_a_lie_about_steps_is_left_for_those_who_do_them_again(each: MinedRound) -> None:
    """A payload within what an epoch's samples allow is not held against its own log."""
    work = each.works[NODE]
    empty = replace(work.log, events=())
    found = each.submit(
        NODE, trace=empty.to_bytes(), root=empty.root(), inbox=Inbox(()).to_bytes(), losses=()
    )
    assert found.reason == "" and found.gradient is not None


# -- compressed rounds ----------------------------------------------------------------------------

COMPRESSED: dict[str, dict[str, Any]] = {
    "sparse": {"per_chunk": 64, "gain": 1.5},
    "cells": {"cell": 16},
    "directions": {"cell": 32, "directions": 64},
    "demo": {"chunk": 16, "per_chunk": 8},
}


@pytest.fixture(scope="module", params=COMPRESSED)
def five(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    codec = {"codec": request.param, "codec_options": COMPRESSED[request.param]}
    sharing = {"full_every": 3, **codec}
    folder: Path = tmp_path_factory.mktemp(request.param)
    return run(folder, pipeline={**PIPELINE, "sharing": sharing})


def test_honest_payloads_with_what_is_owed_in_them_are_read(five: Run) -> None:
    for submissions in five.submissions:
        assert [one.reason for one in submissions] == [""] * len(MINERS)


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_a_change_that_is_far_too_long_is_refused_in_each_round(five: Run, step: int) -> None:
    mined = five.rounds[step]
    change = {name: 1e9 * tensor for name, tensor in mined.works[NODE].change.items()}
    payload, _ = packed(mined.job, mined.plan, NODE, change, five.owed[step].get(NODE))
    found = mined.submit(NODE, payload=payload)
    assert found.gradient is None and "moved further than a round" in found.reason


def test_what_is_owed_may_be_said_at_once(five: Run) -> None:
    """A full synchronisation says all that was owed, which is more than one epoch makes."""
    mined, owed = five.rounds[2], five.owed[2][NODE]
    found = mined.submit(NODE, payload=five.payloads[2][NODE]).gradient
    assert owed is not None and found is not None and norm(owed) > 0


def test_a_codec_that_bounds_nothing_leaves_nothing_to_hold_against(tmp_path: Path) -> None:
    """Its rounds between are as before; a full synchronisation after them owes nothing."""
    sharing = {"full_every": 2, "codec": "polytope"}
    made = run(tmp_path, (MINERS,) * 2, pipeline={**PIPELINE, "sharing": sharing})
    for step, refused in ((0, False), (1, True)):
        mined = made.rounds[step]
        change = {name: 1e6 * tensor for name, tensor in mined.works[NODE].change.items()}
        payload, _ = packed(mined.job, mined.plan, NODE, change, None)
        assert (mined.submit(NODE, payload=payload).gradient is None) == refused
