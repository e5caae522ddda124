# SPDX-License-Identifier: Apache-2.0
"""Verdicts on benchmarks: all that are due in one go, and no artefact holds up another's."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eth_account import Account

import agents.nodes.benchmark_checks as checks_module
from agents.nodes import benchmark
from agents.nodes.benchmark_checks import BenchmarkChecks
from agents.protocol.structs import Benchmark
from agents.runtime.errors import Reverted
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics
from agents.runtime.transaction import Order
from agents.runtime.wallet import Wallet
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.verifier import Verifier

VERIFIER, UNITS, SEED, CHECK_SEED = 9, 4, b"\1" * 32, b"\2" * 32
WINDOW, SEARCH = 600, 60.0  # seconds of a benchmark, and of a search for what nobody serves


class Bench:
    """A verifier beside answers that wait for its verdict."""

    def __init__(self, folder: Path) -> None:
        self.store = EmbeddedStore(folder / "store")
        self.waiting: dict[int, Benchmark] = {}
        self.sent: list[Order] = []
        self.refused: set[int] = set()
        self.settled: set[int] = set()
        self.now = 1_000.0
        self.asked: list[bytes] = []
        network: Any = SimpleNamespace(
            registry=None,
            benchmarks=SimpleNamespace(address="0x" + "11" * 20),
            open_benchmarks=lambda: self.waiting,
            voters=lambda _: [VERIFIER],
            early=lambda *_: CHECK_SEED,
            benchmark=lambda node: SimpleNamespace(settled=node in self.settled),
        )
        context: Any = SimpleNamespace(
            chain=SimpleNamespace(
                call=self.call,
                events=lambda *_: [],
                head=lambda: SimpleNamespace(number=10),
            ),
            log=open_log("verifier", path=folder / "log"),
            metrics=Metrics("verifier"),
            settings=SimpleNamespace(verifier=SimpleNamespace(benchmark_checks=UNITS)),
            sender=SimpleNamespace(send_all=self.send_all),
            wallet=Wallet(Account.create()),
            deployment=SimpleNamespace(chain_id=1),
        )
        self.checks = BenchmarkChecks(network, context, self.store, "cpu", lambda: self.now)

    def call(self, _: Any, function: str, *args: Any) -> Any:
        if function == "parameters":
            return SimpleNamespace(benchmark_window=WINDOW)
        return args[0] if function == "owner_of" else True

    def send_all(self, orders: list[Order]) -> list[Reverted | None]:
        self.sent += orders
        return [Reverted("closed") if o.args[0] in self.refused else None for o in orders]

    def answer(self, node: int, artefact: bytes | None = None) -> None:
        digests = benchmark.run(SEED, UNITS, device="cpu")
        if artefact is None:
            artefact = benchmark.pack_artefact(digests)
        self.waiting[node] = Benchmark(
            **dict.fromkeys(Benchmark.__dataclass_fields__, 0)
            | {
                "attempt": 1,
                "seed": SEED,
                "units": UNITS,
                "root": benchmark.root(SEED, digests),
                "artefact": digest_of(self.store.put_bytes(artefact)),
                "requested_at": int(self.now),
                "submitted_at": 1,
                "settled": False,
            }
        )

    def mute(self, *nodes: int) -> None:
        """These nodes answer, and nobody serves what their answers name."""
        for node in nodes:
            self.answer(node)
            self.waiting[node] = replace(self.waiting[node], artefact=bytes([node]) * 32)
        had = self.store.get_digest

        def get_digest(digest: bytes, limit: int | None = None) -> bytes:
            self.asked.append(digest)
            if digest in {bytes([node]) * 32 for node in nodes}:
                self.now += SEARCH
                raise NotFound("nobody serves it")
            return had(digest, limit)

        self.store.get_digest = get_digest  # type: ignore[method-assign]

    def step(self) -> str | None:
        head: Any = SimpleNamespace(number=10, timestamp=int(self.now))
        return self.checks.step(VERIFIER, head)

    def judged(self) -> list[tuple[int, bool]]:
        return [(order.args[0], order.args[1]) for order in self.sent]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(checks_module, "_WAITED_S", 1.0)
    return Bench(tmp_path)


def test_all_verdicts_go_together(bench: Bench) -> None:
    bench.answer(1)
    bench.answer(2)
    said = bench.step()
    assert said is not None and said.count("passed") == 2
    assert bench.judged() == [(1, True), (2, True)]
    assert bench.step() is None


def test_an_artefact_that_is_too_large_holds_up_no_other_node(bench: Bench) -> None:
    bench.answer(1, b"\0" * 100_000)
    bench.answer(2)
    assert bench.step() is not None
    assert bench.judged() == [(2, True)]


def test_a_refused_verdict_is_given_again_until_others_have_settled_it(bench: Bench) -> None:
    bench.answer(1)
    bench.refused.add(1)
    bench.step()
    bench.step()
    assert bench.judged() == [(1, True), (1, True)]
    bench.settled.add(1)
    bench.step()
    assert bench.step() is None
    assert len(bench.sent) == 3


def test_a_step_searches_for_one_artefact_that_nobody_serves(bench: Bench) -> None:
    """And the pauses grow: thirty mute nodes would hold each step up for half an hour."""
    nodes = range(20, 50)
    bench.mute(*nodes)
    for _ in nodes:
        before = bench.now
        bench.step()
        assert bench.now - before <= SEARCH
    assert sorted(bench.asked) == [bytes([node]) * 32 for node in nodes]


def test_who_answers_with_an_artefact_waits_for_no_mute_node(bench: Bench) -> None:
    """Beside one that is mute it is judged at once, once that one has been missing."""
    bench.mute(1)
    bench.step()
    bench.answer(2)
    bench.now += SEARCH
    assert bench.step() is not None
    assert bench.judged() == [(2, True)]


def test_an_artefact_that_comes_slowly_holds_up_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty-seven megabytes, at the least pace that a store bears with, kept every verifier from
    its rounds for a quarter of an hour. They are read once, and judged when they are there."""
    for node in (1, 2):
        bench.answer(node, b"\1" * node)  # the store is asked for two different ones
        digests = benchmark.run(SEED, UNITS, device="cpu")
        there = bench.store.put_bytes(benchmark.pack_artefact(digests))
    comes, asked, had = threading.Event(), list[bytes](), bench.store.get_digest

    def get_digest(digest: bytes, limit: int) -> bytes:
        asked.append(digest)
        if digest == bench.waiting[1].artefact:
            assert comes.wait(60)
        return had(digest_of(there), limit)

    monkeypatch.setattr(bench.store, "get_digest", get_digest)
    for _ in range(3):
        bench.step()
    assert bench.judged() == [(2, True)]
    comes.set()
    while len(bench.sent) < 2:
        bench.step()
    assert bench.judged() == [(2, True), (1, True)]
    assert len(asked) == 2


def test_no_more_than_a_few_come_beside(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may fill 67 MB. One that is given up makes room."""
    monkeypatch.setattr(checks_module, "_AT_ONCE", 2)
    for node in range(1, 5):
        bench.answer(node)
        bench.waiting[node] = replace(bench.waiting[node], artefact=bytes([node]) * 32)
    comes, asked = threading.Event(), list[bytes]()

    def get_digest(digest: bytes, limit: int) -> bytes:
        asked.append(digest)
        assert comes.wait(60)
        raise NotFound("it never came")

    monkeypatch.setattr(bench.store, "get_digest", get_digest)
    for _ in range(6):
        bench.step()
    assert len(asked) == 2
    bench.waiting = {}
    comes.set()
    while len(bench.checks._coming):
        bench.step()
    assert bench.sent == []


def test_a_pause_doubles_and_old_answers_are_given_up(bench: Bench) -> None:
    bench.mute(1)
    began, looks = bench.now, []
    while bench.now < began + 10 * WINDOW:
        asked = len(bench.asked)
        bench.step()
        if len(bench.asked) > asked:
            looks.append(bench.now - began)
        bench.now += 1.0
    pauses = [later - sooner - SEARCH for sooner, later in pairwise(looks)]
    assert pauses == [pytest.approx(SEARCH * 2**n, abs=2.0) for n in range(len(pauses))]
    assert len(pauses) >= 3
    assert looks[-2] - SEARCH <= 2 * WINDOW < looks[-1] - SEARCH


def test_a_verifier_does_what_its_jobs_ask_for_first() -> None:
    """What one acts on in a round has a deadline, and a verdict on a benchmark can wait."""
    found: list[str | None] = ["reported", None]
    asked: list[int] = []
    looked: list[set[int]] = []
    verifier = object.__new__(Verifier)
    parts: dict[str, Any] = {
        "context": SimpleNamespace(wallet=SimpleNamespace(address="")),
        "network": SimpleNamespace(node_of=lambda _: VERIFIER),
        "recheck": SimpleNamespace(step=lambda *_: None, move_on=lambda _: None),
        "_of_tasks": SimpleNamespace(step=lambda duty: duty()),
        "_of_benchmarks": SimpleNamespace(step=lambda duty: duty()),
        "jobs": SimpleNamespace(step=lambda *_: found.pop(0), in_hand={3}),
        "reserve": SimpleNamespace(look=lambda _, jobs: looked.append(jobs)),
        "benchmarks": SimpleNamespace(step=lambda node, _: asked.append(node)),
    }
    vars(verifier).update(parts)
    head: Any = SimpleNamespace(number=10, timestamp=0)
    assert verifier.step(head) == "reported" and not asked
    assert verifier.step(head) is None and asked == [VERIFIER]
    assert looked == [{3}, {3}], "its wallet is held against the jobs that it serves"


def test_an_artefact_that_comes_late_is_judged(bench: Bench) -> None:
    """Its pause is short where a search is."""
    bench.mute(1)
    bench.step()
    bench.answer(1)
    bench.now += SEARCH
    assert bench.step() is not None
    assert bench.judged() == [(1, True)]
