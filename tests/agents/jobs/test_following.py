# SPDX-License-Identifier: Apache-2.0
"""The one job of a trainer: chosen by the rule, kept over a restart, left by its own experience."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.jobs.choice import Rated
from agents.jobs.following import Following
from agents.runtime.journal import Journal
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics

HEAD: Any = Stub(number=9, timestamp=1_000)
TERMS = Stub(commit_s=100, reveal_s=100, aggregate_s=100, challenge_s=100)
Start = Callable[..., Following]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a trainer's choice; called again, it restarts it on the same journal."""
    journals: list[Journal] = []

    def begin(job_id: int = 0, **pays: float) -> Following:
        for journal in journals:
            journal.close()
        journals.append(Journal(tmp_path / "journal"))
        network: Any = Stub(
            job_count=lambda: 5,
            job=lambda _: Stub(terms=TERMS),
            round=lambda *_: Stub(opened_at=1_000),
        )
        settings = Stub(job_id=job_id, least_pay=0.0, max_jobs=8)
        log = open_log("trainer", path=tmp_path / "log")
        context: Any = Stub(
            settings=settings, log=log, metrics=Metrics("trainer"), journal=journals[-1]
        )
        unread: Any = lambda _: None  # noqa: E731
        following = Following(network, context, unread, unread)
        offers: Any = following._offers
        rated = [Rated(int(name.removeprefix("job_")), pay) for name, pay in pays.items()]
        offers.rated = lambda *_: [one for one in rated if one.job_id not in offers._barred]
        return following

    yield begin
    for journal in journals:
        journal.close()


def test_a_configured_job_is_followed_once_it_exists(start: Start) -> None:
    assert start(job_id=3, job_4=9).job(HEAD, 1, ()) == 3
    assert start(job_id=6, job_4=9).job(HEAD, 1, ()) == 0


def test_the_choice_survives_a_restart_and_is_said_in_a_sentence(
    start: Start, tmp_path: Path
) -> None:
    assert start(job_2=10, job_3=9).job(HEAD, 1, ()) == 2
    assert start(job_2=10, job_3=12).job(HEAD, 1, ()) == 2
    assert start(job_2=10, job_3=13).job(HEAD, 1, ()) == 3
    said = [json.loads(line)["why"] for line in (tmp_path / "log").read_text().splitlines()]
    assert said == [
        "job 2 pays 10 ZOO for an hour of its expected work, the most of 2 jobs",
        "job 2 pays 10 ZOO for an hour of its expected work, and no job pays 1.25 times that",
        "job 3 pays 13 ZOO for an hour of its expected work, and job 2 10 only",
    ]


def test_work_that_waits_for_its_reveal_keeps_the_node(start: Start) -> None:
    start(job_2=10).job(HEAD, 1, ())
    assert start(job_2=10, job_3=500).job(HEAD, 1, {2}) == 2
    assert start(job_3=500).job(HEAD, 1, {2}) == 2
    assert start(job_3=500).job(HEAD, 1, ()) == 3


def test_a_reveal_that_is_due_waits_for_no_offer(start: Start) -> None:
    """A look at what jobs offer may read strangers' specs, and a reveal that is late is slashed."""
    start(job_2=10).job(HEAD, 1, ())
    following = start(job_3=500)
    looks: list[int] = []
    had: Any = following._offers.rated
    offers: Any = following._offers
    offers.rated = lambda *args: [looks.append(1), *had(*args)][1:]
    assert following.job(HEAD, 1, {2}, revealing=True) == 2 and not looks
    assert following.job(HEAD, 1, ()) == 3 and looks


@pytest.mark.parametrize(
    ("rounds", "late", "left"),
    [([1], [1], False), ([1, 2], [2], False), ([1, 2], [1], False), ([3, 4, 5], [4, 5], True)],
)
def test_two_late_rounds_in_a_row_leave_a_job_for_a_while(
    start: Start, rounds: list[int], late: list[int], left: bool
) -> None:
    following = start(job_2=10, job_3=1)
    following.was_late(2, rounds, late)
    assert following.job(HEAD, 1, ()) == (3 if left else 2)
    if left:
        assert following._offers._barred[2][0] == 1_000 + 16 * 400


def test_a_spent_budget_leaves_a_job_only_if_there_is_another(start: Start) -> None:
    two = start(job_2=10, job_3=1)
    assert two.job(HEAD, 1, ()) == 2 and two.leave(2, "spent") and two.job(HEAD, 1, ()) == 3
    only = start(job_2=10)
    assert only.job(HEAD, 1, ()) == 2 and not only.leave(2, "spent")
    fixed = start(job_id=2)
    assert fixed.job(HEAD, 1, ()) == 2 and not fixed.leave(2, "spent")


def test_a_job_whose_work_can_t_be_begun_is_left_for_longer_each_time(start: Start) -> None:
    """What is missing is waited for the first time, for a quarter of COMMIT."""
    following = start(job_2=10, job_3=1)
    assert following.job(HEAD, 1, ()) == 2
    assert not following.unable(2, 400, 1_000, "its data is gone")
    assert not following.unable(2, 400, 1_099, "its data is gone")
    assert following.unable(2, 400, 1_100, "its data is gone")
    until, why = following._offers._barred[2]
    assert until == 1_100 + 600 and why.startswith("its work can't be begun here: its data is gone")
    assert following.job(HEAD, 1, ()) == 3
    for number in range(1, 12):
        now = until
        assert following.unable(2, 400, now, "its data is gone")
        until = following._offers._barred[2][0]
        assert until - now == min(600 << number, 86_400)


def test_what_can_t_come_is_not_waited_for(start: Start) -> None:
    following = start(job_2=10, job_3=1)
    assert following.job(HEAD, 1, ()) == 2
    assert following.unable(2, 0, 1_000, "its training diverges")


def test_of_many_such_jobs_each_is_waited_for_less(start: Start) -> None:
    """However many jobs are made for the purpose, they keep a node for two waits of one of them."""
    jobs = range(2, 34)
    following = start(job_1=1, **{f"job_{job}": 10 for job in jobs})
    following.job(HEAD, 1, ())
    now = 1_000
    for job in jobs:
        following.unable(job, 2_400, now, "its data is gone")
        while not following.unable(job, 2_400, now, "its data is gone"):
            now += 1
    assert now - 1_000 <= 2 * 600


def test_done_work_ends_the_pauses_of_its_job(start: Start) -> None:
    following = start(job_2=10, job_3=1)
    following.job(HEAD, 1, ())
    assert following.unable(2, 0, 1_000, "its training diverges")
    following.able(2)
    assert not following.unable(2, 400, 2_000, "its data is gone")
    assert following.unable(2, 400, 2_100, "its data is gone")
    assert following._offers._barred[2][0] == 2_100 + 600


def test_the_only_job_is_left_for_nothing(start: Start) -> None:
    only = start(job_2=10)
    assert only.job(HEAD, 1, ()) == 2 and not only.unable(2, 0, 9_000, "its data is gone")
    fixed = start(job_id=2)
    assert fixed.job(HEAD, 1, ()) == 2 and not fixed.unable(2, 0, 9_000, "its data is gone")
