# SPDX-License-Identifier: Apache-2.0
"""ByzFL's aggregators (MIT licence), fetched when measured against; the project never needs them.

`byzfl/__init__.py` imports torchvision and its training framework; the aggregators need torch,
numpy and scipy only, so the package's own initialisers are passed over.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from pathlib import Path

from scripts._net.compiled import ROOT

VERSION = "0.0.11"
FOLDER = ROOT / ".build" / f"byzfl-{VERSION}"


class NoPeer(RuntimeError):
    """ByzFL can't be had here; the message says why."""


def load(fetch: bool = True) -> types.ModuleType:
    """The module `byzfl.aggregators.aggregators`; NoPeer if it is not there and can't be fetched.

    `fetch`: whether pip may download it (285 KB, no dependencies) into `.build`.
    """
    package = FOLDER / "byzfl"
    if not package.is_dir():
        if not fetch:
            raise NoPeer("ByzFL is fetched by `make bench`, which has not run here.")
        _fetch()
    for name in ("byzfl", "byzfl.aggregators"):
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__path__ = [str(package.parent / Path(*name.split(".")))]
            sys.modules[name] = module
    try:
        return importlib.import_module("byzfl.aggregators.aggregators")
    except ImportError as error:
        raise NoPeer(f"ByzFL can't be imported: {error}.") from error


def _fetch() -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    command += [str(FOLDER), f"byzfl=={VERSION}", "--disable-pip-version-check"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired as error:
        raise NoPeer("ByzFL could not be fetched within two minutes.") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip gave no reason"]
        raise NoPeer(f"ByzFL could not be fetched: {lines[-1]}")
