# SPDX-License-Identifier: Apache-2.0
"""What a node published that is no file is the node's lie, and no other bytes of the store's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from agents.audit.sources.artefacts import Artefacts, take_failures
from agents.audit.sources.findings import Part
from agents.storage.cid import DAG_PB, PROFILE, RAW, _inner_block, cid_from_digest
from agents.storage.errors import CorruptContent, NoSuchFile
from agents.storage.ipfs import IpfsStore
from agents.storage.sink import Sink
from scripts._net.kubo import KuboServer
from tests.stage.served import serving

MOST = 1 << 24
NODE = "node 3"


@pytest.fixture
def kubo() -> Iterator[KuboServer]:
    with serving(KuboServer()) as server:
        yield server


@pytest.fixture
def artefacts(kubo: KuboServer) -> Iterator[Artefacts]:
    store = IpfsStore(kubo.address, attempts=2, backoff_s=0.005)
    yield Artefacts(store)
    store.close()


def serve(kubo: KuboServer, root: bytes, *leaves: bytes) -> str:
    """Have a daemon serve blocks, and as the file below them what a reader of it joins."""
    for block in (root, *leaves):
        kubo.blocks[hashlib.sha256(block).hexdigest()] = block
    cid = cid_from_digest(hashlib.sha256(root).digest(), DAG_PB)
    kubo.plant(cid, b"".join(leaves))
    return cid


def lying_root(kubo: KuboServer) -> str:
    """The root of a file of two leaves, the second of which is shorter than the root says."""
    leaves = bytes(PROFILE.chunk_size), b"short"
    links = [
        (bytes((1, RAW)) + b"\x12\x20" + hashlib.sha256(leaf).digest(), size, size)
        for leaf, size in zip(leaves, (PROFILE.chunk_size, 1000), strict=True)
    ]
    return serve(kubo, _inner_block(links), *leaves)


class Ignored(Sink):
    def begin(self) -> None:
        pass

    def write(self, data: object, /) -> None:
        pass


def test_a_root_that_lies_about_a_leaf_is_remarked(kubo: KuboServer, artefacts: Artefacts) -> None:
    """The report has left the node out, which was right: the audit holds, whoever serves it."""
    cid = lying_root(kubo)
    artefacts.name(cid, f"payload of {NODE}")
    with pytest.raises(NoSuchFile):
        artefacts.get(cid, MOST)
    part = Part(1)
    take_failures(artefacts, part, "artefacts", [NODE])
    assert not part.differences
    assert any("is no file, whoever serves it" in remark for remark in part.remarks)


def test_of_nobody_who_is_excused_it_is_a_difference(
    kubo: KuboServer, artefacts: Artefacts
) -> None:
    cid = lying_root(kubo)
    artefacts.name(cid, "report")
    with pytest.raises(NoSuchFile):
        artefacts.stream(cid, Ignored(), MOST)
    part = Part(1)
    take_failures(artefacts, part, "artefacts", [NODE])
    assert [d.subject for d in part.differences] == ["report"]


def test_a_folder_that_is_named_as_a_trace_is_remarked(
    kubo: KuboServer, artefacts: Artefacts
) -> None:
    cid = serve(kubo, b"\x0a\x02\x08\x01")  # an empty UnixFS directory
    del kubo.files[cid]
    artefacts.name(cid, f"trace of {NODE}")
    kubo.faults.append("error:this dag node is a directory")
    with pytest.raises(NoSuchFile):
        artefacts.get(cid, MOST)
    part = Part(1)
    take_failures(artefacts, part, "artefacts", [NODE])
    assert not part.differences and len(part.remarks) == 1


def test_other_bytes_of_a_file_are_the_stores_lie_as_before(
    kubo: KuboServer, artefacts: Artefacts
) -> None:
    data = bytes(range(256)) * 2048
    options = {"chunker": "size-262144", "max-file-links": "174", "raw-leaves": "true"}
    cid = kubo.add(data, {**options, "cid-version": "1"})
    kubo.plant(cid, data[:-1] + b"\0")
    artefacts.name(cid, f"payload of {NODE}")
    with pytest.raises(CorruptContent) as caught:
        artefacts.get(cid, MOST)
    assert not isinstance(caught.value, NoSuchFile)
    part = Part(1)
    take_failures(artefacts, part, "artefacts", [NODE])
    assert [d.subject for d in part.differences] == [f"payload of {NODE}"]
