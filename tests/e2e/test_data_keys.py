# SPDX-License-Identifier: Apache-2.0
"""A job on encrypted data: real agents ask for the key, train on what it opens, and are checked."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from agents.jobs.publish import publish_job
from agents.runtime.contracts import Contract
from agents.storage.sealed import key_id_of, new_key
from scripts._report.story import losses
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
