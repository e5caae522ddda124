# SPDX-License-Identifier: Apache-2.0
"""Time and memory of the merge rules, beside ByzFL's and torch.median, in one run.

Prints figures and asserts nothing about time. Measurements alternate within one run. Beside ByzFL
both sides get as many threads as are given (one by default), and the CPU time of the process is
compared, least of several runs. Peak memory is the
process's high-water mark above what it held before the call (Linux only).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count as places
from pathlib import Path
from typing import Any

import torch

from agents.mechanisms import built
from agents.mechanisms import merge as merge_rules
from agents.mechanisms import score as score_rules
from agents.mechanisms.merge.parts import compiled, native, passes
from agents.mechanisms.score import Evidence
from tests.measure import peer_byzfl
from tests.measure.rows import Row

GOAL = "merge of 32 payloads of 1e6 elements no slower than torch.median over the stack"
SIZES = ((32, 1_000_000), (16, 10_000_000))
# Whose goal names two threads, too, at the first of the sizes.
OF_TWO_THREADS = ("multi_krum",)
RULES = (*OF_TWO_THREADS, "median", "trimmed_mean", "geometric_median")
FRACTION = 0.3
EXTRA_GOAL_MB = 100.0

# Of a round whose scores are compared with its merges, and known updates that scores read.
SCORED, HISTORY = (128, 1_000_000), 8
SCORED_LARGE = (128, 100_000_000)
SCORING_GOAL = 2.0  # merges
SCORED_BESIDE = (  # all rules but geometric_mean, the slowest
    "median",
    "multi_krum",
    "trimmed_mean",
    "geometric_median",
    "centred_clipping",
    "norm_clip",
    "demo_sign",
    "mean",
)
_TENSOR = 1_000_000

Call = Callable[[], object]


def seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cpu_ms(call: Call) -> float:
    """CPU time of one call in milliseconds, all threads of the process together."""
    start = time.process_time()
    call()
    return 1000 * (time.process_time() - start)


def measure(nodes: int, elements: int, repeats: int) -> dict[str, float]:
    """Median seconds per operation, and the paired ratio merge / torch.median."""
    stack, payloads = _payloads(nodes, elements)
    median, mean = merge_rules.get("median")(), merge_rules.get("mean")()
    score = score_rules.get("shares")()
    calls: dict[str, Call] = {
        "merge_median_s": lambda: median(payloads),
        "torch_median_s": lambda: torch.median(stack, dim=0),
        "merge_mean_s": lambda: mean(payloads),
        "score_shares_s": lambda: score(payloads, [1] * nodes),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
    result = {name: statistics.median(found) for name, found in times.items()}
    pairs = zip(times["merge_median_s"], times["torch_median_s"], strict=True)
    result["ratio"] = statistics.median(own / plain for own, plain in pairs)
    return result


def scoring(nodes: int, elements: int, repeats: int) -> dict[tuple[str, str], float]:
    """CPU time of each score in each merge's, least of both over repeats in one run."""
    payloads = _overlapping(nodes + HISTORY, elements)
    known, payloads = payloads[:HISTORY], payloads[HISTORY:]
    evidence = Evidence(payloads[0], (1_000,) * nodes, known=tuple(known))
    _built_as_in_an_agent(nodes, elements)
    merges = {name: merge_rules.get(name)() for name in SCORED_BESIDE}
    scores = {name: score_rules.get(name)() for name in ("shares", "alignment")}
    calls: dict[str, Call] = {
        **{name: lambda rule=rule: rule(payloads) for name, rule in merges.items()},  # type: ignore[misc]
        **{
            name: lambda rule=rule: rule(payloads, [1] * nodes, evidence)  # type: ignore[misc]
            for name, rule in scores.items()
        },
    }
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            least[name] = min(least[name], cpu_ms(call))
    return {(score, merge): least[score] / least[merge] for score in scores for merge in merges}


def _built_as_in_an_agent(nodes: int, elements: int) -> None:
    """Builds what an agent's merges of this size use: else it is built while one is measured."""
    _warm(None)
    bad = int(FRACTION * nodes)
    if nodes <= compiled.MOST and nodes * elements >= compiled.PAYS and compiled.available():
        compiled.warm(compiled.MiddleOf(nodes))
        compiled.warm(compiled.MeanOfRanks(nodes, bad, nodes - bad))
        compiled.warm(compiled.MeanOfRanks(nodes, 0, nodes))


@dataclass(frozen=True)
class Contest:
    """One rule against ByzFL's, as many threads on both sides; `goal` is how many times faster it
    should be."""

    rule: str
    form: str
    goal: float
    nodes: int
    elements: int
    own_ms: float
    peer_ms: float
    own_mb: float | None
    peer_mb: float | None
    threads: int = 1

    @property
    def ratio(self) -> float:
        """How many times faster than ByzFL."""
        return self.peer_ms / self.own_ms

    def row(self) -> Row:
        """For the table of `make bench`."""
        size = f"{self.nodes} x {self.elements:.0e}".replace("e+0", "e")
        memory = "" if self.own_mb is None else f", +{self.own_mb:.0f} MB"
        peer = "" if self.peer_mb is None else f", +{self.peer_mb:.0f} MB"
        goal = f">= {self.goal:g} x, <= {EXTRA_GOAL_MB:g} MB"
        met = self.ratio >= self.goal and (self.own_mb is None or self.own_mb <= EXTRA_GOAL_MB)
        threads = "" if self.threads == 1 else f", {self.threads} threads"
        name = f"{self.rule} {size}, {self.form}{threads}"
        shown = f"{self.ratio:.1f} x ByzFL, {self.own_ms:.0f} ms{memory}"
        return Row(name, shown, goal, met, f"ByzFL {self.peer_ms:.0f} ms{peer}")


def contests(
    nodes: int,
    elements: int,
    repeats: int,
    compile_too: bool = True,
    rules: Sequence[str] = RULES,
) -> Iterator[Contest]:
    """These rules against ByzFL's at one size, eager first; raises `peer_byzfl.NoPeer`."""
    peers = peer_byzfl.load()
    stack, payloads = _payloads(nodes, elements)
    bad = int(FRACTION * nodes)
    pairs: list[tuple[str, Any, float, float, compiled.Recipe | None]] = [
        ("multi_krum", peers.MultiKrum(bad), 8, 8, None),
        ("median", peers.Median(), 3, 40, compiled.MiddleOf(nodes)),
        ("trimmed_mean", peers.TrMean(bad), 3, 40, compiled.MeanOfRanks(nodes, bad, nodes - bad)),
        ("geometric_median", peers.GeometricMedian(), 5, 5, None),
    ]
    for name, peer, eager_goal, goal, recipe in pairs:
        if name not in rules:
            continue
        own = merge_rules.get(name)()
        for form, wanted in (("eager", eager_goal), ("compiled", goal)):
            able = compile_too and compiled.available()
            if form == "compiled" and not (able and _warm(recipe)):
                continue
            own_call: Call = lambda rule=own: rule(payloads)  # noqa: E731
            peer_call: Call = lambda rule=peer: rule(stack)  # noqa: E731
            with built.disabled(form == "eager"):
                times = [(cpu_ms(own_call), cpu_ms(peer_call)) for _ in range(repeats)]
                memory = extra_mb(own_call), extra_mb(peer_call)
            ours, theirs = (min(column) for column in zip(*times, strict=True))
            figures = ours, theirs, *memory
            threads = torch.get_num_threads()
            yield Contest(name, form, wanted, nodes, elements, *figures, threads)


def _warm(recipe: compiled.Recipe | None) -> bool:
    """Whether all that a rule uses is built."""
    kernel = recipe is None or compiled.warm(recipe)
    return kernel and native.CODE.warm() and passes.CODE.warm()


def extra_mb(call: Call) -> float | None:
    """Peak resident memory of a call above what was held before, in MB; None if not on Linux."""
    if not sys.platform.startswith("linux"):
        return None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    before = _status("VmRSS")
    call()
    return (_status("VmHWM") - before) * 1024 / 1e6


def rows(repeats: int = 3, full: bool = False) -> Iterator[Row]:
    """The lines of `make bench`: against torch.median, then against ByzFL. `full`: what the scores
    of a round of `SCORED_LARGE` cost, too."""
    found = measure(nodes=32, elements=1_000_000, repeats=5)
    own, plain = 1000 * found["merge_median_s"], 1000 * found["torch_median_s"]
    shown = f"{found['ratio']:.2f} x torch.median ({own:.0f} ms, {plain:.0f} ms)"
    name = f"merge of 32 x 1e6, {torch.get_num_threads()} threads"
    yield Row(name, shown, "<= 1.00", found["ratio"] <= 1.0)
    yield Row("scores of 32 x 1e6", f"{1000 * found['score_shares_s']:.0f} ms")
    yield from scoring_rows(*SCORED, repeats=2)
    if full:
        yield from scoring_rows(*SCORED_LARGE, repeats=1)
    for nodes, elements in SIZES:
        yield from peer_rows(nodes, elements, repeats)
    yield from peer_rows(*SIZES[0], repeats, given=2, rules=OF_TWO_THREADS)


def scoring_rows(nodes: int, elements: int, repeats: int) -> Iterator[Row]:
    """What a round's scores cost, in its merges; one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = scoring(nodes, elements, repeats)
    finally:
        torch.set_num_threads(threads)
    size = f"{nodes} x {elements:.0e}".replace("e+0", "e")
    for (score, merge), ratio in found.items():
        shown = f"{ratio:.2f} x merge {merge}"
        yield Row(f"score {score} of {size}", shown, f"<= {SCORING_GOAL:g}", ratio <= SCORING_GOAL)


def peer_rows(
    nodes: int,
    elements: int,
    repeats: int,
    compile_too: bool = True,
    given: int = 1,
    rules: Sequence[str] = RULES,
) -> Iterator[Row]:
    """One line per contest with ByzFL, or one that says why there is none. `given`: threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(given)
    try:
        for contest in contests(nodes, elements, repeats, compile_too, rules):
            yield contest.row()
    except peer_byzfl.NoPeer as error:
        yield Row("merging beside ByzFL", f"not measured: {error}")
    finally:
        torch.set_num_threads(threads)


def _payloads(nodes: int, elements: int) -> tuple[torch.Tensor, list[dict[str, torch.Tensor]]]:
    """Normal numbers as one stack, and the payloads as views of it."""
    generator = torch.Generator().manual_seed(1)
    stack = torch.randn(nodes, elements, generator=generator)
    return stack, [{"a": row} for row in stack]


def _overlapping(count: int, elements: int) -> list[dict[str, torch.Tensor]]:
    """Payloads of tensors of a million numbers each, which begin at different places of one buffer.

    128 of 1e8 numbers take 0.9 GB so, not 51. No two have a number in common at the same place, and
    a number that is read again was read half a gigabyte ago (at 128 payloads), so no cache has it.
    """
    generator = torch.Generator().manual_seed(1)
    buffer = torch.randn(elements + (count - 1) * _TENSOR, generator=generator)
    rows = (buffer[place * _TENSOR :][:elements] for place in range(count))
    return [dict(zip(map(str, places()), row.split(_TENSOR), strict=False)) for row in rows]


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


def main() -> None:
    """Command line: print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--eager", action="store_true", help="don't compile (seconds per kernel)")
    parser.add_argument("--threads", type=int, default=1, help="of both sides")
    parser.add_argument("--rule", action="append", choices=RULES, help="default: all")
    parser.add_argument("--scores", action="store_true", help="scores beside merges, on one thread")
    given = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    size = (given.nodes, given.elements, given.repeats)
    if given.scores:
        found = scoring_rows(*size)
    else:
        found = peer_rows(*size, not given.eager, given.threads, given.rule or RULES)
    for row in found:
        met = {None: "", True: "met", False: "MISSED"}[row.met]
        print(f"{row.figure:<38} {row.measured:<44} {row.goal:<22} {met:<7} {row.peer}", flush=True)


if __name__ == "__main__":
    main()
