# SPDX-License-Identifier: Apache-2.0
"""The page's script: its own tests under Node, its size, and that it makes no code at run time."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.stage.island import ISLAND, built_island

MOST_FIRST = 100_000  # bytes of script, compressed, that the first page loads
MOST_ALL = 150_000  # with all that a wallet needs
_IMPORT = re.compile(r"""(?:from|import)\s*["'](\./[^"']+)["']""")


@pytest.fixture(scope="module")
def island() -> Path:
    return built_island()


def _first(folder: Path) -> set[Path]:
    """`main.js` and what it imports at once; what it loads later is in `import(…)`."""
    found: set[Path] = set()
    waiting = [folder / "main.js"]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [path.parent / name for name in _IMPORT.findall(path.read_text())]
    return found


def _compressed(paths: set[Path]) -> int:
    return sum(len(gzip.compress(path.read_bytes())) for path in paths)


def test_island__its_own_tests_pass(island: Path) -> None:
    node = shutil.which("node")
    assert node is not None
    tests = Path(__file__).parent / "island"
    done = subprocess.run(
        [node, "test.mjs", str(tests)],
        cwd=ISLAND,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    counted = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert counted is not None and int(counted[1]) >= 50


def test_island__the_first_page_loads_little_script(island: Path) -> None:
    first = _first(island)
    assert _compressed(first) <= MOST_FIRST
    everything = set(island.glob("*.js"))
    assert first < everything, "the wallet is loaded when it is needed"
    assert _compressed(everything) <= MOST_ALL


def test_island__nothing_is_made_code_at_run_time(island: Path) -> None:
    for path in island.glob("*.js"):
        text = path.read_text()
        assert not re.search(
            r"\beval\(|\bnew Function\b|\.innerHTML\b|\.outerHTML\s*=[^=]", text
        ), path
        assert "document.write" not in text, path


def test_island__its_packages_come_from_wherever_npm_is_set_to() -> None:
    lock = json.loads((ISLAND / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages
    for name, entry in packages.items():
        assert "resolved" not in entry, name
        assert entry["integrity"].startswith("sha512-"), name
