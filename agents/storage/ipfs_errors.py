# SPDX-License-Identifier: Apache-2.0
"""Turns everything that the HTTP client raises into one StoreError; retries where that may help.

ipfshttpclient has its own exceptions, lets those of requests through once a body has begun, and
fails on malformed replies with whatever its parser trips over.
"""

from __future__ import annotations

from typing import Final

import ipfshttpclient
import requests
import urllib3

from agents.storage.errors import CorruptContent, NotFound, StoreError, StoreUnavailable

MALFORMED: Final = (AssertionError, LookupError, TypeError, ValueError, AttributeError)
"""What the client raises on replies it did not expect."""
FAILURES: Final = (
    ipfshttpclient.exceptions.Error,
    OSError,
    urllib3.exceptions.HTTPError,
    *MALFORMED,
)
"""Everything a call through the client may raise."""

_UNREADABLE: Final = (ipfshttpclient.exceptions.EncoderError, *MALFORMED)
_ABSENT: Final = ("not found", "could not find", "deadline exceeded", "offline", "not pinned")
_NOT_A_FILE: Final = ("is a directory", "unrecognized", "protobuf", "proto:", "unixfs")


def translate(error: Exception, action: str, location: str) -> tuple[StoreError, bool]:
    """Return (the error to raise, whether another attempt may succeed).

    action: what was asked, as 'read bafk...'; location: the daemon's address.
    """
    if isinstance(error, ipfshttpclient.exceptions.ErrorResponse):
        return _answered(str(error), action, location)
    status = _status(error)
    if status is not None and status < 500 and status != 429:
        return StoreUnavailable(
            f"{location} refused to {action} with HTTP status {status}; check that the address is "
            "a Kubo RPC server (not a gateway) and that the credentials and its API access allow it"
        ), False
    if isinstance(error, _UNREADABLE) and not isinstance(error, requests.RequestException):
        return StoreUnavailable(
            f"{location} gave an unreadable reply to {action} ({type(error).__name__}); check that "
            "the address is a Kubo RPC server"
        ), True
    return StoreUnavailable(
        f"cannot {action} at {location}: {_reason(error)}; check that the IPFS daemon runs and "
        "that its RPC address is right"
    ), True


def _answered(message: str, action: str, location: str) -> tuple[StoreError, bool]:
    """The daemon works and explains in text why this call failed."""
    said = f"{location} cannot {action}; it says: {message[:300]}"
    text = message.lower()
    if any(part in text for part in _ABSENT):
        return NotFound(f"{said}; nobody reachable provides it"), False
    if any(part in text for part in _NOT_A_FILE):
        return CorruptContent(f"{said}; the CID does not name a file of this network"), False
    return StoreUnavailable(f"{said}; see the daemon's log"), True


def _status(error: Exception) -> int | None:
    origin = getattr(error, "original", error)
    response = getattr(origin, "response", None)
    return getattr(response, "status_code", None)


def _reason(error: Exception) -> str:
    if isinstance(error, ipfshttpclient.exceptions.TimeoutError | requests.Timeout):
        return "it did not answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the reply broke off"
    return f"{type(error).__name__}: {str(error)[:300]}"
