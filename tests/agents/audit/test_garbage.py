# SPDX-License-Identifier: Apache-2.0
"""Artefacts that are what their digest says and not what they should be: named, never a crash."""

from __future__ import annotations

from typing import Any

import pytest
from eth_abi.abi import decode, encode

from agents.runtime.contracts import abi_type
from agents.storage.cid import digest_of
from tests.agents.audit.test_chain import target
from tests.stage.chain.changes import in_place_of
from tests.stage.chain.finished_job import JOB, FinishedJob
from tests.stage.chain.lying_sources import relogged

# Where a digest stands, and how a wrong artefact there is called.
_EVENTS = [
    ("Revealed", "content", "node"),
    ("Revealed", "proof", "node"),
    ("ResultProposed", "report", "report"),
    ("ResultProposed", "update", "update"),
    ("ViolationReported", "evidence", "evidence"),
]
_KINDS = ("job spec", "genesis checkpoint", "shard 0", "trace", "report")
_TERMS = [("spec", "job spec"), ("genesis_checkpoint", "genesis checkpoint")]


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(("event", "field", "called"), _EVENTS)
def test_a_digest_of_another_kind_in_an_event_is_said_not_to_be_one(
    finished: FinishedJob, event: str, field: str, called: str, kind: str
) -> None:
    """Several kinds of artefacts in every place of an event; what it is not is said."""
    log, type_, args = target(finished, event)
    digest = digest_of(finished.artefact(kind))
    lie = in_place_of(log, relogged(type_, log, {**args, field: digest}))
    audit = finished.audited(lie=lie, round_id=3)
    assert any(d.round_id == 3 and called in d.subject for d in audit.differences), [
        str(d) for d in audit.differences
    ]


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(("field", "called"), _TERMS)
def test_a_digest_of_another_kind_in_the_terms_leaves_the_chain_audited(
    finished: FinishedJob, field: str, called: str, kind: str
) -> None:
    """The same in the terms; an audit without a usable spec still checks the chain."""
    wrong = digest_of(finished.artefact(kind))
    function = finished.network.jobs.function("job", 1)

    def lie(method: str, params: list[Any], result: Any) -> Any:
        if method != "eth_call" or not params[0]["data"][2:].startswith(function.selector.hex()):
            return result
        [output] = function.abi["outputs"]
        [values] = decode([abi_type(output)], bytes.fromhex(result[2:]))
        at = [part["name"] for part in output["components"]].index("terms")
        inner = [part["name"] for part in output["components"][at]["components"]].index(field)
        terms = (*values[at][:inner], wrong, *values[at][inner + 1 :])
        values = (*values[:at], terms, *values[at + 1 :])
        return "0x" + encode([abi_type(output)], [values]).hex()

    audit = finished.audited(lie=lie, job=JOB)
    named = [d for d in audit.differences if d.subject == called]
    assert bool(named) != (kind == called)
    assert audit.holds == (kind == called)
    assert all(part.counts.get("payouts", 0) > 0 for part in audit.rounds)
