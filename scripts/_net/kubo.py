# SPDX-License-Identifier: Apache-2.0
"""A small server that speaks the RPC calls of Kubo which the IPFS store uses, over real sockets.

It imports with the options it is *sent*; its own defaults are another profile, so an option that a
client forgets shows as a different CID. It can fail on command, which the tests of the store need.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from agents.storage.cid import Buffer, CidBuilder, Node, Profile, digest_of, format_cid


class KuboServer(ThreadingHTTPServer):
    """A small Kubo RPC server. `faults` holds what the next calls do instead of working.

    `received` and `sent` count bytes of the bodies of requests and of replies.
    """

    daemon_threads = True

    def __init__(self, port: int = 0, handler: type[KuboHandler] | None = None) -> None:
        super().__init__(("127.0.0.1", port), handler or KuboHandler)
        self.files: dict[str, bytes] = {}
        self.blocks: dict[str, bytes] = {}
        self.pins: set[str] = set()
        self.folders: dict[str, set[str]] = {}  # of its own file system (MFS): names
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.faults: deque[str] = deque()
        self.received = 0
        self.sent = 0
        self.address = f"/ip4/127.0.0.1/tcp/{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up early is part of the tests, not news."""

    def add(self, content: bytes, options: dict[str, str]) -> str:
        profile = Profile(
            chunk_size=int(options.get("chunker", "size-1048576").removeprefix("size-")),
            max_links=int(options.get("max-file-links", "1024")),
            raw_leaves=options.get("raw-leaves", "false").lower() == "true",
            cid_version=int(options.get("cid-version", "0")),
        )
        builder = _Blocks(profile)
        builder.update(content)
        root = builder.root()
        cid = format_cid(root.cid)
        self.files[cid] = content
        self.blocks |= builder.blocks
        if options.get("pin", "true").lower() == "true":
            self.pins.add(cid)
        return cid

    def plant(self, cid: str, content: bytes) -> None:
        """Serve `content` under a CID that need not be its own."""
        self.files[cid] = content


class _Blocks(CidBuilder):
    """A builder that keeps every block of the file, by its digest in hex."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.blocks: dict[str, bytes] = {}

    def _leaf(self, data: Buffer) -> Node:
        leaf = super()._leaf(data)
        if leaf.block is None:
            self.blocks[leaf.cid[-32:].hex()] = bytes(data)
        return leaf

    def _node(self, block: bytes, file_size: int, below: int) -> Node:
        self.blocks[hashlib.sha256(block).hexdigest()] = block
        return super()._node(block, file_size, below)


class KuboHandler(BaseHTTPRequestHandler):
    """Answers the calls of one connection, or fails as `faults` says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: KuboServer

    def setup(self) -> None:
        # What a caller leaves unread must not look sent: by itself the kernel takes up to 4 MB.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        super().setup()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        call = parts.path.removeprefix("/api/v0/")
        query = parse_qs(parts.query)
        options = {k: v[-1] for k, v in query.items()}
        self.arguments = query.get("arg", [])
        body = self._body()
        self.server.calls.append((call, options))
        fault = self.server.faults.popleft() if self.server.faults else ""
        if fault == "hang-up":
            self.close_connection = True
        elif fault.startswith("error:"):
            self.send_json({"Message": fault[6:], "Code": 0, "Type": "error"}, status=500)
        elif fault.startswith("status:"):
            self._reply(b"no", status=int(fault[7:]))
        elif fault == "garbage":
            self._reply(b"<html>hello</html>")
        elif fault == "empty":
            self._reply(b"")
        else:
            self.answer(call, options, body, fault)

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        """Answer one call from what the server holds."""
        cid = options.get("arg", "")
        if call == "add":
            added = self.server.add(_file_part(body), options)
            self.send_json({"Name": "", "Hash": _written(added, options)}, fault=fault)
        elif call == "cat" and cid in self.server.files:
            start, count = int(options.get("offset", 0)), int(options.get("length", 1 << 60))
            self._reply(self.server.files[cid][start : start + count], fault=fault, told=True)
        elif call == "block/get" and digest_of(cid).hex() in self.server.blocks:
            self._reply(self.server.blocks[digest_of(cid).hex()], fault=fault)
        elif call == "pin/add" and cid in self.server.files:
            self.server.pins.add(cid)
            self.send_json({"Pins": [_written(cid, options)]}, fault=fault)
        elif call == "pin/ls" and cid in self.server.pins:
            self.send_json({"Keys": {_written(cid, options): {"Type": "recursive"}}})
        elif call == "pin/ls":
            self.send_json({"Message": f"path '{cid}' is not pinned", "Type": "error"}, status=500)
        elif call.startswith("files/"):
            self._files(call, self.arguments, options)
        elif call == "version":
            self.send_json({"Version": "0.29.0", "Commit": ""})
        elif call in ("cat", "block/get", "pin/add"):
            text = f"block was not found locally (offline): ipld: could not find {cid}"
            self.send_json({"Message": text, "Code": 0, "Type": "error"}, status=500)
        else:
            self._reply(b"404 page not found", status=404)

    def _files(self, call: str, arguments: list[str], options: dict[str, str]) -> None:
        """Kubo's own words, as of 0.29, where a call fails."""
        folders, folder = self.server.folders, arguments[0]
        path, _, name = arguments[-1].rpartition("/")
        if call == "files/mkdir" and options.get("parents") == "true":
            folders.setdefault(folder, set())
            self._reply(b"")
        elif call == "files/ls" and folder in folders:
            names = [{"Name": n, "Type": 0, "Size": 0, "Hash": ""} for n in folders[folder]]
            self.send_json({"Entries": names or None})
        elif call == "files/cp" and arguments[0].removeprefix("/ipfs/") not in self.server.files:
            why = f"cp: cannot get node from path {folder}: ipld: could not find {folder}"
            self.send_json({"Message": why, "Type": "error"}, status=500)
        elif call == "files/cp" and name in folders[path]:
            why = f"cp: cannot put node in path {arguments[-1]}: directory already has entry by"
            self.send_json({"Message": f"{why} that name", "Type": "error"}, status=500)
        elif call == "files/cp":
            folders[path].add(name)
            self._reply(b"")
        elif call == "files/rm" and name in folders.get(path, ()):
            folders[path].discard(name)
            self._reply(b"")
        else:
            self.send_json({"Message": "file does not exist", "Type": "error"}, status=500)

    def _body(self) -> bytes:
        body = self._read_body()
        self.server.received += len(body)
        return body

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = bytearray()
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def send_json(self, value: object, status: int = 200, fault: str = "") -> None:
        """Send an object as the whole reply."""
        self._reply(json.dumps(value).encode() + b"\n", status, fault)

    def _reply(self, data: bytes, status: int = 200, fault: str = "", told: bool = False) -> None:
        size = len(data)
        if fault == "flip":
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        if fault in ("cut", "truncate"):
            data = data[: len(data) // 2]
        self.send_response(status)
        if fault == "cut":  # the length is promised, the connection breaks half way
            self.send_header("Content-Length", str(len(data) * 2 + 1))
        else:
            self.send_header("Transfer-Encoding", "chunked")
        if told:
            self.send_header("X-Content-Length", str(size))
        self.end_headers()
        if fault == "cut":
            self.wfile.write(data)
            self.close_connection = True
            return
        for start in range(0, len(data), 1 << 16):
            piece = data[start : start + (1 << 16)]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.server.sent += len(piece)
        # A daemon that fails in mid-stream ends the body properly and tells in a trailer.
        late = "unexpected EOF" if fault == "truncate" else ""
        late = fault.removeprefix("late:") if fault.startswith("late:") else late
        trailer = b"X-Stream-Error: %b\r\n" % late.encode() if late else b""
        self.wfile.write(b"0\r\n" + trailer + b"\r\n")


def _written(cid: str, options: dict[str, str]) -> str:
    """A CID as the caller asked for it: in another base unless it named ours. What replies are
    written in is a daemon's own choice (Kubo's is base32, js-ipfs' base58btc)."""
    return cid if options.get("cid-base") == "base32" else cid.upper()


def _file_part(body: bytes) -> bytes:
    """The content of the only part of a multipart body."""
    boundary = body[: body.index(b"\r\n")]
    start = body.index(b"\r\n\r\n") + 4
    return body[start : body.rindex(b"\r\n" + boundary)]
