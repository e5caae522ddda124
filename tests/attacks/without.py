# SPDX-License-Identifier: Apache-2.0
"""Takes each defence out of the contracts, one at a time, and shows that its tests then fail.

    python -m tests.attacks.without              # all of them, about half a minute each
    python -m tests.attacks.without --only bond

`defences.toml` lists them. It works on a copy of the repository in a temporary folder, prints one
line a test, and ends with 1 when a test still passes without what it is meant to need, or when a
contract no longer has a defence in the words of the list.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFENCES = Path(__file__).with_name("defences.toml")
COPIED = ("agents", "contracts", "interfaces", "scripts", "tests", "pyproject.toml")


@dataclass(frozen=True)
class Cut:
    """Lines of a file, and what stands there without the defence."""

    file: str
    lines: str
    without: str


@dataclass(frozen=True)
class Defence:
    """What a defence consists of, and the tests that need it."""

    item: str
    name: str
    tests: list[str]
    cuts: list[Cut]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    chosen = [d for d in defences() if options.only in d.name]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = repository_copy(Path(folder))
        for defence in chosen:
            for test, fails in tried(copy, defence):
                bad += not fails
                verdict = "fails without it" if fails else "STILL PASSES"
                print(f"{defence.item:5} {defence.name:45} {verdict}: {test}", flush=True)
    print(f"{len(chosen)} defences, {bad} tests that did not need theirs")
    return int(bad != 0)


def defences() -> list[Defence]:
    listed = tomllib.loads(DEFENCES.read_text())["defence"]
    return [Defence(**entry | {"cuts": [Cut(**cut) for cut in entry["cuts"]]}) for entry in listed]


def repository_copy(folder: Path) -> Path:
    """Copy into a folder what tests need; returns the folder."""
    for name in COPIED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    return folder


@contextmanager
def cut_out(copy: Path, defence: Defence) -> Iterator[None]:
    """While this holds, a copy is without the defence. SystemExit if its words are not there."""
    whole: dict[Path, str] = {}
    try:
        for cut in defence.cuts:
            path = copy / cut.file
            text = path.read_text()
            whole.setdefault(path, text)
            if text.count(cut.lines) != 1:
                raise SystemExit(f"{defence.name}: not once in {cut.file}:\n{cut.lines}")
            path.write_text(text.replace(cut.lines, cut.without))
        yield
    finally:
        for path, text in whole.items():
            path.write_text(text)


def tried(copy: Path, defence: Defence) -> Iterator[tuple[str, bool]]:
    """Each test of a defence, and whether it fails without it."""
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider"]
    with cut_out(copy, defence):
        run = subprocess.run(
            [*command, *defence.tests],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    for test in defence.tests:
        # An error, of a contract that does not compile for one, is no failure.
        yield test, f"\nFAILED {test}" in run.stdout


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those with this in their name")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
