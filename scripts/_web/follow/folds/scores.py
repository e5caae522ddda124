# SPDX-License-Identifier: Apache-2.0
"""ScoreConsensus: validators commit to scores, show them, and the chain takes their median."""

from __future__ import annotations

from agents.protocol.numbers import ScorePhase
from scripts._web.index.entry import Entry, Folds
from scripts._web.index.rows import Rows
from scripts._web.index.tables import ROUNDS, SEATS, VOICES
from scripts._web.index.words import hexed


def opened(rows: Rows, entry: Entry) -> None:
    """Validators may commit."""
    phase, deadline = int(ScorePhase.COMMIT), entry.args["commit_deadline"]
    rows.change(ROUNDS, *entry.place, score_phase=phase, score_deadline=deadline)


def committed(rows: Rows, entry: Entry) -> None:
    """A validator committed to its scores."""
    rows.change(VOICES, *entry.place, entry.args["verifier_id"], score_committed_at=entry.time)


def revealing(rows: Rows, entry: Entry) -> None:
    """Validators may show their scores."""
    phase, deadline = int(ScorePhase.REVEAL), entry.args["deadline"]
    rows.change(ROUNDS, *entry.place, score_phase=phase, score_deadline=deadline)


def revealed(rows: Rows, entry: Entry) -> None:
    """A validator showed its scores."""
    shown = {"score_revealed_at": entry.time, "record": hexed(entry.args["record"])}
    rows.change(VOICES, *entry.place, entry.args["verifier_id"], **shown)


def closed(rows: Rows, entry: Entry) -> None:
    """The round's consensus, and what each validator's agreement with it makes of its trust."""
    args = entry.args
    phase = int(ScorePhase.CLOSED)
    rows.change(ROUNDS, *entry.place, score_phase=phase, score_deadline=0)
    for node, score in zip(args["nodes"], args["consensus"], strict=True):
        rows.change(SEATS, *entry.place, node, consensus=score)
    known = zip(args["verifiers"], args["agreements"], args["trusts"], strict=True)
    for node, agreement, trust in known:
        rows.change(VOICES, *entry.place, node, agreement=agreement, trust=trust)


FOLDS: Folds = {
    "ScoringOpened": opened,
    "ScoresCommitted": committed,
    "ScoreRevealStarted": revealing,
    "ScoresRevealed": revealed,
    "ScoringClosed": closed,
}
