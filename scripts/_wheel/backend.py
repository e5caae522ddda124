# SPDX-License-Identifier: Apache-2.0
"""The build backend (PEP 517): setuptools, given the relocated package instead of the checkout."""

from __future__ import annotations

import ast
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import build_meta

sys.path.insert(0, str(Path(__file__).parent))
from relocate import relocate

sys.path.pop(0)

ROOT = Path(__file__).resolve().parents[2]
_KEPT = ("pyproject.toml", "README.md", "LICENSE")

get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
build_sdist = build_meta.build_sdist


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel; returns its file name."""
    where = str(Path(wheel_directory).resolve())
    metadata = None if metadata_directory is None else str(Path(metadata_directory).resolve())
    with _staged():
        return str(build_meta.build_wheel(where, config_settings, metadata))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """Write the wheel's metadata; returns the folder's name."""
    where = str(Path(metadata_directory).resolve())
    with _staged():
        return str(build_meta.prepare_metadata_for_build_wheel(where, config_settings))


@contextmanager
def _staged() -> Iterator[None]:
    """Inside the block the process is in a folder that holds the package and what describes it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        relocate(ROOT, Path(folder), _commands())
        for name in _KEPT:
            shutil.copy(ROOT / name, folder)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _commands() -> tuple[str, ...]:
    """What the command `menagerie` has, read from its file: click is not there at build time."""
    tree = ast.parse((Path(__file__).parent / "command.py").read_bytes())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMANDS":
            found: tuple[str, ...] = ast.literal_eval(node.value)
            return found
    raise AssertionError("command.py has no COMMANDS")
