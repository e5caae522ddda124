# SPDX-License-Identifier: Apache-2.0
"""Whether what a node sent can be read as a JSON-RPC answer.

Rule: what can't be, such as `{"error": "Too many requests"}` with HTTP 200, or a header without a
number, says nothing of the chain and refuses nothing. It counts as no answer, and is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.runtime.head import head_from_json

_BUSY_CODES = (-32005, 429)  # rate limited: waiting helps
_HEADERS = ("eth_getBlockByNumber", "eth_getBlockByHash")


def fault_in(methods: Sequence[str], answer: Any) -> str | None:
    """Why requests, sent together, are to be sent again, in words; None if they were answered.

    One refusal of a whole batch is an answer, whatever it looks like: shorter ones may pass.
    """
    if len(methods) == 1:
        return _busy(answer) or _broken(methods[0], answer)
    if not isinstance(answer, list):
        return _busy(answer)
    for method, part in zip(methods, answer, strict=False):
        fault = _busy(part) or _broken(method, part)
        if fault is not None:
            return fault
    return None


def code_of(error: dict[str, Any]) -> int | None:
    """The number of an error, 0 if it has none; None if it is no number."""
    try:
        return int(error.get("code", 0))
    except (TypeError, ValueError):
        return None


def _busy(answer: Any) -> str | None:
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict) and error.get("code") in _BUSY_CODES:
        return str(error.get("message"))
    return None


def _broken(method: str, answer: Any) -> str | None:
    if not isinstance(answer, dict):
        return f"no JSON-RPC answer: {_short(answer)}"
    error = answer.get("error")
    if error is None:
        if "result" not in answer:
            return f"neither result nor error: {_short(answer)}"
        result = answer["result"]
        return None if result is None or method not in _HEADERS else _no_header(result)
    if not isinstance(error, dict) or code_of(error) is None:
        return f"an error that is none of JSON-RPC: {_short(error)}"
    return None


def _no_header(result: Any) -> str | None:
    try:
        head_from_json(result)
    except ValueError as error:
        return str(error)
    return None


def _short(what: Any) -> str:
    return repr(what)[:200]
