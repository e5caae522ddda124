# SPDX-License-Identifier: Apache-2.0
"""A sponsor at a terminal: encrypted data from `keys new` to the name of who leaked keys.

`keys new` and `keys serve` are typed with `ape run`; the rest runs in this process.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.jobs.publish import publish_job
from agents.protocol.network import Network
from agents.rounds.data_access import DataAccess
from agents.runtime.wallet import read_keystore
from agents.storage.embedded import EmbeddedStore
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import TERMS, People
from tests.stage.memory.tiny_specs import tiny_model
from tests.stage.terminal import PASSPHRASE as TERMINAL
from tests.stage.terminal import Terminal

TEXT = b"".join(b"crane %d nests in sector %d\n" % (i, i * 7 % 90) for i in range(1200))
FIELDS = {
    "rounds": 2,
    "batches_per_round": 160,
    "model": tiny_model(16, 32, 16),
    "optimizer": {"batch_size": 4, "seq_len": 16},
}


def test_a_sponsor_gives_keys_and_finds_who_leaked_them(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        agents = RunningAgents(people, tmp_path, stack)
        terminal = Terminal(tmp_path)
        store = tmp_path / "store"
        chain = f"--network {people.chain._url}"
        files = f"--deployment {agents.deployment} --store {store}"
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

        ann, bob = people.nodes["ann"], people.nodes["bob"]
        access = {}
        for node in (ann, bob):
            context = agents.begin(node, "trainer")
            network = Network(context.chain, context.deployment)
            access[node] = DataAccess(network, EmbeddedStore(store), context)
            while access[node].step(job, node.node_id):
                pass
        people.chain._nonces.clear()
        own = people.job
        people.job = job
        people.open()
        reading = f"{chain} {job}"
        assert "Nobody was given a key" in terminal.here(f"keys list {reading} {files}")
        serve = f"ape run keys serve {chain} --account me {job} --key {key} --once --yes {files}"
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
        people.job = own
