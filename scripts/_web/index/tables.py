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
    sa.Index(None, "owner"),
    sa.Index(None, "payout"),
)

ACCOUNTS = sa.Table(
    "accounts",
    METADATA,
    sa.Column("account", sa.String(42), primary_key=True),
    _amount("credited"),
    _amount("claimed"),
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
)

LOGGED = (EVENTS, PAYMENTS)
"""Tables whose rows are facts of one block: a reorganisation deletes them."""

FOLDED = (JOBS, ROUNDS, SEATS, VOICES, NODES, ACCOUNTS)
"""Tables whose rows change: a reorganisation brings back what they were."""
