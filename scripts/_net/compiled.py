# SPDX-License-Identifier: Apache-2.0
"""The contracts, compiled by the pinned Vyper and kept until a source changes.

Rule: one cached file per version of everything the bytecode depends on (sources, interfaces,
compiler and snekmate versions), so a stale artefact cannot be deployed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".build" / "artefacts"


class CompileError(RuntimeError):
    """The compiler refused a contract; the message is its own."""


@dataclass(frozen=True)
class Artefact:
    """One compiled deployable.

    `bytecode` is the creation code, `runtime` the code without immutables (both hex, 0x).
    `immutables` holds (dotted name, type, offset behind the runtime, length), in bytes.
    """

    name: str
    abi: list[dict[str, Any]]
    bytecode: str
    runtime: str
    immutables: list[tuple[str, str, int, int]]

    @property
    def size(self) -> int:
        """Bytes on chain, immutables included: what EIP-170 bounds."""
        return len(self.runtime.removeprefix("0x")) // 2 + sum(i[3] for i in self.immutables)


def deployables(root: Path = ROOT) -> list[Path]:
    """Every contract of the project, modules excluded, by name."""
    return sorted((root / "contracts").glob("*.vy"))


def compile_contracts(root: Path = ROOT, cache: Path = CACHE) -> dict[str, Artefact]:
    """Return the artefacts of all deployables by name, from the cache when nothing changed.

    Of several processes one compiles, and the others wait for it. Raises CompileError with the
    compiler's message.
    """
    stored = cache / f"{_fingerprint(root)}.json"
    if not stored.is_file():
        with alone(cache / "lock"):
            if not stored.is_file():
                return _build(root, stored)
    raw = json.loads(stored.read_text())
    return {name: Artefact(**fields) for name, fields in raw.items()}


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Wait until no other process is in a block with this file, which is made if need be."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(root: Path, stored: Path) -> dict[str, Artefact]:
    """Compile all, and keep them in a file of their own in place of older ones."""
    with ThreadPoolExecutor() as pool:
        built = {a.name: a for a in pool.map(lambda path: _compile(path, root), deployables(root))}
    for old in stored.parent.glob("*.json"):
        old.unlink(missing_ok=True)
    partial = stored.with_suffix(f".{id(built)}.tmp")
    partial.write_text(json.dumps({name: asdict(artefact) for name, artefact in built.items()}))
    partial.replace(stored)
    return built


def _fingerprint(root: Path) -> str:
    digest = hashlib.sha256()
    for package in ("vyper", "snekmate"):
        digest.update(f"{package}=={metadata.version(package)}\0".encode())
    sources = [*(root / "contracts").rglob("*.vy*"), *(root / "interfaces").rglob("*.vyi")]
    for path in sorted(sources):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _compile(path: Path, root: Path) -> Artefact:
    command = [sys.executable, "-m", "vyper", "-p", str(root)]
    command += ["-f", "abi,bytecode,bytecode_runtime,layout", str(path.relative_to(root))]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{path.name} does not compile:\n{done.stderr.strip()}")
    abi, bytecode, runtime, layout = done.stdout.strip().splitlines()
    return Artefact(
        name=path.stem,
        abi=json.loads(abi),
        bytecode=bytecode,
        runtime=runtime,
        immutables=list(_flatten(json.loads(layout).get("code_layout", {}), "")),
    )


def _flatten(layout: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield every immutable of a code layout, those of modules under dotted names."""
    for name, entry in layout.items():
        if isinstance(entry.get("offset"), int):
            yield prefix + name, entry["type"], entry["offset"], entry["length"]
        else:
            yield from _flatten(entry, f"{prefix}{name}.")
