# SPDX-License-Identifier: Apache-2.0
"""A job paid by consensus: a true history holds, and whatever is altered in it is found and named.

Receipts are not looked at here, as in `test_chain.py`, which alters its events and answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.audit.chain.opening import Opened
from agents.audit.chain.scores import Scored, Scores, Vector
from agents.audit.replay import audit_job
from agents.audit.sources.findings import Audit, Difference
from agents.gauntlet.record import ScoreRecord
from agents.gauntlet.replay import digest_of_record
from agents.storage.embedded import EmbeddedStore
from tests.agents.audit.test_chain import in_the_transaction
from tests.agents.audit.test_honest import stranger
from tests.stage.chain.finished_job import JOB
from tests.stage.chain.finished_scored_job import ROUNDS, FinishedScoredJob
from tests.stage.chain.lying_sources import LyingStore
from tests.stage.chain.people import TRAINERS

_WHOLE = 1 << 20
LOSSES = ("assigned", "random", "expected")
FIGURES = (*LOSSES, "shown", "extra")


@pytest.mark.parametrize("deep", [False, True])
def test_true_history_holds(scored: FinishedScoredJob, deep: bool) -> None:
    """Nor is there a remark: vera, who lost her disk, goes on from her record in the store.

    The chain's seeds deal the data, and a model this small is said little: two honest payloads may
    look alike by chance, of which a deep audit says that it can't tell whose data they are.
    """
    audit = audit_job(stranger(scored), scored.store, JOB, deep=deep)
    assert [str(d) for d in audit.differences] == []
    remarks = [(part.round_id, remark) for part in audit.parts for remark in part.remarks]
    alike = "Whose data it comes from is unclear"
    assert [one for one in remarks if not (deep and alike in one[1])] == []
    assert [part.status for part in audit.rounds] == ["finalized"] * ROUNDS
    for part in audit.rounds:
        assert part.counts["scores"] > 0
        assert ("ratings" in part.counts) == (part.round_id != 4)
        assert ("losses" in part.counts) == (deep and part.round_id != 4)


def test_the_job_was_played_as_the_other_tests_expect(scored: FinishedScoredJob) -> None:
    """What the other tests rest on: scored and unscored rounds, cuts that were scaled and lost."""
    closings = {e.args["round_id"]: e.args for e in events(scored, "ScoringClosed")}
    assert set(closings) == {1, 2, 3, 5}
    assert any(closings[n]["scored"] for n in (1, 2, 3))
    eve = closings[2]["nodes"].index(scored.node("eve"))
    assert closings[2]["consensus"][eve] == 0
    vito = closings[2]["verifiers"].index(scored.node("vito"))
    assert closings[2]["agreements"][vito] == 0
    paid = {(e.args["round_id"], e.args["node_id"]) for e in events(scored, "CutCredited")}
    judges = [scored.node(name) for name in ("vic", "vera", "vito")]
    assert not any((4, judge) in paid for judge in judges)
    assert (2, judges[2]) not in paid and (3, judges[2]) not in paid


def events(scored: FinishedScoredJob, name: str) -> list[Any]:
    """All events of a name in job 1."""
    network = scored.network
    contract = network.pool if name == "CutCredited" else network.scores
    head = network.chain.head().number
    return list(network.chain.events(contract, name, 0, head, {"job_id": JOB}))


# -- the chain ------------------------------------------------------------------------------------


def test_another_salt_of_scores_opens_no_commitment(scored: FinishedScoredJob) -> None:
    [first, *_] = events(scored, "ScoresRevealed")
    [found] = scored.audited(lie=in_the_transaction(first, 5)).differences
    assert (found.round_id, found.subject) == (1, f"verifier {first.args['verifier_id']}")
    assert "its commitment to scores is" in found.sentence


# -- records --------------------------------------------------------------------------------------


def test_a_record_that_is_gone_or_altered_is_named(scored: FinishedScoredJob) -> None:
    """By the verifier whose it is; the rest of the audit goes on."""
    [first, *_] = events(scored, "ScoresRevealed")
    verifier, cid = first.args["verifier_id"], scored.store.resolve(first.args["record"])
    data = scored.store.get(cid, _WHOLE)
    for wrong, words in ((None, "missing"), (data[:-1] + b"]", "has other bytes")):
        audit = scored.audited(LyingStore(scored.store, cid, wrong))
        found = [d for d in audit.differences if d.round_id == 1]
        assert [(d.check, d.subject) for d in found] == [
            ("ratings", f"record of verifier {verifier}")
        ]
        assert words in found[0].sentence


def first_of(round_id: int, scored: FinishedScoredJob) -> tuple[int, ScoreRecord]:
    """The first verifier that revealed in a round, and its record."""
    event = next(e for e in events(scored, "ScoresRevealed") if e.args["round_id"] == round_id)
    raw = scored.store.get_digest(bytes(event.args["record"]), _WHOLE)
    return event.args["verifier_id"], ScoreRecord.from_bytes(raw)


def audited_with(
    scored: FinishedScoredJob,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    round_id: int,
    change: Callable[[ScoreRecord], ScoreRecord | bytes],
    deep: bool = False,
) -> tuple[Audit, int]:
    """The audit of a chain that names another record, well formed, and its verifier."""
    verifier, honest = first_of(round_id, scored)
    made = change(honest)
    raw = made if isinstance(made, bytes) else made.to_bytes()
    store = EmbeddedStore(folder / "store")
    store.put_bytes(raw)
    truly = Scores.replay

    def replay(self: Scores, part: Any, opened: Opened) -> Scored | None:
        found = truly(self, part, opened)
        if found is None or part.round_id != round_id:
            return found
        other = Vector(found.vectors[verifier].scores, digest_of_record(raw))
        return replace(found, vectors={**found.vectors, verifier: other})

    monkeypatch.setattr(Scores, "replay", replay)
    return scored.audited(Both(scored.store, store), round_id=round_id, deep=deep), verifier


class Both:
    """Two stores as one."""

    def __init__(self, *stores: EmbeddedStore) -> None:
        self._stores = stores
        self.location = stores[0].location

    def resolve(self, digest: bytes) -> str:
        """The CID, where there is one."""
        for store in self._stores[::-1]:
            try:
                return store.resolve(digest)
            except Exception:
                continue
        return self._stores[0].resolve(digest)

    def get(self, cid: str, max_bytes: int) -> bytes:
        """From whichever has it."""
        return next((s for s in self._stores if s.has(cid)), self._stores[0]).get(cid, max_bytes)


def rated(index: int, **changes: int) -> Callable[[ScoreRecord], ScoreRecord]:
    """A rating that is off by so much."""

    def change(record: ScoreRecord) -> ScoreRecord:
        lines = list(record.ratings)
        lines[index] = lines[index].model_copy(
            update={name: getattr(lines[index], name) + by for name, by in changes.items()}
        )
        return record.model_copy(update={"ratings": lines})

    return change


def line_of(
    node: str, scored: FinishedScoredJob, **changes: Any
) -> Callable[[ScoreRecord], ScoreRecord]:
    """Another line for a node; numbers are added, anything else replaces."""

    def change(record: ScoreRecord) -> ScoreRecord:
        lines = [
            line.model_copy(
                update={
                    name: getattr(line, name) + by if type(by) is int else by
                    for name, by in changes.items()
                }
            )
            if line.node == scored.node(node)
            else line
            for line in record.scores
        ]
        return record.model_copy(update={"scores": lines})

    return change


def said(**changes: Any) -> Callable[[ScoreRecord], ScoreRecord]:
    """Another field of the record itself."""
    return lambda record: record.model_copy(update=changes)


# (round, what is changed given the job, words of the finding)
RECORDS: dict[str, tuple[int, Callable[[FinishedScoredJob], Callable[..., Any]], str]] = {
    "skill": (1, lambda _: rated(0, skill=10), "skill of node"),
    "sigma": (1, lambda _: rated(1, sigma=-10), "sigma of node"),
    "mu": (1, lambda _: rated(2, mu=10), "mu of node"),
    "extra": (1, lambda _: rated(2, extra=10), "extra of node"),
    "unseen": (2, lambda _: rated(3, unseen=1), "unseen of node"),
    "a rating fewer": (1, lambda _: lambda r: said(ratings=r.ratings[1:])(r), "are rated"),
    "score": (1, lambda p: line_of("bob", p, score=5), "the scores in its record"),
    "match": (
        *(1, lambda p: line_of("bob", p, evaluated=False, **dict.fromkeys(FIGURES))),
        "took part in the match",
    ),
    "previous": (2, lambda _: said(previous="ab" * 32), "the record that its record follows"),
    "position": (2, lambda _: said(position=7), "does not come after"),
    "audit seed": (1, lambda _: said(audit_seed="ef" * 32), "audit_seed of its record"),
    "model": (1, lambda _: said(model="01" * 32), "model of its record"),
    "round": (1, lambda _: said(round=9), "job, round and verifier"),
    "verifier": (1, lambda _: said(verifier=99), "job, round and verifier"),
    "a lie about a failure": (
        *(2, lambda p: line_of("eve", p, failure="", usable=True)),
        "its record calls the payload usable",
    ),
    "SyncScore": (2, lambda p: line_of("bob", p, sync=5), "its SyncScore is 0.005"),
    "nonsense": (1, lambda _: lambda r: b"{}", "can't be used"),
    "spelling": (1, lambda _: lambda r: r.to_bytes() + b" ", "can't be used"),
}


@pytest.mark.parametrize("what", RECORDS)
def test_the_verifier_of_a_changed_record_is_named(
    scored: FinishedScoredJob, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_id, change, words = RECORDS[what]
    audit, verifier = audited_with(scored, tmp_path, monkeypatch, round_id, change(scored))
    found = [d for d in audit.differences if d.check == "ratings"]
    assert any(words in d.sentence for d in found), [str(d) for d in audit.differences]
    assert all(f"verifier {verifier}" in d.subject for d in found)


def test_a_node_whose_payload_is_said_to_have_been_missing_is_remarked(
    scored: FinishedScoredJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been missing then, which nobody can tell now."""
    change = line_of("bob", scored, failure="unavailable: nobody had it", evaluated=False)
    whole = line_of("bob", scored, usable=False, **dict.fromkeys(FIGURES))
    audit, verifier = audited_with(
        scored, tmp_path, monkeypatch, 1, lambda record: whole(change(record))
    )
    who = f"verifier {verifier}, node {scored.node('bob')}"
    remarks = [remark for part in audit.rounds for remark in part.remarks]
    assert remarks == [f'{who}: its record says "unavailable: nobody had it", which is not so now.']


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"usable": False, "failure": "not revealed in time", "evaluated": False}, "use of"),
        ({"usable": False, "failure": "bad payload: made up"}, "use of"),
        ({"failure": "out of sync by 99 steps, at most 3"}, "not so"),
        ({"failure": "", "sync": None}, "no SyncScore"),
    ],
)
def test_a_failure_that_public_bytes_deny_is_a_difference(
    scored: FinishedScoredJob,
    change: dict[str, Any],
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A validator makes one up, and scores an honest node at 0; ratings and vector follow from it.
    The committee overrules such a record, and the audit said nothing of it."""
    unmeasured = {} if change.get("usable", True) else dict.fromkeys(FIGURES)
    lie = line_of("bob", scored, **change, **unmeasured)
    audit, verifier = audited_with(scored, tmp_path, monkeypatch, 1, lie)
    who = f"verifier {verifier}, node {scored.node('bob')}"
    assert any(d.subject == who and word in d.sentence for d in audit.differences)


def test_fresh_ratings_are_remarked(
    scored: FinishedScoredJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what follows from them is still held to the record."""
    audit, verifier = audited_with(
        scored, tmp_path, monkeypatch, 2, said(previous=None, position=0)
    )
    remarks = [remark for part in audit.rounds for remark in part.remarks]
    assert len(remarks) == 1 and f"verifier {verifier} started from fresh ratings" in remarks[0]
    assert any("replay gives" in d.sentence for d in audit.differences)


@pytest.mark.parametrize("name", LOSSES)
def test_only_deep_sees_an_invented_loss(
    scored: FinishedScoredJob, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By half a milli-nat; the ratings may well follow from it."""
    _, honest = first_of(1, scored)
    node = next(name for name in TRAINERS if scored.node(name) == honest.scores[0].node)
    change = line_of(node, scored, **{name: 500_000})
    shallow, _ = audited_with(scored, tmp_path, monkeypatch, 1, change)
    assert not losses(shallow)
    monkeypatch.undo()
    audit, verifier = audited_with(scored, tmp_path / "deep", monkeypatch, 1, change, deep=True)
    assert [d.subject for d in losses(audit)] == [f"verifier {verifier}, node {scored.node(node)}"]
    assert f"its {name} LossScore is" in losses(audit)[0].sentence


def losses(audit: Audit) -> list[Difference]:
    return [d for d in audit.differences if d.check == "losses"]


# -- what the consensus decides -------------------------------------------------------------------


def replayed_with(monkeypatch: pytest.MonkeyPatch, change: Callable[[Scored], Scored]) -> None:
    """Audits take something else for what the scores of a round come to."""
    truly = Scores.replay

    def replay(self: Scores, part: Any, opened: Opened) -> Scored | None:
        found = truly(self, part, opened)
        return None if found is None else change(found)

    monkeypatch.setattr(Scores, "replay", replay)


def test_merged_are_the_top_of_the_last_scored_round(
    scored: FinishedScoredJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another standing the merge of some later round is another one."""
    replayed_with(monkeypatch, lambda found: replace(found, standing={}))
    audit = scored.audited()
    wrong = [d for d in audit.differences if "merged in the report" in d.sentence]
    assert wrong and all(d.check == "merge" and d.round_id > 1 for d in wrong)


def test_payouts_follow_the_consensus(
    scored: FinishedScoredJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another consensus, or another trust, is another pay in every scored round."""

    def doubled(found: Scored) -> Scored:
        return replace(found, consensus={n: share + 1_000 for n, share in found.consensus.items()})

    replayed_with(monkeypatch, doubled)
    scored_in = {e.args["round_id"] for e in events(scored, "ScoringClosed") if e.args["scored"]}
    wrong = {d.round_id for d in scored.audited().differences if d.check == "payouts"}
    assert wrong == scored_in


def test_a_lost_sync_sample_is_remarked(scored: FinishedScoredJob) -> None:
    """It is the node's to keep, and nobody can tell since when it is gone. All who start from one
    model have the same sample."""
    [first, *_] = events(scored, "SamplesPosted")
    cid = scored.store.resolve(first.args["digest"])
    audit = scored.audited(LyingStore(scored.store, cid, None), round_id=1)
    assert audit.holds, [str(d) for d in audit.differences]
    [part] = audit.rounds
    for name in TRAINERS:
        start = f"node {scored.node(name)}: what records say of its payload or sample"
        assert sum(remark.startswith(start) for remark in part.remarks) == 1
    assert sum("sync sample of node" in remark for remark in part.remarks) == 1
