# SPDX-License-Identifier: Apache-2.0
"""TrainingJobs, TrainingLedger and the escrow of RewardPool: what a job is, and what is left of it.

Rule: the same arithmetic as the contracts', so that a row equals what they answer at that block.
"""

from __future__ import annotations

from agents.protocol.numbers import JobStatus
from scripts._web.index.entry import Entry, Folds
from scripts._web.index.rows import Rows
from scripts._web.index.tables import JOBS, ROUNDS
from scripts._web.index.words import hexed, plain


def created(rows: Rows, entry: Entry) -> None:
    """A sponsor created a job."""
    terms = entry.args["terms"]
    rows.change(
        JOBS,
        entry.args["job_id"],
        sponsor=entry.args["sponsor"],
        terms=plain(terms),
        status=int(JobStatus.ACTIVE),
        model=hexed(terms.genesis_model),
        created_at=entry.time,
        created_block=entry.block,
    )


def cancel_requested(rows: Rows, entry: Entry) -> None:
    """Its sponsor wants it to end."""
    rows.change(JOBS, entry.args["job_id"], cancel_requested=True)


def ended(rows: Rows, entry: Entry) -> None:
    """It is complete or cancelled."""
    rows.change(JOBS, entry.args["job_id"], status=entry.args["status"], ended_at=entry.time)


def adopted(rows: Rows, entry: Entry) -> None:
    """Validators' scores pay its trainers."""
    rows.change(JOBS, entry.args["job_id"], scored=True)


def absent(rows: Rows, entry: Entry) -> None:
    """A node is not waited for any more, or is again."""
    job = rows.row(JOBS, entry.args["job_id"])
    nodes = {*job["absent"]} - {entry.args["node_id"]}
    job["absent"] = sorted(nodes | ({entry.args["node_id"]} if entry.args["absent"] else set()))


def recorded(rows: Rows, entry: Entry) -> None:
    """The ledger has a new entry: the job's model is that round's."""
    args = entry.args
    rows.change(JOBS, args["job_id"], model=hexed(args["new_model"]))
    rows.change(ROUNDS, *entry.place, ledger_index=args["index"], ledger_head=hexed(args["head"]))


# -- its money ---------------------------------------------------------------------------------


def funded(rows: Rows, entry: Entry) -> None:
    """Somebody paid into its escrow."""
    job = rows.row(JOBS, entry.args["job_id"])
    job["escrow"] = entry.args["escrow"]
    job["funded"] += entry.args["amount"]


def reserved(rows: Rows, entry: Entry) -> None:
    """A round's pool was set aside: its reward from the escrow, and what was carried to it."""
    job = rows.row(JOBS, entry.args["job_id"])
    job["escrow"] -= entry.args["amount"] - job["carried"]
    job["carried"] = 0
    rows.change(ROUNDS, *entry.place, pool=entry.args["amount"])


def closed(rows: Rows, entry: Entry) -> None:
    """A round's pool is closed: what goes back to the escrow."""
    rows.row(JOBS, entry.args["job_id"])["escrow"] += entry.args["returned"]
    rows.change(ROUNDS, *entry.place, returned=entry.args["returned"])


def carried(rows: Rows, entry: Entry) -> None:
    """What a round did not pay goes to the job's next one."""
    rows.row(JOBS, entry.args["job_id"])["carried"] += entry.args["amount"]
    rows.change(ROUNDS, *entry.place, carried_on=entry.args["amount"])


def carried_forfeited(rows: Rows, entry: Entry) -> None:
    """The job has no next round: the treasury gets what was carried."""
    rows.change(JOBS, entry.args["job_id"], carried=0)


def share_settled(rows: Rows, entry: Entry) -> None:
    """The share of a guilty node is carried to the job's next round."""
    if entry.args["guilty"]:
        rows.row(JOBS, entry.args["job_id"])["carried"] += entry.args["amount"]


def refunded(rows: Rows, entry: Entry) -> None:
    """The sponsor took back what was left."""
    job = rows.row(JOBS, entry.args["job_id"])
    job["escrow"] -= entry.args["amount"]
    job["refunded"] += entry.args["amount"]


FOLDS: Folds = {
    "JobCreated": created,
    "JobCancelRequested": cancel_requested,
    "JobEnded": ended,
    "JobAdopted": adopted,
    "NodeAbsent": absent,
    "RoundRecorded": recorded,
    "JobFunded": funded,
    "PoolReserved": reserved,
    "PoolClosed": closed,
    "PayCarried": carried,
    "CarriedForfeited": carried_forfeited,
    "ShareSettled": share_settled,
    "EscrowRefunded": refunded,
}
