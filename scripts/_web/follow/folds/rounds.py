# SPDX-License-Identifier: Apache-2.0
"""TrainingRounds and TrainingResults: a round, its trainers' seats and its verifiers' voices."""

from __future__ import annotations

from agents.protocol.numbers import UNCLAIMED, Phase
from scripts._web.index.entry import Entry, Folds
from scripts._web.index.rows import Row, Rows
from scripts._web.index.tables import JOBS, ROUNDS, SEATS, VOICES
from scripts._web.index.words import hexed


def opened(rows: Rows, entry: Entry) -> None:
    """A round was opened. Its trainers are known unless seats are drawn, which `seated` says."""
    args = entry.args
    # With more candidates than seats the trainers are drawn later, by the round's seed.
    job = rows.row(JOBS, args["job_id"])
    drawn = len(args["nodes"]) > int(job["terms"]["max_nodes"])
    job["rounds_opened"] = args["round_id"]
    rows.change(
        ROUNDS,
        *entry.place,
        phase=int(Phase.COMMIT),
        opened_block=entry.block,
        opened_at=entry.time,
        opened_tx=entry.tx,
        prev_model=hexed(args["prev_model"]),
        seed_block=args["seed_block"],
        aggregators=list(args["aggregators"]),
        verifier_stake=sum(args["stakes"]),
    )
    for node, stake in zip(args["verifiers"], args["stakes"], strict=True):
        rows.change(VOICES, *entry.place, node, stake=stake)
    if not drawn:
        seated(rows, entry)


def seated(rows: Rows, entry: Entry) -> None:
    """The round's trainers and their weights."""
    rows.change(ROUNDS, *entry.place, n_eligible=len(entry.args["nodes"]))
    for node, weight in zip(entry.args["nodes"], entry.args["weights"], strict=True):
        rows.change(SEATS, *entry.place, node, weight=weight)


def phase_changed(rows: Rows, entry: Entry) -> None:
    """The round is in another phase."""
    phase, deadline = entry.args["phase"], entry.args["deadline"]
    row = rows.row(ROUNDS, *entry.place)
    row.update(phase=phase, deadline=deadline, phase_since=entry.time)
    if phase in (Phase.FINALIZED, Phase.VOID):
        row["ended_at"] = entry.time
    if phase != Phase.DISPUTED:
        row["challenger"] = ""  # a dispute that nobody decided in time has no other event


def committed(rows: Rows, entry: Entry) -> None:
    """A trainer committed to its work."""
    seat = rows.row(SEATS, *entry.place, entry.args["node_id"])
    seat.update(commit_tx=entry.tx, committed_at=entry.time)
    rows.row(ROUNDS, *entry.place)["n_committed"] += 1


def revealed(rows: Rows, entry: Entry) -> None:
    """A trainer showed what it had committed to."""
    args = entry.args
    seat = rows.row(SEATS, *entry.place, args["node_id"])
    seat.update(reveal_tx=entry.tx, revealed_at=entry.time)
    seat.update({name: hexed(args[name]) for name in _SHOWN})
    rows.row(ROUNDS, *entry.place)["n_revealed"] += 1


_SHOWN = ("content", "input_root", "trace_root", "proof")


def duplicated(rows: Rows, entry: Entry) -> None:
    """Two trainers revealed the same content."""
    for node in (entry.args["first_node"], entry.args["second_node"]):
        rows.change(SEATS, *entry.place, node, duplicate=True)


def unrevealed(rows: Rows, entry: Entry) -> None:
    """A trainer committed, did not reveal, and lost stake."""
    rows.row(SEATS, *entry.place, entry.args["node_id"])["slashed"] += entry.args["amount"]


# -- what came of it ---------------------------------------------------------------------------


def proposed(rows: Rows, entry: Entry) -> None:
    """A result stands."""
    args = entry.args
    row = rows.row(ROUNDS, *entry.place)
    row.update({name: hexed(args[name]) for name in ("model", "update", "report", "result_hash")})
    row.update(proposer=args["proposer"], proposed_tx=entry.tx, attested_stake=0)
    given = dict(zip(args["nodes"], args["contributions"], strict=True))
    for node, contribution in given.items():
        if node == UNCLAIMED:
            continue
        rows.change(SEATS, *entry.place, node, contribution=contribution)


def attested(rows: Rows, entry: Entry) -> None:
    """A verifier confirmed the result that stands."""
    args = entry.args
    voice = rows.row(VOICES, *entry.place, args["verifier_id"])
    voice.update(attest_tx=entry.tx, attested_at=entry.time, result_hash=hexed(args["result_hash"]))
    rows.row(ROUNDS, *entry.place)["attested_stake"] += args["weight"]


def challenged(rows: Rows, entry: Entry) -> None:
    """Somebody says that the result is wrong: the committee decides."""
    args = entry.args
    evidence = hexed(args["evidence"])
    rows.change(ROUNDS, *entry.place, challenger=args["challenger"], challenge_evidence=evidence)


def challenge_resolved(rows: Rows, entry: Entry) -> None:
    """The committee decided. An upheld challenge takes the result away."""
    row = rows.row(ROUNDS, *entry.place)
    row["challenger"] = ""
    if entry.args["upheld"]:
        _without_result(row)


def _without_result(row: Row) -> None:
    row.update(dict.fromkeys(("model", "update", "report", "result_hash", "proposed_tx"), ""))
    row.update(proposer=0, attested_stake=0)


def invalidated(rows: Rows, entry: Entry) -> None:
    """A trainer's work was found invalid."""
    rows.change(SEATS, *entry.place, entry.args["node_id"], invalid=True)
    rows.row(ROUNDS, *entry.place)["n_invalid"] += 1


def cleared(rows: Rows, entry: Entry) -> None:
    """It was found innocent."""
    rows.change(SEATS, *entry.place, entry.args["node_id"], invalid=False)
    rows.row(ROUNDS, *entry.place)["n_invalid"] -= 1


def finalized(rows: Rows, entry: Entry) -> None:
    """The result is final."""
    rows.change(ROUNDS, *entry.place, finalized_tx=entry.tx)


def settled(rows: Rows, entry: Entry) -> None:
    """The round is paid to the end."""
    rows.change(ROUNDS, *entry.place, settled=True)
    rows.row(JOBS, entry.args["job_id"])["rounds_done"] += 1


def voided(rows: Rows, entry: Entry) -> None:
    """The round ended without a result."""
    rows.change(ROUNDS, *entry.place, void_reason=entry.args["reason"], settled=True)


FOLDS: Folds = {
    "RoundOpened": opened,
    "RoundSeated": seated,
    "PhaseChanged": phase_changed,
    "Committed": committed,
    "Revealed": revealed,
    "DuplicateContent": duplicated,
    "UnrevealedSlashed": unrevealed,
    "ResultProposed": proposed,
    "Attested": attested,
    "Challenged": challenged,
    "ChallengeResolved": challenge_resolved,
    "NodeInvalidated": invalidated,
    "NodeCleared": cleared,
    "RoundFinalized": finalized,
    "RoundSettled": settled,
    "RoundVoided": voided,
}
