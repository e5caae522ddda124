# SPDX-License-Identifier: Apache-2.0
"""NodeBenchmarks: a node's attempts, what verifiers say of them, and the score that it has."""

from __future__ import annotations

from scripts._web.index.entry import Entry, Folds
from scripts._web.index.rows import Row, Rows
from scripts._web.index.tables import BENCHMARKS, NODES
from scripts._web.index.words import hexed


def _attempt(rows: Rows, entry: Entry) -> Row:
    return rows.row(BENCHMARKS, entry.args["node_id"], entry.args["attempt"])


def requested(rows: Rows, entry: Entry) -> None:
    """It asked for a seed."""
    _attempt(rows, entry)["requested_at"] = entry.time


def submitted(rows: Rows, entry: Entry) -> None:
    """It says how much it computed."""
    args = entry.args
    attempt = _attempt(rows, entry)
    attempt.update(units=args["units"], elapsed=args["elapsed"], submitted_at=entry.time)
    attempt.update(root=hexed(args["root"]), artefact=hexed(args["artefact"]))


def judged(rows: Rows, entry: Entry) -> None:
    """A verifier has checked it."""
    _attempt(rows, entry)["passes" if entry.args["passed"] else "fails"] += 1


def settled(rows: Rows, entry: Entry) -> None:
    """Enough verifiers agree. An attempt that failed leaves the score alone."""
    passed, score = entry.args["passed"], entry.args["score"]
    _attempt(rows, entry).update(settled=True, passed=passed, score=score)
    if passed:
        rows.change(NODES, entry.args["node_id"], score=score, scored_at=entry.time)


def overruled(rows: Rows, entry: Entry) -> None:
    """The committee found the verdict false; a false pass resets the score."""
    _attempt(rows, entry)["overruled"] = True
    if entry.args["passed"]:
        rows.change(NODES, entry.args["node_id"], score=0, scored_at=entry.time)


def condemned(rows: Rows, entry: Entry) -> None:
    """The committee found the work invented; the score that it gave is reset."""
    attempt = _attempt(rows, entry)
    attempt["condemned"] = True
    if attempt["passed"]:
        rows.change(NODES, entry.args["node_id"], score=0, scored_at=entry.time)


FOLDS: Folds = {
    "BenchmarkRequested": requested,
    "BenchmarkSubmitted": submitted,
    "BenchmarkVerdictGiven": judged,
    "BenchmarkSettled": settled,
    "VerdictOverruled": overruled,
    "FalseBenchmarkSlashed": condemned,
}
