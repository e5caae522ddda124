# SPDX-License-Identifier: Apache-2.0
"""A long search: python -m tests.contracts.fuzz --actions 1000000 --seed 1 --record fuzz.json"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tests.contracts.fuzz.known import KNOWN
from tests.contracts.fuzz.search import Search
from tests.contracts.fuzz.world import make_stage
from tests.stage.contracts.system import Codes


def main() -> int:
    """Searches, prints what it finds, and writes a record; 1 when it found what is not known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="where to write what came of it, as JSON")
    args = parser.parse_args()
    search = Search(make_stage(Codes.compile()), args.seed)
    print(f"seed {args.seed}", flush=True)
    start = time.process_time()
    search.run(args.actions, lambda line: print(line, flush=True))
    took = time.process_time() - start
    new = sorted(set(search.findings) - set(KNOWN))
    print(f"{search.actions} actions in {search.plays} plays, {search.actions / took:.0f} a second")
    print(f"{len(search.findings)} findings, new: {', '.join(new) or 'none'}")
    if args.record:
        record = {
            "seed": args.seed,
            "actions": search.actions,
            "plays": search.plays,
            "seconds": round(took),
            "findings": {
                cause: {"at": f.at, "words": f.words().splitlines()}
                for cause, f in sorted(search.findings.items())
            },
            "worked": {t: list(n) for t, n in sorted(search.tries.items())},
        }
        args.record.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if new else 0


if __name__ == "__main__":
    raise SystemExit(main())
