# SPDX-License-Identifier: Apache-2.0
"""A validator states what nobody measured: the committee measures again, and slashes it.

Vito lifts one node's LossScore, or measures nothing and repeats what others said, or keeps his
record back; vic and vera are honest. Three of the five members run their agents, which know nothing
but the chain and the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from eth_utils import keccak

from agents.audit.chain.stakes import StakeBook
from agents.audit.sources.record import Record
from agents.coordinator import Coordinator
from agents.gauntlet import cells
from agents.gauntlet.disputes import WITHHELD_S
from agents.gauntlet.fast_evaluation import NO_SAMPLE
from agents.gauntlet.record import NodeScore, ScoreRecord
from agents.gauntlet.replay import follow, scores_of
from agents.gauntlet.validator import Validator
from agents.protocol.formulas import score_commitment
from agents.protocol.median import stake_median
from agents.protocol.numbers import SCALE
from agents.protocol.scores import Consensus
from agents.protocol.view import View
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.verifier import Verifier
from tests.attacks.test_false_benchmarks import sit
from tests.attacks.test_validators import SALT, TRAINERS, VERIFIERS, ScoredJob
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import CHAIN_ID, Node, People
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


Change = Callable[[NodeScore], dict[str, Any]]


def told(scored: ScoredJob, record: ScoreRecord, change: Change) -> ScoreRecord:
    """The record with its first evaluated line changed, and all that follows from it."""
    first = next(line.node for line in record.scores if line.random is not None)
    lines = [
        line.model_copy(update=change(line)) if line.node == first else line
        for line in record.scores
    ]
    return restated(scored, record, lines)


def restated(scored: ScoredJob, record: ScoreRecord, lines: Sequence[NodeScore]) -> ScoreRecord:
    """The record with these lines, and all that follows from them."""
    ratings = follow(None, lines, scored.options)
    scores = scores_of(lines, ratings, scored.options)
    return record.model_copy(
        update={
            "scores": [
                line.model_copy(update={"score": score})
                for line, score in zip(lines, scores, strict=True)
            ],
            "ratings": ratings,
        }
    )


def more(name: str, by: float) -> Change:
    """A line whose figure of this name is greater."""
    return lambda line: {name: getattr(line, name) + round(by)}


def nats(by: float) -> Change:
    return more("random", by * 1e9)


def lie(
    scored: ScoredJob, verifier: Verifier, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From here on a verifier's records say so."""
    duty, honest = scored.of(verifier), Validator._measure

    def measure(self: Validator, view: View, *rest: object) -> ScoreRecord:
        record = honest(self, view, *rest)  # type: ignore[arg-type]
        return told(scored, record, change) if self is duty else record

    monkeypatch.setattr(Validator, "_measure", measure)


def looked(people: People, committee: Sequence[Coordinator], hours: int) -> list[str]:
    """The members look once an hour; what they did."""
    did = []
    for _ in range(hours):
        steps = [member.step(member.context.chain.head()) for member in committee]
        did += [step for step in steps if step is not None]
        people.chain.warp(3_600)
    return did


def close(scored: ScoredJob, verifiers: Sequence[Verifier], repeated: bytes | None = None) -> None:
    """All commit, reveal, and somebody brings the medians.

    `repeated`: a record that vito names instead of scoring, with a vector of equal shares.
    """
    agents = dict(zip(VERIFIERS, verifiers, strict=True))
    if repeated is not None:
        del agents["vito"]
        repeat(scored, verifiers[0], repeated, opened=False)
    for say in ("committed", "revealed"):
        for name, verifier in agents.items():
            assert scored.step(verifier, name) == f"scored: round 1, {say}"
    if repeated is not None:
        repeat(scored, verifiers[0], repeated, opened=True)
    bring_the_medians(scored, verifiers[0])


def repeat(scored: ScoredJob, reader: Verifier, record: bytes, opened: bool) -> None:
    """Vito commits to a vector that he has not measured, or opens it."""
    people, node = scored.people, scored.node("vito")
    row, place = equal(scored, scored.view(reader).snapshot.nodes), (people.job, 1, node.node_id)
    at, operator = people.scores.address, node.operator.address
    digest = score_commitment(CHAIN_ID, at, place, operator, row, record, SALT)
    call = (*place, row, record, SALT) if opened else (*place, digest)
    function = "reveal_scores" if opened else "commit_scores"
    people.chain.send(node.operator, people.scores, function, *call)


def equal(scored: ScoredJob, nodes: Sequence[int]) -> list[int]:
    """Equal shares of all that come."""
    here = {scored.node(name).node_id for name in TRAINERS}
    return [SCALE // len(here) if node in here else 0 for node in nodes]


def bring_the_medians(scored: ScoredJob, verifier: Verifier) -> None:
    view, consensus = scored.view(verifier), Consensus(verifier.network)
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
    lie(scored, verifiers[2], nats(0.05), monkeypatch)
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


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (more("expected", -5e7), "expected LossScore"),
        (lambda line: {"shown": -1_000_000 if line.shown > 0 else 1_000_000}, "of its work"),
        (lambda line: {"failure": "out of sync by 9 steps, at most 2"}, "is not so"),
        (
            lambda line: {"extra": -1_000_000 if line.extra > 0 else 1_000_000},
            "of its extra work",
        ),
        (
            lambda line: dict.fromkeys(("assigned", "random", "expected", "shown", "extra")),
            "no loss",
        ),
    ],
)
def test_what_the_payloads_deny__costs_a_fifth(
    scored: ScoredJob,
    committee: list[Coordinator],
    monkeypatch: pytest.MonkeyPatch,
    change: Change,
    why: str,
) -> None:
    """Every figure that a score follows from is measured again, and not only the losses. Members
    are on the validator's machine, so nothing is left to another one's rounding: the tiny model's
    leads are so small that all of them might be that."""
    monkeypatch.setattr(cells, "LOSS_TOLERANCE", 0.0)
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    lie(scored, verifiers[2], change, monkeypatch)
    close(scored, verifiers)
    did = [*sit(scored.people, committee), *sit(scored.people, committee)]
    assert any(f"scores of verifier {scored.node('vito').node_id}" in s and why in s for s in did)
    assert stakes(scored.people) == [FAIR, FAIR, FAIR - FIFTH]


def test_one_line_of_a_node_that_never_revealed__hides_no_others(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vito calls usable what eve never revealed, and invents a figure of all others: it is not to
    be had, so nothing was measured again."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    eve = scored.node("eve").node_id
    blind = {"failure": NO_SAMPLE, "usable": True, "evaluated": True}

    def change(line: NodeScore) -> dict[str, Any]:
        return blind if line.node == eve else {"random": 10**9}

    honest, duty = Validator._measure, scored.of(verifiers[2])

    def measure(self: Validator, view: View, *rest: Any) -> ScoreRecord:
        record = honest(self, view, *rest)
        lines = [line.model_copy(update=change(line)) for line in record.scores]
        return restated(scored, record, lines) if self is duty else record

    monkeypatch.setattr(Validator, "_measure", measure)
    close(scored, verifiers)
    did = [*sit(scored.people, committee), *sit(scored.people, committee)]
    assert any(f"use of node {eve}" in said for said in did)
    assert stakes(scored.people) == [FAIR, FAIR, FAIR - FIFTH]


@pytest.mark.parametrize("kept", [True, False])
def test_a_payload_that_is_taken_down__costs_who_kept_it_nothing(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Ann takes hers down after the scores. Validators keep what they read; who says so of a
    payload that nobody has is in the place of who keeps its record back."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    pinned, found = set(), EmbeddedStore.get_digest
    pin = EmbeddedStore.pin

    def keep(self: EmbeddedStore, cid: str) -> None:
        pin(self, cid)
        pinned.add(digest_of(cid))

    monkeypatch.setattr(EmbeddedStore, "pin", keep)
    close(scored, verifiers)
    people, reader = scored.people, verifiers[0].network
    opened = scored.view(verifiers[0]).round.opened_block
    content = reader.reveals(people.job, 1, opened)[scored.node("ann").node_id].content
    assert content in pinned

    def get(self: EmbeddedStore, digest: bytes, limit: int) -> bytes:
        if digest == content and not kept:
            raise NotFound("taken down")
        return found(self, digest, limit)

    monkeypatch.setattr(EmbeddedStore, "get_digest", get)
    assert looked(people, committee, 6) == []
    people.chain.warp(WITHHELD_S + 1)
    did = [said for _ in range(6) for said in sit(people, committee)]
    assert any("nobody can have the payloads of nodes" in said for said in did) is not kept
    assert (stakes(people) == [FAIR] * 3) is kept


def test_repeated_scores_without_a_record__cost_a_fifth(
    scored: ScoredJob, committee: list[Coordinator]
) -> None:
    """Vito measures nothing, and names a record that nobody has. It agrees with the others; for
    six hours it may still come."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    close(scored, verifiers, keccak(text="a record that nobody has"))
    people = scored.people
    assert looked(people, committee, WITHHELD_S // 3_600) == []
    assert stakes(people) == [FAIR] * 3
    did = [*sit(people, committee), *sit(people, committee)]
    assert any("nobody can have its record" in said for said in did)
    assert stakes(people) == [FAIR, FAIR, FAIR - FIFTH]


def test_a_record_that_comes_late__costs_nothing(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its store was down when the members looked. Each of them looks again before it signs."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    close(scored, verifiers)
    people, found = scored.people, EmbeddedStore.get_digest
    hidden = Consensus(verifiers[0].network).record(people.job, 1, scored.node("vito").node_id)

    def get(self: EmbeddedStore, digest: bytes, limit: int) -> bytes:
        if digest == hidden:
            raise NotFound("not here")
        return found(self, digest, limit)

    with monkeypatch.context() as patched:
        patched.setattr(EmbeddedStore, "get_digest", get)
        assert looked(people, committee, 5) == []
    people.chain.warp(WITHHELD_S + 1)
    assert [*sit(people, committee), *sit(people, committee)] == []
    assert stakes(people) == [FAIR] * 3


@pytest.mark.parametrize("lied", ["nobody", "another chain"])
def test_repeated_scores_with_an_invented_record__cost_a_fifth(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch, lied: str
) -> None:
    """His record gives the vector: it measured nobody, or it follows one that nobody has."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    honest, duty = Validator._measure, scored.of(verifiers[2])

    def measure(self: Validator, view: View, *rest: Any) -> ScoreRecord:
        record = honest(self, view, *rest)
        if self is not duty:
            return record
        row = equal(scored, view.snapshot.nodes)
        unmeasured = dict.fromkeys(("assigned", "random", "expected", "shown", "extra"))
        lines = [
            line.model_copy(update={**unmeasured, "evaluated": False, "score": score})
            for line, score in zip(record.scores, row, strict=True)
        ]
        made: dict[str, Any] = {"scores": lines}
        if lied == "another chain":
            made |= {"position": 7, "previous": keccak(text="one before it").hex()}
        return record.model_copy(update=made)

    monkeypatch.setattr(Validator, "_measure", measure)
    close(scored, verifiers)
    did = [*sit(scored.people, committee), *sit(scored.people, committee)]
    why = "took part in the match" if lied == "nobody" else "names another record before it"
    assert any(why in said for said in did)
    assert stakes(scored.people) == [FAIR, FAIR, FAIR - FIFTH]


@pytest.mark.parametrize("captured", [True, False])
def test_an_audit_seed_of_ones_own__costs_a_fifth(
    scored: ScoredJob,
    committee: list[Coordinator],
    monkeypatch: pytest.MonkeyPatch,
    captured: bool,
) -> None:
    """Vito tries seeds until the draw suits him; everything in his record follows from that one.
    Nobody captures the seed of a round without a result; the contract still says what it is."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    duty, honest = scored.of(verifiers[2]), Validator._measure

    def measure(self: Validator, view: View, node: int, seed: bytes, *rest: Any) -> ScoreRecord:
        return honest(self, view, node, bytes(32) if self is duty else seed, *rest)

    monkeypatch.setattr(Validator, "_measure", measure)
    close(scored, verifiers)
    people = scored.people
    if captured:
        people.chain.send(people.faucet, people.results, "capture_audit_seed", people.job, 1)
    did = [*sit(people, committee), *sit(people, committee)]
    assert [said.split(":")[0] for said in did].count("executed") == 1
    assert any("another audit seed than the round" in said for said in did)
    assert stakes(people) == [FAIR, FAIR, FAIR - FIFTH]


def test_a_spec_that_is_taken_down__costs_no_validator(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sponsor serves its job's spec to the nodes and to no member. Without it members can't read
    a record by the job's options: they said that nobody could have the records, and slashed all
    three validators."""
    scored.play()
    close(scored, [scored.verifier(name) for name in VERIFIERS])
    people = scored.people
    spec = bytes(people.chain.call(people.jobs, "job", people.job).terms.spec)
    had = EmbeddedStore.get_digest

    def served(self: EmbeddedStore, digest: bytes, limit: int) -> bytes:
        if digest == spec:
            raise NotFound("taken down")
        return had(self, digest, limit)

    monkeypatch.setattr(EmbeddedStore, "get_digest", served)
    did = []
    for _ in range(WITHHELD_S // 3_600 + 2):
        for member in committee:
            with suppress(NotFound):  # it is said of the job, and nothing else is to do
                did.append(member.step(member.context.chain.head()))
        people.chain.warp(3_600)
    assert not any(did)
    assert stakes(people) == [FAIR, FAIR, FAIR]


def test_a_spec_that_comes_slowly__comes_beside__and_a_lie_is_found_then(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    lie(scored, verifiers[2], nats(0.05), monkeypatch)
    close(scored, verifiers)
    people, comes, had = scored.people, threading.Event(), EmbeddedStore.get_digest
    spec = bytes(people.chain.call(people.jobs, "job", people.job).terms.spec)

    def served(self: EmbeddedStore, digest: bytes, limit: int) -> bytes:
        if digest == spec and not comes.is_set():
            assert threading.current_thread() is not threading.main_thread(), "in the loop"
            comes.wait()
        return had(self, digest, limit)

    monkeypatch.setattr(EmbeddedStore, "get_digest", served)
    assert sit(people, committee) == []
    comes.set()
    for _ in range(4):
        sit(people, committee)
    assert stakes(people) == [FAIR, FAIR, FAIR - FIFTH]


@pytest.mark.parametrize("lied", [True, False])
def test_what_was_revealed_in_a_void_round__is_judged(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch, lied: bool
) -> None:
    """Nobody closes its scoring, and vito's ratings of all later rounds follow from it."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    if lied:
        lie(scored, verifiers[2], nats(0.05), monkeypatch)
    for say in ("committed", "revealed"):
        for name, verifier in zip(VERIFIERS, verifiers, strict=True):
            assert scored.step(verifier, name) == f"scored: round 1, {say}"
    people, consensus = scored.people, Consensus(verifiers[0].network)
    assert sit(people, committee) == []
    scored.void()
    people.wait_until(consensus.scoring(people.job, 1).reveal_deadline)
    did = [said for _ in range(3) for said in sit(people, committee)]
    vito = scored.node("vito").node_id
    assert any(f"scores of verifier {vito}" in said and "LossScore" in said for said in did) is lied
    assert stakes(people) == [FAIR, FAIR, FAIR - FIFTH * lied]


def test_lines_in_another_order__cost_a_fifth(
    scored: ScoredJob, committee: list[Coordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line is true. The contract reads the vector by place, and gives ann's share to bob."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    honest, duty = Validator._measure, scored.of(verifiers[2])

    def measure(self: Validator, view: View, *rest: Any) -> ScoreRecord:
        record = honest(self, view, *rest)
        turned = record.model_copy(update={"scores": record.scores[::-1]})
        return turned if self is duty else record

    monkeypatch.setattr(Validator, "_measure", measure)
    close(scored, verifiers)
    did = [*sit(scored.people, committee), *sit(scored.people, committee)]
    assert any("nodes in their order" in said for said in did)
    assert stakes(scored.people) == [FAIR, FAIR, FAIR - FIFTH]


@pytest.mark.parametrize("by", [0.0, 1e-4])
def test_honest_losses_and_those_of_another_machine__cost_nothing(
    scored: ScoredJob,
    committee: list[Coordinator],
    monkeypatch: pytest.MonkeyPatch,
    by: float,
) -> None:
    """A ten-thousandth of a nat is fifty times what machines were seen to differ by."""
    scored.play()
    verifiers = [scored.verifier(name) for name in VERIFIERS]
    lie(scored, verifiers[2], nats(by), monkeypatch)
    close(scored, verifiers)
    assert [*sit(scored.people, committee), *sit(scored.people, committee)] == []
    assert stakes(scored.people) == [FAIR] * 3
