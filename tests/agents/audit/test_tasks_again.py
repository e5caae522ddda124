# SPDX-License-Identifier: Apache-2.0
"""`ape run audit --deep` runs every redundant task again, in the class that tasks are paid in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts._net.processes import Supervisor
from tests.stage.chain.finished_job import JOB
from tests.stage.chain.finished_tasks import FinishedTasks, make_finished_tasks

# Tasks that came to a result: not one on which three differed, nor one whose inputs nobody had, nor
# one whose verdict the committee left standing.
RIGHT = {"agreed", "outvoted", "framed", "frivolous", "objected", "unanswered", "silent", "lost"}


def audited(tasked: FinishedTasks, out: Path, status: int) -> dict[str, Any]:
    """What the command says of the job as a whole."""
    ended = tasked.forked("--job", str(JOB), "--deep", "--json", str(out))
    assert ended.returncode == status, ended.stdout + ended.stderr
    told = json.loads(out.read_text())
    return next(part for part in told["parts"] if part["round"] == 0)


def test_results_of_the_true_history_are_what_the_tasks_give(
    tasked: FinishedTasks, tmp_path: Path
) -> None:
    told = audited(tasked, tmp_path / "audit.json", 0)
    assert told["checks"]["results"] == {"compared": len(RIGHT), "holds": True}
    [left] = [remark for remark in told["remarks"] if "did not decide" in remark]
    assert left.startswith(f"task {tasked.courses['undecided']}: ")
    assert tasked.right.hex() in left


def test_two_who_colluded_and_whom_nobody_found_are_named(tmp_path: Path) -> None:
    """The whole attack: both answer with the same invention, are paid, and nobody appeals. On a
    chain of its own: other processes read the one that is shared."""
    with Supervisor(tmp_path / "logs") as supervisor:
        tasked = make_finished_tasks(tmp_path / "own", supervisor)
        task, _ = tasked.played(tasked.fake(), tasked.fake())
        told = audited(tasked, tmp_path / "audit.json", 1)
    [found] = told["differences"]
    assert (found["check"], found["subject"]) == ("results", f"task {task}")
    assert found["sentence"] == (
        f"two executors agreed on {tasked.fake().hex()}, and it gives {tasked.right.hex()}."
    )
