# SPDX-License-Identifier: Apache-2.0
"""Every stored artefact: flipped, replaced, cut or missing, it is found and named."""

from __future__ import annotations

import pytest

from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Audit
from agents.jobs import job as job_file
from agents.rounds.proof import ProofOfComputation
from agents.runtime.errors import ConfigError
from agents.storage.errors import CorruptContent, NotFound, StoreError, TooLarge
from tests.stage.chain.finished_job import ARTEFACTS, CONTESTED, JOB, FinishedJob
from tests.stage.chain.lying_sources import LyingStore

# Artefacts that many of an audit's steps need: other differences follow from their loss.
_OWNED = {"payload": "ann", "proof": "ann", "trace": "ann"}
_PLACES = (0, -1)  # sampled; every byte is flipped in `test_any_byte` below
_WHOLE = 1 << 24


def assert_named(finished: FinishedJob, audit: Audit, kind: str, cid: str, words: str) -> None:
    """One difference is of this artefact, by name and CID or digest, and says what is wrong."""
    assert not audit.holds, f"the audit should miss the {kind}"
    owner = f" of node {finished.node(_OWNED[kind])}" if kind in _OWNED else ""
    if kind == "evidence":
        owner = f" of verifier {finished.node('vic')} against node {finished.node('eve')}"
    named = [d for d in audit.differences if d.subject == kind + owner]
    assert named, [str(d) for d in audit.differences]
    assert any(cid in d.sentence and words in d.sentence for d in named), named


def flipped(data: bytes, place: int) -> bytes:
    place %= len(data)
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("kind", ARTEFACTS)
def test_the_audit_names_an_artefact_with_a_flipped_byte(finished: FinishedJob, kind: str) -> None:
    cid = finished.artefact(kind)
    data = finished.store.get(cid, _WHOLE)
    for place in _PLACES:
        store = LyingStore(finished.store, cid, flipped(data, place))
        audit = finished.audited(store)
        assert store.asked
        assert_named(finished, audit, kind, cid, "has other bytes than it must")


@pytest.mark.parametrize("kind", ARTEFACTS)
def test_the_audit_names_a_replaced_artefact(finished: FinishedJob, kind: str) -> None:
    """What the store gives is a valid artefact of the job, but not the one that was asked for."""
    cid = finished.artefact(kind)
    other = finished.outcomes[JOB, 5]
    reveal = finished.network.reveals(JOB, 2, 0)[finished.node("ann")]
    spec = finished.published.spec.model_copy(update={"data_seed": 7})
    data = {
        "job spec": spec.to_bytes,
        "genesis checkpoint": lambda: other.checkpoint,
        "dataset manifest": spec.to_bytes,
        "shard 0": lambda: bytes(len(finished.store.get(cid, _WHOLE))),
        "payload": lambda: finished.store.get_digest(reveal.content, _WHOLE),
        "proof": lambda: finished.store.get_digest(reveal.proof, _WHOLE),
        "trace": lambda: finished.store.get(finished.trace(2), _WHOLE),
        "update": lambda: other.update,
        "checkpoint": lambda: other.checkpoint,
        "report": other.report.to_bytes,
        "evidence": lambda: finished.store.get(finished.evidence[1], _WHOLE),
    }[kind]()
    assert data is not None
    audit = finished.audited(LyingStore(finished.store, cid, data))
    assert_named(finished, audit, kind, cid, "has other bytes than it must")


@pytest.mark.parametrize("kind", ARTEFACTS)
def test_the_audit_names_a_missing_artefact(finished: FinishedJob, kind: str) -> None:
    cid = finished.artefact(kind)
    audit = finished.audited(LyingStore(finished.store, cid, None))
    assert_named(finished, audit, kind, cid, "is missing from the store")


@pytest.mark.parametrize("round_id", [2, 3])
@pytest.mark.parametrize("kind", ["payload", "proof", "trace"])
def test_a_byte_changed_of_what_a_slashed_node_revealed_is_named(
    finished: FinishedJob, kind: str, round_id: int
) -> None:
    """eve was found invalid in both rounds. What she published may be missing, and is remarked
    then; other bytes under its CID are the store's lie."""
    eve = finished.node("eve")
    reveal = finished.network.reveals(JOB, round_id, 0)[eve]
    proof = ProofOfComputation.from_bytes(finished.store.get_digest(reveal.proof, _WHOLE))
    cid = {
        "payload": finished.store.resolve(reveal.content),
        "proof": finished.store.resolve(reveal.proof),
        "trace": proof.trace,
    }[kind]
    data = finished.store.get(cid, _WHOLE)
    for place in _PLACES:
        audit = finished.audited(LyingStore(finished.store, cid, flipped(data, place)))
        found = [d for d in audit.differences if cid in d.sentence]
        owner = "ann" if (kind, round_id) == ("payload", 3) else "eve"  # she copied it
        subjects = {f"{kind} of node {finished.node(name)}" for name in ("eve", owner)}
        assert found and all(d.subject in subjects for d in found), [str(d) for d in found]
        assert "has other bytes than it must" in found[0].sentence
    missing = finished.audited(LyingStore(finished.store, cid, None))
    remarks = [remark for part in missing.rounds for remark in part.remarks]
    if owner == "eve":
        assert any(cid in remark for remark in remarks)


def test_a_byte_changed_of_evidence_that_convinced_nobody_is_named(finished: FinishedJob) -> None:
    """The first accuser of a third job, whose report an appeal undid: altered is not missing."""
    for cid in finished.evidence[-2:]:
        data = finished.store.get(cid, _WHOLE)
        store = LyingStore(finished.store, cid, flipped(data, 0))
        found = finished.audited(store, job=CONTESTED).differences
        assert any(cid in d.sentence and "other bytes" in d.sentence for d in found)


def test_a_lost_update_does_not_end_the_audit(finished: FinishedJob) -> None:
    """The model after a round is known from its merge or a checkpoint, so later rounds hold."""
    audit = finished.audited(LyingStore(finished.store, finished.artefact("update"), None))
    assert {d.round_id for d in audit.differences} == {1}
    assert [d.subject for d in audit.differences] == ["update"]


def test_a_lost_payload_is_the_only_thing_not_known(finished: FinishedJob) -> None:
    """The merge of its round can't be done again, which is said; the model is, by the update."""
    audit = finished.audited(LyingStore(finished.store, finished.artefact("payload"), None))
    assert {d.round_id for d in audit.differences} == {1}
    assert {d.check for d in audit.differences} == {"artefacts", "merge"}
    assert audit.rounds[0].counts["model"] > 0


def test_no_artefact_with_any_byte_changed_is_taken_for_it(finished: FinishedJob) -> None:
    for kind in ARTEFACTS:
        cid = finished.artefact(kind)
        data = finished.store.get(cid, _WHOLE)
        step = max(1, len(data) // 400)
        for place in range(0, len(data), step):
            lying = Artefacts(LyingStore(finished.store, cid, flipped(data, place)))  # type: ignore[arg-type]
            lying.name(cid, kind)
            with pytest.raises(CorruptContent):
                lying.get(cid, len(data))
            [failure] = lying.failures()
            assert failure.names == (kind,) and cid in failure.sentence and failure.altered


def test_longer_shorter_and_absent_artefacts_are_refused(finished: FinishedJob) -> None:
    cid = finished.artefact("report")
    data = finished.store.get(cid, _WHOLE)
    for wrong, error in ((data + b" ", TooLarge), (data[:-1], CorruptContent), (None, NotFound)):
        with pytest.raises(error):
            Artefacts(LyingStore(finished.store, cid, wrong)).get(cid, len(data))  # type: ignore[arg-type]


def test_an_audit_writes_nothing(finished: FinishedJob) -> None:
    """Whoever is handed the audit's store can't put anything into it."""
    artefacts = Artefacts(finished.store)
    for write in (artefacts.put_bytes, artefacts.put_file, artefacts.pin):
        with pytest.raises(StoreError, match="only reads"):
            write(b"")  # type: ignore[operator]


def test_a_machine_that_is_too_small_says_so_and_calls_nothing_wrong(
    finished: FinishedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told that the job's spec can't be used, as of a job that is wrong."""
    monkeypatch.setattr(job_file, "memory_here", lambda: 50_000)
    with pytest.raises(ConfigError, match="too small to audit"):
        finished.audited()
