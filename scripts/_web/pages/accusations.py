# SPDX-License-Identifier: Apache-2.0
"""Accusations as the pages tell them: who accused whom of what, on what evidence, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from agents.protocol.numbers import Violation
from agents.storage.cid import cid_from_digest
from scripts._web.index.reading import Reading
from scripts._web.index.tables import EVENTS

_FATES = {
    "ReportConfirmed": ("was confirmed by two thirds of the verifiers' weight", "confirmed", "bad"),
    "ReportAppealed": ("was appealed: the committee decides", "appealed", "wait"),
    "ReportLapsed": ("lapsed: too few verifiers joined in", "lapsed", "plain"),
    "ReportExecuted": ("was carried out: the node is slashed", "executed", "bad"),
    "ReportDismissed": ("was dismissed: the node is cleared", "dismissed", "good"),
}


@dataclass(frozen=True)
class Voice:
    """A verifier that accused. `reason`: what its evidence says."""

    verifier: int
    cid: str
    reason: str
    tx: str


@dataclass(frozen=True)
class Fate:
    """What became of an accusation, as a sentence says it after `it`."""

    words: str
    tx: str


@dataclass
class Accusation:
    """One accusation. `until`: when the time to appeal is over, 0 if it has not begun."""

    report_id: str
    job_id: int
    round_id: int
    node_id: int
    violation: str
    voices: list[Voice] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)
    status: str = "open"
    tone: str = "wait"
    until: int = 0
    appealable: bool = False

    @property
    def sentence(self) -> str:
        """Where it stands."""
        who = "One verifier has" if len(self.voices) == 1 else f"{len(self.voices)} verifiers have"
        end = f" It {self.fates[-1].words}." if self.fates else " It is not confirmed yet."
        return f"{who} reported it.{end}"


def accusations(
    look: Reading,
    reason: Callable[[str], str],
    *,
    job_id: int | None = None,
    round_id: int | None = None,
    node_id: int | None = None,
) -> list[Accusation]:
    """Accusations of a round, or of a node, oldest first. `reason`: reads what evidence says."""
    wanted = {"job_id": job_id, "round_id": round_id, "node_id": node_id}
    where = [EVENTS.c[name] == value for name, value in wanted.items() if value is not None]
    order = (EVENTS.c.block, EVENTS.c.log_index)
    query = sa.select(EVENTS).where(EVENTS.c.name == "ViolationReported", *where).order_by(*order)
    found: dict[str, Accusation] = {}
    for row in look.all(query):
        _add_voice(found, row, reason)
    if found:
        nodes = {each.node_id for each in found.values()}
        fates = sa.select(EVENTS).where(EVENTS.c.name.in_(_FATES), EVENTS.c.node_id.in_(nodes))
        _add_fates(found, look.all(fates.order_by(*order)))
    for each in found.values():
        each.appealable = each.status == "confirmed" and each.until > look.at.time
    return list(found.values())


def _add_voice(
    found: dict[str, Accusation], row: dict[str, Any], reason: Callable[[str], str]
) -> None:
    args = row["args"]
    report_id = args["report_id"]
    each = found.setdefault(
        report_id,
        Accusation(
            report_id,
            int(args["job_id"]),
            int(args["round_id"]),
            int(args["node_id"]),
            _violation(int(args["violation"])),
        ),
    )
    digest = args["evidence"]
    cid = cid_from_digest(bytes.fromhex(digest.removeprefix("0x")))
    each.voices.append(Voice(int(args["verifier_id"]), cid, reason(digest), row["tx"]))


def _add_fates(found: dict[str, Accusation], rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        each = found.get(row["args"]["report_id"])
        if each is None:
            continue
        words, each.status, each.tone = _FATES[row["name"]]
        each.fates.append(Fate(words, row["tx"]))
        each.until = int(row["args"].get("appeal_deadline", each.until))


def _violation(number: int) -> str:
    try:
        return Violation(number).name
    except ValueError:
        return f"violation {number}"
