# SPDX-License-Identifier: Apache-2.0
"""What an operator makes by the README is never committed by mistake: git does not see it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agents.runtime.config import AgentSettings

ROOT = Path(__file__).resolve().parents[2]


def _ignored(path: str) -> bool:
    found = subprocess.run(
        ["git", "check-ignore", "--quiet", "--no-index", path], cwd=ROOT, check=False
    )
    return found.returncode == 0


def _named() -> list[str]:
    """Every settings file and data folder that a page or a command tells an operator to make."""
    pages = [ROOT / "README.md", ROOT / "scripts" / "devnet.py", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    return sorted(set(re.findall(r"--(?:out|data-dir|config) ([\w./~-]*my[\w./-]*)", text)))


@pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no git checkout"
)
def test_settings_and_data_of_the_pages_are_not_seen_by_git() -> None:
    defaults = AgentSettings.model_fields
    made = [
        *(name for name in _named() if not name.startswith("~")),
        "my.data/trainer-0x.journal",
        "my-trainer/trainer-0x.journal",
        f"{defaults['data_dir'].default}/trainer-0x.journal",
        f"{defaults['store'].default}/x",
    ]
    assert [path for path in made if not _ignored(path)] == []
    assert not _ignored("scripts/agent.py")
