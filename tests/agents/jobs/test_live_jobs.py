# SPDX-License-Identifier: Apache-2.0
"""Which jobs a look asks about, and how far back through a job's rounds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace as Stub
from typing import Any, cast, get_type_hints

import pytest

from agents.jobs.live_jobs import LiveJobs
from agents.protocol.network import Network
from agents.protocol.numbers import NOBODY, Phase
from agents.protocol.structs import NO_ROUND, Round, Terms
from agents.runtime.chain import Head

SERVED = 700


class Market:
    """Jobs on chain that are funded, each with a running round, and which were asked about."""

    def __init__(self, count: int) -> None:
        self.there = count
        self.funded = set(range(1, count + 1))
        self.asked: list[int] = []
        self.jobs, self.pool, self.rounds = "jobs", "pool", "rounds"
        self.chain = Stub(call_many=self.call_many)
        fields = dict.fromkeys(get_type_hints(Terms), 1)
        digests = {name: bytes(32) for name in ("spec", "genesis_model", "genesis_checkpoint")}
        self._terms = Stub(**fields | digests)

    def job_count(self) -> int:
        return self.there

    def round(self, job: int, _: int) -> Round:
        return replace(NO_ROUND, phase=Phase.COMMIT if job in self.funded else Phase.VOID)

    def call_many(self, calls: list[Any]) -> list[Any]:
        return [self._answer(view, arguments[0]) for _, view, arguments in calls]

    def _answer(self, view: str, job: int) -> Any:
        assert job <= self.there, "the contract reverts"
        if view == "round":
            return self.round(job, 1)
        if view == "escrow":
            return int(job in self.funded)
        self.asked.append(job)
        own = Stub(sponsor=NOBODY, cancel_requested=False, terms=self._terms, model=bytes(32))
        return Stub(**vars(own), status=1, rounds_opened=1, rounds_done=0)


@pytest.fixture
def market() -> Market:
    return Market(1_000)


@pytest.fixture
def live(market: Market) -> LiveJobs:
    """After a first look."""
    live = LiveJobs(cast(Network, market), lambda: 0.0)
    live.ask({SERVED})
    return live


def test_a_look_asks_about_the_jobs_that_are_served_and_some_of_the_others(
    market: Market, live: LiveJobs
) -> None:
    assert sorted(market.asked) == [*range(1, 1_001)] == sorted(live.jobs)
    seen = set()
    for _ in range(40):
        market.asked.clear()
        assert live.ask({SERVED}) == market.asked
        assert SERVED in market.asked and len(market.asked) <= 32 + 1
        seen |= {*market.asked}
    assert seen == live.jobs.keys(), "each has its turn"


def test_who_wants_to_know_of_all_is_told_of_all(market: Market, live: LiveJobs) -> None:
    assert sorted(live.ask(None)) == [*range(1, 1_001)]


def test_a_job_that_ends_is_dropped_in_its_turn__and_one_that_is_served_at_once(
    market: Market, live: LiveJobs
) -> None:
    market.funded -= {5, SERVED}
    live.ask({SERVED})
    assert SERVED not in live.jobs
    for _ in range(40):
        live.ask({SERVED})
    assert live.jobs.keys() == {*range(1, 1_001)} - {5, SERVED}


def test_a_job_that_is_new_is_asked_about_at_once(market: Market, live: LiveJobs) -> None:
    market.there = 1_001
    market.funded.add(1_001)
    assert 1_001 in live.ask({SERVED})


def test_jobs_that_a_reorganisation_took_away_are_not_asked_about(
    market: Market, live: LiveJobs
) -> None:
    market.there = 900
    assert SERVED in live.ask({SERVED})
    assert live.jobs.keys() == {*range(1, 901)}


class Rounds:
    """A job's rounds on chain, 100 s apart, and how many of them were read."""

    def __init__(self) -> None:
        self.all: list[Round] = []
        self.read = 0
        self.chain, self.rounds = Stub(call_many=self.call_many), None

    def add(self, count: int, phase: Phase, committed: int = 1) -> None:
        for _ in range(count):
            at = 100 * len(self.all)
            self.all.append(replace(NO_ROUND, phase=phase, opened_at=at, n_committed=committed))

    def call_many(self, calls: list[Any]) -> list[Round]:
        self.read += len(calls)
        return [self.all[number - 1] for _, _, (_, number) in calls]


def test_rounds_that_nobody_came_to_push_none_with_work_out_of_sight() -> None:
    """Eight rounds that were paid, and fifty that a stranger opened; each is read once."""
    network = Rounds()
    live = LiveJobs(cast(Network, network), lambda: 0.0)

    def past() -> list[tuple[bool, bool]]:
        job: Any = Stub(rounds_opened=len(network.all))
        found, running = live.rounds(1, job, Head(1, b"", b"", 100 * len(network.all)))
        assert running is None
        assert [one.lasted_s for one in found] == [100] * len(found)
        return [(one.paid, one.worked) for one in found]

    network.add(12, Phase.FINALIZED)
    assert past() == [(True, True)] * 8 and network.read == 9
    network.add(50, Phase.VOID, committed=0)
    assert past() == [(True, True)] * 8 + [(False, False)] * 50
    assert network.read <= 9 + 50 + 9
    read = network.read
    assert past() == [(True, True)] * 8 + [(False, False)] * 50
    assert network.read == read + 1, "the newest alone"
    network.add(100_000, Phase.VOID, committed=0)
    assert not any(paid for paid, _ in past())
    assert network.read < read + 100, "it looks back no further"
