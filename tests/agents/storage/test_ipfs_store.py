# SPDX-License-Identifier: Apache-2.0
"""The IPFS store against a daemon that fails: verified bytes or one clear StoreError, soon."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agents.storage import (
    CorruptContent,
    NotFound,
    StoreError,
    StoreUnavailable,
    TooLarge,
    open_store,
)
from agents.storage.cid import (
    DAG_PB,
    PROFILE,
    RAW,
    CidBuilder,
    cid_from_digest,
    cid_of_bytes,
    digest_of,
)
from agents.storage.ipfs import IpfsStore
from agents.storage.ipfs_reading import resolve
from scripts._net.kubo import KuboHandler, KuboServer

LIMIT = 1 << 30
SMALL = b"a small artefact"
LARGE = random.Random(14).randbytes(9 * (1 << 20) + 3)
assert LARGE[-1], "a test replaces its last byte by a zero"


def _calls(kubo: Any, name: str) -> list[dict[str, str]]:
    return [options for call, options in kubo.calls if call == name]


def test_every_option_that_changes_a_cid_or_its_text_is_sent(kubo: Any, ipfs: IpfsStore) -> None:
    cid = ipfs.put_bytes(SMALL)
    assert ipfs.has(cid)  # the server writes a CID in another base unless told
    ipfs.pin(cid)
    (options,) = _calls(kubo, "add")
    assert {k: v.lower() for k, v in options.items()} == {
        "cid-base": "base32",
        "chunker": "size-262144",
        "cid-version": "1",
        "raw-leaves": "true",
        "hash": "sha2-256",
        "max-file-links": "174",
        "inline": "false",
        "trickle": "false",
        "nocopy": "false",
        "only-hash": "false",
        "wrap-with-directory": "false",
        "pin": "true",
        "progress": "false",
    }


def test_the_path_of_a_file_is_not_told(
    kubo: Any, ipfs: IpfsStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[bytes] = []
    handler = kubo.RequestHandlerClass
    original = handler._body
    monkeypatch.setattr(handler, "_body", lambda h: bodies.append(original(h)) or bodies[-1])
    (tmp_path / "secret-name").write_bytes(SMALL)
    ipfs.put_file(tmp_path / "secret-name")
    assert len(bodies) == 1
    assert SMALL in bodies[0]
    assert b"secret-name" not in bodies[0]


@pytest.mark.parametrize(
    "form", ["/ip4/127.0.0.1/tcp/{}", "http://127.0.0.1:{}", "ipfs:///dns/localhost/tcp/{}"]
)
def test_the_search_time_of_a_setting_reaches_the_daemon(kubo: Any, form: str) -> None:
    store = open_store(form.format(kubo.server_address[1]), timeout_s=1.5)
    cid = store.put_bytes(SMALL)
    store.get_digest(digest_of(cid), LIMIT)
    store.get(cid, LIMIT)
    store.pin(cid)
    store.close()
    for call in ("block/get", "cat", "pin/add"):
        assert [options["timeout"] for options in _calls(kubo, call)] == ["1.5s"]


def test_the_store_says_the_daemons_version(ipfs: IpfsStore) -> None:
    assert ipfs.version() == "0.29.0"


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["raw", "dag"])
@pytest.mark.parametrize("fault", ["hang-up", "cut", "truncate", "status:500", "status:429"])
def test_a_passing_fault_is_overcome(
    kubo: Any, ipfs: IpfsStore, tmp_path: Path, data: bytes, fault: str
) -> None:
    cid = ipfs.put_bytes(data)
    kubo.faults.extend([fault, fault])
    assert ipfs.get(cid, LIMIT) == data
    kubo.faults.append(fault)
    assert ipfs.get_file(cid, tmp_path / "out", LIMIT) == len(data)
    assert (tmp_path / "out").read_bytes() == data


@pytest.mark.parametrize("fault", ["hang-up", "garbage", "empty", "status:503"])
def test_an_upload_starts_over(kubo: Any, ipfs: IpfsStore, tmp_path: Path, fault: str) -> None:
    (tmp_path / "in").write_bytes(LARGE)
    for put, source in ((ipfs.put_bytes, LARGE), (ipfs.put_file, tmp_path / "in")):
        kubo.faults.append(fault)
        assert put(source) == cid_of_bytes(LARGE)


def _uses(store: IpfsStore, cid: str, out: Path) -> list[Callable[[], object]]:
    return [
        lambda: store.put_bytes(SMALL),
        lambda: store.get(cid, LIMIT),
        lambda: store.get_file(cid, out, LIMIT),
        lambda: store.get_digest(digest_of(cid), LIMIT),
        lambda: store.has(cid),
        lambda: store.pin(cid),
        lambda: store.version(),
    ]


@pytest.mark.parametrize(
    ("fault", "reason", "tries"),
    [
        ("hang-up", "check that the IPFS daemon runs", 3),
        ("status:502", "check that the IPFS daemon runs", 3),
        ("status:403", "HTTP status 403", 1),
        ("status:404", "not a gateway", 1),
        ("error:repo is locked", "it says: repo is locked", 3),
    ],
)
def test_a_lasting_fault_is_one_clear_error(
    kubo: Any, ipfs: IpfsStore, tmp_path: Path, fault: str, reason: str, tries: int
) -> None:
    cid = ipfs.put_bytes(SMALL)
    for use in _uses(ipfs, cid, tmp_path / "out"):
        kubo.calls.clear()
        kubo.faults.extend([fault] * (tries + 1))
        with pytest.raises(StoreUnavailable, match=reason):
            use()
        # A reason in words, or that it breaks off, may be the content's. So a reader asks then
        # whether the daemon works.
        asked = [call for call, _ in kubo.calls][tries:]
        assert len(kubo.calls) >= tries and asked in ([], ["version"])
        assert not asked or fault not in ("status:403", "status:404")
        kubo.faults.clear()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", ["garbage", "empty"])
def test_a_server_that_is_not_kubo_is_reported(kubo: Any, ipfs: IpfsStore, fault: str) -> None:
    for use in (lambda: ipfs.put_bytes(SMALL), ipfs.version):
        kubo.faults.extend([fault] * 3)
        with pytest.raises(StoreUnavailable, match="is a Kubo RPC server"):
            use()


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("block was not found locally (offline): ipld: could not find bafk", NotFound),
        ("context deadline exceeded", NotFound),
        ("Failed to cat file: request timed out", NotFound),
        ("this dag node is a directory", CorruptContent),
        ("protobuf: (PBNode) invalid wireType, expected 2, got 3", CorruptContent),
        ("write /data: no space left on device", StoreUnavailable),
    ],
)
def test_what_the_daemon_says_decides_the_error(
    kubo: Any, ipfs: IpfsStore, message: str, kind: type[StoreError]
) -> None:
    cid = ipfs.put_bytes(SMALL)
    kubo.calls.clear()
    kubo.faults.extend([f"error:{message}"] * 4)
    with pytest.raises(kind) as caught:
        ipfs.get(cid, LIMIT)
    assert type(caught.value) is kind
    # Three reads, and the question whether it works.
    assert len(kubo.calls) == (4 if kind is StoreUnavailable else 1)
    assert message in str(caught.value)


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["raw", "dag"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:-1] + b"\0", lambda b: b + b"\0", lambda b: b""]
)
def test_wrong_bytes_are_an_error_never_data(
    kubo: Any, ipfs: IpfsStore, tmp_path: Path, data: bytes, damage: Callable[[bytes], bytes]
) -> None:
    cid = cid_of_bytes(data)
    kubo.plant(cid, damage(data))
    with pytest.raises(CorruptContent, match="not its content"):
        ipfs.get(cid, LIMIT)
    with pytest.raises(CorruptContent):
        ipfs.get_file(cid, tmp_path / "out", LIMIT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", ["flip", "truncate"])
def test_a_wrong_block_is_an_error(kubo: Any, ipfs: IpfsStore, fault: str) -> None:
    cid = ipfs.put_bytes(LARGE)
    kubo.faults.append(fault)
    with pytest.raises(CorruptContent, match=r"returned \d+ bytes for block"):
        ipfs.get_digest(digest_of(cid), LIMIT)


def test_a_block_larger_than_any_of_ours_is_an_error(kubo: Any, ipfs: IpfsStore) -> None:
    cid = ipfs.put_bytes(SMALL)
    kubo.blocks[digest_of(cid).hex()] = bytes(8 << 20)
    with pytest.raises(CorruptContent):
        ipfs.get_digest(digest_of(cid), LIMIT)
    kubo.plant(cid, bytes(32 << 20))
    kubo.sent = 0
    with pytest.raises(CorruptContent):
        ipfs.get(cid, LIMIT)
    assert kubo.sent <= 4 << 20  # one slice is enough to know


def _root_of(ipfs: IpfsStore, cid: str) -> bytes:
    return resolve(ipfs._daemon, digest_of(cid))[1]


def test_reading_stops_at_the_bound(kubo: Any, ipfs: IpfsStore, tmp_path: Path) -> None:
    cid = ipfs.put_bytes(LARGE)
    kubo.sent = 0
    with pytest.raises(TooLarge):
        ipfs.get(cid, 1000)
    sent = kubo.sent
    assert sent <= 1001 + len(_root_of(ipfs, cid))  # which shows that there is more
    with pytest.raises(TooLarge):
        ipfs.get_digest(digest_of(cid), len(LARGE) - 1)  # the root tells: no content is read
    assert len(_calls(kubo, "cat")) == 1


def test_reading_stops_at_the_bound_even_if_the_daemon_ignores_it(
    kubo: Any, ipfs: IpfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cid = ipfs.put_bytes(SMALL)
    kubo.plant(cid, bytes(64 << 20))
    handler = kubo.RequestHandlerClass
    answer = handler.answer

    def unbounded(self: Any, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        options.pop("length", None)
        answer(self, call, options, body, fault)

    monkeypatch.setattr(handler, "answer", unbounded)
    with pytest.raises(CorruptContent):
        ipfs.get(cid, 1000)
    assert kubo.sent < 32 << 20


@pytest.mark.parametrize("size", [600, len(LARGE)], ids=["raw", "dag"])
def test_a_daemon_that_sends_too_much_makes_nothing_too_large(
    kubo: Any, ipfs: IpfsStore, size: int
) -> None:
    """A task whose input is too large has a result. Two executors that ask one daemon would agree
    on that, and whoever runs the daemon would appeal it, and have half of what they lose."""
    cid = ipfs.put_bytes(LARGE[:size])
    with pytest.raises(TooLarge):
        ipfs.get(cid, size - 1)
    kubo.plant(cid, bytes(size + 1))
    with pytest.raises(CorruptContent, match="has not so many"):
        ipfs.get(cid, size)
    if size > PROFILE.chunk_size:  # of a small file the block is all of it
        with pytest.raises(CorruptContent, match="has not so many"):
            ipfs.get_digest(digest_of(cid), size)


def test_slow_hashing_holds_up_reading_and_loses_nothing(
    ipfs: IpfsStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random.Random(3).randbytes(24 << 20)
    cid = ipfs.put_bytes(data)
    update = CidBuilder.update

    def slowly(builder: CidBuilder, piece: memoryview) -> None:
        time.sleep(0.01)  # a piece is read and written sooner, so its room would be used again
        update(builder, piece)

    monkeypatch.setattr(CidBuilder, "update", slowly)
    assert ipfs.get_file(cid, tmp_path / "out", LIMIT) == len(data)
    assert (tmp_path / "out").read_bytes() == data


def test_a_daemon_with_its_own_import_settings_is_reported(
    kubo: Any, ipfs: IpfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = type(kubo).add
    monkeypatch.setattr(type(kubo), "add", lambda self, content, options: add(self, content, {}))
    with pytest.raises(CorruptContent, match="import settings override"):
        ipfs.put_bytes(SMALL)


def test_a_source_that_fails_while_sent_is_not_taken_for_an_outage(
    kubo: Any, ipfs: IpfsStore, tmp_path: Path
) -> None:
    # /proc/self/mem opens, and fails on the first read.
    with pytest.raises(StoreError, match="cannot read /proc/self/mem") as caught:
        ipfs.put_file("/proc/self/mem")
    assert type(caught.value) is StoreError


def test_an_outage_and_its_end_are_logged_once(
    kubo: Any, ipfs: IpfsStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="agents.storage.ipfs_daemon")
    kubo.faults.extend(["hang-up"] * 5)
    with pytest.raises(StoreUnavailable):
        ipfs.put_bytes(SMALL)
    ipfs.put_bytes(SMALL)
    ipfs.put_bytes(SMALL)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "trying again" in caplog.records[0].getMessage()


@pytest.fixture
def store_at() -> Iterator[Callable[..., IpfsStore]]:
    """Opens stores on a port that give up soon."""
    stores = []

    def begin(port: int, **options: Any) -> IpfsStore:
        address = f"/ip4/127.0.0.1/tcp/{port}"
        stores.append(IpfsStore(address, attempts=2, backoff_s=0.001, **options))
        return stores[-1]

    yield begin
    for store in stores:
        store.close()


def test_a_daemon_that_is_down_is_unavailable(store_at: Any, tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        for use in _uses(store_at(port), cid_of_bytes(SMALL), tmp_path / "out"):
            with pytest.raises(StoreUnavailable, match=f"tcp/{port}"):
                use()


def test_a_daemon_that_stalls_is_unavailable(
    store_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.storage.ipfs_daemon._GRACE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = store_at(silent.getsockname()[1], timeout_s=0.05)
        took = []
        for _ in range(3):  # a busy machine may stand still in one of them
            started = time.monotonic()
            with pytest.raises(StoreUnavailable, match="did not answer in time"):
                store.get(cid_of_bytes(SMALL), LIMIT)
            took.append(time.monotonic() - started)
        assert min(took) < 5


class Searching(KuboHandler):
    """As Kubo online: what it lacks it searches for as long as it may, in the middle of a reply
    too. It has the first block of a file, as nobody serves the others."""

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        if call == "cat":
            had = self.server.files[options["arg"]][: PROFILE.chunk_size]
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if piece := had[int(options.get("offset", 0)) :]:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            time.sleep(float(options["timeout"][:-1]))
            self.wfile.write(b"0\r\n\r\n")
        elif call == "block/get" and len(self.server.blocks[digest_of(options["arg"]).hex()]) > 999:
            time.sleep(float(options["timeout"][:-1]))
            self.send_json({"Message": "context deadline exceeded", "Type": "error"}, status=500)
        else:
            super().answer(call, options, body, fault)


@pytest.mark.parametrize("how", ["get", "get_digest", "get_spans"])
def test_content_of_which_the_first_block_alone_is_served_is_missing(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """And no outage: else one node that serves no more would keep all from reading a round."""
    monkeypatch.setattr("agents.storage.ipfs_daemon._GRACE_S", 0.25)
    server = KuboServer(handler=Searching)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    cid = server.add(
        LARGE[: 2 * PROFILE.chunk_size],
        {"chunker": f"size-{PROFILE.chunk_size}", "raw-leaves": "true", "cid-version": "1"},
    )
    store = IpfsStore(server.address, timeout_s=0.5, backoff_s=0.005)
    try:
        with pytest.raises(NotFound):
            if how == "get":
                store.get(cid, LIMIT)
            elif how == "get_digest":
                store.get_digest(digest_of(cid), LIMIT)
            else:
                store.get_spans(digest_of(cid), [(0, 2 * PROFILE.chunk_size)], LIMIT)
    finally:
        store.close()
        server.shutdown()
        server.server_close()


class Lacking(KuboHandler):
    """As Kubo online: a block that it lacks it searches for as long as it may. While it hangs it
    answers nothing. It writes down how long it was let search for each kind of call."""

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        if self.server.hangs.is_set():
            self.server.comes.wait(30)
            self.close_connection = True
            return
        if "timeout" in options:
            self.server.let.append((call, float(options["timeout"][:-1])))
        if call == "block/get" and digest_of(options["arg"]).hex() not in self.server.blocks:
            time.sleep(float(options["timeout"][:-1]))
            self.send_json({"Message": "context deadline exceeded", "Type": "error"}, status=500)
        elif call == "add" and self.server.takes_nothing:
            self.send_error(403)
        else:
            super().answer(call, options, body, fault)


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server of that kind."""
    monkeypatch.setattr("agents.storage.ration.LEAST_S", 0.1)
    server: Any = KuboServer(handler=Lacking)
    server.hangs, server.comes = threading.Event(), threading.Event()
    server.let, server.takes_nothing = [], False
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.comes.set()
    server.shutdown()
    server.server_close()


def test_what_a_search_did_not_find_is_searched_for_shortly_for_a_while(lacking: Any) -> None:
    """And had at once when it has come to the daemon meanwhile: a stranger may have named it before
    its maker published it."""
    store = IpfsStore(lacking.address, timeout_s=1.0, backoff_s=0.005)
    digest = digest_of(cid_of_bytes(SMALL))
    for _ in range(2):
        with pytest.raises(NotFound, match="deadline exceeded"):
            store.get_digest(digest, LIMIT)
    assert lacking.let == [("block/get", 1.0), ("block/get", 0.1)]
    other = IpfsStore(lacking.address)
    other.put_bytes(SMALL)
    assert store.get_digest(digest, LIMIT) == SMALL
    store.close()
    other.close()


def test_what_was_asked_for_in_an_outage_is_not_taken_for_missing(
    lacking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.storage.ipfs_daemon._GRACE_S", 0.2)
    store = IpfsStore(lacking.address, timeout_s=0.8, attempts=1, backoff_s=0.005)
    digest = digest_of(store.put_bytes(SMALL))
    lacking.hangs.set()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.get_digest(digest, LIMIT)
    lacking.hangs.clear()
    assert store.get_digest(digest, LIMIT) == SMALL
    assert lacking.let == [("block/get", 0.8)]
    store.close()


def test_fruitless_searches_cut_no_transfer_short(lacking: Any) -> None:
    """Kubo's `timeout` bounds a whole reply, and a large one may take long."""
    store = IpfsStore(lacking.address, timeout_s=60.0)
    cid = store.put_bytes(LARGE)
    for n in range(9):
        store._daemon.ration._credit = 0.0
        store._daemon.ration.missed(bytes([n]) * 32, time.monotonic() - 1)
    assert store.get_digest(digest_of(cid), LIMIT) == LARGE
    (_, block), (_, file) = lacking.let
    assert block == 15.0 and file == 60.0
    store.close()


def test_a_daemon_that_takes_no_content_works_for_who_reads(lacking: Any) -> None:
    """Else one node that serves half of a payload looks like an outage to an auditor."""
    store = IpfsStore(lacking.address, timeout_s=0.5, attempts=1, backoff_s=0.005)
    assert store._daemon.works()
    lacking.takes_nothing = True
    assert store._daemon.works()
    with pytest.raises(StoreUnavailable):
        store.put_bytes(SMALL)
    store.close()


class Refusing(KuboHandler):
    """As Kubo where a CID names a symbolic link, or something that it has another word for."""

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        said = REFUSALS.get(options.get("arg", ""), "")
        if said and call in ("cat", "block/get", "pin/add"):
            self.send_json({"Message": said, "Code": 0, "Type": "error"}, status=500)
        elif self.server.full and call == "add":
            self.send_json({"Message": "no space left", "Type": "error"}, status=500)
        else:
            super().answer(call, options, body, fault)


LINK, ODD = (cid_from_digest(bytes([n]) * 32, DAG_PB) for n in (1, 2))
REFUSALS = {
    LINK: "operation not supported",
    ODD: "a new reason",
    cid_from_digest(bytes([2]) * 32, RAW): "a new reason",
}


@pytest.mark.parametrize("cid", [LINK, ODD], ids=["link", "unknown reason"])
@pytest.mark.parametrize("how", ["get", "get_digest", "pin"])
def test_what_a_daemon_refuses_to_read_is_no_outage(cid: str, how: str) -> None:
    """Else a node that names a symbolic link as its trace would keep all from judging its round.
    A daemon that takes no content either has a fault of its own."""
    server = KuboServer(handler=Refusing)
    server.full = False
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    store = IpfsStore(server.address, timeout_s=5, attempts=2, backoff_s=0.005)
    reads = {
        "get": lambda: store.get(cid, LIMIT),
        "get_digest": lambda: store.get_digest(digest_of(cid), LIMIT),
        "pin": lambda: store.pin(cid),
    }
    try:
        with pytest.raises((NotFound, CorruptContent)):
            reads[how]()
        server.full = True
        if cid == ODD:
            with pytest.raises(StoreUnavailable, match="a new reason"):
                reads[how]()
    finally:
        store.close()
        server.shutdown()
        server.server_close()


def test_credentials_are_sent_and_never_shown(kubo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(f"http://me:secret@127.0.0.1:{kubo.server_address[1]}")
    seen: set[str] = set()
    handler = kubo.RequestHandlerClass
    answer = handler.do_POST
    monkeypatch.setattr(
        handler, "do_POST", lambda h: (seen.add(h.headers["Authorization"]), answer(h))
    )
    store.put_bytes(SMALL)
    kubo.faults.append("status:401")
    with pytest.raises(StoreUnavailable, match="credentials") as caught:
        store.put_bytes(SMALL)
    store.close()
    assert seen == {"Basic bWU6c2VjcmV0"}
    assert "secret" not in str(caught.value)


def test_threads_may_share_a_store(ipfs: IpfsStore) -> None:
    def works(number: int) -> bool:
        data = bytes([number]) * (300_000 * number)
        return all(ipfs.get(ipfs.put_bytes(data), LIMIT) == data for _ in range(4))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(works, range(6)))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The multiaddr of a real, offline IPFS daemon with a fresh repository."""
    program = shutil.which("ipfs")
    if program is None:
        pytest.skip(
            "no `ipfs` (Kubo) on PATH: the store is tested against the built-in server only"
        )
    repo = tmp_path_factory.mktemp("ipfs")
    environment = {**os.environ, "IPFS_PATH": str(repo), "IPFS_TELEMETRY": "off"}
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = f"/ip4/127.0.0.1/tcp/{reserved.getsockname()[1]}"
    subprocess.run([program, "init"], env=environment, check=True, capture_output=True)
    config = json.loads((repo / "config").read_text())
    config["Addresses"].update(API=address, Gateway=[], Swarm=[])
    (repo / "config").write_text(json.dumps(config))
    process = subprocess.Popen(
        [program, "daemon", "--offline"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        store = IpfsStore(address, attempts=8)
        store.version()
        store.close()
        yield address
    finally:
        process.terminate()
        process.wait(30)


def test_a_real_daemon_stores_and_gives_back(daemon: str, tmp_path: Path) -> None:
    store = open_store(daemon, timeout_s=5.0)
    absent = cid_of_bytes(b"nobody has this")
    assert not store.has(absent)
    for use in (lambda: store.get(absent, 100), lambda: store.get_digest(digest_of(absent), 100)):
        with pytest.raises(NotFound):
            use()
    for data in (b"", SMALL, LARGE, bytes(175 * PROFILE.chunk_size)):
        cid = store.put_bytes(data)
        assert cid == cid_of_bytes(data)
        assert store.has(cid)
        store.pin(cid)
        assert store.get(cid, len(data)) == data
        assert store.get_digest(digest_of(cid), len(data)) == data
        assert store.get_file(cid, tmp_path / "out", len(data)) == len(data)
    with pytest.raises(TooLarge):
        store.get(cid_of_bytes(LARGE), 1000)
    store.close()
