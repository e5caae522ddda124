# SPDX-License-Identifier: Apache-2.0
"""A validator states losses that nobody measured: the committee measures again, and slashes it.

Vito lifts one node's LossScore by 0.05 nats, and everything that follows from it is consistent: his
record, his ratings, his vector. Vic and vera are honest. Three of the five members run their
agents, which know nothing but the chain and the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agents.audit.chain.stakes import StakeBook
from agents.audit.sources.record import Record
from agents.coordinator import Coordinator
from agents.gauntlet.record import ScoreRecord
from agents.gauntlet.replay import follow, scores_of
from agents.gauntlet.validator import Validator
from agents.protocol.median import stake_median
from agents.protocol.scores import Consensus
from agents.protocol.view import View
from agents.storage.embedded import EmbeddedStore
from agents.verifier import Verifier
from tests.attacks.test_false_benchmarks import sit
from tests.attacks.test_validators import VERIFIERS, ScoredJob
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import Node, People
from tests.stage.memory.honest_round import TinyJob

FAIR = 1_000 * 10**18
FIFTH = FAIR // 5


@pytest.fixture
def scored(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ScoredJob]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield ScoredJob(people, tiny, tmp_path, stack)


@pytest.fixture
def committee(scored: ScoredJob, tmp_path: Path) -> Iterator[list[Coordinator]]:
    """Three members, each approving on chain."""
    people, store = scored.people, EmbeddedStore(scored.folder / "store")
    folder = tmp_path / "members"
    folder.mkdir()
    with ExitStack() as stack:
        agents = RunningAgents(people, folder, stack)
        seats = [Node(f"member {i}", 0, 0, *[people.members[i]] * 3) for i in range(3)]
        contexts = [agents.begin(seat, "coordinator", device="cpu", jitter_s=0) for seat in seats]
        yield [Coordinator(context, store) for context in contexts]


def lifted(scored: ScoredJob, record: ScoreRecord, nats: float) -> ScoreRecord:
    """The record with one LossScore raised, and all that follows from it."""
    first = next(line.node for line in record.scores if line.random is not None)
    lines = [
        line.model_copy(update={"random": line.random + round(nats * 1e9)})
        if line.node == first and line.random is not None
        else line
        for line in record.scores
    ]
    ratings = follow(None, lines, scored.options)
    scores = scores_of(lines, ratings, scored.options)
    told = [line.model_copy(update={"score": s}) for line, s in zip(lines, scores, strict=True)]
    return record.model_copy(update={"scores": told, "ratings": ratings})


def lie(
    scored: ScoredJob, verifier: Verifier, nats: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From here on a verifier's records say so."""
    duty, honest = scored.of(verifier), Validator._measure

    def measure(self: Validator, view: View, *rest: object) -> ScoreRecord:
        record = honest(self, view, *rest)  # type: ignore[arg-type]
        return lifted(scored, record, nats) if self is duty else record

    monkeypatch.setattr(Validator, "_measure", measure)


def close(scored: ScoredJob, verifiers: Sequence[Verifier]) -> None:
    """All commit, reveal, and somebody brings the medians."""
    for say in ("committed", "revealed"):
        for name, verifier in zip(VERIFIERS, verifiers, strict=True):
            assert scored.step(verifier, name) == f"scored: round 1, {say}"
    view, consensus = scored.view(verifiers[0]), Consensus(verifiers[0].network)
    snapshot = view.snapshot
    opened = int(view.round.opened_block)
    vectors = consensus.vectors(scored.people.job, 1, opened, snapshot)
    median = stake_median(
        [list(vectors[v].scores.values()) for v in snapshot.verifiers],
        list(snapshot.verifiers.values()),
        sum(snapshot.verifiers.values()),
    )
    shown = {e for e, n in enumerate(snapshot.nodes) if n == scored.node("eve").node_id}
    arrays = (
        list(snapshot.nodes),
        list(snapshot.weights),
        [0 if place in shown else score for place, score in enumerate(median)],
    )
    people = scored.people
    people.chain.send(people.faucet, people.scores, "close_scoring", people.job, 1, *arrays)


def stakes(people: People) -> list[int]:
    ids = [people.nodes[name].node_id for name in VERIFIERS]
    return [int(people.chain.call(people.registry, "bonded", number)) for number in ids]


def test_losses_that_nobody_measured__cost_a_fifth(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    lie(scored, verifiers[2], 0.05, monkeypatch)
    close(scored, verifiers)
    # A member looks at one vector a step, and there are three: so it is given two sittings.
    did = [*sit(scored.people, committee), *sit(scored.people, committee)]
    assert [said.split(":")[0] for said in did].count("executed") == 1
    vito = scored.node("vito").node_id
    assert any(f"scores of verifier {vito}" in said and "LossScore" in said for said in did)
    assert stakes(scored.people) == [FAIR, FAIR, FAIR - FIFTH]
    book = StakeBook(Record(verifiers[0].network, scored.people.job))
    (slash,) = [found for found in book.slashes if found.event.args["node_id"] == vito]
    assert slash.cause is not None and slash.cause.event.name == "ScoresOverruled"
    assert all(slash.event.args[name] == wanted for name, wanted in slash.wanted.items())
    assert book.odd == []
    assert sit(scored.people, committee) == []


def test_an_audit_seed_of_ones_own__costs_a_fifth(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vito tries seeds until the draw suits him; everything in his record follows from that one."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    duty, honest = scored.of(verifiers[2]), Validator._measure

    def measure(self: Validator, view: View, node: int, seed: bytes, *rest: Any) -> ScoreRecord:
        return honest(self, view, node, bytes(32) if self is duty else seed, *rest)

    monkeypatch.setattr(Validator, "_measure", measure)
    close(scored, verifiers)
    people = scored.people
    people.chain.send(people.faucet, people.results, "capture_audit_seed", people.job, 1)
    did = [*sit(people, committee), *sit(people, committee)]
    assert [said.split(":")[0] for said in did].count("executed") == 1
    assert any("another audit seed than the round" in said for said in did)
    assert stakes(people) == [FAIR, FAIR, FAIR - FIFTH]


@pytest.mark.parametrize("nats", [0.0, 1e-4])
def test_honest_losses_and_those_of_another_machine__cost_nothing(
    scored: ScoredJob,
    committee: list[Coordinator],
    monkeypatch: pytest.MonkeyPatch,
    nats: float,
) -> None:
    """A ten-thousandth of a nat is fifty times what machines were seen to differ by."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    lie(scored, verifiers[2], nats, monkeypatch)
    close(scored, verifiers)
    assert [*sit(scored.people, committee), *sit(scored.people, committee)] == []
    assert stakes(scored.people) == [FAIR] * 3
