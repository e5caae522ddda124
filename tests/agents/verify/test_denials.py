# SPDX-License-Identifier: Apache-2.0
"""What a miner's log denies: of its own entries, and of what it signed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from eth_utils import keccak

from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.miner_log import Event, Kind
from agents.protocol.numbers import Violation
from agents.rounds.mined import Mined
from agents.storage.embedded import EmbeddedStore
from agents.verify.denials import contradicted, misfit
from agents.verify.spot_checks import malformed, reexecute
from tests.stage.memory.honest_round import DEVICE
from tests.stage.memory.mined_round import MINERS, MinedRound, make_mined_round, signed
from tests.stage.memory.shown_entries import NODE, resigned, with_entries

PEER = 7  # as NODE of the middle stage
FIRST, LAST = 5, 2  # of the first and of the last stage
F, B, STEP = Kind.FORWARD, Kind.BACKWARD, Kind.STEP


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
