# SPDX-License-Identifier: Apache-2.0
"""ViolationReports: who is accused of what, and how it ended."""

from __future__ import annotations

from agents.protocol.numbers import NOBODY, Phase, ReportStatus
from scripts._web.index.entry import Entry, Folds
from scripts._web.index.rows import Row, Rows
from scripts._web.index.tables import REPORTS, ROUNDS
from scripts._web.index.words import hexed


def _report(rows: Rows, entry: Entry) -> Row:
    return rows.row(REPORTS, hexed(entry.args["report_id"]))


def _round(rows: Rows, report: Row) -> Row:
    return rows.row(ROUNDS, report["job_id"], report["round_id"])


def reported(rows: Rows, entry: Entry) -> None:
    """A verifier accuses a node. From a third of the weight on the report holds up its round."""
    args = entry.args
    report = _report(rows, entry)
    if report["status"] == ReportStatus.NONE:
        report.update({n: args[n] for n in ("job_id", "round_id", "node_id", "violation")})
        report.update(status=int(ReportStatus.OPEN), evidence=hexed(args["evidence"]))
        report.update(appellant=NOBODY, reported_at=entry.time, reported_tx=entry.tx)
    before, all_ = report["weight"], _round(rows, report)["verifier_stake"]
    report["weight"] = before + args["weight"]
    if 3 * before < all_ <= 3 * report["weight"]:
        _round(rows, report)["open_reports"] += 1


def confirmed(rows: Rows, entry: Entry) -> None:
    """Two thirds of the weight say so."""
    report = _report(rows, entry)
    report.update(status=int(ReportStatus.CONFIRMED), deadline=entry.args["appeal_deadline"])
    report.update(confirmed_at=entry.time, confirmed_tx=entry.tx)
    _round(rows, report)["open_reports"] -= 1


def lapsed(rows: Rows, entry: Entry) -> None:
    """It ended without consequence: its round is over, or another report was confirmed."""
    report = _report(rows, entry)
    report.update(status=int(ReportStatus.LAPSED), ended_at=entry.time, ended_tx=entry.tx)
    round_ = _round(rows, report)
    if round_["phase"] < Phase.FINALIZED and 3 * report["weight"] >= round_["verifier_stake"]:
        round_["open_reports"] -= 1


def appealed(rows: Rows, entry: Entry) -> None:
    """The node asks the committee."""
    args = entry.args
    report = _report(rows, entry)
    report.update({name: args[name] for name in ("appellant", "bond", "deadline")})
    report.update(status=int(ReportStatus.APPEALED), statement=hexed(args["statement"]))
    report.update(appealed_at=entry.time, appealed_tx=entry.tx)


def executed(rows: Rows, entry: Entry) -> None:
    """The node was slashed."""
    report = _report(rows, entry)
    report.update(status=int(ReportStatus.EXECUTED), slashed=entry.args["amount"])
    report.update(ended_at=entry.time, ended_tx=entry.tx)


def dismissed(rows: Rows, entry: Entry) -> None:
    """The node was cleared, and has its bond back."""
    report = _report(rows, entry)
    report.update(status=int(ReportStatus.DISMISSED), bond=0)
    report.update(ended_at=entry.time, ended_tx=entry.tx)


FOLDS: Folds = {
    "ViolationReported": reported,
    "ReportConfirmed": confirmed,
    "ReportLapsed": lapsed,
    "ReportAppealed": appealed,
    "ReportExecuted": executed,
    "ReportDismissed": dismissed,
}
