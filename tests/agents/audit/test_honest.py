# SPDX-License-Identifier: Apache-2.0
"""The audit of a true history holds; with `deep` it also finds what nobody reported."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from agents.audit.replay import audit_job
from agents.audit.show import print_audit
from agents.protocol.network import Network
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.errors import AgentError
from agents.runtime.logs import open_log
from tests.stage.chain.finished_job import CONTESTED, JOB, ROUNDS, UNPUNISHED, FinishedJob


def stranger(finished: FinishedJob) -> Network:
    """A reader that shares nothing with whoever made the job."""
    chain = ChainClient(finished.url, open_log("audit test", "error", True, None))
    return Network(chain, load_deployment(finished.deployment))


@pytest.mark.parametrize("deep", [False, True])
def test_true_history_holds(finished: FinishedJob, deep: bool) -> None:
    audit = audit_job(stranger(finished), finished.store, JOB, deep=deep)
    assert [str(d) for d in audit.differences] == []
    assert audit.holds
    assert [part.remarks for part in audit.parts] == [[]] * (ROUNDS + 2)
    assert [part.status for part in audit.rounds] == [*["finalized"] * 3, "void", "finalized"]
    made = {name for part in audit.parts for name in part.counts}
    expected = {
        *("logs", "job", "opening", "seeds", "assignments", "commitments", "artefacts", "merge"),
        *("model", "votes", "ledger", "payouts", "slashes", "balances", "benchmarks", "tasks"),
    }
    assert made == (expected | {"training"} if deep else expected)
    if deep:
        assert sum(part.counts["training"] for part in audit.rounds if part.status != "void") == 14


def test_slashes_belong_to_their_rounds(finished: FinishedJob) -> None:
    """eve's INVALID is checked in round 2, bob's silence and eve's copy in round 3."""
    audit = audit_job(stranger(finished), finished.store, JOB, receipts=False)
    counts = {part.round_id: part.counts.get("slashes", 0) for part in audit.rounds}
    assert counts[2] > 0
    assert counts[3] == 2 * counts[2]
    assert counts[1] == counts[5] == 0


def test_one_round_is_audited_in_full_and_the_others_followed(finished: FinishedJob) -> None:
    audit = audit_job(stranger(finished), finished.store, JOB, round_id=3)
    assert audit.holds, [str(d) for d in audit.differences]
    assert [part.round_id for part in audit.rounds] == [3]
    assert audit.rounds[0].counts["merge"] > 0
    assert "balances" not in audit.job.counts


def test_only_deep_sees_what_nobody_reported(finished: FinishedJob) -> None:
    """cat was paid for noise: books and merge are right, its training isn't."""
    shallow = audit_job(stranger(finished), finished.store, UNPUNISHED)
    assert shallow.holds, [str(d) for d in shallow.differences]
    deep = audit_job(stranger(finished), finished.store, UNPUNISHED, deep=True)
    assert [(d.round_id, d.check, d.subject) for d in deep.differences] == [
        (1, "training", f"node {finished.node('cat')}")
    ]
    assert "gives something else than it revealed" in deep.differences[0].sentence


@pytest.mark.parametrize("deep", [False, True])
def test_every_slash_of_a_contested_round_is_by_rule(finished: FinishedJob, deep: bool) -> None:
    """A result undone, a proposer and two false reporters slashed, an appeal upheld: all by rule.

    bob's training is right, as the committee found, although he was invalid in the round.
    """
    audit = audit_job(stranger(finished), finished.store, CONTESTED, deep=deep)
    assert [str(d) for d in audit.differences] == []
    [part] = audit.rounds
    assert part.status == "finalized"
    fields = part.counts["slashes"]
    assert fields >= 3 * 8  # BAD_RESULT once, FALSE_REPORT twice


def test_json_and_table_say_the_same(finished: FinishedJob) -> None:
    audit = audit_job(stranger(finished), finished.store, UNPUNISHED, deep=True)
    told = json.loads(json.dumps(audit.to_json()))
    assert (told["version"], told["job"], told["holds"]) == (1, UNPUNISHED, False)
    [round_, job] = told["parts"]
    assert (round_["round"], round_["holds"], job["holds"]) == (1, False, True)
    assert round_["checks"]["training"] == {"compared": 3, "holds": False}
    assert round_["differences"][0]["subject"] == f"node {finished.node('cat')}"
    out = StringIO()
    print_audit(audit, Console(file=out, width=200))
    text = out.getvalue()
    assert "✗ Round 1 finalized" in text
    assert "✗ training 3" in text
    assert "✓ merge" in text
    assert "✗ 1 difference in" in text


def test_an_absent_job_or_round_is_refused_with_a_sentence(finished: FinishedJob) -> None:
    with pytest.raises(AgentError, match="There is no job 9"):
        audit_job(stranger(finished), finished.store, 9)
    with pytest.raises(AgentError, match="has no round 8; it has 5"):
        audit_job(stranger(finished), finished.store, JOB, round_id=8)
