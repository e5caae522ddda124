# SPDX-License-Identifier: Apache-2.0
"""A miner's epoch done again: honest miners pass, each cheat is found with its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.miner_log import Event, Kind
from agents.protocol.numbers import Violation
from agents.rounds.mined import Mined
from agents.storage.embedded import EmbeddedStore
from agents.verify.miners import Verdict, check_miner
from agents.verify.spot_checks import reexecute
from tests.stage.memory.honest_round import DEVICE, noise, scaled
from tests.stage.memory.mined_round import MINERS, OTHER_CLASS, MinedRound, make_mined_round
from tests.stage.memory.shown_entries import NODE, resigned, with_entries

PEER = 7  # as NODE of the middle stage, so everything comes from others
FIRST, LAST = 5, 2  # of the first and of the last stage
F, B, STEP = Kind.FORWARD, Kind.BACKWARD, Kind.STEP


def check(mined: MinedRound, one: Mined) -> Verdict:
    assert one.reason == ""
    return check_miner(mined.inputs([one]), one, DEVICE, mined.store)


@pytest.mark.parametrize("determinism", ["", OTHER_CLASS])
@pytest.mark.parametrize("node", MINERS)
def test_an_honest_miner_passes(mined: MinedRound, node: int, determinism: str) -> None:
    assert check(mined, mined.submit(node, determinism=determinism)).right


@pytest.mark.parametrize("determinism", ["", OTHER_CLASS])
def test_a_miner_that_the_draw_gave_no_sample_passes_with_an_empty_log(
    tmp_path: Path, determinism: str
) -> None:
    """It is there and reveals, so it is not taken for absent. It is neither merged nor paid."""
    mined = make_mined_round(EmbeddedStore(tmp_path), batches_per_round=2)
    assert mined.plan.epoch is not None
    (idle,) = [node for node in MINERS if not mined.plan.epoch.due(node)]
    assert mined.works[idle].log.events == ()
    assert check(mined, mined.submit(idle, determinism=determinism)).right
    outcome = mined.compute(mined.honest())
    assert sorted(outcome.paid()) == [node for node in MINERS if node != idle]
    (line,) = [line for line in outcome.report.nodes if line.node == idle]
    assert (line.accepted, line.merged, line.batches) == (True, False, 0)
    # What it changed without a sample is found, whatever its log says.
    moved = {n: torch.full_like(t, 0.01) for n, t in mined.works[idle].change.items()}
    assert not check(mined, mined.submit(idle, payload=mined.encode(moved))).right


def test_another_class_may_round_otherwise(mined: MinedRound) -> None:
    """Digests and payload differ in their last bits; the same is a lie within the class. Nobody
    shows what was handed on, so it is not compared (`test_handed_on.py`)."""
    log = mined.works[NODE].log
    events = [replace(e, digest_out=b"\5" * 32) if e.kind is F else e for e in log.events]
    near = scaled(mined.works[NODE].change, 1 + 1e-6)
    told = replace(log, events=tuple(events))
    shown = {"trace": told.to_bytes(), "root": told.root(), "payload": mined.encode(near)}
    assert check(mined, mined.submit(NODE, **shown, determinism=OTHER_CLASS)).right
    assert not check(mined, mined.submit(NODE, **shown)).right


# -- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize("determinism", ["", OTHER_CLASS])
@pytest.mark.parametrize("kind", ["noise", "zero", "twice"])
def test_a_payload_that_is_not_the_logs_is_found(
    mined: MinedRound, kind: str, determinism: str
) -> None:
    own = mined.works[NODE].change
    payload = {"noise": noise(own), "zero": scaled(own, 0.0), "twice": scaled(own, 2.0)}[kind]
    found = mined.submit(NODE, payload=mined.encode(payload), determinism=determinism)
    verdict = check(mined, found)
    assert not verdict.right and "Replay" in verdict.reason


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_log_that_replay_does_not_give_is_found(mined: MinedRound, place: int) -> None:
    """A forward, a backward of the first step, or the weights after it."""
    log = mined.works[NODE].log
    kind = (F, B, STEP)[place]
    at = next(i for i, event in enumerate(log.events) if event.kind is kind)
    events = list(log.events[: log.steps[0] + 1])
    events[at] = replace(events[at], digest_out=b"\5" * 32)
    told = replace(log, events=tuple(events))
    inbox = Inbox(mined.works[NODE].entries[: len(events)]).to_bytes()
    shown = mined.submit(NODE, trace=told.to_bytes(), root=told.root(), inbox=inbox)
    assert check(mined, shown).reason == f"The log differs from replay at event {at}."


@pytest.mark.parametrize("determinism", ["", OTHER_CLASS])
def test_passes_that_were_never_executed_are_found(mined: MinedRound, determinism: str) -> None:
    """It claims its peer's samples in a last step of its own."""
    log = mined.works[NODE].log
    assert mined.plan.epoch is not None
    more = mined.plan.epoch.due(PEER)[:2]
    passed = [Event(kind, sample, b"\1" * 32, b"\2" * 32) for sample in more for kind in (F, B)]
    last = Event(STEP, len(log.steps), log.state, b"\3" * 32)
    told = replace(log, events=(*log.events, *passed, last))
    shown = {"trace": told.to_bytes(), "root": told.root(), "determinism": determinism}
    verdict = check(mined, mined.submit(NODE, **shown))
    assert verdict.reason == f"The log differs from replay at event {len(log.events)}."


@pytest.mark.parametrize("determinism", ["", OTHER_CLASS])
def test_a_log_of_other_bytes_than_came_in_is_found_in_every_class(
    mined: MinedRound, determinism: str
) -> None:
    log = mined.works[NODE].log
    events = [replace(log.events[0], digest_in=b"\5" * 32), *log.events[1:]]
    told = replace(log, events=tuple(events))
    shown = {"trace": told.to_bytes(), "root": told.root(), "determinism": determinism}
    verdict = check(mined, mined.submit(NODE, **shown))
    assert verdict.reason == "The log differs from replay at event 0."


def with_loss(mined: MinedRound, factor: float, determinism: str = "") -> Mined:
    """A miner of the last stage that states one loss otherwise."""
    assert mined.plan.epoch is not None
    node = mined.plan.epoch.stages[-1][0]
    (sample, loss), *others = mined.works[node].losses
    told = ((sample, round(loss * factor)), *others)
    return mined.submit(node, losses=told, determinism=determinism)


@pytest.mark.parametrize(
    ("factor", "determinism", "reason"),
    [
        (1 + 1e-6, "", "The log differs from replay at event"),
        (0.998, OTHER_CLASS, "is not what replay gives"),
    ],
)
def test_a_false_loss_is_found(
    mined: MinedRound, factor: float, determinism: str, reason: str
) -> None:
    """Its log binds it."""
    verdict = check(mined, with_loss(mined, factor, determinism))
    assert not verdict.right and reason in verdict.reason


def test_another_class_may_round_a_loss_otherwise(mined: MinedRound) -> None:
    assert check(mined, with_loss(mined, 1.0005, OTHER_CLASS)).right


# -- what is said to have come in -----------------------------------------------------------------


FOUND: dict[str, Any] = {
    "invented and not signed": (
        lambda e, other: replace(e, message=other),
        "did not sign what came in",
    ),
    "invented and signed by itself": (
        lambda e, other: replace(resigned(e, NODE, other), sender=e.sender),
        "did not sign what came in",
    ),
    "signed for its peer": (
        lambda e, other: resigned(e, e.sender, e.message, PEER),
        "did not sign what came in",
    ),
    "signed under the seed before a reorg": (
        lambda e, other: resigned(e, e.sender, e.message, seed=b"\6" * 32),
        "did not sign what came in",
    ),
    "from nobody": (
        lambda e, other: Entry(e.kind, e.sample, message=other),
        "miner 0 does not hold the stage",
    ),
    "from a miner of its own stage": (
        lambda e, other: resigned(e, PEER, e.message),
        f"miner {PEER} does not hold the stage",
    ),
    "from who holds no stage": (
        lambda e, other: replace(e, sender=99),
        "miner 99 does not hold the stage",
    ),
    "of a sample that is not handed out": (
        lambda e, other: resigned(replace(e, sample=500), e.sender, e.message),
        "sample 500 is not handed out",
    ),
    "no message of this job": (
        lambda e, other: resigned(e, e.sender, e.message[:-1]),
        "can't be executed",
    ),
}


@pytest.mark.parametrize("kind", [F, B])
@pytest.mark.parametrize("how", FOUND)
def test_an_entry_that_its_sender_did_not_hand_on_is_found(
    mined: MinedRound, how: str, kind: Kind
) -> None:
    entries = list(mined.works[NODE].entries)
    at, second = [i for i, entry in enumerate(entries) if entry.kind is kind][:2]
    change, why = FOUND[how]
    entries[at] = change(entries[at], entries[second].message)
    verdict = check(mined, with_entries(mined, entries))
    assert not verdict.right and why in verdict.reason
    assert verdict.reason.startswith(f"Entry {at}")


def test_a_step_of_more_passes_than_the_job_allows_is_found(mined: MinedRound) -> None:
    entries = list(mined.works[NODE].entries)
    place = next(i for i, entry in enumerate(entries) if entry.kind is STEP)
    verdict = check(mined, with_entries(mined, entries[:place] + entries[place + 1 :]))
    assert "a step takes 2 passes" in verdict.reason and verdict.details == {"entry": place}


def test_entries_in_another_order_are_found(mined: MinedRound) -> None:
    entries = list(mined.works[NODE].entries)
    verdict = check(mined, with_entries(mined, [entries[1], entries[0], *entries[2:]]))
    assert "Entry 0 can't be executed" in verdict.reason


def test_entries_that_lead_elsewhere_than_the_log_are_found(mined: MinedRound) -> None:
    """Its last step is left out of what it shows to have received."""
    entries = mined.works[NODE].entries
    verdict = check(mined, with_entries(mined, entries[:-1]))
    assert verdict.reason == f"The log differs from replay at event {len(entries) - 1}."


def test_the_details_are_a_number_where_the_payload_is_zero(mined: MinedRound) -> None:
    """Evidence is canonical JSON, which knows no infinity."""
    zero = mined.submit(NODE, payload=mined.encode(scaled(mined.works[NODE].change, 0.0)))
    inputs = mined.inputs([zero])
    assert reexecute(inputs, NODE, DEVICE, mined.store).violation is Violation.INVALID
    assert all(torch.isfinite(torch.tensor(v)) for v in check(mined, zero).details.values())
