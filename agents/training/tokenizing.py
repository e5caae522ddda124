# SPDX-License-Identifier: Apache-2.0
"""A stranger's tokenizer.json at work, in a process of its own with limits.

The library that reads such a file is native code. A file of 2 kB may make it abort, take all memory
or compute for days, and none of that is an exception in Python. Here it ends another process, and
is a DataError. A file gives the same ids as in the caller's process, without its template.

A request or an answer is 9 bytes (what it is, and how long the rest is, big-endian), then the rest.
One is under way at a time. Linux keeps the limit of memory. macOS does not: there a file has the
time to grow in, by the processor's clock and by the wall's.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import time
import weakref
from array import array
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from agents.training.documents import DataError

if TYPE_CHECKING:  # the process itself starts without numpy
    import numpy as np
    from numpy.typing import NDArray

IDS_PER_BYTE = 4  # of all text so far; honest files give one at most, but for a few rare letters
IDS_BESIDES = 1 << 20
MAX_TEXT_BYTES = 16 << 20  # of one `decode`
_MAX_SENTENCE_BYTES = 2048
_WALL = 8  # seconds by the wall for one of computing: other work may have the cores
_PIECE = 1 << 20
_LONGEST_POLL_MS = 2**31 - 1
_HEAD = struct.Struct(">cQ")
_LOAD, _ENCODE, _DECODE = b"t", b"e", b"d"
_DONE, _REFUSED = b"+", b"-"
# What an interpreter needs to start. A stranger's file needs no other setting, least of all a
# passphrase.
_KEPT, _KEPT_PREFIXES = ("PATH", "HOME", "LANG", "LC_ALL"), ("PYTHON", "LD_", "DYLD_")


class Limits(NamedTuple):
    """What a file may take.

    Honest files of all four kinds took up to 220 bytes of memory for each byte of a text, and a
    second for each 0.7 MB or more.

    `memory`: bytes, and `memory_per_byte` of the longest text. `seconds`: of computing, and one
    more for each `bytes_per_second` of all texts.
    """

    memory: int = 4 << 30
    memory_per_byte: int = 1 << 10
    seconds: int = 30
    bytes_per_second: int = 64 << 10


class _Taken:
    """What the limits allow now: both sides count it, each by what it sends or gets."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._longest = self.total = 0

    def add(self, size: int) -> None:
        """A text of so many bytes comes next."""
        self._longest = max(self._longest, size)
        self.total += size

    @property
    def memory(self) -> int:
        """Bytes. Never fewer than before: what a process has freed, it may still hold."""
        return self._limits.memory + self._limits.memory_per_byte * self._longest

    @property
    def seconds(self) -> int:
        """Of computing, since the process began."""
        return self._limits.seconds + -(-self.total // self._limits.bytes_per_second)


class Tokenizing:
    """The handle. Not for two threads at once. After an error it is of no use any more.

    Attributes:
        size: tokens of the vocabulary, added ones too.
        close: ends the process; so does the end of the handle.
    """

    def __init__(
        self, raw: bytes, name: str = "the tokenizer file", limits: Limits | None = None
    ) -> None:
        """Start the process and have it read `raw`, the content of a tokenizer.json.

        Raises:
            DataError: the library is missing, or as for `encode`. It begins with `name`.
        """
        if find_spec("tokenizers") is None:
            raise DataError("a tokenizer file needs the extra 'hf'; install it")
        self._name, limits = name, limits or Limits()
        self._taken, self._given, self._waited_s = _Taken(limits), 0, 0.0
        root = str(Path(__file__).resolve().parents[__name__.count(".")])
        kept = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith(_KEPT_PREFIXES)}
        paths = os.pathsep.join(filter(None, (root, kept.get("PYTHONPATH"))))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.tokenizing", *map(str, limits)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # a panic writes what it likes, at any length
                bufsize=0,
                env={**kept, "PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "false"},
            )
        except OSError as error:
            raise DataError(f"{name} needs a process, and none starts: {error}") from error
        self.close = weakref.finalize(self, _end, self._process)
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self.size = int.from_bytes(self._ask(_LOAD, raw, 8), "big")

    def encode(self, document: bytes) -> NDArray[np.uint32]:
        """The ids of a text in UTF-8, without special tokens, not cut and not padded.

        Raises:
            DataError: the library refuses file or text, ends, or takes more than the limits.
        """
        import numpy as np

        self._taken.add(len(document))
        most = IDS_PER_BYTE * self._taken.total + IDS_BESIDES - self._given
        found = np.frombuffer(self._ask(_ENCODE, document, 4 * most), np.uint32)
        self._given += len(found)
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids below 2**32. Raises DataError as `encode`."""
        raw = array("I", ids).tobytes()
        self._taken.add(len(raw))
        return self._ask(_DECODE, raw, MAX_TEXT_BYTES).decode(errors="replace")

    def _ask(self, kind: bytes, content: bytes, most: int) -> bytearray:
        """The answer, of `most` bytes. Whatever fails, the process is ended."""
        began = time.monotonic()
        until = began + _WALL * self._taken.seconds - self._waited_s
        try:
            return self._exchange(kind, content, most, until)
        except BaseException:  # a Ctrl-C too: what comes next would be this answer's rest
            self.close()
            raise
        finally:
            self._waited_s += time.monotonic() - began

    def _exchange(self, kind: bytes, content: bytes, most: int, until: float) -> bytearray:
        # One that ends meanwhile may have said why.
        with suppress(BrokenPipeError):
            self._write(_HEAD.pack(kind, len(content)), until)
            self._write(content, until)
        what, size = _HEAD.unpack(self._read(_HEAD.size, until))
        if what == _REFUSED:
            why = bytes(self._read(min(size, _MAX_SENTENCE_BYTES), until)).decode(errors="replace")
            raise self._error(f"cannot be used: {why}")
        if size > most:
            if kind == _ENCODE:
                raise self._error(
                    f"makes {size // 4} tokens of a text of {len(content)} bytes, beyond "
                    f"{IDS_PER_BYTE} for each byte of all texts and {IDS_BESIDES}"
                )
            raise self._error(f"answers with {size} bytes, at most {most}")
        return self._read(size, until)

    def _write(self, content: bytes, until: float) -> None:
        left, pipe = memoryview(content), self._process.stdin
        assert pipe is not None
        while left:
            self._wait(pipe, select.POLLOUT, until)
            left = left[os.write(pipe.fileno(), left[:_PIECE]) :]

    def _read(self, size: int, until: float) -> bytearray:
        found, pipe = bytearray(size), self._process.stdout
        assert pipe is not None
        left: memoryview = memoryview(found)
        while left:
            self._wait(pipe, select.POLLIN, until)
            count = os.readv(pipe.fileno(), [left[:_PIECE]])
            if count == 0:
                raise self._died()
            left = left[count:]
        return found

    def _wait(self, pipe: IO[bytes], event: int, until: float) -> None:
        if pipe.closed:
            raise self._error("has failed before")
        watched = select.poll()
        watched.register(pipe, event)
        left_s = until - time.monotonic()
        if left_s <= 0 or not watched.poll(min(1000 * left_s, _LONGEST_POLL_MS)):
            raise self._error(
                f"took more than {_WALL * self._taken.seconds} s by the wall's clock for "
                f"{self._taken.total} bytes of text"
            )

    def _died(self) -> DataError:
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        if code == -signal.SIGXCPU:
            return self._error(
                f"took more than {self._taken.seconds} s of computing for {self._taken.total} "
                "bytes of text"
            )
        named = {-number.value: number.name for number in signal.Signals}
        return self._error(
            f"ended the process that reads it ({named.get(code, code)}): the library fails at it, "
            f"or needs more than {self._taken.memory >> 20} MiB for it"
        )

    def _error(self, what: str) -> DataError:
        return DataError(f"{self._name} {what}; take another one, or leave the job that names it")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


# -- the process itself ----------------------------------------------------------------------------


def _main(limits: Limits) -> None:
    # The caller decides when to stop; a Ctrl-C in its terminal reaches this process too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    # The library may print; the answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with suppress(OSError):  # where memory runs out, this process ends and not the agent
        Path("/proc/self/oom_score_adj").write_text("1000")
    taken = _Taken(limits)
    found: Any = None
    while head := sys.stdin.buffer.read(_HEAD.size):
        try:
            kind, size = _HEAD.unpack(head)
            if kind != _LOAD:
                taken.add(size)
            _limit(taken)
            content = sys.stdin.buffer.read(size)
            if kind == _LOAD:
                found = _loaded(content)
                said: Any = found.get_vocab_size(with_added_tokens=True).to_bytes(8, "big")
            elif kind == _ENCODE:
                said = found.encode(content.decode(), add_special_tokens=False)
            else:
                said = found.decode(array("I", content).tolist()).encode()
        except BaseException as error:  # a panic of the library's is no Exception
            why = f"{type(error).__name__}: {error}"[: _MAX_SENTENCE_BYTES // 8]
            plain = "".join(c if c.isprintable() else "?" for c in why).encode(errors="replace")
            _say(answers, _REFUSED, len(plain), plain)
            return
        if kind == _ENCODE:
            # How many there are is said before they are listed, which takes the most memory.
            _say(answers, _DONE, 4 * len(said))
            said = array("I", said.ids)
        else:
            _say(answers, _DONE, len(said))
        answers.write(said)
        answers.flush()


def _loaded(raw: bytes) -> Any:
    from tokenizers import Tokenizer

    found = Tokenizer.from_str(raw.decode())
    # What a file says of them is for batches of a model. Here it would lose text, or add what is
    # none, in any amount: the length to pad to may be a thousand million tokens.
    found.no_truncation()
    found.no_padding()
    # Without special tokens a template only repeats a text, as often as the file likes.
    found.post_processor = None
    return found


def _limit(taken: _Taken) -> None:
    import resource

    for which, wanted in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, taken.seconds),
        (resource.RLIMIT_AS, taken.memory),
    ):
        hard = resource.getrlimit(which)[1]
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):  # macOS refuses the limit of memory
            resource.setrlimit(which, (soft, hard))


def _say(answers: IO[bytes], what: bytes, size: int, content: bytes = b"") -> None:
    answers.write(_HEAD.pack(what, size) + content)
    answers.flush()


if __name__ == "__main__":
    _main(Limits(*map(int, sys.argv[1:])))
