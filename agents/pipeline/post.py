# SPDX-License-Identifier: Apache-2.0
"""A miner's post: it takes letters from the stages beside it, by HTTP, and refuses all others.

`POST /letters` takes a letter, `POST /done` a notice of a first-stage miner, `POST /announcements`
one announcement; `GET /announcements` gives those that are known. `GET /done/JOB/EPOCH/SEED/MINER`
gives a notice that is this post's own miner's or came here, for who was away when it was sent; 404
if there is none. `POST /collect` gives a letter to a receiver that takes no connections, or 204 if
none comes within a second. `POST /relay` takes a letter for such a receiver from a sender that has
no post either. `POST /shards` takes an owner's statement about its shards, and `GET
/shards/JOB/EPOCH` gives those of an epoch (`agents.pipeline.statements`). The answer to any other
POST is a sentence:

    200  taken; or the same passage with the same bytes came before, and nothing happens
    400  malformed, or a message that is no code or gradient
    403  not signed by the sender's operator, or sender and receiver do not fit
    409  the epoch is over here, the sample came before with other bytes or from another miner, or
         this was collected before
    413  longer than any message of the epoch
    503  not now: the epoch does not run here yet, not with this seed, too many of the sender's
         letters wait, or the receiver is collecting already

All that a letter's first bytes can show to be wrong is refused before the message is read. Every
connection is cut off after a total time, and only so many are open at once: one more ends the
oldest one of the address that has the most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler

from agents.pipeline.addresses import MAX_ANNOUNCEMENT, AddressBook
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Passage
from agents.pipeline.letters import (
    COLLECT_BYTES,
    HEAD_BYTES,
    NOTICE_BYTES,
    Announcement,
    Collect,
    Domain,
    Done,
    Letter,
    LetterError,
    read_head,
)
from agents.pipeline.mailbox import Mailbox, Refused, Running
from agents.pipeline.shards import MAX_STATEMENT, Statement
from agents.pipeline.statements import Statements
from agents.runtime.bounded_server import BoundedHandler, BoundedServer
from agents.runtime.errors import ConfigError
from agents.runtime.logs import Log
from agents.storage.nesting import parse_json

_Key = tuple[int, int, bytes]  # job, epoch and seed: after a reorg an epoch begins again
_ENDED = 1024  # epochs that are remembered to be over
_CHUNK = 65_536
_MAX_PATH = 200
_TAKEN = 200, b"Taken."
_DRAINED = 1 << 20  # bytes of a refused body that are still read


class Post:
    """Serves over HTTP. Port 0 picks a free one (see `url`, which is empty without `listen`)."""

    def __init__(
        self,
        host: str,
        port: int,
        log: Log,
        where: Domain,
        book: AddressBook,
        request_s: float = 10.0,
        connections: int = 64,
        listen: bool = True,
    ) -> None:
        """`request_s`: seconds in all that a request may take. `connections`: open at once.
        `listen`: False for a post without a socket, which takes what its miner collects.

        Raises ConfigError if the address can't be listened on.
        """
        self._log, self._where, self.book = log, where, book
        self._boxes: dict[_Key, Mailbox] = {}
        self._ended: dict[_Key, None] = {}
        self._notices: dict[_Key, dict[int, bytes]] = {}  # by miner
        self.statements = Statements(where)
        self.url = ""
        self._server: BoundedServer | None = None
        if listen:
            self._serve(host, port, request_s, connections)

    def _serve(self, host: str, port: int, request_s: float, connections: int) -> None:
        log = self._log
        try:
            self._server = BoundedServer((host, port), _handler(self, log, request_s), connections)
        except OSError as error:
            raise ConfigError(
                f"The miner's post cannot listen on {host}:{port}: {error}. Choose another port."
            ) from None
        self.url = f"http://{host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="post", daemon=True
        )
        self._thread.start()

    def open(self, running: Running, wake: Callable[[], None]) -> Mailbox:
        """Take letters of an epoch from now on; `wake` is called when one was accepted."""
        key = running.epoch.key
        box = Mailbox(running, self._where, wake, self._log)
        self._ended.pop(key, None)
        self._boxes[key] = box
        return box

    def close(self, epoch: Epoch, over: bool) -> None:
        """Take no more letters of an epoch. If it is `over`, senders are told not to come again."""
        key = epoch.key
        box = self._boxes.pop(key, None)
        if box is not None:
            self._keep(key, box.notices)
        if over:
            self._ended[key] = None
        while len(self._ended) > _ENDED:
            del self._ended[next(iter(self._ended))]

    def keep(self, notice: Done) -> None:
        """Give the own miner's notice to whoever asks for it, also when the epoch is over."""
        self._keep((notice.job, notice.epoch, notice.seed), {notice.sender: notice.to_bytes()})

    def _keep(self, key: _Key, notices: Mapping[int, bytes]) -> None:
        self._notices.setdefault(key, {}).update(notices)
        while len(self._notices) > _ENDED:
            del self._notices[next(iter(self._notices))]

    def kept(self, path: str) -> bytes | None:
        """The notice that lies at a path as `done_path` makes it; None if there is none."""
        parts = path.split("/", 6)
        if len(path) > _MAX_PATH or len(parts) != 6 or parts[:2] != ["", "done"]:
            return None
        try:
            key, miner = (int(parts[2]), int(parts[3]), bytes.fromhex(parts[4])), int(parts[5])
        except ValueError:
            return None
        box = self._boxes.get(key)
        come = None if box is None else box.notices.get(miner)
        return come or self._notices.get(key, {}).get(miner)

    def stop(self) -> None:
        """Stop serving and free the port."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5.0)

    # -- what a request asks for: status and body of the answer; each raises Refused --

    def letter(self, read: Callable[[int], bytes], length: int) -> tuple[int, bytes]:
        """Take a letter of `length` bytes, its head first."""
        box, letter = self._read(read, length, Mailbox.check_head)
        box.accept(letter)
        return _TAKEN

    def relay(self, read: Callable[[int], bytes], length: int) -> tuple[int, bytes]:
        """Take a letter of `length` bytes that another miner is to come for."""
        box, letter = self._read(read, length, Mailbox.check_relayed)
        box.relay(letter)
        return _TAKEN

    def _read(
        self,
        read: Callable[[int], bytes],
        length: int,
        check: Callable[[Mailbox, Passage, int], int],
    ) -> tuple[Mailbox, Letter]:
        """A letter and its epoch's mailbox. `check`: refuses by the head, before the rest is read;
        says how long the trail is."""
        if length < HEAD_BYTES:
            raise Refused(400, f"A letter has at least {HEAD_BYTES} bytes.")
        try:
            passage, signature = read_head(read(HEAD_BYTES))
        except LetterError as error:
            raise Refused(400, str(error)) from None
        # An epoch that does not run here yet is 503 at any length: its sender is to come again.
        box = self._box(passage.job, passage.epoch, passage.seed)
        trail = check(box, passage, length - HEAD_BYTES)
        rest = read(length - HEAD_BYTES)
        if len(rest) != length - HEAD_BYTES:
            raise Refused(400, "The letter ended early.")
        return box, Letter(passage, signature, rest[trail:], rest[:trail])

    def collect(self, read: Callable[[int], bytes], length: int) -> tuple[int, bytes]:
        """Give a letter to the receiver that comes for it."""
        if length != COLLECT_BYTES:
            raise Refused(400, f"A collect has {COLLECT_BYTES} bytes.")
        try:
            asked = Collect.from_bytes(read(length))
        except LetterError as error:
            raise Refused(400, str(error)) from None
        found = self._box(asked.job, asked.epoch, asked.seed).collect(asked)
        return (204, b"") if found is None else (200, found)

    def notice(self, read: Callable[[int], bytes], length: int) -> tuple[int, bytes]:
        """Take a notice."""
        if length != NOTICE_BYTES:
            raise Refused(400, f"A notice has {NOTICE_BYTES} bytes.")
        try:
            notice = Done.from_bytes(read(length))
        except LetterError as error:
            raise Refused(400, str(error)) from None
        self._box(notice.job, notice.epoch, notice.seed).accept_notice(notice)
        return _TAKEN

    def statement(self, read: Callable[[int], bytes], length: int) -> tuple[int, bytes]:
        """Take a statement about shards."""
        if length > MAX_STATEMENT:
            raise Refused(413, f"A statement has at most {MAX_STATEMENT} bytes.")
        try:
            said = Statement.from_bytes(read(length))
        except LetterError as error:
            raise Refused(400, str(error)) from None
        if not self.statements.put(said):
            raise Refused(403, "No statement of a miner of an epoch here, by its operator.")
        return _TAKEN

    def listed_statements(self, path: str) -> bytes | None:
        """The statements that lie at a path as `shards_path` makes it; None for another path."""
        parts = path.split("/", 4)
        if len(path) > _MAX_PATH or len(parts) != 4 or parts[:2] != ["", "shards"]:
            return None
        try:
            return self.statements.listed(int(parts[2]), int(parts[3]))
        except ValueError:
            return None

    def announcement(self, read: Callable[[int], bytes], length: int) -> tuple[int, bytes]:
        """Take an announcement."""
        if length > MAX_ANNOUNCEMENT:
            raise Refused(413, f"An announcement has at most {MAX_ANNOUNCEMENT} bytes.")
        try:
            said = Announcement.from_json(parse_json(read(length)))
        except (LetterError, ValueError, RecursionError):
            raise Refused(400, "This is no announcement.") from None
        if not self.book.take(said):
            raise Refused(403, "No announcement of a node that matters here, by its operator.")
        return _TAKEN

    def _box(self, job: int, epoch: int, seed: bytes) -> Mailbox:
        box = self._boxes.get((job, epoch, seed))
        if box is None and (job, epoch, seed) in self._ended:
            raise Refused(409, f"Epoch {epoch} of job {job} is over here.")
        if box is None:
            raise Refused(503, f"Epoch {epoch} of job {job} does not run here with this seed.")
        return box


# -- HTTP ------------------------------------------------------------------------------------------


def _handler(post: Post, log: Log, request_s: float) -> type[BaseHTTPRequestHandler]:
    takers = {
        "/letters": post.letter,
        "/relay": post.relay,
        "/collect": post.collect,
        "/done": post.notice,
        "/announcements": post.announcement,
        "/shards": post.statement,
    }

    class Handler(BoundedHandler):
        timeout = request_s

        def do_GET(self) -> None:
            if self.path == "/announcements":
                self._answer(200, post.book.listed())
                return
            found = post.kept(self.path) or post.listed_statements(self.path)
            if found is None:
                self._answer(404, b"There is no such notice, and no such list.")
            else:
                self._answer(200, found)

        def do_POST(self) -> None:
            length = self._length()
            taker = takers.get(self.path)
            left = length or 0

            def read(count: int) -> bytes:
                nonlocal left
                found = self.rfile.read(count)
                left -= len(found)
                return found

            try:
                if taker is None:
                    raise Refused(
                        404,
                        "Post to /letters, /relay, /collect, /done, /shards or /announcements.",
                    )
                if length is None:
                    raise Refused(400, "Say the length of the body in Content-Length.")
                status, body = taker(read, length)
            except Refused as refused:
                self._answer(refused.status, str(refused).encode())
                self._drain(min(left, _DRAINED))
            else:
                self._answer(status, body)

        def _length(self) -> int | None:
            text = self.headers.get("Content-Length", "")
            return int(text) if text.isdecimal() and text.isascii() and len(text) < 16 else None

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _drain(self, left: int) -> None:
            # Closing with bytes unread resets the connection, and the answer might be lost.
            while left > 0 and (found := self.rfile.read(min(left, _CHUNK))):
                left -= len(found)

        def log_message(self, format: str, *args: object) -> None:
            log.debug("post_request", line=format % args)

    return Handler
