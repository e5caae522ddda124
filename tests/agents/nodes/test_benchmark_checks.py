# SPDX-License-Identifier: Apache-2.0
"""Verdicts on benchmarks: all that are due in one go, and no artefact holds up another's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eth_account import Account

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

VERIFIER, UNITS, SEED, CHECK_SEED = 9, 4, b"\1" * 32, b"\2" * 32


class Bench:
    """A verifier beside answers that wait for its verdict."""

    def __init__(self, folder: Path) -> None:
        self.store = EmbeddedStore(folder / "store")
        self.waiting: dict[int, Benchmark] = {}
        self.sent: list[Order] = []
        self.refused: set[int] = set()
        self.settled: set[int] = set()
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
                call=lambda _, function, *args: args[0] if function == "owner_of" else True,
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
        self.checks = BenchmarkChecks(network, context, self.store, "cpu")

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
                "submitted_at": 1,
                "settled": False,
            }
        )

    def step(self) -> str | None:
        head: Any = SimpleNamespace(number=10)
        return self.checks.step(VERIFIER, head)

    def judged(self) -> list[tuple[int, bool]]:
        return [(order.args[0], order.args[1]) for order in self.sent]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
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
