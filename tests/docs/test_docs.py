# SPDX-License-Identifier: Apache-2.0
"""The documentation says what the sources say, and every file it points at exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from agents.protocol.numbers import Violation
from agents.protocol.slashing import DEFAULTS
from agents.runtime.metrics import Metrics
from tests.docs.reference import PAGES, ROOT, Reader

PAGES_OF_PROSE = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
_TOPS = "agents|contracts|interfaces|scripts|tests|docs"
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"^```.*?^```", re.M | re.S)
_PROGRAM = re.compile(r"^```python\n.*?^```", re.M | re.S)
# Files that a page tells its reader to write: they are not there yet.
_TO_WRITE = re.compile(r"[Ww]rite `(\w+\.py)`")
_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(rf"(?<![\w./])(?:{_TOPS})/[\w./-]*\w/?")
_DOTTED = re.compile(rf"(?<![\w./])(?:{_TOPS})(?:\.[A-Za-z_]\w*)+(?![\w/])")
_FILE = re.compile(r"(?<![\w./*<-])[\w/]+\.(?:py|vy|vyi)\b")
# A file, and behind it the functions of it that are meant: `agents/x.py` `f`, `g`
_WITHIN = re.compile(r"`([\w./]+\.(?:py|vy))`((?:,? `\w+`)+)")


def _quoted(text: str) -> str:
    """What a text quotes: fenced blocks but programs, and whatever stands between backticks."""
    text = _PROGRAM.sub("", text)
    return "\n".join([*_FENCE.findall(text), *_QUOTED.findall(_FENCE.sub("", text))])


def _module_exists(dotted: str) -> bool:
    """Whether a dotted name is a folder, a file, or a name that stands in a file's text."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place, rest = ROOT.joinpath(*parts[:length]), parts[length:]
        if place.is_dir():
            face = place / "__init__.py"
            return not rest or (face.exists() and _mentions(face, rest))
        if place.with_suffix(".py").exists():
            return _mentions(place.with_suffix(".py"), rest)
    return False


def _mentions(path: Path, names: list[str]) -> bool:
    text = path.read_text(encoding="utf-8")
    return all(re.search(rf"\b{re.escape(name)}\b", text) for name in names)


def _stale(text: str, files: list[str]) -> list[str]:
    """The names of files and modules that a text quotes and the repository doesn't have."""
    quoted = _quoted(text)
    missing = [path for path in _PATH.findall(quoted) if not (ROOT / path).exists()]
    missing += [name for name in _DOTTED.findall(quoted) if not _module_exists(name)]
    for tail in _FILE.findall(quoted):
        if not any(f"/{file}".endswith(f"/{tail}") for file in files):
            missing.append(tail)
    for path, names in _WITHIN.findall(text):
        if (ROOT / path).exists():
            within = re.findall(r"\w+", names)
            missing += [f"{path}: {n}" for n in within if not _mentions(ROOT / path, [n])]
    to_write = set(_TO_WRITE.findall(text))
    return sorted({name for name in missing if Path(name).name not in to_write})


@pytest.fixture(scope="module")
def files() -> list[str]:
    tops = [ROOT / top for top in _TOPS.split("|")]
    return [str(path.relative_to(ROOT)) for top in tops for path in top.rglob("*.*")]


@pytest.mark.parametrize("name", PAGES)
def test_written_pages_are_current(name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name](), (
        "run `python -m tests.docs.reference`"
    )


@pytest.mark.parametrize("page", PAGES_OF_PROSE, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [page.parent / link for link in _LINK.findall(text) if "://" not in link]
    assert [str(link) for link in links if not link.exists()] == []


@pytest.mark.parametrize("page", PAGES_OF_PROSE, ids=lambda page: page.name)
def test_files_modules_and_functions_that_a_page_names_exist(page: Path, files: list[str]) -> None:
    assert _stale(page.read_text(encoding="utf-8"), files) == []


@pytest.mark.parametrize("top", ["agents", "scripts"])
def test_modules_that_docstrings_name_exist(top: str, files: list[str]) -> None:
    wrong = {}
    for path in sorted((ROOT / top).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        texts = [ast.get_docstring(n) or "" for n in ast.walk(tree) if isinstance(n, documented)]
        if stale := _stale("\n".join(texts), files):
            wrong[str(path.relative_to(ROOT))] = stale
    assert wrong == {}


def test_a_stale_name_is_found(files: list[str]) -> None:
    """The check above sees a path, a module, a bare file name and a function that don't exist."""
    text = """`agents/aggregation/` and `agents.rounds.outcome`, `rounds/result.py`,
`agents/rounds/outcome.py` `merge`, `nothing_like_it`
```
python -m tests.studies.codecs
```"""
    assert _stale(text, files) == [
        "agents/aggregation/",
        "agents/rounds/outcome.py: nothing_like_it",
        "rounds/result.py",
        "tests.studies.codecs",
    ]


def test_reasons_documented_in_natspec_are_those_of_the_code() -> None:
    """What a function's own comment promises to revert with is in its code."""
    reader = Reader()
    wrong = []
    prefixes = {
        "NodeRegistry": "registry",
        "NodeBenchmarks": "benchmarks",
        "TrainingJobs": "jobs",
        "TrainingRounds": "rounds",
        "TrainingResults": "results",
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
    for violation, row in DEFAULTS.items():
        start = f"| {Violation(violation).name} |"
        said = next(line for line in text.splitlines() if line.startswith(start))
        assert f"{row.bps / 100:g} %" in said
        assert not row.escalation_bps or f"+{row.escalation_bps / 100:g} %" in said


def test_every_metric_is_documented() -> None:
    text = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    names = {metric.name for metric in Metrics("trainer").registry.collect()}
    assert {name for name in names if name not in text} == set()
