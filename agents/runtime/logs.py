# SPDX-License-Identifier: Apache-2.0
"""Structured logs: one JSON object per line, or the same as text for a person.

Rule: a line has time (UTC, ISO 8601), level, event and whatever context was bound (role, node,
job, round). Values registered with `redact`, fields whose name says they are secret, and what a URL
holds beside scheme, host and port never leave the process. For a person, a line that a field's own
words begin is set in, so that no stranger's words look like a line of the log.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from agents.runtime.printable import printable

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
HIDDEN = "[redacted]"
_SECRET_FIELDS = ("passphrase", "password", "private_key", "secret", "salt", "mnemonic")
_SET_IN = "\n    | "
_MIN_SECRET = 4  # shorter strings would blank ordinary words
# A URL with whatever may be a key in it, and how the HTTP library tells the path of one.
_URL = re.compile(r"\b(https?|wss?)://(?:[^\s/'\"\\]*@)?([^\s/?#'\"\\<>(),;]*)[^\s'\"\\<>(),;]*")
_URL_PATH = re.compile(r"(with url: )/[^\s'\"\\()]*")

_secrets: set[str] = set()


def redact(secret: str) -> None:
    """Never print `secret` again, in any log of this process."""
    if len(secret) >= _MIN_SECRET:
        _secrets.add(secret)


def scrub(text: str) -> str:
    """The text without registered secrets, and without more of a URL than scheme, host and port."""
    for secret in sorted(_secrets, key=len, reverse=True):  # one may be a part of another
        for form in (secret, json.dumps(secret)[1:-1]):
            text = text.replace(form, HIDDEN)
    text = _URL.sub(r"\1://\2", text)
    return _URL_PATH.sub(rf"\1{HIDDEN}", text)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, dict):
        return {str(k): _field(str(k), v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _field(name: str, value: Any) -> Any:
    if any(word in name.lower() for word in _SECRET_FIELDS):
        return HIDDEN
    return _plain(value)


class _Sink:
    """Where lines go. Shared by all bound children of one log; safe for threads."""

    def __init__(self, stream: TextIO, level: int, human: bool) -> None:
        self._stream = stream
        self._human = human
        self._lock = threading.Lock()
        self.level = level

    def write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e3):03}Z"
        shown = {name: _field(name, value) for name, value in fields.items() if value is not None}
        if self._human:
            tail = "  ".join(f"{name}={value}" for name, value in shown.items())
            line = f"{stamp[11:19]} {level:<7} {event:<24} {tail}".rstrip()
        else:
            line = json.dumps({"time": stamp, "level": level, "event": event, **shown})
        line = scrub(line)
        if self._human:
            line = printable(line, keep="\n").replace("\n", _SET_IN)
        # A full disk costs lines, not the agent that would write them.
        with self._lock, suppress(OSError):
            self._stream.write(line + "\n")
            self._stream.flush()


class Log:
    """Writes events with bound context. `bind` returns a child that shares the same sink."""

    def __init__(self, sink: _Sink, context: dict[str, Any] | None = None) -> None:
        self._sink = sink
        self._context = dict(context or {})

    def bind(self, **context: Any) -> Log:
        """Return a log whose lines also carry `context`."""
        return Log(self._sink, {**self._context, **context})

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if LEVELS[level] >= self._sink.level:
            self._sink.write(level, event, {**self._context, **fields})

    def debug(self, event: str, **fields: Any) -> None:
        """Detail for a developer."""
        self._write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Something the agent did or saw."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something went wrong that the agent handles by itself."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something went wrong that a person should look at."""
        self._write("error", event, fields)


class _Forward(logging.Handler):
    """Carries the warnings of libraries into the agent's log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        # A terminal that is gone must not fail what a library does for us.
        with suppress(OSError, ValueError):
            getattr(self._log, level)("library", source=record.name, message=record.getMessage())


def open_log(
    role: str, level: str = "info", human: bool = False, path: Path | str | None = None
) -> Log:
    """Return the log of one agent: a file when `path` is given (appended), else standard error."""
    if path is None:
        stream: TextIO = sys.stderr
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        stream = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - open until the end
    log = Log(_Sink(stream, LEVELS[level], human), {"role": role})
    logging.getLogger().handlers[:] = [_Forward(log)]
    # Its retries are ours to report: once per outage, not once per try.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    return log
