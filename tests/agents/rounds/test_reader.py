# SPDX-License-Identifier: Apache-2.0
"""Results are kept only as long as nothing that they were computed from has changed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eth_utils import keccak

from agents.pipeline.inbox import Inbox
from agents.protocol.draw_chance import Exposure, lasting_loss
from agents.protocol.network import operators_after
from agents.protocol.numbers import ZERO_DIGEST, ZOO
from agents.protocol.slashing import DEFAULTS, Row
from agents.protocol.view import View
from agents.rounds.mined import Mined
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome
from agents.rounds.reader import RoundReader
from agents.rounds.searches import Searches
from agents.rounds.submissions import Unseal
from agents.runtime.contracts import Event
from agents.storage.cid import cid_from_digest, cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import assign, input_root
from agents.training.state import model_hash
from agents.verify.spot_checks import reexecute
from tests.stage.memory.honest_round import (
    AUDIT_SEED,
    DEVICE,
    NODES,
    SEED,
    WEIGHTS,
    ChainFacts,
    HonestRound,
    make_honest_round,
    proposal_of,
)
from tests.stage.memory.mined_round import (
    MINERS,
    PIPELINE,
    WALLETS,
    WHERE,
    MinedRound,
    make_mined_round,
)
from tests.stage.memory.pins import Pins
from tests.stage.memory.tiny_specs import SEALED_PAYLOADS


@pytest.fixture
def reader(tiny: HonestRound, facts: ChainFacts) -> RoundReader:
    return RoundReader(facts, tiny.store, DEVICE)


def test_reveals_lead_to_one_outcome(
    tiny: HonestRound, facts: ChainFacts, reader: RoundReader
) -> None:
    view = facts.open(1, SEED)
    facts.revealed = {node: tiny.reveal(node) for node in NODES}
    submissions = reader.submissions(view)
    assert [s.reveal.node for s in submissions] == list(NODES)
    outcome = reader.outcome(view, submissions)
    assert outcome.report.accepted() == set(NODES)
    assert reader.outcome(view, reader.submissions(view)) is outcome


def test_there_is_no_outcome_before_the_seed(facts: ChainFacts, reader: RoundReader) -> None:
    view = facts.open(1, b"")
    assert reader.outcome(view, reader.submissions(view)) is None


def test_a_payload_that_appears_later_changes_the_outcome(
    tiny: HonestRound, facts: ChainFacts, tmp_path: Path
) -> None:
    own = replace(tiny, store=EmbeddedStore(tmp_path / "store"))
    for cid in (tiny.published.spec_cid, tiny.published.checkpoint_cid, tiny.job.spec.data):
        own.store.put_bytes(tiny.store.get(cid, 1 << 24))
    for shard in tiny.job.data.dataset.shards:
        own.store.put_bytes(tiny.store.get(shard.cid, 1 << 24))
    reader = RoundReader(facts, own.store, DEVICE)
    reader._searches = Searches(clock=lambda: 0.0)  # the pause after a search is over
    view = facts.open(1, SEED)
    late = tiny.reveal(5)  # in the other store only
    facts.revealed = {node: late if node == 5 else own.reveal(node) for node in NODES}
    first = reader.submissions(view)
    assert [s.unavailable for s in first] == [False, True, False, False]
    without = reader.outcome(view, first)
    own.store.put_bytes(tiny.store.get(cid_from_digest(late.content), 1 << 20))
    complete = reader.outcome(view, reader.submissions(view))
    assert complete.report.accepted() == set(NODES)
    assert without.report.accepted() == set(NODES) - {5}


def test_another_bad_payload_after_a_reorg_is_another_report(
    tiny: HonestRound, facts: ChainFacts, reader: RoundReader
) -> None:
    view = facts.open(1, SEED)
    facts.revealed = {node: tiny.reveal(node) for node in NODES} | {5: tiny.reveal(5, b"junk")}
    first = reader.outcome(view, reader.submissions(view))
    facts.revealed[5] = tiny.reveal(5, b"other junk")
    second = reader.outcome(view, reader.submissions(view))
    assert first.model == second.model
    assert first.report.nodes[1].content != second.report.nodes[1].content


def test_what_is_published_is_what_the_report_names(
    tiny: HonestRound, facts: ChainFacts, reader: RoundReader
) -> None:
    view = facts.open(1, SEED)
    facts.revealed = {node: tiny.reveal(node) for node in NODES}
    outcome = reader.outcome(view, reader.submissions(view))
    reader.publish(outcome)
    report = outcome.report.to_bytes()
    assert tiny.store.get(outcome.report.update, 1 << 20) == outcome.update
    assert tiny.store.get(cid_of_bytes(report), 1 << 20) == report


def test_sealed_payloads_are_looked_for_side_by_side_and_their_chain_is_asked_once(
    tmp_path: Path,
) -> None:
    """Each search waits until all have begun: one after the other none would end."""
    begun, contents = threading.Barrier(len(NODES), timeout=30), set[bytes]()

    class Searching(EmbeddedStore):
        def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
            if digest in contents:
                begun.wait()
            return super().get_digest(digest, max_bytes)

    round_ = make_honest_round(Searching(tmp_path), **SEALED_PAYLOADS)
    facts, asked = ChainFacts(round_.published), list[int]()

    def opener(view: View) -> Unseal:
        asked.append(view.round_id)
        return lambda raw: raw

    facts.revealed = {node: round_.reveal(node) for node in NODES}
    view = facts.open(1, SEED)
    reader = RoundReader(facts, round_.store, DEVICE, sealing=SimpleNamespace(opener=opener))
    contents |= {one.content for one in facts.revealed.values()}
    assert all(one.gradient is not None for one in reader.submissions(view))
    assert all(one.gradient is not None for one in reader.submissions(view)) and asked == [1]


@pytest.fixture
def seeded(tmp_path: Path) -> tuple[HonestRound, ChainFacts]:
    """A job whose payloads say something else under another seed."""
    options = {"codec": "semantic", "codec_options": {"dimension": 256}, "merge": "mean"}
    tiny = make_honest_round(EmbeddedStore(tmp_path), **options)
    facts = ChainFacts(tiny.published)
    facts.revealed = {node: tiny.reveal(node) for node in NODES}
    return tiny, facts


def test_a_reveal_that_comes_again_in_the_next_round_is_decoded_again(
    seeded: tuple[HonestRound, ChainFacts],
) -> None:
    """Or those who were there in the first round and those who were not would disagree."""
    tiny, facts = seeded
    models = Models(facts, tiny.store)
    veteran, newcomer = (RoundReader(facts, tiny.store, DEVICE, models=models) for _ in range(2))
    first = veteran.submissions(facts.open(1, SEED))
    view = facts.open(2, b"\x22" * 32)
    again, newcomers = veteran.submissions(view), newcomer.submissions(view)
    for old, new, other in zip(again, newcomers, first, strict=True):
        assert old.gradient is not None and new.gradient is not None and other.gradient is not None
        assert model_hash(old.gradient) == model_hash(new.gradient) != model_hash(other.gradient)


def test_another_manifest_has_a_payload_decoded_again(
    seeded: tuple[HonestRound, ChainFacts],
) -> None:
    """A reorg may change the seed and with it what the same bytes say."""
    tiny, facts = seeded
    reader = RoundReader(facts, tiny.store, DEVICE)
    first = reader.submissions(facts.open(1, SEED))
    view = facts.open(1, b"\x22" * 32)
    manifest = assign(b"\x22" * 32, NODES, WEIGHTS, tiny.job.spec)
    facts.revealed = {
        node: replace(reveal, input_root=input_root(manifest, node, model_hash(tiny.before)))
        for node, reveal in facts.revealed.items()
    }
    for one, other in zip(first, reader.submissions(view), strict=True):
        assert one.gradient is not None and other.gradient is not None
        assert model_hash(one.gradient) != model_hash(other.gradient)


# -- inputs of a check -----------------------------------------------------------------------------

DRAW = b"\x33" * 32


class SignedFacts(ChainFacts):
    """A chain with the signs by which verifiers choose: draw seed and flags."""

    def draw_seed(self, job_id: int, round_id: int, round_: Any) -> bytes | None:
        return round_.draw_seed

    def in_round(self, question: str, job_id: int, round_id: int, nodes: Sequence[int]) -> set[int]:
        return {3, 5} & set(nodes) if question == "is_flagged" else set()

    def stakes_at(self, nodes: Sequence[int], block: int) -> dict[int, int]:
        assert block == 1  # that of the opening
        return {node: node * ZOO for node in nodes}

    def pool_amount(self, job_id: int, round_id: int) -> tuple[int, int]:
        assert (job_id, round_id) == (1, 1)
        return 100 * ZOO, 20 * ZOO

    def penalties_at(self, block: int) -> Mapping[int, Row]:
        assert block == 1
        return DEFAULTS

    def retained_at(self, block: int) -> dict[tuple[int, int], int]:
        assert block == 1
        return {(1, 5): 7 * ZOO, (2, 3): ZOO}

    def rounds_at_once(self, job_id: int, round_id: int, round_: Any) -> Counter[int]:
        assert (job_id, round_id) == (1, 1)
        return Counter({node: node for node in NODES})


@pytest.fixture
def signed(tiny: HonestRound) -> tuple[RoundReader, Any]:
    facts = SignedFacts(tiny.published)
    view = facts.open(1, SEED)
    terms = view.job.terms
    terms.commit_s, terms.reward_per_round, terms.aggregator_bps = 60, ZOO, 1_000
    view.round.draw_seed = DRAW
    facts.revealed = {node: tiny.reveal(node) for node in NODES}
    reader = RoundReader(facts, tiny.store, DEVICE)
    outcome = reader.outcome(view, reader.submissions(view))
    assert outcome is not None
    facts.proposed = proposal_of(outcome)
    return reader, view


def test_a_verifiers_inputs_hold_every_sign_of_the_round(
    tiny: HonestRound, signed: tuple[RoundReader, Any]
) -> None:
    reader, view = signed
    submissions = reader.submissions(view)
    outcome = reader.outcome(view, submissions)
    inputs = reader.inputs(view, submissions, outcome, patient=False)
    assert inputs is not None and outcome is not None and inputs.merged is outcome.merged
    assert (inputs.job_id, inputs.round_id, inputs.window_s) == (1, 1, 60)
    assert model_hash(inputs.before) == model_hash(tiny.before)
    assert (inputs.draw_seed, inputs.flagged, inputs.patient) == (DRAW, {3, 5}, False)


def test_exposures_are_the_pay_of_the_result_and_what_answers_for_it_at_the_opening(
    signed: tuple[RoundReader, Any],
) -> None:
    reader, view = signed
    submissions = reader.submissions(view)
    outcome = reader.outcome(view, submissions)
    inputs = reader.inputs(view, submissions, outcome)
    assert inputs is not None and outcome is not None
    total = sum(outcome.contributions)
    assert inputs.exposures == {
        node: Exposure(
            92 * ZOO * part // total,
            lasting_loss(node * ZOO, DEFAULTS, max(5, node + 2)) + (7 * ZOO if node == 5 else 0),
        )
        for node, part in zip(outcome.nodes, outcome.contributions, strict=True)
    }


def test_exposures_count_what_a_rounds_work_brings_in_all_rounds(
    signed: tuple[RoundReader, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, view = signed
    submissions = reader.submissions(view)
    outcome = reader.outcome(view, submissions)
    assert outcome is not None
    part = dict(zip(outcome.nodes, outcome.contributions, strict=True))
    first, second, *_ = part
    worth = {first: 4 * part[first], second: 0}
    monkeypatch.setattr(Outcome, "worth", lambda self, job: worth)
    inputs = reader.inputs(view, submissions, outcome)
    assert inputs is not None
    total = sum(outcome.contributions)
    pay = {node: exposure.pay for node, exposure in inputs.exposures.items()}
    assert pay == {n: 92 * ZOO * max(p, worth.get(n, 0)) // total for n, p in part.items()}


def test_the_committees_inputs_are_the_same_unsigned(signed: tuple[RoundReader, Any]) -> None:
    reader, view = signed
    submissions = reader.submissions(view)
    drawn = reader.inputs(view, submissions, reader.outcome(view, submissions))
    asked = reader.inputs(view, submissions)
    assert drawn is not None and asked is not None
    assert (asked.draw_seed, asked.flagged) == (ZERO_DIGEST, frozenset())
    assert (asked.merged, asked.window_s, asked.exposures) == ({}, 0, {})
    assert (asked.job, asked.plan, asked.submissions) == (drawn.job, drawn.plan, drawn.submissions)


def test_no_inputs_for_a_draw_before_the_draw_seed(signed: tuple[RoundReader, Any]) -> None:
    """Or a verifier would attest without having looked at anybody."""
    reader, view = signed
    submissions = reader.submissions(view)
    outcome = reader.outcome(view, submissions)
    view.round.draw_seed = None
    assert reader.inputs(view, submissions, outcome) is None
    assert reader.inputs(view, submissions) is not None
    view.round.seed = None
    assert reader.inputs(view, submissions) is None


# -- a split model --------------------------------------------------------------------------------


def opened(mined: MinedRound) -> tuple[RoundReader, ChainFacts, Any, Pins]:
    facts, store = ChainFacts(mined.published), Pins(mined.store.root)
    facts.revealed = {node: mined.submit(node).reveal for node in MINERS}
    return RoundReader(facts, store, DEVICE), facts, facts.open(1, SEED, MINERS), store


def test_what_the_passes_of_miners_rest_on_is_pinned_with_the_result(mined: MinedRound) -> None:
    """Who takes its log down after the merge must not make the result look wrong."""
    reader, _, view, store = opened(mined)
    outcome = reader.outcome(view, reader.submissions(view))
    assert outcome.report == mined.compute(mined.honest()).report
    reader.publish(outcome)
    for node in MINERS:
        shown = mined.shown(node)
        assert {cid_of_bytes(raw) for raw in (shown.trace, shown.inbox)} <= store.pinned
        assert store.resolve(mined.submit(node).reveal.proof) in store.pinned
    assert {cid_of_bytes(part) for part in outcome.parts} <= store.pinned


def test_the_same_payload_with_another_log_is_another_result(mined: MinedRound) -> None:
    reader, facts, view, _ = opened(mined)
    first = reader.outcome(view, reader.submissions(view))
    work, end = mined.works[3], mined.works[3].log.steps[0] + 1
    short, inbox = replace(work.log, events=work.log.events[:end]), Inbox(work.entries[:end])
    shown = {"trace": short.to_bytes(), "root": short.root(), "inbox": inbox.to_bytes()}
    other = mined.submit(3, **shown)
    facts.revealed = {**facts.revealed, 3: other.reveal}
    again = reader.outcome(view, reader.submissions(view))
    assert again.paid()[3] < first.paid()[3]


class Rounds(dict[int, Any]):
    """The rounds of `ChainFacts`, with the contract's address."""

    address = WHERE["verifyingContract"]


class Drawing(ChainFacts):
    """A chain with an audit seed, and the operators of its miners."""

    deployment = SimpleNamespace(chain_id=WHERE["chainId"])

    def operators_at(self, nodes: Sequence[int], block: int) -> dict[int, str]:
        return {node: WALLETS[node].address for node in nodes}

    def seed(self, job_id: int, round_id: int, round_: Any, audit: bool = False) -> bytes | None:
        found: bytes | None = round_.audit_seed if audit else round_.seed
        return found


def test_all_who_read_a_round_read_the_same_segment_once_its_seed_is_known(tmp_path: Path) -> None:
    """A verifier, and a committee member whose inputs hold no sign."""
    mined = make_mined_round(
        EmbeddedStore(tmp_path / "store"),
        pipeline={**PIPELINE, "segment": 1},
        batches_per_round=14,
    )
    _, facts, _, store = opened(mined)
    chain = Drawing(mined.published, revealed=facts.revealed)
    reader, view = RoundReader(chain, store, DEVICE), chain.open(1, SEED, MINERS)
    chain.rounds = Rounds(chain.rounds)
    seed, view.round.audit_seed = AUDIT_SEED, None
    assert all(one.unavailable for one in reader.submissions(view))
    found = {}
    for drawn in (seed, keccak(text="after a reorg"), seed):
        view.round.audit_seed = drawn
        submissions = reader.submissions(view)
        asked = reader.inputs(view, submissions)
        assert asked is not None and asked.draw_seed == ZERO_DIGEST
        for one in asked.submissions:
            assert isinstance(one, Mined) and one.segment is not None
            log = mined.works[one.reveal.node].log
            assert one.segment == log.segment(drawn, 1)
        found[drawn] = [one.segment for one in asked.submissions if isinstance(one, Mined)]
    assert len({*map(str, found.values())}) == 2
    outcome = reader.outcome(view, submissions)
    reader.publish(outcome)
    for one in submissions:
        assert isinstance(one, Mined) and {*one.states} <= store.pinned


def test_a_key_that_was_changed_after_the_round_opened_does_not_undo_its_signatures(
    mined: MinedRound,
) -> None:
    """Else a sender could have everybody slashed that took its letters."""
    reader, facts, view, _ = opened(mined)
    facts.rounds = Rounds(facts.rounds)
    facts.deployment = SimpleNamespace(chain_id=WHERE["chainId"])
    facts.operators_at = lambda nodes, block: operators_after(
        [
            *(registered(node, WALLETS[node].address) for node in MINERS),
            changed_key(5, WALLETS[9].address, block=view.round.opened_block + 1),
        ],
        nodes,
        block,
    )
    submissions = reader.submissions(view)
    inputs = reader.inputs(view, submissions)
    for node in MINERS:
        assert reexecute(inputs, node, DEVICE, mined.store).violation is None


def registered(node: int, operator: str) -> Event:
    args = {"node_id": node, "operator": operator}
    return Event("NodeRegistered", args, "", 0, b"", b"", 0)


def changed_key(node: int, operator: str, block: int) -> Event:
    args = {"node_id": node, "old_operator": "", "new_operator": operator}
    return Event("OperatorChanged", args, "", block, b"", b"", 0)


def test_operators_are_those_of_the_block() -> None:
    events = [
        registered(1, "a"),
        registered(2, "b"),
        changed_key(1, "c", 7),
        changed_key(1, "d", 9),
    ]
    assert operators_after(events, {1}, 6) == {1: "a"}
    assert operators_after(events, [1, 2], 8) == {1: "c", 2: "b"}
    assert operators_after(events, {1, 3}, 9) == {1: "d"}
