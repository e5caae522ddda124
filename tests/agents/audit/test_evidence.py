# SPDX-License-Identifier: Apache-2.0
"""The step that a report's evidence names is checked against the audit's own replay."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from agents.audit.chain.evidence import Replayed, check_evidence
from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.storage.canonical import dumps
from agents.storage.cid import digest_of
from agents.training.trace import Trace
from agents.verify.bisection import Evidence
from agents.verify.spot_checks import reexecute
from tests.stage.memory.honest_round import DEVICE, HonestRound

CHEAT = 5
Reported = tuple[dict[str, Any], Replayed]


@pytest.fixture(scope="module")
def reported(tiny: HonestRound) -> Reported:
    """A node left out its last step: a verifier's evidence, and the replay of the node's steps."""
    own = Trace.from_bytes(tiny.works[CHEAT].trace, CHEAT, 2)
    forged = Trace(CHEAT, (*own.hashes[:2], own.hashes[1], own.hashes[3]))
    proof = {"trace": tiny.store.put_bytes(forged.to_bytes())}
    work = replace(
        tiny.works[CHEAT],
        trace=forged.to_bytes(),
        trace_root=forged.root(),
        proof=tiny.works[CHEAT].proof.model_copy(update=proof),
    )
    cheated = replace(tiny, works={**tiny.works, CHEAT: work})
    finding = reexecute(cheated.inputs(cheated.honest()), CHEAT, DEVICE, tiny.store)
    assert finding.trace == own
    return json.loads(finding.evidence), Replayed(forged.root(), finding.trace)


def audited(
    tiny: HonestRound, fields: dict[str, Any], replayed: Replayed | None, confirmed: bool = True
) -> tuple[list[str], list[str]]:
    """What the audit says against the evidence of one report, and what it only remarks."""
    digest = digest_of(tiny.store.put_bytes(dumps(fields)))
    args = {"report_id": b"id", "verifier_id": 9, "node_id": CHEAT, "evidence": digest}
    events = {
        "ViolationReported": [SimpleNamespace(args=args)],
        "ReportConfirmed": [SimpleNamespace(args=args)] if confirmed else [],
    }
    record: Any = SimpleNamespace(
        job_id=fields["job"],
        all=lambda name: events.get(name, []),
        of=lambda name, round_id: events.get(name, []),
    )
    part = Part(fields["round"])
    steps = {} if replayed is None else {CHEAT: replayed}
    check_evidence(record, Artefacts(tiny.store), part, steps)
    return [str(found) for found in part.differences], part.remarks


def altered(fields: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The evidence with another step."""
    evidence = Evidence.from_bytes(bytes.fromhex(fields["bisection"]))
    return {**fields, "bisection": replace(evidence, **changes).to_bytes().hex()}


def test_the_step_an_honest_verifier_names_holds(tiny: HonestRound, reported: Reported) -> None:
    assert audited(tiny, *reported) == ([], [])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"expected": b"\7" * 32}, "Replay doesn't give the hash that the evidence expects."),
        ({"claimed": b"\7" * 32}, "The claimed hash is not in the trace that the node committed"),
    ],
)
def test_a_step_that_does_not_hold_is_said(
    tiny: HonestRound, reported: Reported, change: dict[str, bytes], why: str
) -> None:
    fields, replayed = reported
    (found,), _ = audited(tiny, altered(fields, **change), replayed)
    assert f"the step that it names doesn't hold: {why}" in found


def test_a_false_step_of_a_report_that_convinced_nobody_is_only_remarked(
    tiny: HonestRound, reported: Reported
) -> None:
    fields, replayed = reported
    found, (remark,) = audited(tiny, altered(fields, expected=b"\7" * 32), replayed, False)
    assert found == []
    assert "doesn't hold" in remark


def test_a_step_that_no_hash_speaks_of_is_left_alone(tiny: HonestRound, reported: Reported) -> None:
    """Nothing was replayed, or the verifier computes in another class than the accused."""
    fields, replayed = reported
    false = altered(fields, expected=b"\7" * 32)
    assert audited(tiny, false, None) == ([], [])
    assert audited(tiny, {**false, "same_class": False}, replayed) == ([], [])


@pytest.mark.parametrize("named", ["zz", "00", 7])
def test_an_unreadable_step_is_said(tiny: HonestRound, reported: Reported, named: object) -> None:
    fields, replayed = reported
    (found,), _ = audited(tiny, {**fields, "bisection": named}, replayed)
    assert "it can't be used" in found
