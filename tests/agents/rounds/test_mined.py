# SPDX-License-Identifier: Apache-2.0
"""What a miner revealed is whole and its own, or the round goes on without it and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agents.jobs.job import JobContext
from agents.mechanisms.boundary.parts.wire import HEADER_BYTES
from agents.pipeline.inbox import Inbox
from agents.pipeline.miner_log import Kind
from agents.rounds.mined import fetch_log, max_message_bytes, read_inbox
from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.mined_round import MINERS, PIPELINE, MinedRound, make_mined_round
from tests.stage.memory.tiny_specs import tiny_model

NODE = 3
FIRST = 5  # of the first stage


@pytest.mark.parametrize("node", MINERS)
def test_an_honest_miner_is_read_as_it_worked(mined: MinedRound, node: int) -> None:
    found, work = mined.submit(node), mined.works[node]
    assert (found.reason, found.stage, found.log) == ("", work.stage, work.log)
    assert found.received == tuple(entry.received() for entry in work.entries)
    assert mined.plan.epoch is not None
    with read_inbox(found, mined.job, mined.plan.epoch, mined.store) as whole:
        assert tuple(whole) == work.entries
    assert found.gradient is not None and found.gradient.keys() == work.change.keys()


@pytest.mark.parametrize("what", ["payload", "trace", "inbox"])
def test_what_the_store_lacks_is_unavailable(mined: MinedRound, what: str) -> None:
    found = mined.submit(NODE, missing=what)
    assert found.unavailable and found.gradient is None and found.log is None


def test_without_its_proof_a_miner_is_unavailable(mined: MinedRound) -> None:
    assert mined.fetch(replace(mined.submit(NODE).reveal, proof=b"\7" * 32)).unavailable


def cut_short(mined: MinedRound) -> dict[str, bytes]:
    """A log of the first step only, under the root of the whole."""
    log = mined.works[NODE].log
    return {"trace": replace(log, events=log.events[: log.steps[0] + 1]).to_bytes()}


WRONG: dict[str, Callable[[MinedRound], dict[str, bytes]]] = {
    "bytes, not 11688": lambda m: {"payload": m.shown(NODE).payload[:-4]},
    "not finite": lambda m: {"payload": m.shown(NODE).payload[:-4] + b"\xff" * 4},
    "The log is not one of miner 3": lambda m: {"trace": m.works[7].log.to_bytes()},
    "has not the root": cut_short,
    "no inbox of a miner": lambda m: {"inbox": b"no entries"},
    "in the middle of entry": lambda m: {"inbox": m.shown(NODE).inbox[:-1]},
}


@pytest.mark.parametrize("why", WRONG)
def test_wrong_bytes_are_a_bad_payload(mined: MinedRound, why: str) -> None:
    found = mined.submit(NODE, **WRONG[why](mined))
    assert found.gradient is None and found.log is None
    assert found.reason.startswith("bad payload: ") and why in found.reason


def test_a_class_that_the_job_does_not_list_is_a_bad_payload(mined: MinedRound) -> None:
    spec = mined.job.spec.model_copy(update={"classes": ("torch=0;device=abacus",)})
    listing = replace(mined, job=JobContext(spec, mined.store))
    found = listing.submit(NODE)
    assert found.gradient is None and "which the job does not list" in found.reason
    assert listing.submit(NODE, determinism="torch=0;device=abacus").reason == ""


@pytest.mark.parametrize("what", ["payload", "trace", "inbox"])
def test_nothing_longer_than_the_epoch_can_hold_is_read(mined: MinedRound, what: str) -> None:
    assert mined.submit(NODE, **{what: bytes(1 << 20)}).reason.startswith("too large: ")


@pytest.mark.parametrize("how", ["one left out", "one too many", "by who has none"])
def test_losses_of_other_samples_than_the_logs_are_a_bad_payload(
    mined: MinedRound, how: str
) -> None:
    assert mined.plan.epoch is not None
    node = mined.plan.epoch.stages[-1][0]
    own = mined.works[node].losses
    losses = {"one left out": own[1:], "one too many": (*own, (1 << 40, 5)), "by who has none": own}
    found = mined.submit(NODE if how == "by who has none" else node, losses=losses[how])
    assert found.gradient is None and "losses of exactly the log's samples" in found.reason


def test_a_loss_that_the_log_does_not_bind_is_a_bad_payload(mined: MinedRound) -> None:
    """It was committed to with the log. By the millionth that it was, it is good."""
    assert mined.plan.epoch is not None
    node = mined.plan.epoch.stages[-1][0]
    log, ((sample, loss), *others) = mined.works[node].log, mined.works[node].losses
    committed = {"trace": log.to_bytes(), "root": log.root()}
    found = mined.submit(node, losses=((sample, loss + 1), *others), **committed)
    assert found.gradient is None
    assert found.reason.endswith(f"the proof states another loss of sample {sample} than its log")
    assert mined.submit(node, losses=((sample, loss), *others), **committed).reason == ""


def test_entries_that_nobody_sends_have_no_room_for_bytes(mined: MinedRound) -> None:
    """A step, and a forward of the first stage, each stuffed with as much as a message may be."""
    for node, kind in ((NODE, Kind.STEP), (FIRST, Kind.FORWARD)):
        stuff = bytes(max_message_bytes(mined.job))
        entries = [replace(e, message=stuff) for e in mined.works[node].entries if e.kind is kind]
        rest = [e for e in mined.works[node].entries if e.kind is not kind]
        inbox = Inbox((*rest, *entries)).to_bytes()
        assert mined.submit(node, inbox=inbox).reason.startswith("too large: ")


def test_who_holds_no_stage_has_no_payload(mined: MinedRound) -> None:
    found = mined.fetch(replace(mined.submit(NODE).reveal, node=99))
    assert found.gradient is None and found.reason.startswith("wrong input: ")


def test_the_log_alone_is_read_without_payload_and_entries(mined: MinedRound) -> None:
    assert mined.plan.epoch is not None
    place = mined.job, mined.store, mined.plan.epoch
    reveal = mined.submit(NODE, payload=b"never read", inbox=b"neither").reveal
    assert fetch_log(reveal, *place).log == mined.works[NODE].log
    short = fetch_log(mined.submit(NODE, **cut_short(mined)).reveal, *place)
    assert short.log is None and "has not the root" in short.reason
    for raw in (b"", b"x" * 40, mined.works[7].log.to_bytes()):
        found = fetch_log(mined.submit(NODE, trace=raw).reveal, *place)
        assert found.log is None and found.reason.startswith("bad payload: ")
    gone = fetch_log(mined.submit(NODE, missing="trace").reveal, *place)
    assert gone.log is None and gone.unavailable
    assert fetch_log(replace(reveal, node=99), *place).reason.startswith("wrong input: ")


def test_a_miner_retains_64_bytes_a_token_each_way_at_32x_of_512_channels(tmp_path: Path) -> None:
    """Of the code that came in and of the gradient, and at either end of one of them."""
    channels, width, batch, length = 512, 32, 2, 16
    mined = make_mined_round(
        EmbeddedStore(tmp_path),
        miners=(2, 3, 5),
        model={**tiny_model(channels, 16, length, layers=3), "tie_embeddings": False},
        pipeline={**PIPELINE, "boundary_options": {"width": width}},
        batches_per_round=4,
    )
    each = {0: {Kind.BACKWARD}, 1: {Kind.FORWARD, Kind.BACKWARD}, 2: {Kind.FORWARD}}
    for work in mined.works.values():
        came = [entry for entry in work.entries if entry.message]
        assert {entry.kind for entry in came} == each[work.stage]
        assert len(came) == 4 * len(each[work.stage])
        for entry in came:
            assert len(entry.message) - HEADER_BYTES == batch * length * 64
            assert 32 * (len(entry.message) - HEADER_BYTES) == batch * length * channels * 4
