# SPDX-License-Identifier: Apache-2.0
"""Boxes on a Kubo daemon: folders of its own file system (MFS) with links to content."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

import ipfshttpclient

from agents.storage.boxes import box_name
from agents.storage.cid import parse_cid
from agents.storage.errors import InvalidCid
from agents.storage.ipfs_daemon import Daemon, search
from agents.storage.ipfs_errors import Unreadable

_MAX_LISTED: Final = 256 << 10  # bytes of the list of a box
_NOTHING: Final = b'{"Entries":null}'
_LISTED: Final = re.compile(rb'\s*\{\s*"Entries"')
_NAME: Final = re.compile(rb'"Name"\s*:\s*"([a-z0-9]+)"')


def leave(daemon: Daemon, box: bytes, cid: str) -> None:
    """A link to the content in a folder of the daemon's own file system (MFS)."""
    parse_cid(cid)
    patience, folder = daemon.patience(), _folder(box)

    def link() -> None:
        daemon.do("/files/mkdir", (folder,), {"parents": "true"}, patience)
        try:
            daemon.do("/files/cp", (f"/ipfs/{cid}", f"{folder}/{cid}"), search(patience), patience)
        except ipfshttpclient.exceptions.ErrorResponse as error:
            if "already has entry" not in str(error):
                raise

    daemon.call(f"leave {cid} in a box", link, patience)


def left(daemon: Daemon, box: bytes, most: int) -> list[str]:
    """The names in that folder which are CIDs, of the first 256 KiB of the daemon's list."""
    patience = daemon.patience()

    def look() -> bytes:
        try:
            reply = daemon.request("/files/ls", (_folder(box),), {"U": "true"}, patience)
        except ipfshttpclient.exceptions.ErrorResponse as error:
            if "does not exist" not in str(error):
                raise
            return _NOTHING
        text = bytearray()
        with reply:
            for piece in reply:
                text += piece
                if len(text) > _MAX_LISTED:
                    break
        if _LISTED.match(text) is None:
            raise Unreadable("it is no list of a folder")
        return bytes(text)

    found: list[str] = []
    # The list may have been cut, so it need not be JSON.
    for name in _NAME.findall(daemon.call("look into a box", look, patience)):
        with suppress(InvalidCid):
            parse_cid(name.decode())
            found.append(name.decode())
        if len(found) >= most:
            break
    return found


def take_away(daemon: Daemon, box: bytes, cid: str) -> None:
    """Removes the link."""
    parse_cid(cid)
    patience = daemon.patience()

    def unlink() -> None:
        try:
            daemon.do("/files/rm", (f"{_folder(box)}/{cid}",), {}, patience)
        except ipfshttpclient.exceptions.ErrorResponse as error:
            if "does not exist" not in str(error):
                raise

    daemon.call(f"take {cid} out of a box", unlink, patience)


def _folder(box: bytes) -> str:
    return f"/menagerie/boxes/{box_name(box)}"
