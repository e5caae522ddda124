# SPDX-License-Identifier: Apache-2.0
"""What agents stand on gives way: the chain's history, its node, the store, an aggregator.

Each time the round completes and nobody is slashed.
"""

from __future__ import annotations

import signal
import time

import pytest

from agents.protocol.numbers import Phase
from tests.stage.network import LocalNetwork

TRAINERS = ("trainer-1", "trainer-2", "trainer-3")
OUTAGE_S = 10.0


def _committed(local: LocalNetwork, job: int) -> set[int]:
    return local.network.committed(job, 1, [local.node_id(name) for name in TRAINERS])


def _reorganise(local: LocalNetwork, depth: int) -> None:
    """Replace the newest `depth` blocks by empty ones; their transactions are gone."""
    local.net.anvil.rpc("anvil_reorg", depth, [])
    local.forget()


def _depth_of(local: LocalNetwork, block: int) -> int:
    """How many blocks must go for `block` to be the first that does."""
    return local.network.chain.head().number - block + 1


def test_nodes_commit_again_after_a_reorg(local: LocalNetwork) -> None:
    """Two of three have committed when the chain forgets it, and the round's seed with it."""
    with local.frozen("trainer-3"):
        job = local.job()
        mine = {local.node_id(name) for name in TRAINERS[:2]}
        local.until(lambda: mine <= _committed(local, job), "two trainers committed")
        seed = bytes(local.round(job).seed)
        _reorganise(local, _depth_of(local, int(local.round(job).opened_block) + 1))
        assert not _committed(local, job)
    local.finish(job)
    local.assert_whole(job)
    assert bytes(local.round(job).seed) != seed  # so everybody trained other batches


def test_nodes_go_on_after_a_reorg_takes_back_the_round(local: LocalNetwork) -> None:
    """The transaction that opened the round is gone as well."""
    with local.frozen("trainer-3"):
        job = local.job()
        mine = {local.node_id(name) for name in TRAINERS[:2]}
        local.until(lambda: mine <= _committed(local, job), "two trainers committed")
        _reorganise(local, _depth_of(local, int(local.round(job).opened_block)))
    local.finish(job)
    local.assert_whole(job)


def test_nodes_reveal_again_after_a_reorg(local: LocalNetwork) -> None:
    """Two of three have revealed when the chain forgets that; commitments and seed stay."""
    job = local.job()
    nodes = [local.node_id(name) for name in TRAINERS]
    with local.frozen("trainer-2"):
        local.until(lambda: len(_committed(local, job)) == 2, "two trainers committed")
        with local.frozen("trainer-3"):
            local.net.supervisor["trainer-2"].signal_group(signal.SIGCONT)
            local.until_phase(job, Phase.REVEAL)
            start = local.network.chain.head().number
            local.until(
                lambda: len(local.network.in_round("is_revealed", job, 1, nodes)) == 2,
                "two trainers revealed",
            )
            _reorganise(local, _depth_of(local, start + 1))
            assert not local.network.in_round("is_revealed", job, 1, nodes)
    local.finish(job)
    local.assert_whole(job)


@pytest.mark.chaos
def test_aggregators_propose_again_after_a_reorg(local: LocalNetwork) -> None:
    """The proposal, and the blocks of the audit seed with it, are gone."""
    with local.frozen(*local.names("verifier")):
        job = local.job()
        local.until_phase(job, Phase.CHALLENGE)
        opened = int(local.round(job).opened_block)
        events = local.network.chain.events(
            local.network.rounds, "Revealed", opened, local.network.chain.head().number
        )
        _reorganise(local, _depth_of(local, max(event.block for event in events)))
        assert local.phase(job) < Phase.CHALLENGE
    local.finish(job)
    local.assert_whole(job)


@pytest.mark.chaos
@pytest.mark.parametrize("phase", [Phase.REVEAL, Phase.AGGREGATE, Phase.CHALLENGE])
def test_nobody_is_slashed_for_an_rpc_outage_in(local: LocalNetwork, phase: Phase) -> None:
    """As below, later in the round."""
    job = local.job()
    local.until_reached(job, phase)
    _outage(local)
    local.finish(job)
    local.assert_whole(job)


def _outage(local: LocalNetwork) -> None:
    """The node accepts connections and says nothing."""
    with local.frozen("anvil"):
        over = time.monotonic() + OUTAGE_S
        local.until(lambda: time.monotonic() >= over, "the outage is over")


def test_nobody_is_slashed_for_an_rpc_outage_of_ten_seconds(local: LocalNetwork) -> None:
    """The node stops answering in the middle of a round."""
    job = local.job()
    local.until_phase(job, Phase.COMMIT)
    _outage(local)
    local.finish(job)
    local.assert_whole(job)


def test_a_trainer_with_a_full_disk_commits_once_there_is_room(local: LocalNetwork) -> None:
    """It can't keep its secret, so it does not commit; nothing is lost when the disk has room."""
    with local.full_disk("trainer-1"):
        job = local.job()
        others = {local.node_id(name) for name in TRAINERS[1:]}
        local.until(lambda: others <= _committed(local, job), "two trainers committed")
        over = time.monotonic() + 2.0
        local.until(lambda: time.monotonic() >= over, "the third had time to commit")
        assert _committed(local, job) == others
    local.finish(job)
    local.assert_whole(job)


def test_a_round_goes_on_without_a_payload_that_the_store_lost(local: LocalNetwork) -> None:
    """A revealed payload is gone before anybody else read it: the round goes on without it."""
    readers = local.names("aggregator", "verifier")
    with local.frozen(*readers):
        job = local.job()
        local.until_phase(job, Phase.AGGREGATE)
        opened = int(local.round(job).opened_block)
        reveal = local.network.reveals(job, 1, opened)[local.node_id("trainer-1")]
        name = reveal.content.hex()
        lost = list(local.net.store.rglob(f"{name}.*"))
        assert lost
        for path in lost:
            path.unlink()
    # The others wait for it as long as there is time, so some time must pass.
    local.skip_deadline(job, share=0.6)
    local.until_phase(job, Phase.CHALLENGE)
    local.skip_deadline(job, share=0.6)
    local.finish(job)
    history = local.assert_whole(job, accepted=TRAINERS[1:])
    report = history.rounds[1].report
    assert report is not None
    line = next(line for line in report.nodes if line.node == local.node_id("trainer-1"))
    assert (line.accepted, line.contribution) == (False, 0)
    assert line.reason.startswith("unavailable")


def test_a_verifier_proposes_where_no_aggregator_does(local: LocalNetwork) -> None:
    """Both aggregators are gone: after the duty window a verifier proposes."""
    local.stop("aggregator-1", "aggregator-2")
    job = local.job()
    local.until_phase(job, Phase.AGGREGATE)
    duty = int(local.round(job).deadline)
    local.skip_deadline(job)
    local.until(lambda: int(local.round(job).deadline) > duty, "the fallback window is open")
    local.skip_deadline(job, share=0.6)
    local.finish(job)
    local.assert_whole(job)
    proposer = int(local.round(job).proposer)
    assert proposer in {local.node_id(name) for name in local.names("verifier", "trainer")}
