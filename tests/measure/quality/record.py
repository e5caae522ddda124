# SPDX-License-Identifier: Apache-2.0
"""`docs/quality.json`: each run with its setting; the page's tables are made from it.

A run whose setting has changed since is not shown and is run again.
"""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tests.measure.quality.methods import METHODS
from tests.measure.quality.task import TOKENS_A_STEP, Task
from tests.measure.quality.trainer import QUARTERS, Method, Run

DOCS = Path(__file__).resolve().parents[3] / "docs"
JSON, PAGE = DOCS / "quality.json", DOCS / "quality.md"
_LATER = ("inner", "momentum", "poisoners", "poison", "absent_every", "forgets")
"""Fields that methods got after the first runs were recorded; written where they are set."""
BEGIN, END = "<!-- table {} -->", "<!-- end -->"


@dataclass(frozen=True)
class Key:
    """A row's name, its seed and its steps."""

    method: str
    seed: int
    steps: int


class Records:
    """The recorded runs."""

    def __init__(self, path: Path = JSON) -> None:
        self.path = path
        self.content: dict[str, Any] = {"task": {}, "runs": []}
        if path.exists():
            self.content = json.loads(path.read_text())

    def find(self, key: Key) -> Run | None:
        """The run, if its setting is still the same."""
        for entry in self.content["runs"]:
            if _entry_key(entry) == key and entry["setting"] == _setting(key.method):
                return Run(**entry["result"])
        return None

    def add(self, key: Key, task: Task, run: Run) -> None:
        """Write a run; it replaces one of the same name, seed and steps."""
        self.content["task"] = {
            "corpus_sha256": task.sha256,
            "parameters": task.parameters,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }
        kept = [entry for entry in self.content["runs"] if _entry_key(entry) != key]
        result = asdict(run)
        result["codec_s"], result["cpu_s"] = round(run.codec_s, 2), round(run.cpu_s, 1)
        kept.append(asdict(key) | {"setting": _setting(key.method), "result": result})
        order = list(METHODS)
        kept.sort(key=lambda e: (e["steps"], order.index(e["method"]), e["seed"]))
        self.content["runs"] = kept
        self.path.write_text(json.dumps(self.content, indent=1) + "\n")

    def table(self, steps: int) -> str:
        """Markdown: a line a method, means over seeds and each seed's end."""
        lines = [
            "| method | seeds | 25 % | 50 % | 75 % | **end** | each seed | MB up per peer "
            "| exchanges | codec ms per peer and exchange |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        for name in METHODS:
            runs = {e["seed"]: e["result"] for e in self._of(name, steps)}
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

    def write_page(self) -> None:
        """Put the tables between their marks in `docs/quality.md`."""
        text = PAGE.read_text()
        for steps in sorted({entry["steps"] for entry in self.content["runs"]}):
            begin = BEGIN.format(steps * TOKENS_A_STEP)
            if begin in text:
                head, _, rest = text.partition(begin)
                tail = rest.partition(END)[2]
                text = f"{head}{begin}\n\n{self.table(steps)}\n\n{END}{tail}"
        PAGE.write_text(text)

    def _of(self, method: str, steps: int) -> Iterator[dict[str, Any]]:
        for entry in self.content["runs"]:
            same = entry["method"] == method and entry["steps"] == steps
            if same and entry["setting"] == _setting(method):
                yield entry


def _entry_key(entry: dict[str, Any]) -> Key:
    return Key(entry["method"], entry["seed"], entry["steps"])


def _setting(name: str) -> dict[str, Any]:
    """As JSON gives it back: tuples are lists. Of `_LATER` only what a method sets is written, so
    runs from before these fields keep their setting."""
    setting: dict[str, Any] = json.loads(json.dumps(asdict(METHODS[name])))
    plain: dict[str, Any] = json.loads(json.dumps(asdict(Method("central"))))
    return {
        key: value for key, value in setting.items() if key not in _LATER or value != plain[key]
    }
