# SPDX-License-Identifier: Apache-2.0
"""A node that shows its answer to a benchmark only where the draw spares what it invented.

The answer names the digest of its artefact, and the draw of the chunks that all verifiers check is
of the block after it. Who keeps the artefact back until it knows the draw loses nothing: nobody can
judge what nobody has, the draw is made anew after 256 blocks, and so is the attempt after the
window. Vic, vera and vito run their agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.coordinator import Coordinator
from agents.nodes import benchmark
from agents.nodes.benchmark_checks import BenchmarkChecks
from agents.nodes.benchmark_disputes import DUE_CHECKS
from agents.protocol.network import Network
from agents.runtime.context import Context
from agents.storage.embedded import EmbeddedStore
from tests.attacks.test_false_benchmarks import LESS, STAKE, committee, score, sit, stakes
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.benchmarks import answer
from tests.stage.chain.people import Node, People

__all__ = ["committee"]

# Who checks 8 in public and 8 that nobody else knows has looked at all of them.
UNITS = 2 * DUE_CHECKS
REDRAWN = 257  # blocks
TRIES = 100  # of 4 that it takes on average


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path / "store")


@pytest.fixture
def verifiers(
    people: People, store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[tuple[Node, Context, BenchmarkChecks]]]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        agents = RunningAgents(people, tmp_path, stack)
        found = []
        for name in ("vic", "vera", "vito"):
            node = people.nodes[name]
            context = agents.begin(node, "verifier", device="cpu", jitter_s=0)
            network = Network(context.chain, context.deployment)
            found.append((node, context, BenchmarkChecks(network, context, store, "cpu")))
        yield found


def look(verifiers: Sequence[tuple[Node, Context, BenchmarkChecks]]) -> list[str]:
    """Each verifier looks once; what they did."""
    did = [checks.step(node.node_id, context.chain.head()) for node, context, checks in verifiers]
    return [what for what in did if what is not None]


def invented(index: int) -> bool:
    """One chunk in eight."""
    return index % 8 == 7


def kept_until_it_suits(people: People, node: Node, kept: EmbeddedStore) -> tuple[bytes, int]:
    """Answers, in a store of its own, and has the chunks drawn anew until all are right; the
    artefact, and how often they were drawn."""
    artefact = answer(people, node, kept, invented, UNITS)
    for draws in range(1, TRIES):
        people.chain.mine(2)  # a call sees the hashes of blocks before the latest
        seed = people.chain.call(people.benchmarks, "capture_check_seed", node.node_id)
        drawn = benchmark.draw_checks(bytes(seed), UNITS, DUE_CHECKS)
        if not any(invented(index) for index in drawn):
            return artefact, draws
        people.chain.mine(REDRAWN)
        people.chain.send(people.faucet, people.benchmarks, "capture_check_seed", node.node_id)
    raise AssertionError(f"no such draw in {TRIES}")


def test_answer_kept_back_until_the_draw_suits__is_found_and_paid_for(
    people: People,
    eve: Node,
    store: EmbeddedStore,
    verifiers: list[tuple[Node, Context, BenchmarkChecks]],
    committee: list[Coordinator],
    tmp_path: Path,
) -> None:
    """It had a score for more work than it had done, however many draws would have shown that, and
    lost nothing: who kept back what a quarter of it was invented had it after 46 draws. The public
    draw still suits; what each verifier draws for itself does not."""
    before = score(people, eve)
    artefact, draws = kept_until_it_suits(people, eve, EmbeddedStore(tmp_path / "kept"))
    store.put_bytes(artefact)
    said = look(verifiers)
    assert len(said) == 2 and all("is wrong" in what for what in said), (said, draws)
    sit(people, committee)
    assert score(people, eve) == before
    assert stakes(people, "eve") == [LESS]
    assert stakes(people, "vic", "vera", "vito") == [1_000 * 10**18] * 3


def test_control__right_work_that_is_served_at_once__is_passed(
    people: People,
    eve: Node,
    store: EmbeddedStore,
    verifiers: list[tuple[Node, Context, BenchmarkChecks]],
    committee: list[Coordinator],
) -> None:
    answer(people, eve, store, units=UNITS)
    assert len(look(verifiers)) == 2, "and the third has nothing to say"
    attempt = people.chain.call(people.benchmarks, "benchmark", eve.node_id)
    elapsed = int(attempt.submitted_at) - int(attempt.requested_at)
    assert attempt.settled and score(people, eve) == benchmark.score(UNITS, elapsed)
    assert sit(people, committee) == []
    assert stakes(people, "eve") == [STAKE]
