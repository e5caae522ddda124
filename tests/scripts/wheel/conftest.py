# SPDX-License-Identifier: Apache-2.0
"""The wheel, built from this checkout and installed where nothing of the project or of ape is."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts._net.compiled import ROOT

# What only the contracts' people have: none of it may be needed.
ABSENT = (
    *("ape", "ape_", "eth_ape", "ethpm", "evm_trace", "vyper", "boa", "titanoboa", "snekmate"),
    "pyrevm",
)
PASSPHRASE = "in an empty room"
FAKE = 'raise ImportError("this is another project\'s package")\n'


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, what it depends on, and another project's `agents`.

    `site`: where the wheel's files are. `home`: the user's folder; commands run in it.
    """

    python: Path
    site: Path
    home: Path

    @property
    def env(self) -> dict[str, str]:
        """What a process of the environment sees: nothing of the checkout."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "APE_"))}
        return {
            **kept,
            "HOME": str(self.home),
            "COLUMNS": "200",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{self.python.parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "PASSPHRASE": PASSPHRASE,
            "APE_ACCOUNTS_my-owner_PASSPHRASE": PASSPHRASE,
            "APE_ACCOUNTS_my-operator_PASSPHRASE": PASSPHRASE,
            "APE_ACCOUNTS_other_PASSPHRASE": PASSPHRASE,
        }

    def run(self, *command: str, answers: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        return subprocess.run(
            command,
            cwd=self.home,
            env=self.env,
            input=answers,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def menagerie(self, *words: str, answers: str = "", fails: bool = False) -> str:
        """Run the command; returns what it says, to a failure of which `fails` must be told."""
        done = self.run(str(self.python.with_name("menagerie")), *words, answers=answers)
        assert (done.returncode != 0) == fails, f"{words}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, f"{words}\n{done.stderr}"
        return done.stderr if fails else done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file, as `pip wheel` makes it."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*build, "--quiet", "--wheel-dir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        cwd=out,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment of its own; the locked dependencies are links to those of this one."""
    folder = tmp_path_factory.mktemp("empty")
    venv, home, links = folder / "venv", folder / "home", folder / "links"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    links.mkdir()
    home.mkdir()
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        plain = path.name.lower().replace("-", "_")
        if not plain.startswith(ABSENT) and path.suffix != ".pth":
            (links / path.name).symlink_to(path)
    (site,) = (venv / "lib").glob("python*/site-packages")
    (site / "locked.pth").write_text(f"{links}\n")
    for taken in ("agents", "scripts"):
        (site / taken).mkdir()
        (site / taken / "__init__.py").write_text(FAKE)
    python = venv / "bin" / "python"
    # Isolated: a checkout on the path would count as an installed wheel.
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(python), "install", "--quiet"]
    done = subprocess.run(
        [*pip, "--no-deps", "--no-index", "--ignore-installed", str(wheel)],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return Installed(python, site, home)
