# SPDX-License-Identifier: Apache-2.0
"""A sponsor at a terminal: encrypted data from `keys new` to the name of who leaked keys.

`keys new` and `keys serve` are typed with `ape run`; the rest runs in this process.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.jobs.publish import publish_job
from agents.protocol.network import Network
from agents.rounds.data_access import DataAccess
from agents.runtime.wallet import read_keystore
from agents.storage.embedded import EmbeddedStore
from scripts._net.compiled import ROOT
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import TERMS, Node, People
from tests.stage.memory.tiny_specs import tiny_model
from tests.stage.terminal import PASSPHRASE as TERMINAL
from tests.stage.terminal import Terminal, until

TEXT = b"".join(b"crane %d nests in sector %d\n" % (i, i * 7 % 90) for i in range(1200))
FIELDS = {
    "rounds": 2,
    "batches_per_round": 160,
    "model": tiny_model(16, 32, 16),
    "optimizer": {"batch_size": 4, "seq_len": 16},
}


@dataclass
class Sponsored:
    """An encrypted job in its first round, and its sponsor's terminal.

    `access`: of the nodes that have asked for keys.
    """

    terminal: Terminal
    access: dict[Node, DataAccess]
    job: int
    sponsor: str
    chain: str
    files: str
    key: str

    @property
    def serve(self) -> str:
        """The line that gives keys, without `--once`."""
        who = f"--account me {self.job} --key {self.key} --yes"
        return f"ape run keys serve {self.chain} {who} {self.files}"


@pytest.fixture
def sponsored(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sponsored]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        agents = RunningAgents(people, tmp_path, stack)
        terminal = Terminal(tmp_path)
        store = tmp_path / "store"
        key = f"{tmp_path / 'crane.key'} --passphrase-env MENAGERIE_PASSPHRASE"
        assert "Back it up" in terminal.type(f"ape run keys new {key}")
        secret = read_keystore(str(tmp_path / "crane.key"), TERMINAL)
        published = publish_job(
            EmbeddedStore(store), [TEXT], FIELDS, data_key=secret, shard_bytes=1024
        )
        funds = 2 * TERMS.reward_per_round
        sponsor = people.person("encrypted sponsor", funds)
        terminal.has("me", bytes(sponsor.key))
        job = people.create_job(sponsor, TERMS.encode(published), funds)
        access = {}
        for node in (people.nodes["ann"], people.nodes["bob"]):
            context = agents.begin(node, "trainer")
            network = Network(context.chain, context.deployment)
            access[node] = DataAccess(network, EmbeddedStore(store), context)
            while access[node].step(job, node.node_id):
                pass
        people.chain._nonces.clear()
        own = people.job
        people.job = job
        people.open()
        chain = f"--network {people.chain._url}"
        files = f"--deployment {agents.deployment} --store {store}"
        yield Sponsored(terminal, access, job, sponsor.address, chain, files, key)
        people.job = own
        people.chain._nonces.clear()


def test_a_sponsor_gives_keys_and_finds_who_leaked_them(
    sponsored: Sponsored, people: People, tmp_path: Path
) -> None:
    terminal, access, job = sponsored.terminal, sponsored.access, sponsored.job
    files, serve = sponsored.files, f"{sponsored.serve} --once"
    ann, bob = access
    reading = f"{sponsored.chain} {job}"
    assert "Nobody was given a key" in terminal.here(f"keys list {reading} {files}")
    said = terminal.type(serve)
    assert re.search(rf"Round 1: node {ann.node_id} was given (keys|the key) of", said)
    assert "was given" not in terminal.here(serve), "nobody is served twice"
    listed = terminal.here(f"keys list {reading} {files}")
    assert f"node {bob.node_id}" in listed and "received which key" not in listed

    held = access[ann].keys_of_shards(job, ann.node_id)
    leak = tmp_path / "leak.txt"
    leak.write_text("\n".join(key.hex() for key in held.values()))
    named = terminal.here(f"keys leaked {reading} {leak} {files}")
    assert f"Who had been given all of them: node {ann.node_id}; and the sponsor." in named
    both = {**held, **access[bob].keys_of_shards(job, bob.node_id)}
    leak.write_text("\n".join(key.hex() for key in both.values()))
    said = terminal.here(f"keys leaked {reading} {leak} {files}")
    assert "several put theirs together" in said
    leak.write_text("ab" * 32)
    said = terminal.here(f"keys leaked {reading} {leak} {files}")
    assert "None of these 1 keys opens a shard" in said
    leak.write_text("crane")
    assert "keys in hex" in terminal.here(f"keys leaked {reading} {leak} {files}", fails=True)


@pytest.mark.parametrize("program", ["ape run", "menagerie"])
def test_serving_goes_on_once_the_node_takes_its_transactions_again(
    sponsored: Sponsored, people: People, tmp_path: Path, program: str
) -> None:
    """Ether that has run out ended the command until 2026-11-30, so nobody was given a key any
    more. It is said once, however often it is tried."""
    balance = people.chain.rpc("eth_getBalance", sponsored.sponsor, "latest")
    people.chain.rpc("anvil_setBalance", sponsored.sponsor, hex(1))
    words = [str(Path(sys.executable).with_name("ape")), "run"]
    if program == "menagerie":
        words = [sys.executable, "-c", "from scripts._wheel.command import cli; cli()"]
    words += sponsored.terminal._words_of(sponsored.serve)[2:]
    told = tmp_path / "served.log"
    with told.open("wb") as out:
        serving = subprocess.Popen(
            [*words, "--every", "0.1"],
            cwd=ROOT,
            env={**sponsored.terminal.env, "PYTHONUNBUFFERED": "1"},
            stdout=out,
            stderr=subprocess.STDOUT,
            # A check that runs in the background of a shell ignores it, and so would this.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:

        def said(what: str) -> bool:
            assert serving.poll() is None, told.read_text()
            return told.read_text().count(what) > 0

        until(lambda: said("Trying again."), "it has said what it waits for")
        time.sleep(2.0)
        tries = [line for line in told.read_text().splitlines() if "Trying again." in line]
        assert len(tries) == len(set(tries)), tries
        people.chain.rpc("anvil_setBalance", sponsored.sponsor, balance)
        until(lambda: said("was given"), "keys are given")
    finally:
        serving.send_signal(signal.SIGINT)
        serving.wait(60)
    assert "Traceback" not in told.read_text(), told.read_text()
