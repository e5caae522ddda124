# SPDX-License-Identifier: Apache-2.0
"""`ape run audit`, as the program that it is: its exit status, its words and its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from scripts._net.compiled import ROOT
from tests.stage.chain.finished_job import JOB, UNPUNISHED, FinishedJob


def run(finished: FinishedJob, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as torch's settings demand."""
    return subprocess.run(
        [
            *(sys.executable, "-c", "from scripts.audit import cli; cli()"),
            *("--rpc", finished.url, "--deployment", str(finished.deployment)),
            *("--store", str(finished.store.root), *arguments),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )


def test_exit_status__is_0_only_if_everything_holds(finished: FinishedJob, tmp_path: Path) -> None:
    good = run(finished, "--job", str(JOB), "--no-receipts")
    assert good.returncode == 0, good.stderr
    assert "✓ Everything holds" in good.stdout
    out = tmp_path / "audit.json"
    bad = run(finished, "--job", str(UNPUNISHED), "--deep", "--json", str(out))
    assert bad.returncode == 1, bad.stderr
    cat = f"node {finished.node('cat')}"
    assert f"✗ training: round 1, {cat}: " in bad.stdout
    told = json.loads(out.read_text())
    assert told["holds"] is False
    assert [d["subject"] for d in told["parts"][0]["differences"]] == [cat]


def test_refusals_are_sentences(finished: FinishedJob) -> None:
    refused = run(finished, "--job", "99")
    assert refused.returncode == 1
    assert "There is no job 99" in refused.stderr
    assert "Traceback" not in refused.stderr
