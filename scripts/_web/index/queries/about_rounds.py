# SPDX-License-Identifier: Apache-2.0
"""A round: its trainers and verifiers, the result, and where its money went."""

from __future__ import annotations

from scripts._web.index.models import RoundPage, Seat, Voice
from scripts._web.index.queries.about_jobs import clock, job_row, round_summary
from scripts._web.index.queries.about_money import CHAIN_ORDER, payment
from scripts._web.index.queries.about_reports import of_round
from scripts._web.index.queries.base import Row, cid_of, within
from scripts._web.index.reading import NotFound, Reading
from scripts._web.index.tables import PAYMENTS, ROUNDS, SEATS, VOICES


def round_(look: Reading, job_id: int, round_id: int) -> RoundPage:
    """A round. Raises NotFound."""
    here = {"job_id": job_id, "round_id": round_id}
    row = look.one(within(ROUNDS, **here))
    if row is None:
        job_row(look, job_id)
        raise NotFound(f"Job {job_id} has no round {round_id}.")
    seats = look.all(within(SEATS, **here).order_by(SEATS.c.node_id))
    voices = look.all(within(VOICES, **here).order_by(VOICES.c.node_id))
    paid = look.all(within(PAYMENTS, **here).order_by(*CHAIN_ORDER))
    same = ("opened_block", "opened_tx", "seed_block", "aggregators", "verifier_stake")
    also = ("attested_stake", "open_reports", "settled", "returned", "carried_on")
    texts = ("result_hash", "proposed_tx", "finalized_tx", "challenger")
    return RoundPage(
        at=look.at,
        job_id=job_id,
        summary=round_summary(row),
        clock=clock(row),
        **{name: row[name] for name in (*same, *also)},
        **{name: row[name] or None for name in texts},
        proposer=row["proposer"] or None,
        seats=[_seat(seat) for seat in seats],
        voices=[_voice(voice, row["result_hash"]) for voice in voices],
        update_cid=cid_of(row["update"]),
        report_cid=cid_of(row["report"]),
        challenge_evidence_cid=cid_of(row["challenge_evidence"]),
        reports=of_round(look, job_id, round_id),
        payments=[payment(each) for each in paid],
    )


def _seat(row: Row) -> Seat:
    same = ("node_id", "weight", "committed_at", "revealed_at", "duplicate", "invalid")
    also = ("contribution", "slashed", "paid", "consensus")
    texts = ("commit_tx", "reveal_tx", "content", "trace_root")
    return Seat(
        **{name: row[name] for name in (*same, *also)},
        **{name: row[name] or None for name in texts},
        content_cid=cid_of(row["content"]),
        proof_cid=cid_of(row["proof"]),
    )


def _voice(row: Row, result: str) -> Voice:
    attested = bool(result) and row["result_hash"] == result
    scores = ("score_committed_at", "score_revealed_at", "agreement", "trust")
    return Voice(
        **{name: row[name] for name in ("node_id", "stake", *scores)},
        attested=attested,
        attested_at=row["attested_at"] if attested else None,
        attest_tx=(row["attest_tx"] or None) if attested else None,
        record_cid=cid_of(row["record"]),
    )
