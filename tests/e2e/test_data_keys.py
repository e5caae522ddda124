# SPDX-License-Identifier: Apache-2.0
"""A job on encrypted data: real agents ask for the key, train on what it opens, and are checked."""

from __future__ import annotations

import inspect
import json
import pathlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from agents.jobs.disclosed import SPONSOR, Disclosures
from agents.jobs.publish import publish_job
from agents.protocol.numbers import JobStatus
from agents.rounds.models import Models
from agents.rounds.plan import Plans
from agents.rounds.shards import NeededShards
from agents.runtime.contracts import Contract
from agents.storage.key_release import node_reader
from agents.storage.sealed import key_id_of, new_key
from agents.training.sealed_data import key_for
from scripts._report.story import losses
from scripts._shared.discloser import Discloser
from scripts._shared.keyholder import Keyholder, record
from tests.stage.network import SPEC, TERMS, LocalNetwork

KEY = new_key()


def sponsor_of(local: LocalNetwork) -> Callable[[Contract, str, tuple[Any, ...]], Any]:
    def send(contract: Contract, function: str, args: tuple[Any, ...]) -> Any:
        batch = local.net.batch()
        batch.add(local.net.sponsor, local.net.contract(contract.name).functions[function](*args))
        return batch.settle()

    return send


def test_nobody_trains_on_encrypted_data_before_it_has_the_key(local: LocalNetwork) -> None:
    """Nobody trains before the key is released; then the round is final and everyone is paid."""
    text = inspect.getsource(json).encode() + inspect.getsource(inspect).encode()
    published = publish_job(local.store, [text], {**SPEC, "rounds": 1}, data_key=KEY, one_key=True)
    job = local.net.create_job(published, TERMS, 1)
    local.jobs.append(job)
    sponsor = local.net.sponsor.address
    holder = Keyholder(local.network, job, KEY, sponsor, sponsor_of(local), lambda text: None)
    assert holder.announce() is True

    holders = {local.node_id(name) for name in local.names("trainer", "verifier", "aggregator")}
    local.until(lambda: {e.node for e in record(local.network, job)} == holders, "all have asked")
    local.until(lambda: local.network.job(job).rounds_opened == 1, "the round is open")
    assert local.round(job).n_committed == 0
    assert holder.step() == sorted(holders)

    history = local.finish(job)
    local.assert_whole(job)
    before, after = losses(history)
    assert after < before
    received = record(local.network, job)
    assert {entry.node for entry in received if entry.released_block} == holders
    assert {entry.key_id for entry in received} == {key_id_of(KEY)}
    shown = b"".join(
        path.read_bytes() for path in local.net.directory.parent.rglob("*") if path.is_file()
    )
    for hidden in (KEY, KEY.hex().encode(), b"def getsource("):
        assert hidden not in shown


def test_each_node_is_given_the_keys_of_its_own_shards_and_learns_no_others(
    local: LocalNetwork,
) -> None:
    """Two rounds on shards with a key each: who was given which is what the chain assigned."""
    text = b"".join(inspect.getsource(module).encode() for module in (json, inspect, pathlib))
    fields = {**SPEC, "rounds": 2, "audit_sample": 1}
    published = publish_job(local.store, [text], fields, data_key=KEY, shard_bytes=1024)
    job = local.net.create_job(published, TERMS, 2)
    local.jobs.append(job)
    sponsor = local.net.sponsor.address
    giver = Discloser(
        local.network, local.store, job, KEY, sponsor, sponsor_of(local), lambda text: None
    )
    models = Models(local.network, local.store, lambda _: KEY)
    plans = Plans(local.network, models)
    needed = NeededShards(local.network, models, plans)

    local.until(lambda: local.network.job(job).rounds_opened == 1, "the round is open")
    assert local.round(job).n_committed == 0

    def over() -> bool:
        giver.step()
        return local.network.job(job).status == JobStatus.COMPLETED

    local.until(over, "the job is complete")
    local.finish(job)
    local.assert_whole(job)

    given: dict[str, set[int]] = defaultdict(set)
    files = Disclosures(local.network, local.store, job).read({sponsor: SPONSOR})
    for one in files:
        for entry in one.release.readers:
            given[entry.reader] |= set(entry.items)
    measured = needed.to_measure(job)
    shards = len(models.job(job).data.dataset.shards)
    for name in local.names("trainer"):
        node = local.node_id(name)
        due = {s for r in (1, 2) for s in needed.to_train(job, plans.past(job, r), node)}
        assert given[node_reader(node)] == due
        assert not due & measured
        assert len(due) < shards * 0.75
    for name in local.names("aggregator"):
        assert given[node_reader(local.node_id(name))] == measured
    for name in local.names("verifier"):
        assert measured <= given[node_reader(local.node_id(name))]
    assert len(files) <= 2 * 4  # two rounds: the assignment, the draw, and stragglers
    shown = b"".join(
        path.read_bytes() for path in local.net.directory.parent.rglob("*") if path.is_file()
    )
    assert KEY not in shown
    assert b"def getsource(" not in shown
    for index in range(shards):
        key = key_for(models.job(job).data.dataset, KEY)(index)
        assert key not in shown
        assert key.hex().encode() not in shown
