# SPDX-License-Identifier: Apache-2.0
"""The committee's notice board: each member serves its own signatures, and reads the others'.

Rule: `GET /signatures/<operation id, 64 hex>` answers `{"op_id", "signatures": [{"signer",
"signature"}]}`. A board has no authority. A signature counts only if it recovers to a member;
`collect` checks this, and the contract checks it again.

A board is open to strangers, so it bounds what they hold of its member's process: so many
connections, each for so long in all (`agents.runtime.bounded_server`).
"""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from agents.runtime.bounded_http import ask
from agents.runtime.bounded_server import BoundedHandler, BoundedServer
from agents.runtime.errors import ConfigError
from agents.runtime.logs import Log
from agents.storage.nesting import parse_json

_PATH = re.compile(r"/signatures/(?:0x)?([0-9a-fA-F]{64})")
_MAX_REPLY = 16_384  # bytes: some fifty signatures; a member has one
_MAX_SIGNATURES = 32
_AT_ONCE = 16  # boards that are asked: as many as a committee has members
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


class SignatureBoard:
    """Serves this member's signatures over HTTP. Port 0 picks a free one (see `url`)."""

    def __init__(
        self,
        signer: str,
        host: str,
        port: int,
        log: Log,
        request_s: float = 5.0,
        connections: int = 64,
    ) -> None:
        """`request_s`: seconds in all that a request may take. `connections`: open at once.

        Raises ConfigError if the address can't be listened on.
        """
        self._signer = signer
        self._signatures: dict[bytes, bytes] = {}
        board = self

        class Handler(BoundedHandler):
            timeout = request_s

            def do_GET(self) -> None:
                found = _PATH.fullmatch(self.path)
                if found is None:
                    self.send_error(404, "Ask for /signatures/<operation id>")
                    return
                body = board._reply(bytes.fromhex(found.group(1)))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                log.debug("board_request", line=format % args)

        try:
            self._server = BoundedServer((host, port), Handler, connections)
        except OSError as error:
            raise ConfigError(
                f"The signature board cannot listen on {host}:{port}: {error}. Choose another "
                "`coordinator.board_port`."
            ) from None
        self.url = f"http://{host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="board", daemon=True
        )
        self._thread.start()

    def publish(self, op_id: bytes, signature: bytes) -> None:
        """Show this member's 65-byte signature of operation `op_id` (32 bytes)."""
        self._signatures[op_id] = signature

    def withdraw(self, op_id: bytes) -> None:
        """Stop showing the signature of an operation."""
        self._signatures.pop(op_id, None)

    def stop(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5.0)

    def _reply(self, op_id: bytes) -> bytes:
        signature = self._signatures.get(op_id)
        shown = [{"signer": self._signer, "signature": "0x" + signature.hex()}] if signature else []
        return json.dumps({"op_id": "0x" + op_id.hex(), "signatures": shown}).encode()


def fetch(url: str, op_id: bytes, timeout_s: float = 2.0) -> list[bytes]:
    """Return the well-formed 65-byte signatures that one board shows for `op_id`.

    An unreachable board, a reply above 16 KiB, one slower than `timeout_s`, or anything malformed
    gives an empty list: boards belong to strangers.
    """
    try:
        address = f"{url.rstrip('/')}/signatures/{op_id.hex()}"
        status, body = ask("GET", address, None, timeout_s, _MAX_REPLY)
        if status != 200:
            return []
        listed = parse_json(body)["signatures"][:_MAX_SIGNATURES]
        texts = [entry["signature"] for entry in listed]
        found = [bytes.fromhex(text.removeprefix("0x")) for text in texts]
    except (OSError, http.client.HTTPException):
        return []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    return [signature for signature in found if _is_canonical(signature)]


def _is_canonical(signature: bytes) -> bool:
    """65 bytes, v 27 or 28, low s: the only form the contracts accept."""
    low_s = int.from_bytes(signature[32:64], "big") <= _HALF_ORDER
    return len(signature) == 65 and signature[64] in (27, 28) and low_s


def collect(
    urls: Iterable[str],
    op_id: bytes,
    recover: Callable[[bytes], str | None],
    members: Iterable[str],
    own: Mapping[str, bytes] | None = None,
    timeout_s: float = 2.0,
) -> list[tuple[str, bytes]]:
    """Return (member, signature) pairs for `op_id`, one per member, ascending by address.

    `recover` gives the checksummed signer of a signature over this operation; signatures that do
    not recover to one of `members` are dropped. `own` adds signatures already at hand.

    Boards are asked together: what is gone, or slow on purpose, keeps the caller once and not once
    for each board.
    """
    allowed = set(members)
    found = {signer: s for signer, s in (own or {}).items() if signer in allowed}
    with ThreadPoolExecutor(_AT_ONCE, "boards") as pool:
        shown = list(pool.map(lambda url: fetch(url, op_id, timeout_s), urls))
    for signatures in shown:
        for signature in signatures:
            signer = recover(signature)
            if signer is not None and signer in allowed:
                found[signer] = signature
    return sorted(found.items(), key=lambda pair: int(pair[0], 16))
