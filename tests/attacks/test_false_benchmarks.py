# SPDX-License-Identifier: Apache-2.0
"""False benchmarks, and false verdicts on them: the committee's own agents check them again.

Vic and vera have most of the verifiers' weight and say what they like. Three of the five members
run their agents, which know nothing but the chain and the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.coordinator import Coordinator
from agents.nodes import benchmark
from agents.nodes.benchmark_disputes import DUE_CHECKS
from agents.runtime.config import VerifierSettings
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from scripts._net.anvil import STATES
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.benchmarks import UNITS, answer, judge
from tests.stage.chain.people import STAKES, TRAINER, Node, People

FAIR = 1_000 * 10**18
FIFTH = FAIR // 5
STAKE = STAKES[TRAINER]
LESS = STAKE - STAKE // 5
LOOKS = 1_000  # of all members, after which they are stuck


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
    did: list[str] = []
    quiet = 0
    for _ in range(LOOKS):
        steps = [member.step(member.context.chain.head()) for member in committee]
        said = [step for step in steps if step is not None]
        did += said
        quiet = 0 if said else quiet + 1
        if quiet == 1:
            people.chain.warp(people.settings.routine_delay)
        if quiet == 3:
            return did
    raise AssertionError(f"they never rest; the last deeds: {did[-6:]}")


def sit_until(people: People, committee: Sequence[Coordinator], done: Callable[[], bool]) -> None:
    """Lets the members act until it is done. While they wait for an artefact only blocks pass: a
    day for each look would have scores expire on a machine that is slow."""
    did: list[str] = []
    for _ in range(LOOKS):
        if done():
            return
        steps = [member.step(member.context.chain.head()) for member in committee]
        said = [step for step in steps if step is not None]
        if said:
            did += [*said, *sit(people, committee)]
        else:
            people.chain.mine()
            time.sleep(0.02)
    raise AssertionError(f"not reached; the last deeds: {did[-6:]}")


def score(people: People, node: Node) -> int:
    return int(people.chain.call(people.registry, "node", node.node_id).benchmark_score)


def treasury(people: People) -> int:
    to = people.chain.call(people.registry, "parameters").treasury
    return int(people.chain.call(people.registry, "bounty", to))


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
    assert stakes(people, "eve") == [LESS]
    assert sit(people, committee) == []


def test_verdicts_that_come_when_nodes_have_forgotten_the_answer__are_overruled(
    people: People, eve: Node, store: EmbeddedStore, committee: list[Coordinator]
) -> None:
    """Vic and vera wait until no RPC node has the state of the answer's block any more, which is
    128 blocks with most, and eve's next attempt erases it. Members read her answer there, and
    could judge it never."""
    answer(people, eve, store, lambda index: True)
    people.chain.mine(STATES + 1)
    judge(people, eve, True, "vic", "vera")
    people.request_benchmark(eve)
    sit(people, committee)
    assert score(people, eve) == 0
    assert stakes(people, "vic", "vera", "vito") == [FAIR - FIFTH, FAIR - FIFTH, FAIR]
    assert stakes(people, "eve") == [LESS]


def test_right_benchmark_that_two_fail__costs_them_a_fifth(
    people: People, eve: Node, store: EmbeddedStore, committee: list[Coordinator]
) -> None:
    """Eve does her work; it is failed so that she gets no place. Vito says what is right."""
    before = score(people, eve)
    bounty = treasury(people)
    answer(people, eve, store)
    judge(people, eve, True, "vito")
    judge(people, eve, False, "vic", "vera")
    sit(people, committee)
    assert stakes(people, "vic", "vera", "vito") == [FAIR - FIFTH, FAIR - FIFTH, FAIR]
    assert stakes(people, "eve") == [STAKE]
    assert score(people, eve) == before
    # Framing is paid for, and by nobody to those who frame: all of it is the treasury's.
    assert treasury(people) - bounty == 2 * FIFTH


def test_right_pass__is_left_alone(
    people: People, eve: Node, store: EmbeddedStore, committee: list[Coordinator]
) -> None:
    answer(people, eve, store)
    judge(people, eve, True, "vic", "vera")
    assert sit(people, committee) == []


def test_invented_benchmark_that_two_fail__is_condemned(
    people: People, eve: Node, store: EmbeddedStore, committee: list[Coordinator]
) -> None:
    """Eve loses a fifth, once; whoever failed her is right. She asks for her next attempt first."""
    before = score(people, eve)
    answer(people, eve, store, lambda index: True)
    judge(people, eve, False, "vic", "vera")
    people.request_benchmark(eve)
    did = sit(people, committee)
    assert [said.split(":")[0] for said in did].count("executed") == 1
    assert stakes(people, "eve", "vic", "vera", "vito") == [LESS, FAIR, FAIR, FAIR]
    assert score(people, eve) == before
    assert sit(people, committee) == []


def test_wrong_chunk_that_is_not_drawn__costs_its_node_if_a_verifier_finds_it(
    people: People,
    eve: Node,
    store: EmbeddedStore,
    committee: list[Coordinator],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who checks 8 chunks passes it, who checks all fails it; both are honest, and Eve is not. Her
    score goes with her stake although two have passed her."""
    monkeypatch.setattr(benchmark, "draw_checks", lambda *_: list(range(DUE_CHECKS)))
    answer(people, eve, store, lambda index: index == UNITS - 1)
    judge(people, eve, False, "vito")
    judge(people, eve, True, "vic", "vera")
    assert score(people, eve) > 0
    did = sit(people, committee)
    assert any(f"Chunk {UNITS - 1} of the benchmark is wrong" in said for said in did)
    assert stakes(people, "eve", "vic", "vera", "vito") == [LESS, FAIR, FAIR, FAIR]
    assert score(people, eve) == 0


def test_wrong_chunk_that_nobody_draws__costs_nothing(
    people: People,
    eve: Node,
    store: EmbeddedStore,
    committee: list[Coordinator],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit of a spot check: the committee computes all of it only where somebody failed it."""
    monkeypatch.setattr(benchmark, "draw_checks", lambda *_: list(range(DUE_CHECKS)))
    answer(people, eve, store, lambda index: index == UNITS - 1)
    judge(people, eve, True, "vic", "vera")
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


def test_artefact_that_comes_slowly__keeps_no_member_from_another_case(
    people: People,
    eve: Node,
    ann: Node,
    store: EmbeddedStore,
    committee: list[Coordinator],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ann serves hers so slowly that reading it takes members a quarter of an hour each time. Eve's
    invention is judged meanwhile, and Ann's once it is there."""
    answer(people, eve, store, lambda index: True)
    judge(people, eve, True, "vic", "vera")
    slow = digest_of(cid_of_bytes(answer(people, ann, store, lambda index: index > 0)))
    judge(people, ann, True, "vito", "vera")
    comes, had = threading.Event(), store.get_digest

    def get_digest(digest: bytes, limit: int) -> bytes:
        if digest == slow:
            comes.wait()
        return had(digest, limit)

    monkeypatch.setattr(store, "get_digest", get_digest)
    sit_until(people, committee, lambda: not score(people, eve))
    assert score(people, ann) > 0
    comes.set()
    sit_until(people, committee, lambda: not score(people, ann))
    assert stakes(people, "ann") == [LESS]
