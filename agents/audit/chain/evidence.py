# SPDX-License-Identifier: Apache-2.0
"""The evidence behind confirmed reports and upheld challenges: there, unchanged, and of this case.

The audit checks that the evidence was published as the chain names it, and decides by its own
replay and not by what the evidence says. Evidence of reports that were not confirmed may be
missing, but not altered.

A report may name the first wrong step of a trace, with Merkle proofs under the root that the
accused node committed to. Where the audit did the training again, it checks that step against it:
the hash before it must agree, and the one after it must not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record, place
from agents.storage.canonical import loads
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.trace import Trace
from agents.verify.bisection import Evidence, verify_evidence

_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Replayed:
    """A node's steps, done again. `trace_root`: of the trace that it committed to, 32 bytes."""

    trace_root: bytes
    trace: Trace


def check_evidence(
    record: Record, artefacts: Artefacts, part: Part, replayed: Mapping[int, Replayed]
) -> None:
    """Read every piece of evidence of a round. `replayed`: by node, where training was redone."""
    confirmed = {e.args["report_id"] for e in record.all("ReportConfirmed")}
    for event in record.of("ViolationReported", part.round_id):
        args = event.args
        who = f"evidence of verifier {args['verifier_id']} against node {args['node_id']}"
        due = args["report_id"] in confirmed
        about = {"job": record.job_id, "round": part.round_id, "node": args["node_id"]}
        steps = replayed.get(args["node_id"])
        _read(artefacts, part, who, args["evidence"], due, about, steps)
    outcomes = record.of("ChallengeResolved", part.round_id)
    for event in record.of("Challenged", part.round_id):
        later = [e for e in outcomes if place(e) > place(event)]
        who = f"evidence of the challenge by {event.args['challenger']}"
        about = {"job": record.job_id, "round": part.round_id}
        due = bool(later) and later[0].args["upheld"]
        _read(artefacts, part, who, event.args["evidence"], due, about)


def _read(
    artefacts: Artefacts,
    part: Part,
    who: str,
    digest: bytes,
    due: bool,
    about: dict[str, Any],
    steps: Replayed | None = None,
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
        if steps is not None:
            wrong += _step_errors(fields, steps)
    except StoreUnavailable:
        raise
    except StoreError:
        found = list(artefacts.failures())
        wrong = [failure.sentence for failure in found]
        due = due or any(failure.altered for failure in found)
    except ValueError as error:
        wrong = [f"it can't be used: {error}."]
    if due:
        part.counts["artefacts"] = part.counts.get("artefacts", 0) + 1
    for sentence in wrong:
        if due:
            part.differ("artefacts", who, sentence)
        else:
            part.remark(f"{who}: {sentence}")


def _step_errors(fields: dict[str, Any], steps: Replayed) -> list[str]:
    """What is wrong with the step that a report names, if it names one.

    A verifier of another determinism class than the accused names none that hashes can confirm.
    Raises ValueError for evidence that can't be read.
    """
    named = fields.get("bisection")
    if named is None or fields.get("same_class") is not True:
        return []
    evidence = Evidence.from_bytes(bytes.fromhex(str(named)))
    why = verify_evidence(evidence, steps.trace_root, steps.trace)
    return [] if why is None else [f"the step that it names doesn't hold: {why}"]
