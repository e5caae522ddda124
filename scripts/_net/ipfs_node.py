# SPDX-License-Identifier: Apache-2.0
"""A stub of an IPFS node, for networks on a machine where no IPFS daemon runs.

It speaks the RPC calls of Kubo that the agents' client uses, keeps what it has in memory, and knows
its peers by their addresses. What it lacks it asks of them over HTTP, one after another, and takes
only bytes that have the CID asked for. Run: `python -m scripts._net.ipfs_node PORT PEER_PORT...`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from urllib.parse import urlencode

import urllib3

from agents.storage.cid import PROFILE, cid_of_bytes, digest_of
from agents.storage.errors import InvalidCid
from scripts._net.kubo import KuboHandler, KuboServer

_PATIENCE = urllib3.Timeout(connect=2.0, read=20.0)
_AS_OURS = {
    "chunker": f"size-{PROFILE.chunk_size}",
    "max-file-links": str(PROFILE.max_links),
    "raw-leaves": "true",
    "cid-version": "1",
    "pin": "false",
}


class StubNode(KuboServer):
    """One stub. `peers`: the ports of the others on this machine."""

    request_queue_size = 128

    def __init__(self, port: int, peers: Sequence[int]) -> None:
        super().__init__(port, _Handler)
        self._peers = list(peers)
        self._http = urllib3.PoolManager(num_pools=len(self._peers) + 1, maxsize=4)
        self.taken = 0  # bytes that came from peers

    def find(self, call: str, cid: str) -> None:
        """Ask the peers for what `call` needs of `cid`, unless it is here; keep what is right."""
        try:
            digest = digest_of(cid)
        except InvalidCid:
            return
        if cid in self.files or (call == "block/get" and digest.hex() in self.blocks):
            return
        wanted = "block/get" if call == "block/get" else "cat"
        for peer in list(self._peers):
            data = self._ask(peer, wanted, cid)
            if data is None:
                continue
            if wanted == "block/get" and hashlib.sha256(data).digest() == digest:
                self.blocks[digest.hex()] = data
            elif wanted == "cat" and cid_of_bytes(data) == cid:
                self.add(data, _AS_OURS)
            else:
                continue  # other bytes than were asked for: the next peer may have them
            self.taken += len(data)
            return

    def _ask(self, peer: int, call: str, cid: str) -> bytes | None:
        """What a peer has itself under a CID, None if it has nothing or does not answer."""
        url = f"http://127.0.0.1:{peer}/api/v0/{call}?{urlencode({'arg': cid, 'offline': 'true'})}"
        try:
            reply = self._http.request("POST", url, timeout=_PATIENCE, retries=False)
        except urllib3.exceptions.HTTPError:
            return None
        return reply.data if reply.status == 200 else None


class _Handler(KuboHandler):
    server: StubNode

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        """Answer from what is here; ask the peers first, unless a peer asks."""
        cid = options.get("arg", "")
        if call == "stats/bw":
            self.send_json({"TotalIn": self.server.taken})
        elif call == "pin/ls" and not cid:
            pins = sorted(self.server.pins)
            self.send_json({"Keys": {pin: {"Type": "recursive"} for pin in pins}})
        else:
            if call in ("cat", "block/get", "pin/add") and options.get("offline") != "true":
                self.server.find(call, cid)
            super().answer(call, options, body, fault)


def main() -> None:
    """Serve until the process is ended."""
    port, *peers = map(int, sys.argv[1:])
    StubNode(port, peers).serve_forever()


if __name__ == "__main__":
    main()
