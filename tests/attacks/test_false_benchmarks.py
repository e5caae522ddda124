# SPDX-License-Identifier: Apache-2.0
"""False verdicts on a benchmark: the committee's own agents check it again, and overrule.

Vic and vera have most of the verifiers' weight and say what they like. Three of the five members
run their agents, which know nothing but the chain and the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.coordinator import Coordinator
from agents.nodes import benchmark
from agents.nodes.benchmark_disputes import DUE_CHECKS
from agents.runtime.config import VerifierSettings
from agents.storage.embedded import EmbeddedStore
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.benchmarks import UNITS, answer, judge
from tests.stage.chain.people import Node, People

FAIR = 1_000 * 10**18
FIFTH = FAIR // 5


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path / "store")


@pytest.fixture
def committee(
    people: People, store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Coordinator]]:
    """Three members, each approving on chain."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        agents = RunningAgents(people, tmp_path, stack)
        seats = [Node(f"member {i}", 0, 0, *[people.members[i]] * 3) for i in range(3)]
        contexts = [agents.begin(seat, "coordinator", device="cpu", jitter_s=0) for seat in seats]
        yield [Coordinator(context, store) for context in contexts]


def sit(people: People, committee: Sequence[Coordinator]) -> list[str]:
    """Lets the members act, and time pass, until they have nothing more to do; what they did."""
    did = []
    quiet = 0
    while quiet < 3:
        steps = [member.step(member.context.chain.head()) for member in committee]
        said = [step for step in steps if step is not None]
        did += said
        quiet = 0 if said else quiet + 1
        if quiet == 1:
            people.chain.warp(people.settings.routine_delay)
    return did


def score(people: People, node: Node) -> int:
    return int(people.chain.call(people.registry, "node", node.node_id).benchmark_score)


def stakes(people: People, *names: str) -> list[int]:
    ids = [people.nodes[name].node_id for name in names]
    return [int(people.chain.call(people.registry, "bonded", number)) for number in ids]


def test_verifiers_who_do_as_set__look_at_what_they_owe() -> None:
    assert VerifierSettings().benchmark_checks >= DUE_CHECKS


def test_invented_benchmark_that_two_pass__is_overruled(
    people: People, eve: Node, store: EmbeddedStore, committee: list[Coordinator]
) -> None:
    """Eve invents her work, vic and vera pass it, and she asks for her next attempt at once."""
    answer(people, eve, store, lambda index: True)
    judge(people, eve, True, "vic", "vera")
    assert score(people, eve) > 0
    people.request_benchmark(eve)
    did = sit(people, committee)
    assert [said.split(":")[0] for said in did].count("executed") == 1
    assert score(people, eve) == 0
    assert stakes(people, "vic", "vera", "vito") == [FAIR - FIFTH, FAIR - FIFTH, FAIR]
    assert sit(people, committee) == []


def test_right_benchmark_that_two_fail__costs_them_a_fifth(
    people: People, eve: Node, store: EmbeddedStore, committee: list[Coordinator]
) -> None:
    """Eve does her work; it is failed so that she gets no place. Vito says what is right."""
    before = score(people, eve)
    answer(people, eve, store, lambda index: False)
    judge(people, eve, True, "vito")
    judge(people, eve, False, "vic", "vera")
    sit(people, committee)
    assert stakes(people, "vic", "vera", "vito") == [FAIR - FIFTH, FAIR - FIFTH, FAIR]
    assert score(people, eve) == before


@pytest.mark.parametrize("passed", [True, False])
def test_right_verdict__is_left_alone(
    people: People,
    eve: Node,
    store: EmbeddedStore,
    committee: list[Coordinator],
    passed: bool,
) -> None:
    """A right pass, and a right fail."""
    answer(people, eve, store, lambda index: not passed)
    judge(people, eve, passed, "vic", "vera")
    assert sit(people, committee) == []


@pytest.mark.parametrize("passed", [True, False])
def test_wrong_chunk_that_is_not_drawn__makes_neither_verdict_false(
    people: People,
    eve: Node,
    store: EmbeddedStore,
    committee: list[Coordinator],
    monkeypatch: pytest.MonkeyPatch,
    passed: bool,
) -> None:
    """Who checks 8 chunks passes it, who checks all fails it; both are honest."""
    monkeypatch.setattr(benchmark, "draw_checks", lambda *_: list(range(DUE_CHECKS)))
    answer(people, eve, store, lambda index: index == UNITS - 1)
    judge(people, eve, passed, "vic", "vera")
    assert sit(people, committee) == []


def test_artefact_that_comes_late__is_judged_then(
    people: People,
    ann: Node,
    store: EmbeddedStore,
    committee: list[Coordinator],
    tmp_path: Path,
) -> None:
    """Without the artefact nobody is condemned, and another case is judged meanwhile."""
    late = answer(people, ann, EmbeddedStore(tmp_path / "kept back"), lambda index: True)
    judge(people, ann, True, "vic", "vera")
    assert sit(people, committee) == []
    store.put_bytes(late)
    people.chain.mine(20)
    sit(people, committee)
    assert score(people, ann) == 0
    assert stakes(people, "vic", "vera", "vito") == [FAIR - FIFTH, FAIR - FIFTH, FAIR]
