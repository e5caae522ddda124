# SPDX-License-Identifier: Apache-2.0
"""The documentation says what the sources say, and every file it points at exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents.runtime.metrics import Metrics
from scripts._report.verdict import _TABLE
from tests.docs.reference import PAGES, ROOT, Reader

DOCS = sorted((ROOT / "docs").glob("*.md"))
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_PATH = re.compile(r"`((?:agents|contracts|interfaces|scripts|tests|docs)/[\w./]+)`")


@pytest.mark.parametrize("name", PAGES)
def test_written_pages_are_current(name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name](), (
        "run `python -m tests.docs.reference`"
    )


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS], ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [page.parent / link for link in _LINK.findall(text) if "://" not in link]
    paths = [ROOT / path for path in _PATH.findall(text)]
    missing = [str(path) for path in [*links, *paths] if not path.exists()]
    assert missing == []


def test_reasons_documented_in_natspec_are_those_of_the_code() -> None:
    """What a function's own comment promises to revert with is in its code."""
    reader = Reader()
    wrong = []
    prefixes = {
        "TrainingRounds": "rounds",
        "ViolationReports": "reports",
        "RewardPool": "pool",
        "TrainingLedger": "ledger",
        "DataKeys": "keys",
        "ScoreConsensus": "scores",
        "RedundantTasks": "tasks",
        "TaskAppeals": "appeals",
    }
    for name, prefix in prefixes.items():
        text = (ROOT / "contracts" / f"{name}.vy").read_text(encoding="utf-8")
        for function in reader.sources[name].functions.values():
            if function.external:
                doc = text[text.index(f"def {function.name}(") :].split('"""')[1]
                promised = set(re.findall(rf'"({prefix}: [^"]+)"', " ".join(doc.split())))
                reasons, _, _ = reader.deep(name, function.name)
                wrong += [(name, function.name, r) for r in sorted(promised - set(reasons))]
    assert wrong == []


def test_the_slashing_table_of_the_docs_is_that_of_the_contract() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    for violation, (share, more, _) in _TABLE.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| {violation.name} |"))
        assert f"{share / 100:g} %" in row
        assert not more or f"+{more / 100:g} %" in row


def test_every_metric_is_documented() -> None:
    text = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    names = {metric.name for metric in Metrics("trainer").registry.collect()}
    assert {name for name in names if name not in text} == set()
