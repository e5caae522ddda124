# SPDX-License-Identifier: Apache-2.0
"""A long search, seed after seed. The record is written after each seed, and a seed that is in it
already is not searched again: a search that was stopped goes on where it was.

python -m tests.contracts.fuzz --actions 50000 --seed 1 --seeds 20 --record fuzz.json"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tests.contracts.fuzz.known import KNOWN
from tests.contracts.fuzz.run import Stage, make_stage
from tests.contracts.fuzz.search import Search
from tests.stage.contracts.system import Codes


def searched(stage: Stage, seed: int, actions: int) -> dict[str, Any]:
    """The record of one seed."""
    search = Search(stage, seed)
    print(f"seed {seed}", flush=True)
    start = time.process_time()
    search.run(actions, lambda line: print(line, flush=True))
    took = time.process_time() - start
    print(f"{search.actions} actions in {search.plays} plays, {search.actions / took:.0f} a second")
    return {
        "actions": search.actions,
        "plays": search.plays,
        "seconds": round(took),
        "findings": {
            cause: {"at": f.at, "words": f.words().splitlines()}
            for cause, f in sorted(search.findings.items())
        },
        "worked": search.counts(),
    }


class Record:
    """What was searched: the seeds, and how often each function was tried and worked in all of
    them. The file has one line for each, so that a change to it can be read."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        old = json.loads(file.read_text()) if file and file.exists() else {}
        self.seeds: dict[str, dict[str, Any]] = old.get("seeds", {})
        self.worked: dict[str, list[int]] = old.get("worked", {})

    def add(self, seed: int, found: dict[str, Any]) -> None:
        """Take the record of a seed, and write the file."""
        for function, (tried, worked) in found.pop("worked").items():
            count = self.worked.setdefault(function, [0, 0])
            count[0] += tried
            count[1] += worked
        self.seeds[str(seed)] = found
        if self._file:
            parts = {"seeds": self.seeds, "worked": dict(sorted(self.worked.items()))}
            text = ",\n".join(
                f'"{name}": {{\n{_a_line_each(part)}\n}}' for name, part in parts.items()
            )
            self._file.write_text(f"{{\n{text}\n}}\n")


def _a_line_each(part: dict[str, Any]) -> str:
    return ",\n".join(f" {json.dumps(name)}: {json.dumps(what)}" for name, what in part.items())


def main() -> int:
    """Searches, prints what it finds, and writes a record; 1 when it found what is not known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, default=10_000, help="of each seed")
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--record", type=Path, help="where to write what came of it, as JSON")
    args = parser.parse_args()
    record = Record(args.record)
    stage = make_stage(Codes.compile())
    for seed in range(args.seed, args.seed + args.seeds):
        if record.seeds.get(str(seed), {}).get("actions", 0) >= args.actions:
            continue
        record.add(seed, searched(stage, seed, args.actions))
    found = sorted({cause for one in record.seeds.values() for cause in one["findings"]})
    new = [cause for cause in found if cause not in KNOWN]
    done = sum(one["actions"] for one in record.seeds.values())
    print(
        f"{done} actions, found: {', '.join(found) or 'nothing'}; new: {', '.join(new) or 'none'}"
    )
    return 1 if new else 0


if __name__ == "__main__":
    raise SystemExit(main())
