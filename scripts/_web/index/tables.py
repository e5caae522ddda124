# SPDX-License-Identifier: Apache-2.0
"""The tables of the index: one schema for SQLite and PostgreSQL.

Rule: an amount is a whole number of 1e-18 ZOO and may be as large as the chain's words, so it is
kept as decimal text. A digest or a hash is text of 0x and hexadecimal digits, an address is
checksummed, a time is seconds of the chain. `migrations/` makes the same schema, and a test
compares them.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Amount(TypeDecorator[int]):
    """A whole number of any size, kept as decimal text."""

    impl = sa.String(78)
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> str | None:
        """Return the text that is stored."""
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:
        """Return the number."""
        return None if value is None else int(value)


MOST_ID = 2**62  # of what the databases can hold; no chain counts as far
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _id(name: str, **options: Any) -> sa.Column[int]:
    return sa.Column(name, ID, primary_key=True, autoincrement=False, **options)


def _number(name: str, default: int | None = 0) -> sa.Column[int]:
    return sa.Column(name, ID, nullable=default is None, default=default)


def _amount(name: str) -> sa.Column[int]:
    return sa.Column(name, Amount, nullable=False, default=0)


def _text(name: str, default: str | None = "") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=default is None, default=default)


def _flag(name: str, default: bool = False) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False, default=default)


def _json(name: str, default: type[list[Any]] | type[dict[str, Any]]) -> sa.Column[Any]:
    return sa.Column(name, sa.JSON, nullable=False, default=default)


# -- the chain ---------------------------------------------------------------------------------

META = sa.Table(
    "meta", METADATA, sa.Column("name", sa.String(32), primary_key=True), _text("value")
)

BLOCKS = sa.Table(
    "blocks",
    METADATA,
    _id("number"),
    sa.Column("hash", sa.String(66), nullable=False),
    _number("time"),
)

EVENTS = sa.Table(
    "events",
    METADATA,
    _id("block"),
    _id("log_index"),
    _number("time"),
    _text("tx"),
    _text("contract"),
    _text("name"),
    _number("job_id", None),
    _number("round_id", None),
    _number("node_id", None),
    _number("actor_id", None),
    _number("task_id", None),
    _json("args", dict),
    sa.Index(None, "job_id", "round_id", "block"),
    sa.Index(None, "node_id", "block"),
    sa.Index(None, "actor_id", "block"),
    sa.Index(None, "task_id", "block"),
)

# What a row was before a block changed it, for the blocks that a reorganisation may still remove.
UNDO = sa.Table(
    "undo",
    METADATA,
    _id("block"),
    _id("place"),
    sa.Column("of", sa.String(32), nullable=False),
    _text("key"),
    _text("before", None),
)

# -- jobs and rounds ---------------------------------------------------------------------------

JOBS = sa.Table(
    "jobs",
    METADATA,
    _id("job_id"),
    _text("sponsor"),
    _json("terms", dict),
    _number("status"),
    _flag("cancel_requested"),
    _number("rounds_opened"),
    _number("rounds_done"),
    _text("model"),
    _amount("escrow"),
    _amount("funded"),
    _amount("carried"),
    _amount("refunded"),
    _amount("paid"),
    _flag("scored"),
    _json("absent", list),
    _number("created_at"),
    _number("created_block"),
    _number("ended_at", None),
)

ROUNDS = sa.Table(
    "rounds",
    METADATA,
    _id("job_id"),
    _id("round_id"),
    _number("phase"),
    _number("deadline"),
    _number("phase_since"),
    _number("opened_block"),
    _number("opened_at"),
    _number("ended_at", None),
    _text("opened_tx"),
    _text("prev_model"),
    _number("seed_block"),
    _number("n_eligible"),
    _number("n_committed"),
    _number("n_revealed"),
    _number("n_invalid"),
    _number("open_reports"),
    _json("aggregators", list),
    _amount("verifier_stake"),
    _amount("attested_stake"),
    _number("proposer"),
    _text("result_hash"),
    _text("model"),
    _text("update"),
    _text("report"),
    _text("proposed_tx"),
    _text("challenger"),
    _text("challenge_evidence"),
    _text("void_reason"),
    _text("finalized_tx"),
    _flag("settled"),
    _amount("pool"),
    _amount("paid"),
    _amount("returned"),
    _amount("carried_on"),
    _number("ledger_index", None),
    _text("ledger_head"),
    _number("score_phase"),
    _number("score_deadline"),
    sa.Index(None, "phase"),
)

# The trainers of a round, and what each did in it.
SEATS = sa.Table(
    "seats",
    METADATA,
    _id("job_id"),
    _id("round_id"),
    _id("node_id"),
    _amount("weight"),
    _text("commit_tx"),
    _number("committed_at", None),
    _text("reveal_tx"),
    _number("revealed_at", None),
    _text("content"),
    _text("input_root"),
    _text("trace_root"),
    _text("proof"),
    _flag("duplicate"),
    _amount("contribution"),
    _flag("invalid"),
    _amount("slashed"),
    _amount("paid"),
    _number("consensus", None),
    sa.Index(None, "node_id"),
)

# The verifiers of a round, with the stake that their voices have.
VOICES = sa.Table(
    "voices",
    METADATA,
    _id("job_id"),
    _id("round_id"),
    _id("node_id"),
    _amount("stake"),
    _text("attest_tx"),
    _number("attested_at", None),
    _text("result_hash"),
    _number("score_committed_at", None),
    _number("score_revealed_at", None),
    _text("record"),
    _number("agreement", None),
    _number("trust", None),
    sa.Index(None, "node_id"),
)

# What verifiers say against a trainer's work.
REPORTS = sa.Table(
    "reports",
    METADATA,
    sa.Column("report_id", sa.String(66), primary_key=True),
    _number("job_id"),
    _number("round_id"),
    _number("node_id"),
    _number("violation"),
    _number("status"),
    _amount("weight"),
    _number("deadline"),
    _text("evidence"),
    _text("appellant"),
    _text("statement"),
    _amount("bond"),
    _amount("slashed"),
    _number("reported_at"),
    _number("confirmed_at", None),
    _number("appealed_at", None),
    _number("ended_at", None),
    _text("reported_tx"),
    _text("confirmed_tx"),
    _text("appealed_tx"),
    _text("ended_tx"),
    sa.Index(None, "job_id", "round_id"),
    sa.Index(None, "node_id"),
)

# -- nodes and money ---------------------------------------------------------------------------

NODES = sa.Table(
    "nodes",
    METADATA,
    _id("node_id"),
    _text("owner"),
    _text("operator"),
    _text("payout"),
    _number("roles"),
    _number("approved_roles"),
    _amount("stake"),
    _amount("unbonding"),
    _number("unlock_at"),
    _number("suspended_until"),
    _flag("banned"),
    _flag("active", True),
    _number("strikes"),
    _number("locks"),
    _amount("score"),
    _number("scored_at"),
    _number("registered_at"),
    _text("encryption_key"),
    _amount("earned"),
    _amount("slashed"),
    _amount("held"),
    _amount("retained"),
    _number("class_id", None),
    _number("recheck_classes"),
    sa.Index(None, "owner"),
    sa.Index(None, "payout"),
)

ACCOUNTS = sa.Table(
    "accounts",
    METADATA,
    sa.Column("account", sa.String(42), primary_key=True),
    _amount("credited"),
    _amount("claimed"),
    _amount("bounties"),
    _amount("bounties_claimed"),
)

# A node's attempts at its benchmark.
BENCHMARKS = sa.Table(
    "benchmarks",
    METADATA,
    _id("node_id"),
    _id("attempt"),
    _number("requested_at"),
    _number("submitted_at", None),
    _amount("units"),
    _text("root"),
    _text("artefact"),
    _number("elapsed"),
    _number("passes"),
    _number("fails"),
    _flag("settled"),
    _flag("passed"),
    _flag("overruled"),
    _flag("condemned"),
    _amount("score"),
)

# One movement of the reward pool's money. `credited`: the account may claim it.
PAYMENTS = sa.Table(
    "payments",
    METADATA,
    _id("block"),
    _id("log_index"),
    _id("place"),
    _number("time"),
    _text("tx"),
    _text("kind"),
    _flag("credited"),
    _number("job_id", None),
    _number("round_id", None),
    _number("node_id", None),
    _text("account", None),
    _amount("amount"),
    sa.Index(None, "node_id", "block"),
    sa.Index(None, "account", "block"),
    sa.Index(None, "job_id", "round_id", "block"),
    sa.Index(None, "time"),
)

# -- redundant tasks ---------------------------------------------------------------------------

TASKS = sa.Table(
    "tasks",
    METADATA,
    _id("task_id"),
    _text("creator"),
    _number("class_id"),
    _text("spec"),
    _amount("fee"),
    _number("run_s"),
    _number("seed_block"),
    _number("status"),
    _number("time"),
    _number("created_at"),
    _text("created_tx"),
    _text("result"),
    _flag("contested"),
    _amount("refund"),
    _number("ended_at", None),
    _text("appellant"),
    _amount("appeal_bond"),
    _number("appeal_deadline"),
    _text("verdict"),
    _text("objector"),
    _flag("overturned"),
    _amount("seized"),
    sa.Index(None, "creator"),
    sa.Index(None, "status"),
)

# An executor's place in a task.
LANES = sa.Table(
    "lanes",
    METADATA,
    _id("task_id"),
    _id("lane"),
    _number("node_id"),
    _number("state"),
    _text("answer"),
    _number("drawn_at"),
    _number("committed_at", None),
    _number("revealed_at", None),
    _amount("slashed"),
    sa.Index(None, "node_id"),
)

# -- the network -------------------------------------------------------------------------------

OPERATIONS = sa.Table(
    "operations",
    METADATA,
    sa.Column("op_id", sa.String(66), primary_key=True),
    _text("target"),
    _text("data"),
    _text("salt"),
    _text("proposer"),
    _number("proposed_at"),
    _number("proposed_block"),
    _number("proposed_index"),
    _number("eta"),
    _json("approved", list),
    _json("against", list),
    _number("executed_at", None),
    _number("executed_block", None),
    _text("executed_tx"),
    _flag("cancelled"),
)

# What the committee may change of the network, by name: parameters, bounds, members, penalties.
FACTS = sa.Table(
    "facts", METADATA, sa.Column("name", sa.String(80), primary_key=True), _json("value", dict)
)

LOGGED = (EVENTS, PAYMENTS)
"""Tables whose rows are facts of one block: a reorganisation deletes them."""

FOLDED = (
    *(JOBS, ROUNDS, SEATS, VOICES, REPORTS),
    *(NODES, ACCOUNTS, BENCHMARKS, TASKS, LANES, OPERATIONS, FACTS),
)
"""Tables whose rows change: a reorganisation brings back what they were."""
