# SPDX-License-Identifier: Apache-2.0
"""Imports of `agents/` and `scripts/` run downwards only, and never in a circle.

The rule, one table: a file may import files of rooms on lower floors, and files of its own folder.
A room is a folder, or one file that lies directly in `agents/` or `scripts/`. Every import counts,
also one inside a function and one under TYPE_CHECKING. There is no list of exceptions: a file whose
imports do not fit lies in the wrong folder, and is moved.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = "scripts/*.py"

# The floors of the house, top to bottom. Rooms of one floor do not import one another.
HOUSE = (
    (COMMANDS,),
    ("scripts/_job", "scripts/_task"),
    (
        *("scripts/_attacks", "scripts/_committee", "scripts/_demo", "scripts/_figures"),
        "scripts/_web",
    ),
    ("scripts/_report", "scripts/_shared", "scripts/_net", "scripts/_setup", "scripts/_wheel"),
    ("agents/audit", "agents/verifier.py", "agents/coordinator.py", "agents/trainer.py"),
    ("agents/aggregator.py", "agents/verify", "agents/gauntlet", "agents/models"),
    ("agents/executor.py", "agents/rounds"),
    ("agents/jobs", "agents/nodes", "agents/tasks", "agents/pipeline"),
    ("agents/protocol", "agents/__main__.py"),
    ("agents/training",),
    ("agents/runtime", "agents/mechanisms"),
    ("agents/storage",),
    ("agents/__init__.py",),
)
# What a room may import besides: a neighbour on its own floor.
BESIDE = {"scripts/_shared": {"scripts/_net"}}
# What a room may not import, although it lies below: the mathematics runs without a chain.
NEVER = {"agents/training": {"agents/runtime"}}

FLOORS: dict[str, set[str]] = {
    room: {below for rooms in HOUSE[floor + 1 :] for below in rooms}.union(BESIDE.get(room, ()))
    - NEVER.get(room, set())
    for floor, rooms_of_floor in enumerate(HOUSE)
    for room in rooms_of_floor
}

# Inside a room: which of its folders may import which other of them (or which single files).
_BASE = "agents/mechanisms"
_CHOICES = sorted(folder.parent.name for folder in (ROOT / _BASE).glob("*/__init__.py"))
_SHARED = {f"{_BASE}/{part}.py" for part in ("built", "options", "rows")}
_EXACT_PRODUCTS = f"{_BASE}/merge/parts"
INSIDE: dict[str, set[str]] = {
    "scripts/_demo": {"scripts/_demo/cheats"},
    "scripts/_report/page": {"scripts/_report"},
    "scripts/_web/index/migrations": {"scripts/_web/index"},
    "scripts/_web/index/migrations/versions": {"scripts/_web/index"},
    "scripts/_web/follow": {"scripts/_web/follow/folds", "scripts/_web/index"},
    "scripts/_web/follow/folds": {"scripts/_web/index"},
    "scripts/_web/index/queries": {"scripts/_web/index"},
    "scripts/_web/api": {f"scripts/_web/{part}" for part in ("follow", "index", "index/queries")},
    "scripts/_web": {f"scripts/_web/{part}" for part in ("api", "follow", "index", "pages")},
    "scripts/_web/pages": {
        f"scripts/_web/{part}" for part in ("pages/draw", "api", "index", "index/queries")
    },
    "agents/audit": {
        *("agents/audit/work", "agents/audit/tasks", "agents/audit/chain", "agents/audit/sources"),
    },
    "agents/audit/tasks": {"agents/audit/chain", "agents/audit/sources"},
    "agents/audit/work": {"agents/audit/chain", "agents/audit/sources"},
    "agents/audit/chain": {"agents/audit/sources"},
    "agents/jobs": {"agents/jobs/combinations"},
    "agents/tasks": {"agents/tasks/compute"},
    "agents/tasks/compute/kinds": {"agents/tasks/compute"},
    "agents/training/inner": {"agents/training", "agents/training/inner/parts"},
    "agents/training/inner/parts": {"agents/training"},
    **{f"{_BASE}/{name}": {f"{_BASE}/{name}/parts", _BASE} for name in _CHOICES},
    **{
        f"{_BASE}/{name}/parts": {f"{_BASE}/{part}.py" for part in ("rows", "options", "built")}
        for name in _CHOICES
    },
}
INSIDE[f"{_BASE}/score"].add(_EXACT_PRODUCTS)
INSIDE[f"{_BASE}/score/parts"].add(_EXACT_PRODUCTS)

# Rooms whose files neither name torch nor load it through another file: an agent starts at once,
# and what only reads the chain runs where torch is not installed.
WITHOUT_TORCH = ("agents/runtime", "agents/protocol", "agents/storage")
BRINGS_TORCH = ("torch", "opacus", "safetensors.torch", "transformers")


@dataclass(frozen=True)
class Import:
    """One imported name in one file, and the module that must exist for it.

    `loads`: the import runs as soon as the file itself is imported.
    """

    name: str
    module: str
    line: int
    loads: bool


@cache
def imports_of(path: str, source: str) -> tuple[Import, ...]:
    """Every import of a file, with relative ones spelt out."""
    package = PurePosixPath(path).parent.parts

    def visit(node: ast.AST, loads: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, alias.name, node.lineno, loads) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            start = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(f"{start}.{alias.name}", start, node.lineno, loads)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            loads = False
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                yield from visit(child, False)
            for child in node.orelse:
                yield from visit(child, loads)
            return
        for child in ast.iter_child_nodes(node):
            yield from visit(child, loads)

    return tuple(visit(ast.parse(source), True))


def room_of(path: str) -> str | None:
    """The room a file lies in, None if the table has no place for it."""
    folders = PurePosixPath(path).parent.parts
    if len(folders) > 1:
        room = "/".join(folders[:2])
    elif folders == ("scripts",) and not PurePosixPath(path).name.startswith("_"):
        room = COMMANDS
    else:
        room = path
    return room if room in FLOORS else None


def floor_of(room: str) -> int:
    """The number of a room's floor, the ground being 0."""
    return next(n for n, rooms in enumerate(reversed(HOUSE)) if room in rooms)


@dataclass(frozen=True)
class House:
    """The sources of `agents/` and `scripts/`: path from the repository's root -> text."""

    sources: Mapping[str, str]

    @classmethod
    def read(cls, root: Path) -> House:
        files = [file for room in ("agents", "scripts") for file in root.glob(f"{room}/**/*.py")]
        return cls({file.relative_to(root).as_posix(): file.read_text("utf-8") for file in files})

    def also(self, path: str, text: str) -> House:
        """The same house with `text` added at the end of one file."""
        return House({**self.sources, path: f"{self.sources.get(path, '')}\n{text}\n"})

    @cached_property
    def imports(self) -> dict[str, tuple[Import, ...]]:
        return {path: imports_of(path, text) for path, text in sorted(self.sources.items())}

    def file_of(self, one: Import) -> str | None:
        """The file that is imported: a module, a package, or the module that holds the name."""
        for dotted in (one.name, one.module):
            path = dotted.replace(".", "/")
            for file in (f"{path}.py", f"{path}/__init__.py"):
                if file in self.sources:
                    return file
        return None

    @cached_property
    def steps(self) -> list[tuple[str, str, Import]]:
        """(importing file, imported file, import) for every import within the house."""
        return [
            (path, target, one)
            for path, found in self.imports.items()
            for one in found
            if (target := self.file_of(one)) is not None
        ]

    # -- the rules: each returns one sentence for every place that breaks it -------------------

    def unplaced(self) -> list[str]:
        """Files that lie in no room, and imports of the project that lead nowhere."""
        wrong = [
            f"{path} lies in no room of the table" for path in self.sources if not room_of(path)
        ]
        for path, found in self.imports.items():
            for one in found:
                if one.name.split(".")[0] == "tests":
                    wrong.append(f"{path}:{one.line} imports a test: {one.name}")
                elif one.name.split(".")[0] in ("agents", "scripts") and not self.file_of(one):
                    wrong.append(f"{path}:{one.line} imports {one.name}, which does not exist")
        return wrong

    def upward(self) -> list[str]:
        """Imports of a room that FLOORS does not give to the importing one."""
        wrong = []
        for path, target, one in self.steps:
            room, wanted = room_of(path), room_of(target)
            same_room = room == wanted and (room != COMMANDS or path == target)
            if room is None or wanted is None or same_room or wanted in FLOORS[room]:
                continue
            way = floor_of(wanted) - floor_of(room)
            word = "upwards" if way > 0 else "sideways" if way == 0 else "what it must do without"
            wrong.append(f"{path}:{one.line} imports {word}: {target}")
        return wrong

    def inside(self) -> list[str]:
        """Imports from one folder of a room into another that INSIDE does not list."""
        wrong = []
        for path, target, one in self.steps:
            here, there = (str(PurePosixPath(file).parent) for file in (path, target))
            if room_of(path) == room_of(target) and here != there:
                allowed = INSIDE.get(here, set())
                if there not in allowed and target not in allowed:
                    wrong.append(f"{path}:{one.line} imports against its room's order: {target}")
        return wrong

    def faces(self) -> list[str]:
        """Parts that import the `__init__.py` of the folder they are parts of."""
        return [
            f"{path}:{one.line} is a part and imports the face of its folder: {target}"
            for path, target, one in self.steps
            if (folder := PurePosixPath(path).parent).name == "parts"
            and target in (f"{folder.parent}/__init__.py", f"{folder}/__init__.py")
        ]

    def circles(self) -> list[str]:
        """A circle of files, and a circle of folders, if there is one."""
        files: dict[str, set[str]] = {}
        folders: dict[str, set[str]] = {}
        for path, target, _ in self.steps:
            files.setdefault(path, set()).add(target)
            here, there = folder_of(path), folder_of(target)
            if here != there:
                folders.setdefault(here, set()).add(there)
        wrong = []
        for kind, graph in (("files", files), ("folders", folders)):
            try:
                TopologicalSorter(graph).prepare()
            except CycleError as error:
                wrong.append(f"a circle of {kind}: {' <- '.join(error.args[1])}")
        return wrong

    def torch(self) -> list[str]:
        """Rooms without torch whose files name it, or load it through other files."""
        wrong = []
        for path in self.sources:
            if room_of(path) in WITHOUT_TORCH:
                wrong += [
                    f"{path}:{one.line} imports {one.name}"
                    for one in self.imports[path]
                    if brings_torch(one)
                ]
                wrong += [
                    f"{path} loads torch through {loaded}"
                    for loaded in sorted(self._loaded_by(path) - {path})
                    if any(brings_torch(one) and one.loads for one in self.imports[loaded])
                ]
        return wrong

    def _loaded_by(self, path: str) -> set[str]:
        """Every file that Python runs when it imports `path`, the faces of packages included."""
        seen: set[str] = set()
        todo = [path]
        while todo:
            file = todo.pop()
            if file in seen:
                continue
            seen.add(file)
            faces = (f"{folder}/__init__.py" for folder in PurePosixPath(file).parents)
            todo += [face for face in faces if face in self.sources]
            loads = (self.file_of(one) for one in self.imports[file] if one.loads)
            todo += [target for target in loads if target is not None]
        return seen


def folder_of(path: str) -> str:
    """The folder of a file; a file that lies directly in `agents/` or `scripts/` is its own."""
    folder = PurePosixPath(path).parent
    return path if len(folder.parts) == 1 else str(folder)


def brings_torch(one: Import) -> bool:
    """Whether an import brings torch into the process."""
    return any(one.name == name or one.name.startswith(f"{name}.") for name in BRINGS_TORCH)


@pytest.fixture(scope="module")
def house() -> House:
    return House.read(ROOT)


RULES = {
    "every file has its place and imports what exists": House.unplaced,
    "no import runs upwards or sideways": House.upward,
    "the folders of a room keep their order": House.inside,
    "no part imports the face of its folder": House.faces,
    "no circle of files or folders": House.circles,
    "runtime, protocol and storage do without torch": House.torch,
}


@pytest.mark.parametrize("rule", RULES)
def test_the_house_keeps_each_rule(house: House, rule: str) -> None:
    assert RULES[rule](house) == []


def test_every_room_of_the_table_exists() -> None:
    rooms = {room for rooms in HOUSE for room in rooms} - {COMMANDS}
    assert [room for room in sorted(rooms) if not (ROOT / room).exists()] == []
    folders = set(INSIDE).union(*INSIDE.values())
    missing = {folder for folder in folders if not (ROOT / folder).exists()}
    assert {folder for folder in missing if not folder.endswith("/parts")} == set()


# -- the proof: each rule is seen to fail ------------------------------------------------------

Rule = Callable[[House], list[str]]


def seen_in(rule: Rule, house: House, path: str, text: str) -> list[str]:
    """What a rule finds beside what it found before, once `text` stands in a file."""
    before = rule(house)
    return [sentence for sentence in rule(house.also(path, text)) if sentence not in before]


_LATE = "def late():\n    {}"
_TYPED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {}"


@pytest.mark.parametrize("place", ["{}", _LATE, _TYPED], ids=["at the top", "late", "for types"])
@pytest.mark.parametrize(
    ("path", "line", "says"),
    [
        ("agents/rounds/plan.py", "from agents.verifier import Verifier", "imports upwards"),
        ("agents/rounds/plan.py", "from agents import verifier", "imports upwards"),
        ("agents/rounds/plan.py", "from .. import verifier", "imports upwards"),
        ("agents/rounds/plan.py", "import scripts.status", "imports upwards"),
        ("agents/verifier.py", "import agents.audit.replay as again", "imports sideways"),
        ("agents/verify/copies.py", "from agents.gauntlet import draw", "imports sideways"),
        ("agents/nodes/membership.py", "from agents.tasks import seat", "imports sideways"),
        ("agents/__main__.py", "from agents import trainer", "imports upwards"),
        ("agents/runtime/loop.py", "from agents.training import spec", "imports upwards"),
        ("agents/runtime/loop.py", "from agents.jobs import job", "imports upwards"),
        ("agents/runtime/loop.py", "import agents.mechanisms.merge", "imports sideways"),
        ("agents/mechanisms/rows.py", "from agents.runtime import chain", "imports sideways"),
        ("agents/mechanisms/rows.py", "from agents.protocol import view", "imports upwards"),
        ("agents/training/spec.py", "from agents.runtime import chain", "must do without"),
        ("agents/training/spec.py", "from agents.protocol import view", "imports upwards"),
        ("scripts/_net/anvil.py", "from scripts._shared import operator", "imports sideways"),
        ("scripts/_report/page.py", "from scripts._net import anvil", "imports sideways"),
        ("scripts/status.py", "from scripts import audit", "imports sideways"),
    ],
)
def test_a_wrong_floor_is_seen(house: House, path: str, line: str, says: str, place: str) -> None:
    (found,) = seen_in(House.upward, house, path, place.format(line))
    assert found.startswith(f"{path}:") and says in found


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("agents/audit/sources/record.py", "from agents.audit.chain import money"),
        ("agents/audit/chain/money.py", "from agents.audit.work import redoing"),
        ("agents/audit/work/redoing.py", "from agents.audit import replay"),
        ("agents/jobs/combinations/pay.py", "from agents.jobs import riders"),
        ("agents/tasks/compute/run.py", "from agents.tasks import seat"),
        ("agents/tasks/compute/run.py", "from agents.tasks.compute.kinds import evaluate"),
        ("agents/tasks/seat.py", "from agents.tasks.compute.kinds import evaluate"),
        ("agents/mechanisms/rows.py", "from agents.mechanisms.merge import mean"),
        ("agents/mechanisms/merge/parts/grid.py", "from agents.mechanisms.merge import mean"),
        ("agents/mechanisms/merge/parts/grid.py", "from agents.mechanisms import registry"),
        ("agents/mechanisms/codec/dense.py", "from agents.mechanisms.merge.parts import gram"),
        ("agents/mechanisms/merge/mean.py", "from agents.mechanisms.score.parts import peers"),
        ("scripts/_demo/cheats/noise.py", "from scripts._demo import scenario"),
    ],
)
def test_a_wrong_order_inside_a_room_is_seen(house: House, path: str, line: str) -> None:
    (found,) = seen_in(House.inside, house, path, line)
    assert found.startswith(f"{path}:")


@pytest.mark.parametrize(
    "line", ["import agents.mechanisms.merge", "from agents.mechanisms.merge import Payload"]
)
def test_a_part_that_imports_its_face_is_seen(house: House, line: str) -> None:
    (found,) = seen_in(House.faces, house, "agents/mechanisms/merge/parts/grid.py", line)
    assert "agents/mechanisms/merge/__init__.py" in found


def test_a_circle_of_files_is_seen(house: House) -> None:
    changed = house.also("agents/storage/cid.py", "import agents.storage.circle")
    (found,) = changed.also(
        "agents/storage/circle.py", _TYPED.format("from . import cid")
    ).circles()
    assert "circle of files" in found and "agents/storage/circle.py" in found


def test_a_circle_of_folders_without_one_of_files_is_seen(house: House) -> None:
    changed = house.also("agents/storage/new.py", "from agents.runtime.errors import AgentError")
    (found,) = changed.circles()
    assert "circle of folders" in found and "agents/storage" in found


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("import torch", "imports torch"),
        (_LATE.format("from torch import Tensor"), "imports torch.Tensor"),
        (_TYPED.format("from torch import Tensor"), "imports torch.Tensor"),
        ("from agents.training.flat import flatten", "loads torch through agents/training/flat.py"),
        ("import agents.mechanisms.codec.dense", "loads torch through agents/mechanisms/codec"),
    ],
)
@pytest.mark.parametrize("path", ["agents/runtime/loop.py", "agents/protocol/view.py"])
def test_torch_in_a_room_without_it_is_seen(house: House, path: str, line: str, says: str) -> None:
    found = seen_in(House.torch, house, path, line)
    assert any(sentence.startswith(path) and says in sentence for sentence in found)


@pytest.mark.parametrize(
    ("path", "line", "says"),
    [
        ("agents/newcomer.py", "", "agents/newcomer.py lies in no room"),
        ("agents/fourth/newcomer.py", "", "agents/fourth/newcomer.py lies in no room"),
        ("scripts/_loose.py", "", "scripts/_loose.py lies in no room"),
        ("agents/storage/cid.py", "import agents.storage.gone", "does not exist"),
        ("agents/storage/cid.py", "from tests.stage import network", "imports a test"),
    ],
)
def test_a_file_without_a_place_is_seen(house: House, path: str, line: str, says: str) -> None:
    (found,) = seen_in(House.unplaced, house, path, line)
    assert says in found
