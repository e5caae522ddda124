# SPDX-License-Identifier: Apache-2.0
"""Inner loops in C++, built in the background where there is a compiler; the bits stay the same.

A mechanism that has such a loop has it twice: as operations of a library, and as a C++ file beside
it. `Built` compiles that file once per process, in a second or two, when work asks for it that is
large enough to pay. What was built is checked against the other way before its first use. Until
then, without a compiler, or if the check fails (one warning), callers use the library.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch

_OPTIONS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")
_BUILD_S = 120

Library = Any
Part = TypeVar("Part")
_off = False


@contextmanager
def disabled(off: bool = True) -> Iterator[None]:
    """Within it every caller in the process runs its eager code, if `off`."""
    global _off
    before, _off = _off, off
    try:
        yield
    finally:
        _off = before


def switched_off() -> bool:
    """Whether this is within `disabled`."""
    return _off


def compiler() -> str | None:
    """Where this machine has a C++ compiler."""
    found = (shutil.which(name) for name in ("g++", "clang++", "c++"))
    return next((path for path in found if path), None)


@dataclass
class Built:
    """One C++ file, and what was built of it in this process.

    Attributes:
        source: the file. Its functions are `extern "C"` and return an int.
        functions: the types of each one's arguments, for ctypes.
        pays: numbers of a piece of work from which it is built.
        check: raises ArithmeticError if the library computes something else than it should.
        what: what the code is for, the subject of a warning's sentence.
    """

    source: Path
    functions: Mapping[str, Sequence[Any]]
    pays: int
    check: Callable[[Library], None]
    what: str
    library: Library | None = None
    asked: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self) -> Library | None:
        """The library, if it is there and not switched off."""
        return None if switched_off() else self.library

    def ask(self, numbers: int) -> None:
        """Start building in the background, if work with so many numbers makes it worth it."""
        with self._lock:
            if self.asked or numbers < self.pays or switched_off() or compiler() is None:
                return
            self.asked = True
        name = f"{self.source.stem}-compiler"
        threading.Thread(target=self.warm, name=name, daemon=True).start()

    def warm(self) -> bool:
        """Build now and wait for it; whether the library is there. For benchmarks and tests."""
        self.asked = True
        try:
            self.library = self.made()
        except (OSError, subprocess.SubprocessError, AttributeError, ArithmeticError) as error:
            self.library = None
            said = getattr(error, "stderr", None) or str(error)
            warnings.warn(
                f"{self.what} could not be built from {self.source.name}, so work goes on with a "
                f"library's operations, slower and with the same result: {str(said)[:300]}",
                RuntimeWarning,
                stacklevel=2,
            )
        return self.library is not None

    def made(self) -> Library:
        """The library, loaded and checked; raises what went wrong."""
        found = compiler()
        if found is None:
            raise OSError("there is no C++ compiler")
        with tempfile.TemporaryDirectory(prefix=f"menagerie-{self.source.stem}-") as folder:
            library = Path(folder) / f"{self.source.stem}.so"
            subprocess.run(
                [found, *_OPTIONS, "-o", str(library), str(self.source)],
                check=True, capture_output=True, text=True, timeout=_BUILD_S,
            )  # fmt: skip
            loaded: Library = ctypes.CDLL(str(library))
        for name, arguments in self.functions.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = ctypes.c_int, list(arguments)
        self.check(loaded)
        return loaded


def spread(columns: int, part: Callable[[slice], Part], least: int, most: int = 0) -> list[Part]:
    """What `part` gives for each share of the columns, in their order, by torch's number of
    threads.

    Args:
        least: columns that are worth a thread.
        most: of one share; 0 for as many as there are.
    """
    threads = max(1, torch.get_num_threads())
    width = max(least, min(most or columns, -(-columns // threads)))
    shares = [slice(at, min(at + width, columns)) for at in range(0, columns, width)]
    if threads == 1 or len(shares) < 2:
        return [part(share) for share in shares]
    with ThreadPoolExecutor(threads, "built-code") as pool:
        return list(pool.map(part, shares))
