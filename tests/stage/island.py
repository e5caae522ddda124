# SPDX-License-Identifier: Apache-2.0
"""The page's script as the browser gets it, built where it is older than its sources."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts._net.compiled import ROOT, alone

ISLAND = ROOT / "scripts/_web/island"
BUILT = ROOT / "scripts/_web/pages/static/island"
_LOCK = ROOT / ".build/island.lock"


def skip_or_fail(sentence: str) -> None:
    """Skip a test that lacks something of the machine; on a machine that checks commits, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)


def built_island() -> Path:
    """Return the folder of the built script. Skips where npm or its packages are missing."""
    node = shutil.which("node")
    if node is None or not (ISLAND / "node_modules/esbuild").is_dir():
        skip_or_fail(
            "The page's script needs Node.js 18 or newer and its packages; install Node.js, then "
            "run `make setup`."
        )
    with alone(_LOCK):
        sources = [ISLAND / "build.mjs", ISLAND / "package.json", *(ISLAND / "src").rglob("*.ts")]
        main = BUILT / "main.js"
        newest = max(path.stat().st_mtime for path in sources)
        if not main.exists() or main.stat().st_mtime < newest:
            subprocess.run([str(node), "build.mjs"], cwd=ISLAND, check=True, capture_output=True)
    return BUILT
