# SPDX-License-Identifier: Apache-2.0
"""A creator that sends its inputs slowly can't keep a process from saying that it lacks them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.storage import StoreError
from agents.storage.cid import PROFILE
from agents.storage.content_store import open_store
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.make import publish
from agents.tasks.process import TaskProcess
from agents.training.data import Dataset, Shard
from scripts._net.kubo import KuboHandler, KuboServer
from tests.stage.memory.task_inputs import TaskInputs

RUN_S = 16
SHARD = bytes(8 * PROFILE.chunk_size)  # 2 MiB, less than the task may read


class Slow(KuboHandler):
    """Passes a long file on at 128 KiB a second: fast enough for one operation of a store, and too
    slow for a task. All of it takes its whole time."""

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        if call != "cat" or len(self.server.files.get(options["arg"], b"")) < len(SHARD):
            super().answer(call, options, body, fault)
            return
        rest = self.server.files[options["arg"]][int(options.get("offset", 0)) :]
        self.send_response(200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        for first in range(0, len(rest), PROFILE.chunk_size):
            time.sleep(RUN_S / 8)
            try:
                self.wfile.write(rest[first : first + PROFILE.chunk_size])
            except OSError:  # the reader has given up
                return


@pytest.fixture
def server() -> Iterator[KuboServer]:
    server = KuboServer(handler=Slow)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_inputs_that_come_too_slowly_are_given_up_in_time(
    server: KuboServer, tmp_path: Path
) -> None:
    store = open_store(server.address)
    inputs = TaskInputs.build(store)
    shard = Shard(cid=store.put_bytes(SHARD), tokens=len(SHARD))
    slow = inputs.evaluate(data=store.put_bytes(Dataset(shards=(shard,)).to_bytes()))
    process = TaskProcess(server.address, "cpu")
    out = tmp_path / "out"
    try:
        with pytest.raises(StoreError, match="nobody reachable provides"):
            process.run(publish(slow, store), RUN_S, CPU, out)
        # The process is as good as before for inputs that come.
        assert process.run(publish(inputs.evaluate(), store), RUN_S, CPU, out).refusal is None
    finally:
        process.close()
        store.close()
