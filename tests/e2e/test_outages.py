# SPDX-License-Identifier: Apache-2.0
"""What agents stand on gives way: the chain's history, its node, the store, an aggregator.

Each time the round completes and nobody is slashed.
"""

from __future__ import annotations

import signal
import time

import pytest

from agents.protocol.network import Phase
from tests.stage.network import World

TRAINERS = ("trainer-1", "trainer-2", "trainer-3")
OUTAGE_S = 10.0


def _committed(world: World, job: int) -> set[int]:
    return world.network.committed(job, 1, [world.node_id(name) for name in TRAINERS])


def _reorganise(world: World, depth: int) -> None:
    """Replace the newest `depth` blocks by empty ones; their transactions are gone."""
    world.net.anvil.rpc("anvil_reorg", depth, [])
    world.forget()


def _depth_of(world: World, block: int) -> int:
    """How many blocks must go for `block` to be the first that does."""
    return world.network.chain.head().number - block + 1


def test_reorg_takes_back_the_commitments(world: World) -> None:
    """Two of three have committed when the chain forgets it, and the round's seed with it."""
    with world.frozen("trainer-3"):
        job = world.job()
        mine = {world.node_id(name) for name in TRAINERS[:2]}
        world.until(lambda: mine <= _committed(world, job), "two trainers committed")
        seed = bytes(world.round(job).seed)
        _reorganise(world, _depth_of(world, int(world.round(job).opened_block) + 1))
        assert not _committed(world, job)
    world.finish(job)
    world.assert_whole(job)
    assert bytes(world.round(job).seed) != seed  # so everybody trained other batches


def test_reorg_takes_back_the_round(world: World) -> None:
    """The transaction that opened the round is gone as well."""
    with world.frozen("trainer-3"):
        job = world.job()
        mine = {world.node_id(name) for name in TRAINERS[:2]}
        world.until(lambda: mine <= _committed(world, job), "two trainers committed")
        _reorganise(world, _depth_of(world, int(world.round(job).opened_block)))
    world.finish(job)
    world.assert_whole(job)


def test_reorg_takes_back_the_reveals(world: World) -> None:
    """Two of three have revealed when the chain forgets that; commitments and seed stay."""
    job = world.job()
    nodes = [world.node_id(name) for name in TRAINERS]
    with world.frozen("trainer-2"):
        world.until(lambda: len(_committed(world, job)) == 2, "two trainers committed")
        with world.frozen("trainer-3"):
            world.net.supervisor["trainer-2"].signal_group(signal.SIGCONT)
            world.until_phase(job, Phase.REVEAL)
            start = world.network.chain.head().number
            world.until(
                lambda: len(world.network.in_round("is_revealed", job, 1, nodes)) == 2,
                "two trainers revealed",
            )
            _reorganise(world, _depth_of(world, start + 1))
            assert not world.network.in_round("is_revealed", job, 1, nodes)
    world.finish(job)
    world.assert_whole(job)


@pytest.mark.chaos
def test_reorg_takes_back_the_result(world: World) -> None:
    """The proposal, and the blocks of the audit seed with it, are gone."""
    with world.frozen(*world.names("verifier")):
        job = world.job()
        world.until_phase(job, Phase.CHALLENGE)
        opened = int(world.round(job).opened_block)
        events = world.network.chain.events(
            world.network.rounds, "Revealed", opened, world.network.chain.head().number
        )
        _reorganise(world, _depth_of(world, max(event.block for event in events)))
        assert world.phase(job) < Phase.CHALLENGE
    world.finish(job)
    world.assert_whole(job)


@pytest.mark.chaos
@pytest.mark.parametrize("phase", [Phase.REVEAL, Phase.AGGREGATE, Phase.CHALLENGE])
def test_rpc_gone_in(world: World, phase: Phase) -> None:
    """As below, later in the round."""
    job = world.job()
    world.until_reached(job, phase)
    _outage(world)
    world.finish(job)
    world.assert_whole(job)


def _outage(world: World) -> None:
    """The node accepts connections and says nothing."""
    with world.frozen("anvil"):
        over = time.monotonic() + OUTAGE_S
        world.until(lambda: time.monotonic() >= over, "the outage is over")


def test_rpc_gone_for_ten_seconds(world: World) -> None:
    """The node stops answering in the middle of a round."""
    job = world.job()
    world.until_phase(job, Phase.COMMIT)
    _outage(world)
    world.finish(job)
    world.assert_whole(job)


def test_store_loses_a_payload(world: World) -> None:
    """A revealed payload is gone before anybody else read it: the round goes on without it."""
    readers = world.names("aggregator", "verifier")
    with world.frozen(*readers):
        job = world.job()
        world.until_phase(job, Phase.AGGREGATE)
        opened = int(world.round(job).opened_block)
        reveal = world.network.reveals(job, 1, opened)[world.node_id("trainer-1")]
        name = reveal.content.hex()
        lost = list(world.net.store.rglob(f"{name}.*"))
        assert lost
        for path in lost:
            path.unlink()
    # The others wait for it as long as there is time, so some time must pass.
    world.skip_deadline(job, share=0.6)
    world.until_phase(job, Phase.CHALLENGE)
    world.skip_deadline(job, share=0.6)
    world.finish(job)
    history = world.assert_whole(job, accepted=TRAINERS[1:])
    report = history.rounds[1].report
    assert report is not None
    line = next(line for line in report.nodes if line.node == world.node_id("trainer-1"))
    assert (line.accepted, line.contribution) == (False, 0)
    assert line.reason.startswith("unavailable")


def test_no_aggregator_shows_up(world: World) -> None:
    """Both aggregators are gone: after the duty window a verifier proposes."""
    world.stop("aggregator-1", "aggregator-2")
    job = world.job()
    world.until_phase(job, Phase.AGGREGATE)
    duty = int(world.round(job).deadline)
    world.skip_deadline(job)
    world.until(lambda: int(world.round(job).deadline) > duty, "the fallback window is open")
    world.skip_deadline(job, share=0.6)
    world.finish(job)
    world.assert_whole(job)
    proposer = int(world.round(job).proposer)
    assert proposer in {world.node_id(name) for name in world.names("verifier", "trainer")}
