# SPDX-License-Identifier: Apache-2.0
"""The wheel holds one package, which stands beside another project's `agents` and needs no ape."""

from __future__ import annotations

import ast
import tomllib
import zipfile
from pathlib import Path

import click
import pytest

from scripts._net.compiled import ROOT
from scripts._wheel.command import COMMANDS, EXTRAS, Commands, cli
from scripts._wheel.relocate import RelocationError, relocated
from tests.scripts.wheel.conftest import Installed


def test_one_package_at_the_top(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"menagerie"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".sh")]


def test_nothing_imports_the_repositorys_names(wheel: Path) -> None:
    """By the parser, in every file: no import, no dotted name of a module in text.

    Whatever is imported of the wheel's own package is in it.
    """
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    files = [name for name in archive.namelist() if name.endswith(".py")]
    assert len(files) > 400
    for name in files:
        for node in ast.walk(ast.parse(archive.read(name))):
            found: list[str] = []
            if isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found = [str(node.module)]
                if found[0].startswith("menagerie"):
                    place = found[0].replace(".", "/")
                    assert {f"{place}.py", f"{place}/__init__.py"} & names, f"{name}: {found[0]}"
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = [node.value] if node.value.isprintable() and " " not in node.value else []
                found = [text for text in found if text.count(".") and "/" not in text]
            for text in found:
                assert text.partition(".")[0] not in ("agents", "scripts"), f"{name}: {text}"


def test_every_module_of_it_is_found(installed: Installed) -> None:
    """Those of the agents are imported, all of them; ape and the contracts' tools are not there."""
    program = """
import importlib, pkgutil, sys
for absent in ("ape", "vyper", "boa"):
    assert importlib.util.find_spec(absent) is None, absent
import menagerie.agents
count = 0
for found in pkgutil.walk_packages(menagerie.agents.__path__, "menagerie.agents."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
        count += 1
assert not {"agents", "scripts"} & set(sys.modules)
print(count)
"""
    done = installed.run(str(installed.python), "-c", program)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 250


def test_each_command_is_there_and_says_what_it_does(installed: Installed) -> None:
    told = installed.menagerie("--help")
    there = [
        name for name in COMMANDS if (installed.site / f"menagerie/scripts/{name}.py").exists()
    ]
    assert set(COMMANDS) - set(there) <= {"web"}
    for name in there:
        assert f"  {name} " in told
        # The page has dependencies of its own: the extra `web`.
        helped = installed.menagerie(name, "--help")
        assert "Usage: menagerie" in helped and "ape run" not in helped
    assert "0.1.0" in installed.menagerie("--version")
    assert "No such command" in installed.menagerie("deploy", fails=True)


@pytest.mark.parametrize(("name", "extra"), [("web", True), ("job", False)])
def test_what_is_not_installed_is_named__an_extra_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, name: str, extra: bool
) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named 'nowhere', of {module}", name="nowhere")

    monkeypatch.setattr("scripts._wheel.command.importlib.import_module", missing)
    with pytest.raises(click.ClickException, match=f"`{name}` needs nowhere") as refused:
        Commands().get_command(click.Context(cli), name)
    assert ("pip install" in refused.value.message) == extra


def test_each_extra_that_is_named_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) <= set(COMMANDS) & set(project["optional-dependencies"])


@pytest.mark.parametrize(
    ("source", "moved"),
    [
        ("from agents.a import b", "from menagerie.agents.a import b"),
        ("from agents import a", "from menagerie.agents import a"),
        ("from agentsx.a import b", "from agentsx.a import b"),
        ("from . import agents", "from . import agents"),
        ("import agents.a as b", "import menagerie.agents.a as b"),
        ("if x:\n    from scripts.a import b", "if x:\n    from menagerie.scripts.a import b"),
        ("é = 1; from scripts.a import b", "é = 1; from menagerie.scripts.a import b"),
        ('load("scripts._net.fork_server")', 'load("menagerie.scripts._net.fork_server")'),
        ('x = "agents"', 'x = "agents"'),
        ('x = "agents. They"', 'x = "agents. They"'),
        ("# ape run claim, ape run deploy", "# menagerie claim, ape run deploy"),
    ],
)  # fmt: skip
def test_imports_are_moved_and_nothing_else(source: str, moved: str) -> None:
    assert relocated(source, COMMANDS) == moved


def test_an_import_whose_users_would_miss_it_is_refused() -> None:
    with pytest.raises(RelocationError, match=r"line 2: write `from \.\.\. import` for agents\.a"):
        relocated("x = 1\nimport agents.a", COMMANDS)


def test_no_command_sends_people_to_itself() -> None:
    """Where ape's command for accounts is named, the wheel names its own."""
    told = relocated((ROOT / "scripts" / "wallet.py").read_text("utf-8"), COMMANDS)
    assert "menagerie wallet new ALIAS" not in told
