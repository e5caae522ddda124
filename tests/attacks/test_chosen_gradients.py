# SPDX-License-Identifier: Apache-2.0
"""A miner sends back a gradient whose sums are nothing but rounding.

Rows that begin with one token have one code at the first place, for it sees nothing before it. A
gradient of u, u/2 and -3u/2 there sums to zero in every weight of the receiver's stage, but for
rounding; and u may be so large that this rounding outweighs the honest gradients of the step. The
receiver works honestly. What it makes is what its own machine's rounding makes of it, and by
tolerances a verifier of another class finds it wrong. So its friend among the verifiers would earn
the finder's part of an honest miner's stake.

The defence (`agents.verify.rounding`): the verifier sees that rounding decides this, finds nobody
wrong for it, and looks at who sent the receiver anything. Its own work then shows the gradient to
be none. A miner that has a friend send it such a gradient, to be excused for work that it did not
do, is judged up to this gradient, and its friend is slashed in its place. In a compressed
round both are held against what would be sent. Not defended, and shown with figures: segments, what
is owed of an earlier round, and a friend that shows nothing.

`python -m tests.attacks.test_chosen_gradients FOLDER SPEC` is the miners' process.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from eth_utils import keccak
from torch import Tensor

from agents.jobs.model_files import stage_of
from agents.mechanisms.codec import EdgedCodec
from agents.pipeline.hand_over import Passage, most_sent
from agents.pipeline.miner_log import Kind
from agents.pipeline.work import change, replay
from agents.protocol.numbers import Violation
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined, fetch_mined, read_inbox
from agents.rounds.stage_memory import begun
from agents.rounds.stage_payload import packed
from agents.rounds.submissions import left_out
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import EDGE_FLOOR, update_limit
from agents.training.state import State
from agents.verify import miners
from agents.verify.reexecution import (
    Comparison,
    Encoding,
    Tolerances,
    compare,
    compare_encoded,
)
from agents.verify.spot_checks import Finding, malformed, reexecute, suspects_by_findings
from tests.stage.memory.honest_round import DEVICE, TinyJob, scaled
from tests.stage.memory.mined_round import (
    MINERS,
    PIPELINE,
    MinedRound,
    make_mined_job,
    work_through,
)
from tests.stage.memory.miners_pot import COST, PAY, SLASH, STAGES, won
from tests.stage.memory.other_machine import SLOW, answer, asked, on_another_machine
from tests.stage.memory.spoilt_messages import at_random

BATCH, SEQ = 12, 16
F, B = Kind.FORWARD, Kind.BACKWARD
CHEAT, VICTIM = 3, 5  # of the middle stage; of the first, which gets gradients from it
HOW = ["honest", "chosen", "chosen, and the receiver lied before"]
ELSEWHERE = SLOW | {"MKL_CBWR": "" if os.environ.get("MKL_CBWR") else "COMPATIBLE"}
"""Products are rounded otherwise there than here, too."""


SHARING = {"full_every": 3, "codec": "sparse", "codec_options": {"per_chunk": 8}}


def spec(inner: str, sharing: dict[str, Any] | None = None) -> dict[str, Any]:
    pipeline = PIPELINE if sharing is None else {**PIPELINE, "sharing": sharing}
    optimizer: dict[str, Any] = {"batch_size": BATCH, "seq_len": SEQ, "lr": 1e-2}
    if inner == "muon":
        optimizer |= {"inner": "muon", "inner_options": {"lr_ratio": 3.0}}
    return {"pipeline": pipeline, "optimizer": optimizer, "batches_per_round": 4}


def chosen(tiny: TinyJob, sample: int, most: float) -> bytes:
    """Nothing but at the first place of three rows that begin alike."""
    tokens: Tensor = tiny.job.data.batch(sample)[:, 0]
    token = tokens.mode().values
    rows = torch.nonzero(tokens == token).flatten()[:3]
    assert len(rows) == 3, "no three rows of the sample begin alike"
    slices = tiny.job.slices
    assert slices is not None
    values = torch.zeros(slices.code_shape(BATCH, SEQ))
    own = torch.tensor([1.0, -0.75, 0.625, 0.5]) * most / 2
    for row, share in zip(rows, (1.0, 0.5, -1.5), strict=True):
        values[row, 0] = share * own
    return slices.boundary.gradients.pack(values)


def played(store: EmbeddedStore, fields: dict[str, Any], how: str) -> MinedRound:
    """All miners' work. Who sends another message than it made logs what it sent."""
    tiny, plan = make_mined_job(store, **fields)
    epoch = plan.epoch
    assert epoch is not None
    told: dict[tuple[int, Kind, int], bytes] = {}

    def sent(passage: Passage, message: bytes) -> bytes:
        way = passage.sender, passage.kind
        first = all((node, kind) != way for node, kind, _ in told)
        if how != HOW[0] and first and way == (CHEAT, B) and passage.receiver == VICTIM:
            message = chosen(tiny, passage.sample, most_sent(epoch, B, CHEAT))
        elif how == HOW[2] and first and way == (VICTIM, F):
            message = at_random(passage, message, 0)
        else:
            return message
        told[*way, passage.sample] = keccak(message)
        return message

    works = work_through(tiny, plan, (), sent)
    for node, work in works.items():
        log = work.log
        events = tuple(
            replace(e, digest_out=told.get((node, e.kind, e.number), e.digest_out))
            for e in log.events
        )
        works[node] = replace(work, log=replace(log, events=events))
    return MinedRound(store, tiny.published, tiny.job, tiny.before, plan, works)


def revealed(mined: MinedRound) -> list[Mined]:
    """What all show, in a compressed round as well."""
    found = []
    for node, work in sorted(mined.works.items()):
        payload, _ = packed(mined.job, mined.plan, node, work.change, None)
        found.append(mined.submit(node, payload=payload))
    return found


def elsewhere(folder: Path, how: str, fields: dict[str, Any]) -> tuple[RoundInputs, EmbeddedStore]:
    """What a verifier's checks start from; the miners are on another machine."""
    told = {"how": how, "fields": fields}
    reveals = on_another_machine(folder, told, ELSEWHERE, "tests.attacks.test_chosen_gradients")
    store = EmbeddedStore(folder)
    tiny, plan = make_mined_job(store, **fields)
    mined = MinedRound(store, tiny.published, tiny.job, tiny.before, plan, {})
    inputs = mined.inputs([mined.fetch(reveal) for reveal in reveals.values()])
    assert malformed(inputs) == []
    return inputs, store


def look(inputs: RoundInputs, store: EmbeddedStore, node: int) -> Finding:
    return reexecute(inputs, node, DEVICE, store)


@pytest.mark.parametrize("sharing", [None, SHARING], ids=["full", "compressed"])
@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_who_sends_it_is_slashed_and_who_worked_with_it_is_not(
    tmp_path: Path, inner: str, sharing: dict[str, Any] | None
) -> None:
    """Control: without the rule a verifier of another class finds the receiver wrong."""
    inputs, store = elsewhere(tmp_path, "chosen", spec(inner, sharing))
    codec = inputs.job.codec_at(inputs.plan.step)
    assert codec.lossless == (sharing is None)
    with mock.patch.object(miners, "excusers", return_value=()):
        wronged = look(inputs, store, VICTIM)
    assert wronged.violation is Violation.INVALID
    print(f"{inner}, without the rule: {wronged.reason}")
    finding = look(inputs, store, VICTIM)
    assert finding.violation is None and finding.ask == (CHEAT,) and finding.unsure
    # The verifier looks at the sender, drawn or not, and at nobody that it has looked at.
    assert [*suspects_by_findings(inputs, [finding])] == [CHEAT]
    sender = look(inputs, store, CHEAT)
    assert sender.violation is Violation.INVALID
    assert suspects_by_findings(inputs, [finding, sender]) == {}
    for node in set(MINERS) - {CHEAT}:
        assert look(inputs, store, node).violation is None
    assert won(f"a chosen gradient has its receiver slashed ({inner})", -PAY - SLASH) < 0
    # A receiver that sends more than rounding can make of it is found all the same.
    honest = next(s for s in inputs.submissions if s.reveal.node == VICTIM)
    assert isinstance(honest, Mined) and honest.gradient is not None
    tenfold = codec.encode(
        scaled(honest.gradient, 10.0), None, inputs.plan.codec_seed(codec, VICTIM)
    )
    lie = replace(honest.reveal, content=digest_of(store.put_bytes(tenfold)))
    before = stage_of(inputs.job, inputs.before, honest.stage)
    sent = fetch_mined(lie, inputs.job, store, inputs.plan, before)
    others = [s for s in inputs.submissions if s is not honest]
    found = look(replace(inputs, submissions=[*others, sent]), store, VICTIM)
    assert found.violation is Violation.INVALID and "Replay disagrees" in found.reason


def test_who_lied_before_it_came_is_not_excused_by_it(tmp_path: Path) -> None:
    inputs, store = elsewhere(tmp_path, HOW[2], spec("adamw"))
    finding = look(inputs, store, VICTIM)
    assert finding.violation is Violation.INVALID and "What it handed on" in finding.reason
    assert look(inputs, store, CHEAT).violation is Violation.INVALID


def test_honest_work_of_that_machine_asks_nobody(tmp_path: Path) -> None:
    inputs, store = elsewhere(tmp_path, "honest", spec("adamw"))
    with mock.patch.object(miners, "excusers", side_effect=AssertionError):
        assert all(look(inputs, store, node).violation is None for node in MINERS)


def test_a_sender_that_shows_nothing_is_not_found_for_it(tmp_path: Path) -> None:
    """Not defended: it loses the round's pay, and the receiver its passes beside it. So a receiver
    that leaves work out has less than it and its friend have by honest work of both, while a round
    costs less than 0.6 of its pay."""
    inputs, store = elsewhere(tmp_path, "chosen", spec("adamw"))
    inputs = replace(inputs, submissions=left_out(inputs.submissions, {CHEAT}))
    finding = look(inputs, store, VICTIM)
    assert finding.violation is None and finding.ask == (CHEAT,)
    assert suspects_by_findings(inputs, [finding]) == {}
    beside = PAY / len(STAGES[0])
    assert (
        won("a receiver leaves work out, its friend shows nothing", PAY - beside - 2 * (PAY - COST))
        < 0
    )


def test_what_a_receiver_owes_of_it_is_found_wrong_in_later_rounds__not_defended(
    tmp_path: Path,
) -> None:
    """In the next round miner and verifier make the same change, and add what each of them says is
    owed of the round of the gradient: compressed, and as a full synchronisation has it."""
    inputs, store = elsewhere(tmp_path, "chosen", spec("adamw"))
    mined = next(s for s in inputs.submissions if s.reveal.node == VICTIM)
    assert isinstance(mined, Mined) and mined.gradient is not None and inputs.plan.epoch is not None
    before = stage_of(inputs.job, inputs.before, mined.stage)
    entries = read_inbox(mined, inputs.job, inputs.plan.epoch, store).entries
    work = replay(begun(inputs.job, inputs.plan, VICTIM, before, DEVICE), entries)
    theirs, own, seed = dict(mined.gradient), change(before, work.state()), b"round"
    job = make_mined_job(EmbeddedStore(tmp_path / "sharing"), **spec("adamw", SHARING))[0].job
    codec = job.codec_at(0)
    assert isinstance(codec, EdgedCodec)
    shapes = job.stage_shapes(mined.stage)

    def owed(made: State) -> State:
        sent = codec.decode(codec.encode(made, None, seed), shapes, seed)
        return dict(codec.remember(made, None, sent) or {})

    raw = codec.encode(own, owed(theirs), seed)
    how = Encoding(codec, owed(own), seed, update_limit(job.spec), EDGE_FLOOR["fp32"])
    found = compare_encoded(own, raw, how, Comparison(False, False, 0.0, 0.0, ""))
    here, there = ({n: own[n] + rest[n] for n in own} for rest in (owed(own), owed(theirs)))
    full = compare(here, there, False, Tolerances(0.999987, update_limit(job.spec)))
    print(f"compressed: {found.reason} Full: {full.reason}")
    assert not found.ok and not full.ok


def test_by_segments_a_receiver_is_found_wrong__not_defended(tmp_path: Path) -> None:
    """A segment begins with a state that its miner made, so nobody is excused in one. Sender and
    receiver are found alike, if they are drawn and the one segment in which the gradient is: the
    sender stands to lose about as much."""
    pipeline = {**PIPELINE, "segment": 1}
    fields = {**spec("adamw"), "pipeline": pipeline, "batches_per_round": 14}
    told = {"how": "chosen", "fields": fields}
    reveals = on_another_machine(tmp_path, told, ELSEWHERE, "tests.attacks.test_chosen_gradients")
    store = EmbeddedStore(tmp_path)
    tiny, plan = make_mined_job(store, **fields)
    mined = MinedRound(store, tiny.published, tiny.job, tiny.before, plan, {})
    seeds = [bytes([number]) * 32 for number in range(64)]
    found: dict[int, dict[int, bool]] = {CHEAT: {}, VICTIM: {}}
    for seed in seeds:
        inputs = mined.inputs([mined.fetch(reveal, seed) for reveal in reveals.values()])
        for one in inputs.submissions:
            node = one.reveal.node
            assert isinstance(one, Mined) and one.segment is not None
            if node in found and one.segment.index not in found[node]:
                right = look(inputs, store, node).violation is None
                found[node][one.segment.index] = right
    for node, segments in found.items():
        assert len(segments) > 2 and [*segments.values()].count(False) == 1
        won(f"node {node}, if it is drawn", -(PAY + SLASH) / len(segments))


if __name__ == "__main__":
    place, given = asked()
    answer(revealed(played(place, given["fields"], given["how"])))
