# SPDX-License-Identifier: Apache-2.0
"""Accusations as the pages tell them: who accused whom of what, on what evidence, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scripts._report.amounts import zoo
from scripts._web.index.models import Finder, Report

_ENDS = {
    "executed": "was carried out: the node is slashed",
    "dismissed": "was dismissed: the node is cleared",
    "lapsed": "lapsed: too few verifiers joined in",
}
_TONES = {"confirmed": "bad", "executed": "bad", "dismissed": "good", "lapsed": "plain"}


@dataclass(frozen=True)
class Accuser:
    """A verifier that accused. `reason`: what its evidence says."""

    verifier: int
    cid: str | None
    reason: str
    tx: str


@dataclass(frozen=True)
class Fate:
    """What became of an accusation, as a sentence says it after `it`."""

    words: str
    tx: str | None


@dataclass(frozen=True)
class Accusation:
    """One accusation. `until`: when the time to appeal is over, None if it has not begun."""

    job_id: int
    round_id: int
    node_id: int
    violation: str
    status: str
    tone: str
    voices: list[Accuser]
    fates: list[Fate]
    until: int | None
    appealable: bool

    @property
    def sentence(self) -> str:
        """Where it stands."""
        who = "One verifier has" if len(self.voices) == 1 else f"{len(self.voices)} verifiers have"
        end = f" It {self.fates[-1].words}." if self.fates else " It is not confirmed yet."
        return f"{who} reported it.{end}"


def told(reports: Iterable[Report], reason: Callable[[str], str], now: int) -> list[Accusation]:
    """Return reports in words. `reason`: reads what a file of evidence says."""
    return [
        Accusation(
            each.job_id,
            each.round_id,
            each.node_id,
            each.violation,
            each.status,
            _TONES.get(each.status, "wait"),
            [
                Accuser(
                    voice.node_id,
                    voice.evidence_cid,
                    reason(voice.evidence_cid) if voice.evidence_cid else "",
                    voice.tx,
                )
                for voice in each.voices
            ],
            list(_fates(each)),
            each.appeal_until,
            each.status == "confirmed" and (each.appeal_until or 0) > now,
        )
        for each in reports
    ]


def _fates(report: Report) -> Iterable[Fate]:
    if report.confirmed_at:
        yield Fate("was confirmed by two thirds of the verifiers' weight", report.confirmed_tx)
    if report.appealed_at:
        yield Fate("was appealed, and the committee decides", report.appealed_tx)
    if report.finder is not None:
        yield Fate(_paid(report.finder), report.finder.tx)
    if report.status in _ENDS:
        yield Fate(_ENDS[report.status], report.ended_tx)


def _paid(finder: Finder) -> str:
    """What finding the node brought, to the unit."""
    words = f"brought verifier {finder.node_id} {zoo(finder.paid)} ZOO, for finding it first"
    if not finder.rest:
        return words
    return f"{words}, as much as it had deposited; {zoo(finder.rest)} ZOO are the treasury's"
