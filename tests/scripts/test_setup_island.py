# SPDX-License-Identifier: Apache-2.0
"""The set-up builds the web page's script once per version, and goes on without npm."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ISLAND = "scripts/_web/island"
_NPM = """#!/bin/bash
echo "$@" >> "$CALLS"
[[ $1 == run ]] || exit 0
[[ -e $BROKEN ]] && exit 1
mkdir -p ../pages/static/island
touch ../pages/static/island/main.js
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the island's sources, and an npm that notes what it is asked."""
    ignored = shutil.ignore_patterns("node_modules")
    shutil.copytree(ROOT / ISLAND, tmp_path / ISLAND, ignore=ignored)
    (tmp_path / "bin").mkdir()
    npm = tmp_path / "bin/npm"
    npm.write_text(_NPM)
    npm.chmod(0o755)
    return tmp_path


def _set_up(checkout: Path, path: str | None = None) -> str:
    """Run the set-up's function for the island alone; what it says."""
    text = (ROOT / "scripts/setup.sh").read_text()
    start = text.index("setup_island() {")
    function = text[start : text.index("\n}\n", start) + 3]
    environment = {
        **os.environ,
        "PATH": f"{checkout}/bin:/usr/bin:/bin" if path is None else path,
        "CALLS": str(checkout / "calls"),
        "BROKEN": str(checkout / "broken"),
    }
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", function + "setup_island"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def _calls(checkout: Path) -> int:
    calls = checkout / "calls"
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def test_setup_island__is_built_once_for_each_version(checkout: Path) -> None:
    _set_up(checkout)
    assert _calls(checkout) == 2  # npm ci, npm run build
    assert _set_up(checkout) == ""
    assert _calls(checkout) == 2
    with (checkout / ISLAND / "src/main.ts").open("a") as file:
        file.write("// another version\n")
    _set_up(checkout)
    assert _calls(checkout) == 4
    (checkout / "scripts/_web/pages/static/island/main.js").unlink()
    _set_up(checkout)
    assert _calls(checkout) == 6


def test_setup_island__a_failed_build_is_said_and_tried_again(checkout: Path) -> None:
    (checkout / "broken").touch()
    assert "the page has no wallet and no live parts" in _set_up(checkout)
    (checkout / "broken").unlink()
    _set_up(checkout)
    assert (checkout / "scripts/_web/pages/static/island/main.js").exists()


def test_setup_island__without_npm__says_so_and_goes_on(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("find", "sort", "xargs", "cksum", "cut", "mkdir", "rm", "touch", "tail"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    said = _set_up(checkout, str(tools))
    assert "npm was not found" in said and "Install Node.js" in said
