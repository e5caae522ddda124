# SPDX-License-Identifier: Apache-2.0
"""Turns everything that a call to the daemon raises into one StoreError; says if a retry may help.

A message names the address and the kind of failure. It never holds the text of the HTTP layer: that
holds the path of the API, which may be a key.
"""

from __future__ import annotations

import ssl
from http.client import HTTPException
from typing import Final

import ipfshttpclient
import urllib3

from agents.storage.errors import CorruptContent, NotFound, StoreError, StoreUnavailable


class Late(Exception):
    """The time of the operation is over."""


class Refused(Exception):
    """The server answered with an HTTP status that is not success, and did not explain it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status


class Unreadable(Exception):
    """The server answered with something that no Kubo daemon sends."""


MALFORMED: Final = (AssertionError, LookupError, TypeError, ValueError, AttributeError)
"""What ipfshttpclient raises on replies it did not expect."""
FAILURES: Final = (
    Late,
    Refused,
    Unreadable,
    ipfshttpclient.exceptions.Error,
    OSError,
    urllib3.exceptions.HTTPError,
    HTTPException,
    *MALFORMED,
)
"""Everything a call through the client may raise."""

DOUBTFUL: Final = (
    *(Late, urllib3.exceptions.TimeoutError, TimeoutError),
    ipfshttpclient.exceptions.ErrorResponse,
)
"""What is raised where no answer came in time, or no more of it, or a reason in words. What a
stranger made may be the cause of it: a block that no reader of files knows, or one nobody sends."""
_PROXYS: Final = (502, 504, 522, 524)  # what a proxy says of a server that broke off or took long
_BREAKS: Final = (HTTPException, urllib3.exceptions.ProtocolError, ConnectionError)
_ABSENT: Final = (
    "not found",
    "could not find",
    "deadline exceeded",
    "request timed out",  # what js-ipfs says when the search took as long as it may
    "offline",
    "not pinned",
)
_NOT_A_FILE: Final = (
    *("is a directory", "unrecognized", "protobuf", "proto:", "unixfs"),
    *("operation not supported", "unexpected place"),  # of a symbolic link, as Kubo says it
)
_REASONS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (Late, "it did not answer in time, or too slowly"),
    (urllib3.exceptions.TimeoutError, "it did not answer in time"),
    (TimeoutError, "it did not answer in time"),
    (urllib3.exceptions.NameResolutionError, "its host name is not known"),
    (urllib3.exceptions.SSLError, "no secure connection to it can be made"),
    (ssl.SSLError, "no secure connection to it can be made"),
    (urllib3.exceptions.NewConnectionError, "it does not accept connections"),
    (urllib3.exceptions.ProtocolError, "the connection broke off"),
    (HTTPException, "the connection broke off"),
)


def breaks_off(error: Exception) -> bool:
    """Whether a server that took the request ended it without an answer of its own: it broke the
    connection off, or a proxy before it speaks of a failure. So it is in any outage, and where one
    content is more than the server can read, or takes longer than a proxy waits."""
    if isinstance(error, Refused):
        return error.status in _PROXYS
    return isinstance(error, _BREAKS) and not isinstance(error, ConnectionRefusedError)


def translate(error: Exception, action: str, location: str) -> tuple[StoreError, bool]:
    """Return (the error to raise, whether another attempt may succeed).

    action: what was asked, as 'read bafk...'; location: the daemon's address.
    """
    if isinstance(error, ipfshttpclient.exceptions.ErrorResponse):
        return _answered(str(error), action, location)
    if isinstance(error, Refused) and error.status < 500 and error.status != 429:
        return StoreUnavailable(
            f"{location} refused to {action} with HTTP status {error.status}; check that the "
            "address is a Kubo RPC server (not a gateway) and that the credentials and its API "
            "access allow it"
        ), False
    if isinstance(error, (Unreadable, *MALFORMED)) and not isinstance(error, OSError):
        why = str(error) if isinstance(error, Unreadable) else type(error).__name__
        return StoreUnavailable(
            f"{location} gave an unreadable reply to {action} ({why}); check that the address is a "
            "Kubo RPC server"
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


def _reason(error: Exception) -> str:
    if isinstance(error, Refused):
        return f"it answers with HTTP status {error.status}"
    for kind, words in _REASONS:
        if isinstance(error, kind):
            return words
    return f"the connection failed ({type(error).__name__})"
