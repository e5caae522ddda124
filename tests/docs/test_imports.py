# SPDX-License-Identifier: Apache-2.0
"""What a module imports from another of ours is there.

`mypy agents` knows it of the agents. A command imports much only when it is typed: without this, a
name that one branch renames and another begins to use is missed by whatever does not type it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOPS = ("agents", "scripts", "tests")


@cache
def names_of(path: Path) -> frozenset[str]:
    """Every name that a file binds anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


def is_there(root: Path, module: str, name: str) -> bool:
    """Whether a module of ours has a name, or a folder a module of that name."""
    path = root.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if file.is_file() and name in names_of(file):
        return True
    return path.is_dir() and ((path / name).is_dir() or (path / f"{name}.py").is_file())


def missing(root: Path, file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.level == 0 and node.module.split(".")[0] in TOPS:
            for alias in node.names:
                if not is_there(root, node.module, alias.name):
                    where = f"{file.relative_to(root)}:{node.lineno}"
                    yield f"{where} imports {alias.name}, which {node.module} does not have."


@pytest.mark.parametrize("top", TOPS)
def test_what_is_imported_is_there(top: str) -> None:
    files = [file for file in (ROOT / top).rglob("*.py") if "node_modules" not in file.parts]
    assert len(files) > 100
    assert [said for file in sorted(files) for said in missing(ROOT, file)] == []


def test_a_name_that_was_renamed_is_found(tmp_path: Path) -> None:
    room = tmp_path / "scripts" / "_room"
    room.mkdir(parents=True)
    (room / "one.py").write_text("def new_name(): ...\n")
    (room / "two.py").write_text(
        "from scripts._room import one\nfrom scripts._room.one import new_name\n"
        "def late():\n    from scripts._room.one import old_name\n"
    )
    assert list(missing(tmp_path, room / "two.py")) == [
        "scripts/_room/two.py:4 imports old_name, which scripts._room.one does not have."
    ]
