# SPDX-License-Identifier: Apache-2.0
"""Stubs of IPFS nodes: what one holds the others get from it over HTTP, and nothing false from a
peer that lies. Which stores a demo gets from its setting `--store`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore, open_store
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from scripts._net.compiled import ROOT
from scripts._net.ipfs_node import StubNode
from scripts._net.ipfs_nodes import Daemon, Stubs, find_ipfs
from scripts._net.kubo import KuboServer
from scripts._net.ports import free_port
from scripts._net.processes import ProcessError, Supervisor
from tests.stage.served import serving

SMALL, LARGE = b"one block", bytes(range(256)) * 4_096  # of one block, and of several
NAMES = ("ann", "bob", "eve")


def _url(server: KuboServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


@contextmanager
def opened(url: str) -> Iterator[ContentStore]:
    store = open_store(url, timeout_s=60)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """Three stubs, each a process of its own."""
    made = Stubs()
    with Supervisor(tmp_path_factory.mktemp("logs"), ROOT) as supervisor:
        made.start(supervisor, NAMES)
        yield made


def test_what_one_node_holds_the_others_get_from_it(stubs: Stubs, tmp_path: Path) -> None:
    with ExitStack() as stack:
        ann, bob, eve = (stack.enter_context(opened(stubs.address(name))) for name in NAMES)
        before = stubs.exchanged() or 0
        small, large = ann.put_bytes(SMALL), ann.put_bytes(LARGE)
        assert ann.has(large) and not bob.has(large)
        assert stubs.exchanged() == before
        assert bob.get(large, len(LARGE)) == LARGE
        assert stubs.exchanged() == before + len(LARGE)
        assert bob.get(large, len(LARGE)) == LARGE, "now from its own memory"
        assert stubs.exchanged() == before + len(LARGE)
        assert not bob.has(large), "read, not pinned"
        bob.pin(large)
        assert bob.has(large)
        assert eve.get_digest(digest_of(large), len(LARGE)) == LARGE
        assert eve.get_digest(digest_of(small), len(SMALL)) == SMALL
        with pytest.raises(NotFound):
            eve.get(cid_of_bytes(b"nobody has it"), 100)
        with pytest.raises(NotFound):
            eve.get_digest(digest_of(cid_of_bytes(b"nobody has it")), 100)
    stubs.copy_to(tmp_path / "copies")
    copies = EmbeddedStore(tmp_path / "copies")
    assert copies.get(large, len(LARGE)) == LARGE and copies.get(small, len(SMALL)) == SMALL


def test_a_peer_that_lies_or_is_gone_is_passed_over() -> None:
    """The first peer does not listen, the second sends other bytes, the third has them."""
    cid = cid_of_bytes(LARGE)
    with ExitStack() as stack:
        liar, honest = KuboServer(), KuboServer()
        liar.plant(cid, LARGE[:-1] + b"!")
        liar.blocks[digest_of(cid).hex()] = b"another block"
        peers = [free_port(), liar.server_address[1], honest.server_address[1]]
        for server in (liar, honest):
            stack.enter_context(serving(server))
        node = StubNode(0, peers)
        mine = stack.enter_context(opened(_url(stack.enter_context(serving(node)))))
        with pytest.raises(NotFound):
            mine.get(cid, len(LARGE))
        with pytest.raises(NotFound):
            mine.get_digest(digest_of(cid), len(LARGE))
        assert node.taken == 0 and not node.files and not node.blocks
        stack.enter_context(opened(f"http://127.0.0.1:{peers[2]}")).put_bytes(LARGE)
        assert mine.get(cid, len(LARGE)) == LARGE
        assert [call for call, _ in liar.calls].count("cat") == 2


def test_a_question_of_a_peer_is_not_passed_on() -> None:
    """Two nodes that ask each other for what neither has would ask for ever."""
    with ExitStack() as stack:
        first = StubNode(0, [])
        second = StubNode(0, [first.server_address[1]])
        first._peers.append(second.server_address[1])
        ours = stack.enter_context(opened(_url(stack.enter_context(serving(first)))))
        stack.enter_context(serving(second))
        with pytest.raises(NotFound):
            ours.get(cid_of_bytes(SMALL), 100)
        assert len(first.calls) == len(second.calls) == 1


def test_the_setting_names_a_folder_a_daemon_or_stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = "scripts._net.ipfs_nodes._USUAL"
    monkeypatch.setattr(usual, f"/ip4/127.0.0.1/tcp/{free_port()}")
    assert find_ipfs("folder") is None
    assert isinstance(find_ipfs("ipfs"), Stubs)
    with serving(KuboServer()) as daemon:
        url = _url(daemon)
        for found in (find_ipfs(url), find_ipfs("ipfs", url)):
            assert isinstance(found, Daemon)
            assert found.address("anybody") == found.stays == url and url in found.said
        monkeypatch.setattr(usual, daemon.address)
        found = find_ipfs("ipfs")
        assert isinstance(found, Daemon) and found.stays == daemon.address


@pytest.mark.parametrize("asked", ["ipfs", "given"])
def test_a_daemon_that_was_named_and_does_not_answer_is_told(asked: str) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ProcessError, match="runs stubs where there is none"):
        find_ipfs(gone) if asked == "given" else find_ipfs("ipfs", gone)


def test_a_folder_is_no_daemon(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="is a folder"):
        find_ipfs(str(tmp_path))
