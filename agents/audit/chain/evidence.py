# SPDX-License-Identifier: Apache-2.0
"""The evidence behind confirmed reports and upheld challenges: there, unchanged, and of this case.

The audit checks that the evidence was published as the chain names it, and decides by its own
replay and not by what the evidence says. Evidence of reports that were not confirmed may be
missing.
"""

from __future__ import annotations

from typing import Any

from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record, place
from agents.storage.canonical import loads
from agents.storage.errors import StoreError, StoreUnavailable

_MAX_BYTES = 1 << 20


def check_evidence(record: Record, artefacts: Artefacts, part: Part) -> None:
    """Read every piece of evidence of a round."""
    confirmed = {e.args["report_id"] for e in record.all("ReportConfirmed")}
    for event in record.of("ViolationReported", part.round_id):
        args = event.args
        who = f"evidence of verifier {args['verifier_id']} against node {args['node_id']}"
        due = args["report_id"] in confirmed
        about = {"job": record.job_id, "round": part.round_id, "node": args["node_id"]}
        _read(artefacts, part, who, args["evidence"], due, about)
    outcomes = record.of("ChallengeResolved", part.round_id)
    for event in record.of("Challenged", part.round_id):
        later = [e for e in outcomes if place(e) > place(event)]
        who = f"evidence of the challenge by {event.args['challenger']}"
        about = {"job": record.job_id, "round": part.round_id}
        due = bool(later) and later[0].args["upheld"]
        _read(artefacts, part, who, event.args["evidence"], due, about)


def _read(
    artefacts: Artefacts, part: Part, who: str, digest: bytes, due: bool, about: dict[str, Any]
) -> None:
    artefacts.name(digest, who)
    wrong: list[str] = []
    try:
        fields = loads(artefacts.get_digest(digest, _MAX_BYTES))
        if not isinstance(fields, dict):
            raise ValueError("it is not a JSON object")
        for name, wanted in about.items():
            if fields.get(name) != wanted:
                wrong.append(f"its {name} is {fields.get(name)}, it should be {wanted}.")
    except StoreUnavailable:
        raise
    except StoreError:
        wrong = [sentence for _, sentence in artefacts.failures()]
    except ValueError as error:
        wrong = [f"it can't be used: {error}."]
    if due:
        part.counts["artefacts"] = part.counts.get("artefacts", 0) + 1
    for sentence in wrong:
        if due:
            part.differ("artefacts", who, sentence)
        else:
            part.remark(f"{who}: {sentence}")
