# SPDX-License-Identifier: Apache-2.0
"""Runs `uv pip install` with what pip is configured with on this machine.

`uv` reads neither pip's configuration files nor its environment variables: indexes, folders of
wheels, certificates and proxies that a machine needs would be lost. They are read with
`pip config list` and passed on. Where there is no NVIDIA driver, torch comes from PyTorch's index
of CPU builds, if that can be reached: PyPI's torch brings 4 GB of CUDA libraries.

    python scripts/_setup/uv.py --requirement requirements.lock

Only the standard library is imported, because this installs everything else.
"""

from __future__ import annotations

import ast
import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu/torch/"
_REACH_S = 5.0
# pip merges its sections in this order; what comes later counts.
_SECTIONS = ("global", "install", ":env:")
_EACH = {"extra-index-url": "--extra-index-url", "find-links": "--find-links"}
_HOSTS = {"trusted-host": "--allow-insecure-host"}
_ONE = {"index-url": "--default-index"}
_VARIABLES = {
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "proxy": ("HTTP_PROXY", "HTTPS_PROXY"),
    "timeout": ("UV_HTTP_TIMEOUT",),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
}


def read_configuration(listing: str) -> dict[str, str]:
    """Return pip's settings by name, from the lines of `pip config list`.

    A line is `section.name='value'`, the value as a Python literal. Other lines are left out.
    """
    found: dict[tuple[str, str], str] = {}
    for line in listing.splitlines():
        key, equals, literal = line.partition("=")
        section, dot, name = key.rpartition(".")
        if not equals or not dot or section not in _SECTIONS:
            continue
        try:
            found[section, name] = str(ast.literal_eval(literal))
        except (ValueError, SyntaxError):
            continue
    return {
        name: value
        for section in _SECTIONS
        for (where, name), value in found.items()
        if where == section
    }


def arguments(configuration: Mapping[str, str]) -> list[str]:
    """Return uv's flags for pip's settings.

    All indexes are asked and the best version is taken, as pip does; uv alone would stop at the
    first index that has the package.
    """
    flags = ["--index-strategy", "unsafe-best-match"]
    for names in (_ONE, _EACH, _HOSTS):
        for name, flag in names.items():
            for value in configuration.get(name, "").split():
                flags += [flag, value]
    if configuration.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        flags.append("--no-index")
    return flags


def environment(configuration: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for pip's settings; those that are set already stay."""
    wanted = {
        variable: configuration[name]
        for name, variables in _VARIABLES.items()
        if name in configuration
        for variable in variables
    }
    return {**wanted, **present}


def has_nvidia_driver() -> bool:
    """Whether this machine can run CUDA builds."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def torch_flags(driver: bool, reachable: bool) -> list[str]:
    """Return uv's flags for torch: CPU builds where there is no driver and the index answers."""
    return ["--torch-backend", "cpu"] if not driver and reachable else []


def _reachable(url: str, variables: Mapping[str, str]) -> bool:
    context = ssl.create_default_context(cafile=variables.get("SSL_CERT_FILE"))
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=_REACH_S, context=context) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def main(given: Sequence[str]) -> int:
    """Install into the environment of this interpreter; return uv's exit status."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    configuration = read_configuration(listing.stdout)
    variables = environment(configuration, os.environ)
    driver = has_nvidia_driver()
    offline = "--no-index" in arguments(configuration)
    cpu = torch_flags(driver, not driver and not offline and _reachable(CPU_INDEX, variables))
    command = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable]
    done = subprocess.run(
        [*command, *arguments(configuration), *cpu, *given], env=variables, check=False
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
