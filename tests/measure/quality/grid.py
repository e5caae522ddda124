# SPDX-License-Identifier: Apache-2.0
"""Every method's rates over one grid, in one run, and what the best setting does on other seeds.

The peak rate of what a method's inner optimizer moves most (all tensors with AdamW, the hidden
matrices with Muon, whose other tensors stay at 3e-3) is 3e-3 times one of `INNER`; a swarm's outer
rate is one of `OUTER`. All points of the grid run on seed 0. A point that is far behind the best of
its method at a quarter, a half or three quarters of the way is ended there. The best point of each
method then runs on the held-out seeds, which had no say.

    python -m tests.measure.quality.grid --workers 16    # run what docs/quality.json lacks
    python -m tests.measure.quality.grid --table         # only write the page's tables
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from tests.measure.quality.methods import METHODS
from tests.measure.quality.record import BEGIN, JSON, PAGE, alone
from tests.measure.quality.task import CORPUS_SHA256, Task
from tests.measure.quality.trainer import Method, Run, Trainer
from tests.measure.rows import put_between

SECTION = "grid"  # of docs/quality.json
STEPS, SEED, HELD_OUT = 200, 0, (1, 2)
RATE = 3e-3
INNER = (1, 2, 3, 5, 8, 12)
OUTER = (2.0, 4.0, 7.0, 10.0)
BEHIND = {"0.25": 0.2, "0.5": 0.08, "0.75": 0.04}
"""Nats behind the best of its method at which a point is ended, by the part of the way."""

ROWS: Mapping[str, Method] = {
    "adamw": METHODS["adamw"],
    "muon": METHODS["muon"],
    "sparse-muon": METHODS["sparse-muon"],
    "cells-muon-quarter": METHODS["cells-muon-quarter"],
    "directions-muon-quarter": METHODS["directions-muon-quarter"],
    "demo-muon": METHODS["demo-muon"],
    # `sparse-muon` with a schedule-free outer step in place of the plain one.
    "sparse-muon-free": replace(METHODS["sparse-muon"], free=0.9),
}


@dataclass(frozen=True)
class Point:
    """A method at two rates on a seed. `outer`: 0 for central training, which has none."""

    row: str
    inner: float
    outer: float
    seed: int = SEED

    @property
    def method(self) -> Method:
        """What the trainer is given."""
        method = ROWS[self.row]
        name, options = method.inner
        if name == "muon":
            method = replace(method, lr=RATE, inner=(name, {**options, "lr_ratio": self.inner}))
        else:
            method = replace(method, lr=RATE * self.inner)
        return replace(method, outer_lr=self.outer) if self.outer else method


@dataclass
class Result:
    """A point's losses so far, by the part of the way; MB that a peer uploaded; CPU seconds."""

    point: Point
    val: dict[str, float] = field(default_factory=dict)
    uploaded: float = 0.0
    cpu_s: float = 0.0

    @property
    def end(self) -> float:
        """The loss at the end; infinite where the point was ended before or diverged."""
        return self.val.get("1.0", float("inf"))


def grid(rows: Iterable[str]) -> Iterator[Point]:
    """All points of these methods on seed 0. Those in the grid's middle come first, so that there
    is soon something to be behind."""
    middle = sorted(INNER, key=lambda inner: abs(INNER.index(inner) - 3.5))
    for inner in middle:
        for row in rows:
            if ROWS[row].kind == "central":
                yield Point(row, inner, 0.0)
            else:
                yield from (Point(row, inner, outer) for outer in OUTER)


def is_behind(result: Result, others: Iterable[Result]) -> bool:
    """Whether a point is to be ended, by what others of its method had at the same part."""
    for part, limit in BEHIND.items():
        if part in result.val:
            known = [one.val[part] for one in others if part in one.val]
            if known and result.val[part] > min(known) + limit:
                return True
    return False


def best(results: Iterable[Result], row: str) -> Result | None:
    """The point of a method with the least loss at the end on seed 0."""
    ended = [one for one in results if one.point.row == row and one.point.seed == SEED]
    found = min(ended, key=lambda one: one.end, default=None)
    return None if found is None or found.end == float("inf") else found


class Grid:
    """The recorded results; each is written as soon as it is there."""

    def __init__(self, path: Path = JSON) -> None:
        content = json.loads(path.read_text()).get(SECTION, {}) if path.exists() else {}
        self.path = path
        self.machine: dict[str, str] = content.get("machine", {})
        self.results = [
            Result(Point(**entry.pop("point")), **entry) for entry in content.get("points", ())
        ]

    def has(self, point: Point) -> bool:
        return any(one.point == point for one in self.results)

    def add(self, result: Result) -> None:
        """Write a result."""
        self.results.append(result)
        self.machine = {
            "cores": str(os.cpu_count()),
            "python": platform.python_version(),
            "torch": torch.__version__,
        }
        order = list(ROWS)
        self.results.sort(
            key=lambda r: (order.index(r.point.row), r.point.seed, r.point.outer, r.point.inner)
        )
        points = [asdict(one) for one in self.results]
        with alone():
            content = json.loads(self.path.read_text())
            content[SECTION] = {"machine": self.machine, "points": points}
            self.path.write_text(json.dumps(content, indent=1) + "\n")

    def write_page(self) -> None:
        """Put both tables between their marks."""
        put_between(PAGE, BEGIN.format("grid"), self.table())
        put_between(PAGE, BEGIN.format("held out"), self.held_out())

    def table(self) -> str:
        """Markdown: the grid on seed 0."""
        lines = [
            "| method | outer rate | " + " | ".join(f"x{inner}" for inner in INNER) + " |",
            "|---|---|" + "---|" * len(INNER),
        ]
        for row, method in ROWS.items():
            top = best(self.results, row)
            for outer in (0.0,) if method.kind == "central" else OUTER:
                cells = [self._cell(Point(row, inner, outer), top) for inner in INNER]
                lines.append(f"| `{row}` | {f'{outer:g}' if outer else ''} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def by_seed(self, row: str) -> dict[int, float]:
        """The losses at the end of a method at its best rates, by seed."""
        top = best(self.results, row)
        if top is None:
            return {}
        same = (one for one in self.results if replace(one.point, seed=SEED) == top.point)
        return {one.point.seed: one.end for one in same}

    def _cell(self, point: Point, top: Result | None) -> str:
        for one in self.results:
            if one.point == point:
                if "1.0" in one.val:
                    shown = f"{one.end:.3f}"
                    return f"**{shown}**" if one is top else shown
                if one.val:
                    part = max(one.val, key=float)
                    return f"({one.val[part]:.2f} at {100 * float(part):.0f} %)"
                return "diverged"
        return ""

    def held_out(self) -> str:
        """Markdown: the best point of each method, on every seed."""
        lines = ["| method | inner, outer | MB up per peer | seed 0 | seed 1 | seed 2 |"]
        lines.append("|---|---|---|---|---|---|")
        for row in ROWS:
            top = best(self.results, row)
            if top is None:
                continue
            found = self.by_seed(row)
            seeds = (SEED, *HELD_OUT)
            ends = [f"{found[seed]:.3f}" if seed in found else "not run" for seed in seeds]
            rates = f"x{top.point.inner:g}" + (f", {top.point.outer:g}" if top.point.outer else "")
            lines.append(f"| `{row}` | {rates} | {top.uploaded:.3f} | {' | '.join(ends)} |")
        return "\n".join(lines)


def _work(point: Point, say: Connection) -> None:
    """A process: run a point, and tell its result at every quarter."""
    torch.set_num_threads(1)
    began = time.process_time()
    trainer: Trainer

    def told(run: Run) -> None:
        spent = time.process_time() - began
        say.send(Result(point, dict(run.val), run.uploaded / 1e6, round(spent, 1)))

    try:
        trainer = Trainer(Task(point.seed), point.method, STEPS, lambda _: told(trainer.run))
        told(trainer.go())
    except (FloatingPointError, ValueError):  # the method diverges
        say.send(Result(point))
    say.close()


class Pool:
    """Points side by side, a process each."""

    def __init__(self, records: Grid, workers: int, until: float) -> None:
        """`until`: the time (`time.monotonic`) from which on no result is waited for."""
        self._records, self._workers, self._until = records, workers, until
        self._running: dict[Connection, tuple[Any, Result]] = {}

    def run(self, points: Iterable[Point], then: Callable[[Result], Iterable[Point]]) -> None:
        """Run points, and those that `then` names after each that ended."""
        left = deque(point for point in points if not self._records.has(point))
        while (left or self._running) and time.monotonic() < self._until:
            while left and len(self._running) < self._workers:
                self._begin(left.popleft())
            ended = [one for one in map(self._heard, wait(list(self._running), 1.0)) if one]
            for result in ended:
                self._records.add(result)
                print(_line(result), flush=True)
                left.extend(point for point in then(result) if not self._records.has(point))
        for process, _ in self._running.values():
            process.kill()

    def _begin(self, point: Point) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(point, there))
        process.start()
        there.close()
        self._running[here] = process, Result(point)

    def _heard(self, here: Any) -> Result | None:
        """What a process told, if the point has ended by it."""
        process, last = self._running[here]
        try:
            result: Result = here.recv()
        except EOFError:
            del self._running[here]
            process.join()
            if process.exitcode:
                raise RuntimeError(f"{_line(last)}: ended with {process.exitcode}") from None
            return last
        self._running[here] = process, result
        others = [
            one
            for one in (*self._records.results, *(now for _, now in self._running.values()))
            if one.point.row == result.point.row and one.point.seed == result.point.seed
        ]
        if result.point.seed == SEED and "1.0" not in result.val and is_behind(result, others):
            process.kill()
            process.join()
            del self._running[here]
            return result
        return None


def _line(result: Result) -> str:
    point = result.point
    losses = " ".join(f"{loss:.3f}" for loss in result.val.values()) or "diverged"
    outer = f", outer {point.outer:g}" if point.outer else ""
    return (
        f"{time.strftime('%H:%M:%S')} {point.row} x{point.inner:g}{outer}, seed {point.seed}: "
        f"{losses}; {result.uploaded:.3f} MB, {result.cpu_s:.0f} CPU s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--row", action="append", choices=list(ROWS), help="default: all")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end by then")
    parser.add_argument("--table", action="store_true", help="only write the page's tables")
    given = parser.parse_args()
    records = Grid()
    if not given.table:
        if Task(SEED).sha256 != CORPUS_SHA256:
            parser.error("this Python's library is not the text of the study (CPython 3.11.7's)")
        rows = given.row or list(ROWS)
        waiting = dict.fromkeys(rows, 0)
        points = list(grid(rows))
        for point in points:
            waiting[point.row] += not records.has(point)

        def then(result: Result) -> list[Point]:
            row = result.point.row
            waiting[row] -= result.point.seed == SEED
            top = best(records.results, row)
            if waiting[row] or top is None:
                return []
            return [replace(top.point, seed=seed) for seed in HELD_OUT]

        late = [
            replace(top.point, seed=seed)
            for row in rows
            if not waiting[row] and (top := best(records.results, row))
            for seed in HELD_OUT
        ]
        until = time.monotonic() + given.seconds
        Pool(records, given.workers, until).run([*late, *points], then)
    records.write_page()


if __name__ == "__main__":
    main()
