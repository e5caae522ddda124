# SPDX-License-Identifier: Apache-2.0
"""Which reports agents look after: all that have no end, however many blocks ago they were made.

A report lives for windows in seconds. Agents looked for those of the newest 50,000 blocks, which a
chain with a block every 1.7 seconds has in an appeal window of a day: no agent slashed a convict
there, and no member decided an appeal that came late.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.protocol.ended import Ended
from agents.protocol.network import Network
from agents.protocol.numbers import ReportStatus
from agents.rounds.upkeep import Upkeep
from agents.runtime.contracts import Event

REPORT, JOB, ROUND, NODE = b"\1" * 32, 1, 7, 5
QUICK = 14 * 86_400 * 4  # blocks of a fortnight, at a quarter of a second each


class Facts(Network):
    """A network whose chain has one report, made in its first block."""

    def __init__(self) -> None:
        args = {"report_id": REPORT, "job_id": JOB, "node_id": NODE}
        event: Any = SimpleNamespace(spec=Event, args=args, block=1, log_index=0)
        self._reported: Any = SimpleNamespace(read=lambda: [event])
        self._ended = Ended()
        self.height, self.status = QUICK, ReportStatus.CONFIRMED
        self.chain: Any = SimpleNamespace(
            head=lambda: SimpleNamespace(number=self.height), call=lambda *_: self._answer()
        )
        self.reports: Any = None

    def _answer(self) -> Any:
        fields = {"job_id": JOB, "round_id": ROUND, "node_id": NODE, "status": self.status}
        more = {"violation": 1, "deadline": 10, "stake": 0, "bond": 0, "appellant": "0x" + "0" * 40}
        return SimpleNamespace(**fields, **more)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Facts:
    monkeypatch.setattr("agents.protocol.network.read", lambda kind, raw: raw)
    return Facts()


def test_a_convict_is_slashed_on_a_chain_of_quick_blocks_too(network: Facts) -> None:
    view: Any = SimpleNamespace(job_id=JOB, round_id=ROUND + 1, now=11)
    upkeep = Upkeep.__new__(Upkeep)
    upkeep._network = network
    assert [name for name, _ in upkeep._reports(view)] == [f"execute {REPORT.hex()[:8]}"]


def test_reports_of_a_job_or_a_node(network: Facts) -> None:
    assert network.open_reports() == network.open_reports(JOB) == [REPORT]
    assert network.open_reports(node=NODE) == [REPORT]
    assert network.open_reports(JOB + 1) == network.open_reports(node=NODE + 1) == []


def test_one_that_has_ended_is_read_until_no_reorg_can_take_that_back(network: Facts) -> None:
    network.status = ReportStatus.EXECUTED
    network.report(REPORT)
    assert network.open_reports() == [REPORT]
    network.height += 129
    assert network.open_reports() == []


def test_one_whose_end_a_reorg_took_back_is_open_again(network: Facts) -> None:
    network.status = ReportStatus.LAPSED
    network.report(REPORT)
    network.status = ReportStatus.APPEALED
    network.report(REPORT)
    network.height += 1_000
    assert network.open_reports() == [REPORT]
