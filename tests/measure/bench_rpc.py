# SPDX-License-Identifier: Apache-2.0
"""What an agent of each role asks of its RPC node, in blocks without and with work for it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts._net.compiled import ROOT
from scripts._net.localnet import LocalnetSettings, build_localnet
from scripts._net.processes import Supervisor, terminate_as_exit
from tests.measure.rows import Row
from tests.stage.network import LocalNetwork
from tests.stage.proxied import Asked, asked, behind

IDLE_GOAL, MEAN_GOAL = 3.0, 8.0
DELAY_GOAL = 1.3
DELAYS_S = (0.03, 0.15)
SETTINGS = LocalnetSettings(
    trainers=2,
    verifiers=2,
    aggregators=1,
    executors=1,
    members=3,
    threshold=2,
    agent={"device": "cpu", "trainer": {"benchmark_s": 0.2, "benchmark_blocks": 0}},
)
_IDLE_BLOCKS = 15
_ROUNDS = 4


def measure(
    folder: Path,
    say: Callable[[str], None],
    delays: tuple[float, float] = (0.0, 0.0),
    websocket: bool = True,
) -> tuple[dict[str, Asked], dict[str, Asked], float]:
    """(without a job, in the rounds of one, seconds for a round) on a network of its own.

    `delays`: least and most seconds that the provider takes for an answer.
    """
    with terminate_as_exit(), Supervisor(folder / "logs", ROOT) as supervisor:
        local = LocalNetwork.of(build_localnet(supervisor, folder / "net", SETTINGS))
        with behind(local, websocket=websocket) as proxy:
            names = [f"{role}-1" for role in ("trainer", "verifier", "aggregator", "executor")]
            names.append("coordinator-1")
            others = [n for n in local.names("trainer", "verifier") if n not in names]
            local.start(*names, *others)
            local.wait_eligible(local.names("trainer", "verifier", "aggregator"))
            head = local.network.chain.head
            proxy.latency_s = delays
            local.until(lambda: len(local.network.open_benchmarks()) == 0, "nothing is open")
            calm = head().number + 3
            local.until(lambda: head().number >= calm, "calm")
            say(f"{_IDLE_BLOCKS} blocks without a job")
            until = head().number + _IDLE_BLOCKS
            idle = asked(
                local, proxy, names, lambda: local.until(lambda: head().number >= until, "idle")
            )
            say(f"{_ROUNDS} rounds")
            before = head().timestamp
            busy = asked(local, proxy, names, lambda: local.finish(local.job(rounds=_ROUNDS)))
            return idle, busy, (head().timestamp - before) / _ROUNDS


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    """The lines of the table."""
    took = []
    for delays in ((0.0, 0.0), DELAYS_S):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            say(f"a network whose provider takes {delays[0]:g} to {delays[1]:g} s")
            idle, busy, seconds = measure(Path(folder), say, delays)
        took.append(seconds)
        if delays[1]:
            continue
        for name in idle:
            role = name.split("-")[0]
            yield _row(f"{role}: RPC requests in a block without work", idle[name], IDLE_GOAL)
            yield _row(f"{role}: RPC requests in a block of a round", busy[name], MEAN_GOAL)
    longer = took[1] / took[0]
    shown = f"{took[1]:.1f} s, {longer:.2f} of the {took[0]:.1f} s without delays"
    goal = f"<= {DELAY_GOAL:g}"
    yield Row("a round behind 30 to 150 ms of latency", shown, goal, longer <= DELAY_GOAL)


def _row(figure: str, found: Asked, goal: float) -> Row:
    shown = f"{found.requests:.1f} ({found.calls:.1f} calls)"
    return Row(figure, shown, f"<= {goal:g}", found.requests <= goal)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        delays_ = (float(sys.argv[1]), float(sys.argv[2])) if len(sys.argv) > 2 else (0.0, 0.0)
        calm_, work_, took_ = measure(Path(place), print, delays_, "polling" not in sys.argv)
        for title, found_ in (("idle", calm_), ("work", work_)):
            for who, one in found_.items():
                told = f"{one.requests:6.1f} requests {one.calls:6.1f} calls in {one.blocks} blocks"
                print(f"{title} {who:14} {told}", dict(one.count.calls.most_common(5)))
        print(f"{took_:.1f} s a round")
