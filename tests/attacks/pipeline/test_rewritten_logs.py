# SPDX-License-Identifier: Apache-2.0
"""A log that is rewritten once the audit's seed is known."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from eth_utils import keccak

from agents.pipeline.miner_log import Event, Kind, MinerLog, Origin
from agents.protocol.numbers import Violation
from agents.storage.embedded import EmbeddedStore
from agents.verify.spot_checks import malformed
from tests.stage.memory.mined_round import make_mined_round
from tests.stage.memory.miners_pot import COST, PAY, POT, RIDER, SLASH, seeds, won

STEPS, LENGTH = 20, 2


def miners_log(skipped: Collection[int]) -> MinerLog:
    """One sample a step. What a skipped step says went out is invented."""
    events, state = [], keccak(b"start")
    origin = Origin(miner=1, epoch=0, stage=2, state=state)
    for step in range(STEPS):
        given = keccak(b"in" + bytes([step]))
        out = keccak(b"invented") if step in skipped else keccak(given)
        events += [Event(kind, step, given, out) for kind in (Kind.FORWARD, Kind.BACKWARD)]
        after = keccak(state + out)
        events.append(Event(Kind.STEP, step, state, after))
        state = after
    return MinerLog(origin, tuple(events))


def stands(log: MinerLog, root: bytes, seed: bytes) -> bool:
    """The audit: the log is the committed one, and the drawn segment's work gives its digests."""
    if log.root() != root:
        return False
    passes = [one for one in log.segment(seed, LENGTH).events if one.kind is not Kind.STEP]
    return all(one.digest_out == keccak(one.digest_in) for one in passes)


@pytest.mark.parametrize("count", [1, 10, 20])
def test_log_rewritten_after_the_draw__has_another_root__and_skipping_is_a_loss(count: int) -> None:
    """Control: the honest log stands, whatever is drawn."""
    lazy, honest = miners_log(range(count)), miners_log(())
    committed = lazy.root()
    saved = COST * count / STEPS
    mended = stood = 0
    for seed in seeds(120):
        assert stands(honest, honest.root(), seed)
        stood += stands(lazy, committed, seed)
        # It does the drawn steps after all, and shows a log with their true digests.
        part = lazy.segment(seed, LENGTH)
        drawn = {one.number for one in part.events}
        rewritten = miners_log({*range(count)} - drawn)
        mended += stands(rewritten, rewritten.root(), seed)
        if drawn & {*range(count)}:
            assert not stands(rewritten, committed, seed)
    assert mended == 120  # so without the root it would keep what it saved
    won(f"log rewritten, {count} of {STEPS} steps skipped, without the root", saved)
    caught = 1 - stood / 120
    assert caught == pytest.approx(-(-count // LENGTH) / (STEPS // LENGTH), abs=0.1)
    assert won(f"the same, with the root, {caught:.0%} caught", saved - caught * SLASH) < -8


def test_log_rewritten_in_a_round__whoever_reads_it_sees_that_it_is_not_the_committed_one(
    tmp_path: Path,
) -> None:
    """It commits to a log in which it made its first code up, and shows the true one at the reveal.
    Nobody has to draw it for that."""
    mined = make_mined_round(EmbeddedStore(tmp_path / "store"), batches_per_round=12)
    log = mined.works[RIDER].log
    made_up = replace(log.events[0], digest_out=keccak(b"invented"))
    lazy = replace(log, events=(made_up, *log.events[1:]))
    cheat = mined.submit(RIDER, trace=log.to_bytes(), root=lazy.root())
    found = sorted([cheat, *mined.honest(without=(RIDER,))], key=lambda one: one.reveal.node)
    (finding,) = malformed(mined.inputs(found))
    assert (finding.node, finding.violation) == (RIDER, Violation.INVALID)
    assert b"not the root that was committed to" in finding.evidence
    share = POT / len(mined.works)
    assert won("log rewritten in a round", share * COST / PAY - share - SLASH) < -SLASH
