# SPDX-License-Identifier: Apache-2.0
"""A miner's epoch done again: honest miners pass, each cheat is found with its reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from eth_utils import keccak

from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.letters import sign_passage
from agents.pipeline.miner_log import Event, Kind
from agents.protocol.numbers import Violation
from agents.rounds.mined import Mined
from agents.storage.embedded import EmbeddedStore
from agents.verify.miners import Verdict, check_miner, contradicted, misfit
from agents.verify.spot_checks import malformed, reexecute
from tests.stage.memory.honest_round import DEVICE, JOB, ROUND, SEED, noise, scaled
from tests.stage.memory.mined_round import (
    MINERS,
    WALLETS,
    WHERE,
    MinedRound,
    make_mined_round,
    signed,
)

NODE, PEER = 3, 7  # both of the middle stage, so everything comes from others
FIRST, LAST = 5, 2  # of the first and of the last stage
OTHER_CLASS = "torch=0;device=abacus"
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
    moved = {name: torch.ones_like(tensor) for name, tensor in mined.works[idle].change.items()}
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


def with_entries(mined: MinedRound, entries: Sequence[Entry]) -> Mined:
    return mined.submit(NODE, inbox=Inbox(tuple(entries)).to_bytes())


def resigned(
    entry: Entry, sender: int, message: bytes, receiver: int = NODE, seed: bytes = SEED
) -> Entry:
    """The entry as `sender` would hand it on to `receiver`, with another message."""
    passage = Passage(JOB, ROUND, seed, entry.sample, entry.kind, sender, receiver)
    signature = sign_passage(WALLETS[sender], WHERE, passage, message)
    return replace(entry, sender=sender, signature=signature, message=message)


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


# -- what all miners are looked at for, without doing anything again ------------------------------


@pytest.mark.parametrize("node", MINERS)
def test_an_honest_log_fits_what_came_in(mined: MinedRound, node: int) -> None:
    assert mined.plan.epoch is not None
    assert misfit(mined.plan.epoch, mined.submit(node)) == ""


# What becomes of the entries, and what is then said. Entry 0 is a forward of another's.
MISFITS: dict[str, tuple[Callable[[list[Entry]], list[Entry]], str]] = {
    "one too few": (lambda all_: all_[:-1], "events, of"),
    "another order": (
        lambda all_: [all_[1], all_[0], *all_[2:]],
        "Entry 0 does not fit the log: the e",
    ),
    "another message": (
        lambda all_: [replace(all_[0], message=b"other"), *all_[1:]],
        "another message of sample",
    ),
    "from its own stage": (
        lambda all_: [replace(all_[0], sender=PEER), *all_[1:]],
        "is not one of the stage beside",
    ),
    "a step with a sender": (
        lambda all_: [replace(e, sender=2) if e.kind is STEP else e for e in all_],
        "a step comes from nobody",
    ),
}


@pytest.mark.parametrize("how", MISFITS)
def test_entries_that_its_own_log_denies_are_a_finding_without_replay(
    mined: MinedRound, how: str
) -> None:
    change, why = MISFITS[how]
    shown = with_entries(mined, change(list(mined.works[NODE].entries)))
    findings = malformed(mined.inputs([shown, *mined.honest(without=(NODE,))]))
    assert [(f.node, f.violation) for f in findings] == [(NODE, Violation.INVALID)]
    assert why in findings[0].reason


@pytest.mark.parametrize(("node", "kind"), [(FIRST, F), (LAST, B)])
def test_what_nobody_sends_has_no_sender(mined: MinedRound, node: int, kind: Kind) -> None:
    entries = list(mined.works[node].entries)
    at = next(i for i, entry in enumerate(entries) if entry.kind is kind)
    entries[at] = replace(entries[at], sender=NODE)
    shown = mined.submit(node, inbox=Inbox(tuple(entries)).to_bytes())
    assert mined.plan.epoch is not None
    assert "is not one of the stage beside" in misfit(mined.plan.epoch, shown)


def test_a_sample_that_begins_elsewhere_does_not_fit(mined: MinedRound) -> None:
    """With log and entries that agree with each other."""
    epoch, work = mined.plan.epoch, mined.works[FIRST]
    assert epoch is not None
    foreign = next(s for s in epoch.samples if not epoch.begins(s, FIRST))
    event = Event(F, foreign, keccak(b""), b"\1" * 32)
    told = replace(work.log, events=(*work.log.events, event))
    inbox = Inbox((*work.entries, Entry(F, foreign))).to_bytes()
    shown = mined.submit(FIRST, trace=told.to_bytes(), root=told.root(), inbox=inbox)
    assert f"sample {foreign} begins at another miner" in misfit(epoch, shown)


# -- who is wrong where two logs disagree ---------------------------------------------------------


def test_in_an_honest_round_nobody_denies_what_it_signed(mined: MinedRound) -> None:
    assert mined.plan.epoch is not None
    assert list(contradicted(mined.plan.epoch, mined.honest(), signed)) == []


@pytest.fixture(scope="module", params=[F, B])
def lied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    """Miner 3 sends every time what it made of its first sample, and logs the true digests."""
    first: list[bytes] = []

    def stale(passage: Passage, message: bytes) -> bytes:
        if (passage.sender, passage.kind) != (NODE, request.param):
            return message
        first.append(message)
        return first[0]

    store = EmbeddedStore(tmp_path_factory.mktemp("lied") / "store")
    return make_mined_round(store, sent=stale, batches_per_round=8)


def test_who_signed_another_digest_than_it_logged_is_named(lied: MinedRound) -> None:
    inputs = lied.inputs(lied.honest())
    assert lied.plan.epoch is not None
    (case,) = contradicted(lied.plan.epoch, lied.honest(), signed)
    assert case.miner == NODE
    (finding,) = malformed(inputs)
    assert (finding.node, finding.violation) == (NODE, Violation.INVALID)


def test_who_worked_on_what_was_signed_is_right_and_so_is_the_liars_own_work(
    lied: MinedRound,
) -> None:
    inputs = lied.inputs(lied.honest())
    for node in MINERS:
        assert reexecute(inputs, node, DEVICE, lied.store).violation is None


def test_a_pass_that_was_signed_and_left_out_of_the_log_is_denied_too(mined: MinedRound) -> None:
    work = mined.works[NODE]
    end = work.log.steps[-2] + 1
    told = replace(work.log, events=work.log.events[:end])
    inbox = Inbox(work.entries[:end]).to_bytes()
    short = mined.submit(NODE, trace=told.to_bytes(), root=told.root(), inbox=inbox)
    assert mined.plan.epoch is not None
    found = contradicted(mined.plan.epoch, [short, *mined.honest(without=(NODE,))], signed)
    assert [case.miner for case in found] == [NODE]


def forged(mined: MinedRound, places: Sequence[int]) -> Mined:
    """What came in at `places` was another message, say log and entries alike."""
    entries, events = list(mined.works[NODE].entries), list(mined.works[NODE].log.events)
    for at in places:
        entries[at] = replace(entries[at], message=b"other")
        events[at] = replace(events[at], digest_in=keccak(b"other"))
    told = replace(mined.works[NODE].log, events=tuple(events))
    inbox = Inbox(tuple(entries)).to_bytes()
    return mined.submit(NODE, trace=told.to_bytes(), root=told.root(), inbox=inbox)


def test_who_shows_what_nobody_signed_falls_and_the_sender_it_names_stands(
    mined: MinedRound,
) -> None:
    findings = malformed(mined.inputs([forged(mined, [0]), *mined.honest(without=(NODE,))]))
    assert [f.node for f in findings] == [NODE]
    assert "neither logged nor signed" in findings[0].reason


def test_however_much_is_forged_one_signature_is_checked(mined: MinedRound) -> None:
    looked: list[bytes] = []

    def counting(passage: Passage, digest: bytes, signature: bytes) -> bool:
        looked.append(digest)
        return signed(passage, digest, signature)

    events = mined.works[NODE].log.events
    places = [i for i, event in enumerate(events) if event.kind is not STEP]
    assert mined.plan.epoch is not None
    shown = [forged(mined, places), *mined.honest(without=(NODE,))]
    assert [g.miner for g in contradicted(mined.plan.epoch, shown, counting)] == [NODE]
    assert len(looked) == 1


def test_the_details_are_a_number_where_the_payload_is_zero(mined: MinedRound) -> None:
    """Evidence is canonical JSON, which knows no infinity."""
    zero = mined.submit(NODE, payload=mined.encode(scaled(mined.works[NODE].change, 0.0)))
    inputs = mined.inputs([zero])
    assert reexecute(inputs, NODE, DEVICE, mined.store).violation is Violation.INVALID
    assert all(torch.isfinite(torch.tensor(v)) for v in check(mined, zero).details.values())


def test_who_began_its_epoch_again_after_a_reorg_denies_nothing(mined: MinedRound) -> None:
    """Under the seed before, it signed another digest of the passage that it logs now."""
    at = next(i for i, entry in enumerate(mined.works[NODE].entries) if entry.kind is F)
    entries = list(mined.works[NODE].entries)
    old = resigned(entries[at], entries[at].sender, b"other bits", seed=b"\6" * 32)
    now = resigned(entries[at], entries[at].sender, b"other bits")
    assert mined.plan.epoch is not None
    for entry, wrong in ((old, NODE), (now, entries[at].sender)):
        shown = with_entries(mined, [*entries[:at], entry, *entries[at + 1 :]])
        found = contradicted(mined.plan.epoch, [shown, *mined.honest(without=(NODE,))], signed)
        assert [case.miner for case in found] == [wrong]
