# SPDX-License-Identifier: Apache-2.0
"""What counts for nobody is indexed as the treasury's, and not as a node's."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from agents.runtime.contracts import Event
from scripts._web.follow.folds.payments import FOLDS as PAID
from scripts._web.follow.folds.rounds import FOLDS as ROUND
from scripts._web.index.entry import Entry
from scripts._web.index.rows import Rows
from scripts._web.index.tables import JOBS, METADATA, NODES, PAYMENTS, ROUNDS, SEATS

TREASURY, OWNER = "0x" + "aa" * 20, "0x" + "bb" * 20


def entry(name: str, **args: Any) -> Entry:
    event = Event(name, {"job_id": 1, "round_id": 2, **args}, "0x", 7, b"", b"", 0)
    return Entry(event, "RewardPool", 100)


def test_it_is_paid_to_the_treasury_and_is_no_nodes() -> None:
    engine = sa.create_engine("sqlite://")
    METADATA.create_all(engine)
    rows = Rows()
    empty = dict.fromkeys(("model", "update", "report", "result_hash"), bytes(32))
    with engine.begin() as connection:
        rows.begin(connection)
        rows.enter(7, keep=False)
        ROUND["ResultProposed"](
            rows, entry("ResultProposed", proposer=9, nodes=[0, 3], contributions=[4, 6], **empty)
        )
        PAID["RewardsDistributed"](
            rows,
            entry("RewardsDistributed", nodes=[0, 3], payouts=[TREASURY, OWNER], amounts=[40, 60]),
        )
        assert rows.get(SEATS, 1, 2, 0) is None and rows.get(NODES, 0) is None
        assert rows.row(SEATS, 1, 2, 3)["contribution"] == 6
        assert rows.row(NODES, 3)["earned"] == 60
        assert rows.row(ROUNDS, 1, 2)["paid"] == rows.row(JOBS, 1)["paid"] == 100
        rows.write()
        found = connection.execute(sa.select(PAYMENTS).order_by(PAYMENTS.c.place)).mappings().all()
    assert [(row["kind"], row["node_id"], row["account"], row["amount"]) for row in found] == [
        ("unclaimed", None, TREASURY, 40),
        ("share", 3, OWNER, 60),
    ]
