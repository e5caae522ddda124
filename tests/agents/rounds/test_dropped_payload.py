# SPDX-License-Identifier: Apache-2.0
"""A store that drops a payload between its reading and its keeping stops no proposer.

A daemon collects garbage when its disk fills up, and whoever revealed the payload serves it no
more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.rounds.reader import RoundReader
from agents.rounds.searches import Searches
from agents.storage.cid import cid_from_digest, digest_of
from agents.storage.errors import NotFound, StoreUnavailable
from agents.storage.ipfs import IpfsStore
from scripts._net.kubo import KuboServer
from tests.stage.memory.honest_round import DEVICE, NODES, SEED, ChainFacts, HonestRound
from tests.stage.served import serving

MOST = 1 << 24


@pytest.fixture
def kubo() -> Iterator[KuboServer]:
    with serving(KuboServer()) as server:
        yield server


@pytest.fixture
def reader(tiny: HonestRound, facts: ChainFacts, kubo: KuboServer) -> Iterator[RoundReader]:
    """Of a round of which all is on a daemon, and only the job's own files are pinned."""
    store = IpfsStore(kubo.address, attempts=2, backoff_s=0.005)
    files = [tiny.published.spec_cid, tiny.published.checkpoint_cid, tiny.job.spec.data]
    files += [shard.cid for shard in tiny.job.data.dataset.shards]
    facts.revealed = {node: tiny.reveal(node) for node in NODES}
    files += [cid_from_digest(one.content) for one in facts.revealed.values()]
    for cid in files:
        assert store.put_bytes(tiny.store.get(cid, MOST)) == cid
    found = RoundReader(facts, store, DEVICE)
    found._searches = Searches(clock=lambda: 0.0)  # the pause after a search is over
    yield found
    store.close()


def drop(kubo: KuboServer, cid: str) -> None:
    """Collect a file as garbage."""
    kubo.pins.discard(cid)
    del kubo.files[cid], kubo.blocks[digest_of(cid).hex()]


def test_it_is_looked_for_again_and_left_out_in_the_end(
    facts: ChainFacts, kubo: KuboServer, reader: RoundReader
) -> None:
    view = facts.open(1, SEED)
    submissions = reader.submissions(view)
    outcome = reader.outcome(view, submissions)
    assert outcome is not None and outcome.report.accepted() == {*NODES}
    drop(kubo, cid_from_digest(facts.revealed[5].content))
    with pytest.raises(NotFound):
        reader.publish(outcome)
    again = reader.submissions(view)
    assert [s.reveal.node for s in again if s.unavailable] == [5]
    without = reader.outcome(view, again)
    assert without is not None and without.report.accepted() == {*NODES} - {5}
    reader.publish(without)


def test_one_that_comes_back_is_merged(
    tiny: HonestRound, facts: ChainFacts, kubo: KuboServer, reader: RoundReader
) -> None:
    view, cid = facts.open(1, SEED), cid_from_digest(facts.revealed[5].content)
    outcome = reader.outcome(view, reader.submissions(view))
    assert outcome is not None
    drop(kubo, cid)
    with pytest.raises(NotFound):
        reader.publish(outcome)
    reader.store.put_bytes(tiny.store.get(cid, MOST))
    again = reader.outcome(view, reader.submissions(view))
    assert again is not None and again.report.accepted() == {*NODES}
    reader.publish(again)


def test_a_store_that_is_down_makes_nobody_read_anew(
    facts: ChainFacts, kubo: KuboServer, reader: RoundReader
) -> None:
    view = facts.open(1, SEED)
    outcome = reader.outcome(view, reader.submissions(view))
    assert outcome is not None
    kubo.faults.extend(["hang-up"] * 8)
    with pytest.raises(StoreUnavailable):
        reader.publish(outcome)
    kubo.faults.clear()
    kubo.calls.clear()
    reader.submissions(view)
    assert not kubo.calls
