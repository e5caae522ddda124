# SPDX-License-Identifier: Apache-2.0
"""How long a node works for its score, and when it measures again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.nodes import benchmark, membership
from agents.nodes.membership import Membership
from agents.protocol.network import Network
from agents.runtime.config import TrainerSettings
from agents.storage.embedded import EmbeddedStore
from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.benchmarks import judge
from tests.stage.chain.people import Node, People, found

SEED = bytes(range(32))


def test_work_for_a_time_is_the_same_chain_of_chunks() -> None:
    few = benchmark.run_for(SEED, 0.0, 3, "cpu")
    assert few == benchmark.run(SEED, 3, device="cpu")
    seconds = 0.3
    while len(more := benchmark.run_for(SEED, seconds, 1, "cpu")) <= 3:  # a slow machine
        seconds *= 2
    assert more[:3] == few


@pytest.mark.parametrize("block_s", [1, 2, 12])
def test_a_block_more_or_less_is_within_a_tenth(block_s: int) -> None:
    """Wherever in a block the work begins and ends: scores of equal machines, by the formula."""
    work = TrainerSettings().benchmark_blocks * block_s
    scores = []
    for late in (0.01, 0.3, 0.6, 0.99):  # of a block: when the seed's block is seen
        for slow in (-0.004, 0.0, 0.004):  # the last chunk ends a little earlier or later
            done = (1 + late) * block_s + work * (1 + slow)
            mined = -(-done // block_s) * block_s  # the next block
            scores.append(benchmark.score(int(1_000 * work), int(mined)))
    middle = sum(scores) / len(scores)
    apart = max(abs(score - middle) for score in scores) / middle
    print(
        f"\nblocks of {block_s} s: error {apart:.1%}, largest over smallest "
        f"{max(scores) / min(scores):.3f}"
    )
    assert max(scores) / min(scores) < 1.1


@pytest.mark.parametrize(
    ("settings", "block_s", "left", "seconds"),
    [
        ({}, 0.0, 3_600.0, 20.0),  # the pace of the blocks is not known yet
        ({}, 12.0, 3_600.0, 240.0),
        ({}, 12.0, 300.0, 150.0),  # half of the window is for the answer to be mined in
        ({"benchmark_s": 50.0}, 2.0, 3_600.0, 50.0),
        ({"benchmark_blocks": 30}, 2.0, 3_600.0, 60.0),
        ({"benchmark_s": 0.2, "benchmark_blocks": 0}, 2.0, 3_600.0, 0.2),
        # After 256 blocks the seed is gone, and the answer would be refused, again and again.
        ({"benchmark_s": 600.0}, 1.0, 3_600.0, 200.0),
        ({"benchmark_blocks": 1_000}, 2.0, 3_600.0, 400.0),
        ({"benchmark_s": 100.0}, 0.25, 3_600.0, 50.0),
    ],
)
def test_the_work_lasts_twenty_blocks_unless_the_settings_say_otherwise(
    settings: dict[str, Any], block_s: float, left: float, seconds: float
) -> None:
    context: Any = SimpleNamespace(
        settings=SimpleNamespace(trainer=TrainerSettings(**settings)),
        sender=SimpleNamespace(block_s=block_s),
    )
    unused: Any = None
    assert Membership(unused, context, unused, "cpu")._seconds(left) == seconds


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[People, Membership]]:
    """A registered trainer's agent, whose work is short."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with Supervisor(tmp_path / "logs") as supervisor, ExitStack() as stack:
        people = found(
            start_anvil(supervisor, tmp_path).url, ("ann",), measured=lambda people, node: None
        )
        people.chain.warp(3_600)
        agents, store = RunningAgents(people, tmp_path, stack), EmbeddedStore(tmp_path / "store")
        short = {"benchmark_s": 0.05, "benchmark_blocks": 0}
        context = agents.begin(people.nodes["ann"], "trainer", device="cpu", trainer=short)
        yield people, Membership(Network(context.chain, context.deployment), context, store, "cpu")


def act(people: People, agent: Membership, free: bool = True) -> str | None:
    people.chain.mine()
    return agent.step(agent._context.chain.head(), free)


def measured(people: People, agent: Membership, node: Node) -> None:
    """The agent asks, answers, and two verifiers pass it."""
    assert act(people, agent) == "requested: a benchmark"
    said = act(people, agent)
    assert said is not None and said.startswith("benchmarked: ")
    people.chain.mine()
    judge(people, node, True, "vic", "vera")


def test_it_measures_again_on_another_machine_only(
    stage: tuple[People, Membership], monkeypatch: pytest.MonkeyPatch
) -> None:
    people, agent = stage
    ann = people.nodes["ann"]
    measured(people, agent, ann)
    assert act(people, agent) is None
    monkeypatch.setattr(membership, "machine", lambda device: "a faster one (64)")
    measured(people, agent, ann)
    assert act(people, agent) is None
    attempts = people.chain.call(people.benchmarks, "benchmark", ann.node_id).attempt
    assert attempts == 2


def test_a_node_with_a_score_measures_again_only_when_nothing_waits_to_be_revealed(
    stage: tuple[People, Membership], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work takes as long as a reveal may; and while it is due, nothing new is begun."""
    people, agent = stage
    ann = people.nodes["ann"]
    measured(people, agent, ann)
    monkeypatch.setattr(membership, "machine", lambda device: "a faster one (64)")
    assert act(people, agent, free=False) is None
    assert not agent.measuring
    assert act(people, agent) == "requested: a benchmark"
    assert agent.measuring
    assert act(people, agent, free=False) is None
    assert agent.measuring
    said = act(people, agent)
    assert said is not None and said.startswith("benchmarked: ")
    assert act(people, agent) is None
    assert not agent.measuring


def test_a_machine_that_computes_wrongly_answers_nothing(
    stage: tuple[People, Membership], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong answer costs stake: what the device made is looked at by the CPU first."""
    people, agent = stage
    ann = people.nodes["ann"]
    made = benchmark.run_for

    def broken(*arguments: object) -> list[bytes]:
        return [bytes([digest[0] ^ 1]) + digest[1:] for digest in made(*arguments)]

    assert act(people, agent) == "requested: a benchmark"
    monkeypatch.setattr(benchmark, "run_for", broken)
    said = act(people, agent)
    assert said is not None and said.startswith("kept back: ")
    state = people.chain.call(people.benchmarks, "benchmark", ann.node_id)
    assert (state.attempt, state.submitted_at) == (1, 0)
    monkeypatch.setattr(benchmark, "run_for", made)
    said = act(people, agent)
    assert said is not None and said.startswith("benchmarked: ")


class Registry:
    """Which node the key serves; it is all that is asked here."""

    def __init__(self) -> None:
        self.node, self.said = 7, list[dict[str, Any]]()
        log: Any = SimpleNamespace(info=lambda event, **fields: self.said.append(fields))
        network: Any = SimpleNamespace(
            node_of=lambda address: self.node,
            node=lambda node: SimpleNamespace(roles=0, banned=False, unlock_at=0),
        )
        context: Any = SimpleNamespace(wallet=SimpleNamespace(address="0xkey"), log=log)
        unused: Any = None
        self.agent = Membership(network, context, unused, "cpu")

    def step(self, free: bool = True) -> int:
        head: Any = SimpleNamespace(timestamp=1)
        assert self.agent.step(head, free) is None
        return self.agent.node_id


def test_a_key_that_comes_to_serve_another_node_is_that_node_at_the_next_step() -> None:
    registry = Registry()
    assert registry.step() == 7
    registry.node = 8
    assert [registry.step(), registry.step()] == [8, 8]
    assert registry.said == [{"node_id": 7}, {"node_id": 8}], "said once"


def test_what_the_former_node_committed_to_is_opened_first() -> None:
    registry = Registry()
    registry.step()
    registry.node = 8
    assert registry.step(free=False) == 7
    assert registry.step() == 8


def test_a_key_that_serves_none_any_more_still_opens_what_is_open() -> None:
    """Nor does it register by itself again: its owner has just taken the node out."""
    registry = Registry()
    registry.step()
    registry.node = 0
    assert registry.step() == 7
