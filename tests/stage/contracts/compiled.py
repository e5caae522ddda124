# SPDX-License-Identifier: Apache-2.0
"""The contracts as titanoboa has them, compiled once for all test processes.

Boa keeps what it compiled, but looks for it by the imports of each contract, for which it parses
all of them anew: six seconds in each process. Here one file holds them all, under a digest of all
sources and of the tools that read them. One process compiles, and the others wait for its file."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.metadata import version

import boa
from boa.contracts.vyper.vyper_contract import VyperDeployer
from boa.util.disk_cache import DiskCache
from vyper.semantics.namespace import get_namespace

from scripts._net.compiled import ROOT, alone

CACHE = ROOT / ".build/titanoboa"
_TOOLS = ("vyper", "titanoboa", "snekmate")


def deployers(names: Sequence[str]) -> list[VyperDeployer]:
    """What deploys the contracts of these names."""
    paths = [f"contracts/{name}.vy" for name in names]
    sources = _sources()
    for other in CACHE.glob("*"):
        if other.name != sources:  # 70 MB for each state of the sources
            shutil.rmtree(other, ignore_errors=True)
    cache = DiskCache(CACHE, sources)

    def compiled() -> list[object]:
        return [boa.load_partial(path).compiler_data for path in paths]

    # The compiler makes this when it first compiles; titanoboa's `eval` needs it in any case.
    get_namespace()
    key = " ".join(names)
    with nullcontext() if cache.cal(key).is_file() else alone(CACHE.with_suffix(".lock")):
        found = cache.caching_lookup(key, compiled)
    return [VyperDeployer(data, filename=path) for data, path in zip(found, paths, strict=True)]


def _sources() -> str:
    digest = hashlib.sha256(" ".join(f"{tool} {version(tool)}" for tool in _TOOLS).encode())
    files = [p for folder in ("contracts", "interfaces") for p in (ROOT / folder).rglob("*.vy*")]
    for path in sorted(files):
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
