# SPDX-License-Identifier: Apache-2.0
"""`ape run audit` in processes of its own: its exit status, its words and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

from tests.stage.chain.finished_job import JOB, UNPUNISHED, FinishedJob


def test_exit_status__is_0_only_if_everything_holds(finished: FinishedJob, tmp_path: Path) -> None:
    good = finished.command("--job", str(JOB), "--no-receipts")
    assert good.returncode == 0, good.stderr
    assert "✓ Everything holds" in good.stdout
    out = tmp_path / "audit.json"
    bad = finished.forked("--job", str(UNPUNISHED), "--deep", "--json", str(out))
    assert bad.returncode == 1, bad.stderr
    cat = f"node {finished.node('cat')}"
    assert f"✗ training: round 1, {cat}: " in bad.stdout
    told = json.loads(out.read_text())
    assert told["holds"] is False
    assert [d["subject"] for d in told["parts"][0]["differences"]] == [cat]


def test_refusals_are_sentences(finished: FinishedJob) -> None:
    refused = finished.forked("--job", "99")
    assert refused.returncode == 1
    assert "There is no job 99" in refused.stderr
    assert "Traceback" not in refused.stderr
