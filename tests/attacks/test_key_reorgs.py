# SPDX-License-Identifier: Apache-2.0
"""A reorganisation after a node asked for a data key: question and answer are in earlier blocks."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agents.jobs.keys import DataKeyDuty
from agents.protocol.network import Network
from agents.runtime.contracts import Contract
from agents.storage.embedded import EmbeddedStore
from agents.training.sealed_data import pack_sealed
from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from scripts._shared.keyholder import Keyholder
from tests.attacks.conftest import TinyJob
from tests.attacks.test_data_keys import KEY, TEXT, Agent, Sealed, sender_of
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.chain import Chain
from tests.stage.chain.people import TERMS, TRAINERS, found


def sent(chain: Chain, contract: Contract, event: str) -> str:
    """The signed transaction of the newest event of this name."""
    topic = "0x" + contract.event(event).topic.hex()
    query = {"address": contract.address, "topics": [topic], "fromBlock": "0x0"}
    tx = chain.rpc("eth_getLogs", query)[-1]["transactionHash"]
    return str(chain.rpc("eth_getRawTransactionByHash", tx))


def test_a_key_released_in_an_earlier_block_than_it_was_asked_for_in__is_found(
    tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has the block of the first question. On the other branch both question and answer
    are in blocks before that one: the node looked for the answer where it is not, at each step,
    and never had the key of the job's data."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with Supervisor(tmp_path / "logs") as supervisor, ExitStack() as stack:
        people = found(start_anvil(supervisor, tmp_path).url, TRAINERS[:2])
        sponsor, ann, chain = people.person("sponsor"), people.nodes["ann"], people.chain
        store = EmbeddedStore(tmp_path / "sealed")
        data = pack_sealed(TEXT, store, KEY, shard_bytes=4096)
        spec = tiny.published.spec.model_copy(update={"access": "encrypted", "data": data})
        spec_cid = store.put_bytes(spec.to_bytes())
        terms = TERMS.encode(replace(tiny.published, spec=spec, spec_cid=spec_cid))
        job = Sealed(people.create_job(sponsor, terms, 0), spec, store)
        context = RunningAgents(people, tmp_path, stack).begin(ann, "trainer")
        network = Network(context.chain, context.deployment)
        trainer = Agent(ann, context, DataKeyDuty(network, context, lambda _: spec), job)
        send = sender_of(people, sponsor)
        holder = Keyholder(network, job.job_id, KEY, sponsor.address, send, lambda _: None)
        holder.announce()
        assert str(trainer.step()).startswith("published:")
        chain.rpc("anvil_mine", "0x6")
        trainer.ask()
        assert holder.step() == [ann.node_id]
        keys = context.deployment["DataKeys"]
        asked, given = (sent(chain, keys, name) for name in ("KeyRequested", "KeyReleased"))
        chain.rpc("anvil_reorg", 8, [[asked, 0], [given, 1]])
        assert trainer.step() == f"received: the key of job {job.job_id}"
        assert trainer.key == KEY
