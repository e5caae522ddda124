# SPDX-License-Identifier: Apache-2.0
"""`docs/quality.json`: each run with its setting; the page's tables are made from it.

A run whose setting has changed since is not shown and is run again.

Each run has its machine, because CPU seconds of two machines can't be compared. Runs from before
there was such a field have the commits that recorded them in its place: what one session recorded
at one go was taken to be of one machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tests.measure.quality.methods import METHODS
from tests.measure.quality.task import TOKENS_A_STEP, WIDTH, Task
from tests.measure.quality.trainer import QUARTERS, Method, Run
from tests.measure.rows import put_between

DOCS = Path(__file__).resolve().parents[3] / "docs"
JSON, PAGE = DOCS / "quality.json", DOCS / "quality.md"
_LATER = (
    *("low", "inner", "momentum", "free", "poisoners", "poison", "absent_every", "forgets"),
    *("clip", "follows"),
)
"""Fields that methods got after the first runs were recorded; written where they are set."""
BEGIN = "<!-- table {} -->"


@dataclass(frozen=True)
class Key:
    """A row's name, its seed and its steps."""

    method: str
    seed: int
    steps: int


def line(key: Key, run: Run) -> str:
    """One run in words."""
    losses = " ".join(f"{loss:.3f}" for loss in run.val.values())
    return (
        f"{key.method:<15} seed {key.seed}, {key.steps} steps: {losses} nats/byte, "
        f"{run.uploaded / 1e6:.3f} MB up per peer in {run.exchanges} exchanges, "
        f"{run.cpu_s:.0f} CPU s"
    )


def say(text: str) -> None:
    """What a run tells on the way, with the time."""
    print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)


class Records:
    """The recorded runs of one section of the file.

    Attributes:
        settings: of each method, as JSON gives it back; rows come in this order.
    """

    def __init__(
        self,
        path: Path = JSON,
        section: str = "runs",
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """The study's own methods, or those of `settings` in a section of their own."""
        self.path, self.section = path, section
        given = settings or {name: setting_of(method) for name, method in METHODS.items()}
        self.settings: dict[str, Any] = json.loads(json.dumps(given))
        self.content: dict[str, Any] = {"task": {}}
        if path.exists():
            self.content = json.loads(path.read_text())
        self.content.setdefault(section, [])

    def find(self, key: Key) -> Run | None:
        """The run, if its setting is still the same."""
        for entry in self.content[self.section]:
            if _entry_key(entry) == key and entry["setting"] == self.settings[key.method]:
                return Run(**entry["result"])
        return None

    def add(self, key: Key, task: Task, run: Run) -> None:
        """Write a run; it replaces one of the same name, seed and steps."""
        if task.spec.d_model == WIDTH:
            self.content["task"] = {
                "corpus_sha256": task.sha256,
                "parameters": task.parameters,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
            }
        kept = [entry for entry in self.content[self.section] if _entry_key(entry) != key]
        result = asdict(run)
        result["codec_s"], result["cpu_s"] = round(run.codec_s, 2), round(run.cpu_s, 1)
        made = {"setting": self.settings[key.method], "machine": _machine(task), "result": result}
        kept.append(asdict(key) | made)
        order = list(self.settings)
        kept.sort(key=lambda e: (e["steps"], order.index(e["method"]), e["seed"]))
        self.content[self.section] = kept
        self.path.write_text(json.dumps(self.content, indent=1) + "\n")

    def table(self, steps: int) -> str:
        """Markdown: a line a method, means over seeds and each seed's end."""
        lines = [
            "| method | seeds | 25 % | 50 % | 75 % | **end** | each seed | MB up per peer "
            "| exchanges | codec ms per peer and exchange |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        for name in self.settings:
            runs = self.of(name, steps)
            if not runs:
                continue
            first = next(iter(runs.values()))
            ends = [run["val"]["1.0"] for run in runs.values()]
            means = [
                f"{statistics.mean(run['val'][str(part)] for run in runs.values()):.3f}"
                for part in QUARTERS
            ]
            means[-1] = f"**{means[-1]}**"
            codec = statistics.median(run["codec_s"] / run["exchanges"] for run in runs.values())
            lines.append(
                f"| `{name}` | {len(runs)} | {' | '.join(means)} | "
                f"{', '.join(f'{end:.3f}' for end in ends)} | {first['uploaded'] / 1e6:.3f} | "
                f"{first['exchanges']} | {1000 * codec / 8:.1f} |"
            )
        return "\n".join(lines)

    def lengths(self) -> list[int]:
        """Steps of the recorded runs, each number once, ascending."""
        return sorted({entry["steps"] for entry in self.content[self.section]})

    def begin(self, steps: int) -> str:
        """The mark on the page above the table of runs of so many steps."""
        where = "" if self.section == "runs" else f"{self.section} "
        return BEGIN.format(f"{where}{steps * TOKENS_A_STEP}")

    def write_page(self) -> None:
        """Put the tables between their marks in `docs/quality.md`."""
        for steps in self.lengths():
            put_between(PAGE, self.begin(steps), self.table(steps))

    def of(self, method: str, steps: int) -> dict[int, dict[str, Any]]:
        """By seed what was recorded of a method's runs of so many steps, if its setting is still
        the same."""
        return {entry["seed"]: entry["result"] for entry in self._entries(method, steps)}

    def machines(self, steps: int) -> dict[tuple[str, int], str]:
        """By method and seed the machine that made the runs of so many steps which `of` gives. A
        run whose machine was not written down has one of its own."""
        return {
            (name, entry["seed"]): entry.get("machine", f"of {name}, seed {entry['seed']}")
            for name in self.settings
            for entry in self._entries(name, steps)
        }

    def _entries(self, method: str, steps: int) -> Iterator[dict[str, Any]]:
        for entry in self.content[self.section]:
            same = (entry["method"], entry["steps"]) == (method, steps)
            if same and entry["setting"] == self.settings[method]:
                yield entry


@contextmanager
def alone() -> Iterator[None]:
    """No other process of the study writes to the file meanwhile."""
    with JSON.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kept_or_made(
    key: Key, task: Task, made: Callable[[], Run], open_records: Callable[[], Records]
) -> Run:
    """The recorded run; where there is none it is made, recorded, and the page's tables follow."""
    run = open_records().find(key)
    if run is None:
        run = made()
        with alone():
            records = open_records()  # anew: another process may have written meanwhile
            records.add(key, task, run)
            records.write_page()
    return run


def _machine(task: Task) -> str:
    """What made a run: architecture, cores and PyTorch, the network's device, and the day. A name
    says nothing of how fast a machine was, so runs of two days are of two machines."""
    device = task.net.device
    where = f"{platform.machine()}, {os.cpu_count()} cores, PyTorch {torch.__version__}"
    return f"{where}, {device}, {time.strftime('%Y-%m-%d')}"


def _entry_key(entry: dict[str, Any]) -> Key:
    return Key(entry["method"], entry["seed"], entry["steps"])


def setting_of(method: Method) -> dict[str, Any]:
    """Of `_LATER` only what a method sets is written, so runs from before these fields keep their
    setting."""
    setting, plain = asdict(method), asdict(Method("central"))
    return {
        key: value for key, value in setting.items() if key not in _LATER or value != plain[key]
    }
