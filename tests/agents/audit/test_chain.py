# SPDX-License-Identifier: Apache-2.0
"""An RPC node that changes one field of one event, or of one answer, is found out by the rest.

Receipts are not looked at here: every field is held by what else the chain says. (With receipts,
any altered log is found as such: `test_receipts.py`.)
"""

from __future__ import annotations

from typing import Any

import pytest
from eth_abi.abi import decode, encode

from agents.audit.chain.opening import audit_seed
from agents.audit.sources.record import Record
from agents.audit.work import training
from agents.protocol.formulas import audit_key, round_key, seed
from agents.protocol.numbers import ZERO_DIGEST
from agents.runtime.contracts import abi_type
from agents.training.spec import JobSpec
from tests.stage.chain.changes import in_place_of, logs_of
from tests.stage.chain.finished_job import JOB, FinishedJob
from tests.stage.chain.lying_sources import Lie, changed, kinds_of, relogged

# By job and event, of round 3 or the last one before it: the fields changed, and what the finding
# names.
EVENTS: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "finished": {
        "JobCreated": (
            ("sponsor", "terms.spec", "terms.rounds", "terms.challenge_bond"),
            "JobCreated",
        ),
        "RoundOpened": (
            ("prev_model", "seed_block", "last weights", "verifiers shortened", "last stakes"),
            "RoundOpened",
        ),
        "SeedCaptured": (("target_block", "seed"), "seed"),
        "PhaseChanged": (("phase", "deadline"), "PhaseChanged"),
        "Committed": (("round_id", "node_id", "commitment"), "node"),
        "Revealed": (("node_id", "input_root", "content", "trace_root", "proof"), "node"),
        "DuplicateContent": (("content", "first_node", "second_node"), "DuplicateContent"),
        "ResultProposed": (
            ("proposer", "model", "update", "report", "result_hash", "last contributions"),
            "ResultProposed",
        ),
        "Attested": (("verifier_id", "result_hash", "weight"), ""),
        "ViolationReported": (("node_id", "verifier_id", "violation", "weight", "evidence"), ""),
        "ReportConfirmed": (("report_id", "node_id", "appeal_deadline"), ""),
        "NodeInvalidated": (("node_id", "round_id"), "node"),
        "RoundFinalized": (("model", "total_contribution"), "RoundFinalized"),
        "RoundRecorded": (
            (
                *("index", "prev_model", "new_model", "contributors_root", "scores_root"),
                *("report", "reward", "timestamp", "head"),
            ),
            "RoundRecorded",
        ),
        "PoolReserved": (("amount",), "PoolReserved"),
        "CutCredited": (("node_id", "payout", "amount"), "node"),
        "RewardsDistributed": (
            ("last nodes", "last payouts", "last amounts", "nodes shortened", "amounts lengthened"),
            "",
        ),
        "PayRetained": (("round_id", "node_id", "amount"), ""),
        "RetainedForfeited": (("node_id", "treasury", "amount"), ""),
        "RetainedReleased": (("node_id", "payout", "amount"), ""),
        "PoolClosed": (("paid", "returned"), "PoolClosed"),
        "PayCarried": (("amount", "for_trainers"), "PayCarried"),
        "RoundSettled": (("paid", "returned"), "RoundSettled"),
        "RoundVoided": (("round_id", "reason"), "RoundVoided"),
        "UnrevealedSlashed": (("node_id", "amount"), "node"),
        "ReportExecuted": (("node_id", "amount"), "node"),
        "NodeSlashed": (
            (
                *("node_id", "violation", "amount", "reporter", "reporter_share"),
                *("treasury_share", "suspended_until", "strikes", "banned"),
            ),
            "node",
        ),
        "PenaltyChanged": (("new_penalty.bps", "new_penalty.suspension", "old_penalty.bps"), ""),
        "NodeRegistered": (("owner", "operator", "payout", "stake"), "node"),
        "StakeAdded": (("amount", "stake"), ""),
        "BenchmarkSubmitted": (("units", "elapsed"), "node"),
        "BenchmarkSettled": (("passed", "score"), "node"),
        "JobFunded": (("amount", "escrow"), ""),
        "RewardClaimed": (("account", "amount"), "RewardClaimed"),
        "EscrowRefunded": (("sponsor", "amount"), "EscrowRefunded"),
        "JobEnded": (("status",), "JobEnded"),
    },
    "scored": {
        "JobAdopted": (("commit_s", "reveal_s"), ""),
        "SamplesPosted": (("node_id", "digest"), "node"),
        "ScoringOpened": (("commit_deadline",), "ScoringOpened"),
        "ScoresCommitted": (("verifier_id", "commitment"), "verifier"),
        "ScoreRevealStarted": (("deadline",), "ScoreRevealStarted"),
        "ScoresRevealed": (
            ("verifier_id", "last scores", "scores shortened", "scores lengthened", "record"),
            "verifier",
        ),
        "ScoringClosed": (
            (
                *("last nodes", "last consensus", "consensus lengthened", "scored"),
                *("last verifiers", "last agreements", "last trusts", "trusts shortened"),
            ),
            "",
        ),
        "CutCredited": (("amount",), "node"),
        "RewardsDistributed": (("last amounts", "nodes shortened"), ""),
    },
}
# By job and view: fields whose lie must be found.
VIEWS: dict[str, dict[str, tuple[str, ...]]] = {
    "finished": {
        "job": ("sponsor", "terms.spec", "terms.genesis_model", "rounds_done", "model", "status"),
        "round": (
            *("phase", "opened_block", "opened_at", "n_eligible", "n_committed", "n_revealed"),
            *("n_invalid", "seed_block", "seed", "audit_block", "audit_seed", "prev_model"),
            *("snapshot_hash", "verifier_stake", "attested_stake", "proposer", "result_hash"),
            *("model", "update", "report", "contributions_hash", "challenger", "settled"),
        ),
        "entry": (
            *("round_id", "prev_model", "new_model", "contributors_root", "scores_root"),
            *("report", "head", "timestamp", "reward"),
        ),
        "pool": (
            *("amount", "for_trainers", "trainer_amount", "total_contribution"),
            *("distributed", "paid", "status"),
        ),
        **dict.fromkeys(("commitment_of", "is_revealed", "is_invalid", "is_flagged"), ("",)),
        **dict.fromkeys(("verifier_weight", "escrow", "carried", "pending", "bounty"), ("",)),
        **dict.fromkeys(("total_pending", "total_reserved"), ("",)),
        "node": ("owner", "operator", "payout", "stake", "strikes", "suspended_until", "banned"),
        "penalty": ("bps", "escalation_bps", "reporter_bps"),
        "parameters": ("treasury",),
    },
    "scored": {
        "scoring": (
            *("phase", "commit_deadline", "reveal_deadline", "committed", "revealed"),
            *("total", "scored"),
        ),
        "shares": ("last ", " shortened"),
        **dict.fromkeys(("adopted", "last_scored", "trust_of", "record_of"), ("",)),
        **dict.fromkeys(("score_commitment_of", "samples_of"), ("",)),
        "pool": ("scored_round", "total_contribution", "distributed", "trainer_amount"),
    },
}


def target(finished: FinishedJob, event: str) -> tuple[Any, Any, dict[str, Any]]:
    """(raw log, its type, its fields): the last of job 1, in round 3 where there is one."""
    deployment = finished.network.deployment
    kinds = kinds_of(deployment)
    found = None
    for log in logs_of(deployment, finished.provider):
        contract, kind = kinds[log["address"].lower(), log["topics"][0]]
        if kind.abi["name"] == "JobCreated" and found and event != "JobCreated":
            break  # what follows is of later jobs
        if kind.abi["name"] != event or (contract.name == "NodeBenchmarks" and event[:4] == "Seed"):
            continue
        args = kind.decode(log).args
        if args.get("job_id", JOB) != JOB or args.get("round_id", 3) > 4:
            continue
        if args.get("key", round_key(JOB, 3)) != round_key(JOB, 3):
            continue
        if found is None or args.get("round_id", 3) <= 3:
            found = (log, kind, args)
    assert found is not None
    return found


@pytest.fixture
def played(request: pytest.FixtureRequest, job: str) -> FinishedJob:
    found: FinishedJob = request.getfixturevalue(job)
    return found


@pytest.mark.parametrize(
    ("job", "event", "field"),
    [
        (job, event, field)
        for job in EVENTS
        for event in EVENTS[job]
        for field in EVENTS[job][event][0]
    ],
)
def test_a_changed_field_of_an_event_is_named(
    played: FinishedJob, job: str, event: str, field: str
) -> None:
    """By its round and by event, node or verifier."""
    log, kind, args = target(played, event)
    top = field.removeprefix("last ").split(" ")[0].split(".")[0]
    item = next(i for i in kind.abi["inputs"] if i["name"] == top)
    lies = dict(changed(item, args[top]))
    lie = in_place_of(log, relogged(kind, log, {**args, top: lies[field]}))
    found = played.audited(lie=lie).differences
    places = {args.get("round_id", 0), 0} if "round_id" in args else set(range(6))
    named = EVENTS[job][event][1]
    assert any(named in str(d) and d.round_id in places for d in found), (
        f"the audit should name {named!r} in a round of {places}, and says {list(map(str, found))}"
    )


@pytest.mark.parametrize(
    ("job", "event"),
    [(job, event) for job in EVENTS for event in EVENTS[job] if event != "JobCreated"],
)
def test_an_event_left_out_is_missed(played: FinishedJob, event: str) -> None:
    log, _, _ = target(played, event)
    audit = played.audited(lie=in_place_of(log, None))
    assert not audit.holds, f"the audit should miss {event}, and finds that all holds"


@pytest.mark.parametrize(
    ("job", "view", "field"),
    [
        (job, view, field)
        for job in VIEWS
        for view, fields in VIEWS[job].items()
        for field in fields
    ],
)
def test_a_changed_field_of_an_answer_is_found(played: FinishedJob, view: str, field: str) -> None:
    done, lie = in_an_answer(played, view, field)
    audit = played.audited(lie=lie)
    assert done, f"the audit should ask for {view}"
    assert not audit.holds, f"the audit should find {field!r} of {view} changed"


def in_the_transaction(event: Any, word: int) -> Lie:
    """A lie about the transaction of an event: one word of what it was called with."""

    def lie(method: str, params: list[Any], result: Any) -> Any:
        if method != "eth_getTransactionByHash" or params[0] != "0x" + event.tx_hash.hex():
            return result
        data = bytearray.fromhex(result["input"][2:])
        data[4 + word * 32] ^= 1
        return {**result, "input": "0x" + data.hex()}

    return lie


def in_an_answer(finished: FinishedJob, view: str, field: str) -> tuple[list[str], Lie]:
    """A lie about one field of the first answer of a view, and the calls it was told in."""
    functions = {
        function.selector: function
        for contract in finished.network.deployment.contracts.values()
        for (name, _), function in contract._functions.items()
        if name == view
    }
    done: list[str] = []

    def lie(method: str, params: list[Any], result: Any) -> Any:
        if method != "eth_call":
            return result
        function = functions.get(bytes.fromhex(params[0]["data"][2:])[:4])
        if function is None or done not in ([], [params[0]["data"]]):
            return result
        [output] = function.abi["outputs"]
        [value] = decode([abi_type(output)], bytes.fromhex(result[2:]))
        lies = {label.removeprefix("."): other for label, other in changed(output, value)}
        done[:] = [params[0]["data"]]
        return "0x" + encode([abi_type(output)], [lies[field]]).hex()

    return done, lie


def test_another_salt_of_a_reveal_opens_no_commitment(finished: FinishedJob) -> None:
    network = finished.network
    head = network.chain.head().number
    first = next(iter(network.chain.events(network.rounds, "Revealed", 0, head, {"round_id": 1})))
    audit = finished.audited(lie=in_the_transaction(first, 6))
    assert [(d.round_id, d.subject) for d in audit.differences] == [
        (1, f"node {finished.node('ann')}")
    ]
    assert "its commitment is" in audit.differences[0].sentence


def test_another_hash_of_a_seed_block_gives_another_seed(finished: FinishedJob) -> None:
    """The seed doesn't follow from another block hash."""
    block = finished.network.round(JOB, 3).seed_block

    def lie(method: str, params: list[Any], result: Any) -> Any:
        if method == "eth_getBlockByNumber" and params[0] == hex(block):
            return {**result, "hash": "0x" + "12" * 32}
        return result

    audit = finished.audited(lie=lie)
    assert [(d.round_id, d.check, d.subject) for d in audit.differences] == [(3, "seeds", "seed")]
    assert finished.audited(lie=lie, random_source=True).holds


def test_an_audit_seed_that_nobody_captured_is_of_its_block_or_of_the_named_source(
    finished: FinishedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What agents use in its place: the contract's answer to a call."""
    record = Record(finished.network, JOB)
    state, network = record.current[1], record.network
    assert state.audit_seed == ZERO_DIGEST and state.audit_block
    pinned, key = record.header(state.audit_block).hash, audit_key(round_key(JOB, 1))
    assert audit_seed(record, 1, False) == seed(
        pinned, key, record.chain_id, network.results.address
    )
    asked: list[Any] = []
    monkeypatch.setattr(network, "early", lambda *given: asked.append(given) or b"\7" * 32)
    assert audit_seed(record, 1, True) == b"\7" * 32
    assert asked == [(network.results, "capture_audit_seed", JOB, 1)]


def test_the_source_that_the_auditor_named_also_draws_what_submissions_must_show(
    finished: FinishedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: set[bool] = set()
    monkeypatch.setattr(training, "audit_seed", lambda _, __, source: said.add(source))
    monkeypatch.setattr(JobSpec, "segment", property(lambda _: 1))
    for source in (False, True):
        said.clear()
        assert finished.audited(random_source=source).holds
        assert said == {source}
