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
round both are held against what would be sent. By segments, and for what is owed of an earlier
round, nobody need be found in a receiver's stead: such a job lists its classes, and a verifier of
the receiver's own class judges it to the bit. Not defended, and shown with figures: a friend that
shows nothing.

`python -m tests.attacks.test_chosen_gradients FOLDER SPEC` is the miners' process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any
from unittest import mock

import pytest
import torch
from eth_utils import keccak
from torch import Tensor

from agents.jobs.model_files import stage_of
from agents.pipeline.hand_over import Passage, most_sent
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Kind
from agents.pipeline.stage import Passed, Step
from agents.pipeline.work import StageWork, change, replay
from agents.protocol.numbers import Violation
from agents.protocol.structs import Reveal
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined, fetch_mined, read_inbox
from agents.rounds.stage_memory import begun
from agents.rounds.stage_payload import packed
from agents.rounds.submissions import left_out
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training import last_bits
from agents.training.determinism import determinism_class
from agents.training.state import State
from agents.verify import miners
from agents.verify.spot_checks import Finding, malformed, reexecute, suspects_by_findings
from tests.stage.memory.honest_round import DEVICE, TinyJob, scaled
from tests.stage.memory.mined_round import (
    MINERS,
    PIPELINE,
    MinedRound,
    make_mined_job,
    make_mined_round,
    work_through,
)
from tests.stage.memory.miners_pot import COST, PAY, SLASH, STAGES, won
from tests.stage.memory.other_machine import SLOW, answer, asked, class_there, on_another_machine
from tests.stage.memory.spoilt_messages import at_random

MODULE = "tests.attacks.test_chosen_gradients"
BATCH, SEQ = 12, 16
F, B = Kind.FORWARD, Kind.BACKWARD
CHEAT, VICTIM = 3, 5  # of the middle stage; of the first, which gets gradients from it
HOW = ["honest", "chosen", "chosen, and the receiver lied before"]
ELSEWHERE = SLOW | {"MKL_CBWR": "" if os.environ.get("MKL_CBWR") else "COMPATIBLE"}
"""Products are rounded otherwise there than here, too."""


SHARING = {"full_every": 3, "codec": "sparse", "codec_options": {"per_chunk": 8}}


def here() -> str:
    """This process's class now: agents of earlier tests chose deterministic algorithms in it."""
    return determinism_class(DEVICE)


def spec(inner: str, **block: Any) -> dict[str, Any]:
    """`block`: of the pipeline. A job that needs a list of classes takes those of both machines."""
    pipeline = {**PIPELINE, **block}
    optimizer: dict[str, Any] = {"batch_size": BATCH, "seq_len": SEQ, "lr": 1e-2}
    if inner == "muon":
        optimizer |= {"inner": "muon", "inner_options": {"lr_ratio": 3.0}}
    fields = {"pipeline": pipeline, "optimizer": optimizer, "batches_per_round": 4}
    return {**fields, "classes": [here(), class_there(ELSEWHERE)]} if block else fields


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


def played(
    store: EmbeddedStore, fields: dict[str, Any], how: str, work: type[StageWork] = StageWork
) -> MinedRound:
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

    works = work_through(tiny, plan, (), sent, work)
    for node, done in works.items():
        log = done.log
        events = tuple(
            replace(e, digest_out=told.get((node, e.kind, e.number), e.digest_out))
            for e in log.events
        )
        works[node] = replace(done, log=replace(log, events=events))
    return MinedRound(store, tiny.published, tiny.job, tiny.before, plan, works)


def revealed(mined: MinedRound) -> list[Mined]:
    """What all show, in a compressed round as well."""
    found = []
    for node, work in sorted(mined.works.items()):
        payload, _ = packed(mined.job, mined.plan, node, work.change, None)
        found.append(mined.submit(node, payload=payload))
    return found


Published = tuple[Path, dict[int, Reveal]]
Elsewhere = Callable[[str, dict[str, Any]], tuple[RoundInputs, EmbeddedStore]]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, dict[str, Any]], Published]:
    """Has the miners work on another machine, once for all tests that want the same of them: the
    folder of their store, and what they revealed."""
    known: dict[str, Published] = {}

    def work(how: str, fields: dict[str, Any]) -> Published:
        told = {"how": how, "fields": fields}
        wanted = json.dumps(told, sort_keys=True)
        if wanted not in known:
            folder = tmp_path_factory.mktemp("elsewhere")
            known[wanted] = folder, on_another_machine(folder, told, ELSEWHERE, MODULE)
        return known[wanted]

    return work


@pytest.fixture
def elsewhere(worked: Callable[[str, dict[str, Any]], Published], tmp_path: Path) -> Elsewhere:
    """What a verifier's checks start from; the miners are on another machine. The store is the
    test's own."""

    def begin(how: str, fields: dict[str, Any]) -> tuple[RoundInputs, EmbeddedStore]:
        published, reveals = worked(how, fields)
        store = EmbeddedStore(copytree(published, tmp_path / "elsewhere"))
        tiny, plan = make_mined_job(store, **fields)
        mined = MinedRound(store, tiny.published, tiny.job, tiny.before, plan, {})
        inputs = mined.inputs([mined.fetch(reveal) for reveal in reveals.values()])
        assert malformed(inputs) == []
        return inputs, store

    return begin


def look(inputs: RoundInputs, store: EmbeddedStore, node: int) -> Finding:
    return reexecute(inputs, node, DEVICE, store)


@pytest.mark.parametrize("sharing", [{}, {"sharing": SHARING}], ids=["full", "compressed"])
@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_who_sends_it_is_slashed_and_who_worked_with_it_is_not(
    elsewhere: Elsewhere, inner: str, sharing: dict[str, Any]
) -> None:
    """Control: without the rule a verifier of another class finds the receiver wrong."""
    inputs, store = elsewhere("chosen", spec(inner, **sharing))
    codec = inputs.job.codec_at(inputs.plan.step)
    assert codec.lossless != bool(sharing)
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
    fivefold = codec.encode(
        scaled(honest.gradient, 5.0), None, inputs.plan.codec_seed(codec, VICTIM)
    )
    lie = replace(honest.reveal, content=digest_of(store.put_bytes(fivefold)))
    before = stage_of(inputs.job, inputs.before, honest.stage)
    sent = fetch_mined(lie, inputs.job, store, inputs.plan, before)
    others = [s for s in inputs.submissions if s is not honest]
    found = look(replace(inputs, submissions=[*others, sent]), store, VICTIM)
    assert found.violation is Violation.INVALID and "Replay disagrees" in found.reason


def test_who_lied_before_it_came_is_not_excused_by_it(elsewhere: Elsewhere) -> None:
    inputs, store = elsewhere(HOW[2], spec("adamw"))
    finding = look(inputs, store, VICTIM)
    assert finding.violation is Violation.INVALID and "What it handed on" in finding.reason
    assert look(inputs, store, CHEAT).violation is Violation.INVALID


def test_honest_work_of_that_machine_asks_nobody(elsewhere: Elsewhere) -> None:
    inputs, store = elsewhere("honest", spec("adamw"))
    with mock.patch.object(miners, "excusers", side_effect=AssertionError):
        assert all(look(inputs, store, node).violation is None for node in MINERS)


def test_a_sender_that_shows_nothing_is_not_found_for_it(elsewhere: Elsewhere) -> None:
    """Not defended: it loses the round's pay, and the receiver its passes beside it. So a receiver
    that leaves work out has less than it and its friend have by honest work of both, while a round
    costs less than 0.6 of its pay."""
    inputs, store = elsewhere("chosen", spec("adamw"))
    inputs = replace(inputs, submissions=left_out(inputs.submissions, {CHEAT}))
    finding = look(inputs, store, VICTIM)
    assert finding.violation is None and finding.ask == (CHEAT,)
    assert suspects_by_findings(inputs, [finding]) == {}
    beside = PAY / len(STAGES[0])
    assert (
        won("a receiver leaves work out, its friend shows nothing", PAY - beside - 2 * (PAY - COST))
        < 0
    )


@pytest.mark.parametrize("step", [1, 2], ids=["compressed", "full"])
def test_what_a_receiver_owes_of_it_is_judged_by_its_own_class_alone(
    elsewhere: Elsewhere, tmp_path: Path, step: int
) -> None:
    """In the round after the gradient's, miner and verifier make the same change and add what each
    of them says is owed. Control: without the rule another class finds the miner wrong."""
    inputs, store = elsewhere("chosen", spec("adamw"))
    mined = next(s for s in inputs.submissions if s.reveal.node == VICTIM)
    assert isinstance(mined, Mined) and mined.gradient is not None and inputs.plan.epoch is not None
    before = stage_of(inputs.job, inputs.before, mined.stage)
    entries = tuple(read_inbox(mined, inputs.job, inputs.plan.epoch, store))
    fields = spec("adamw", sharing=SHARING)
    later = make_mined_round(EmbeddedStore(tmp_path / "later"), **fields)
    later = replace(later, plan=replace(later.plan, step=step))
    job, plan, (_, there) = later.job, later.plan, fields["classes"]
    codec, seed, shapes = job.codec_at(0), b"first round", job.stage_shapes(mined.stage)
    sent = codec.decode(codec.encode(dict(mined.gradient), None, seed), shapes, seed)

    def owed(made: State) -> State:
        """After a first round with this change, in which the miner sent what it did."""
        return dict(codec.remember(made, None, sent) or {})

    def replayed(start: State) -> State:
        work = replay(begun(inputs.job, inputs.plan, VICTIM, start, DEVICE), entries)
        return owed(change(before, work.state()))

    payload, _ = packed(job, plan, VICTIM, later.works[VICTIM].change, owed(dict(mined.gradient)))

    def judged(stated: str, moved: Callable[[bytes], State]) -> Finding:
        one = later.submit(VICTIM, payload=payload, determinism=stated)
        memories = {
            "memory": lambda node: replayed(before),
            "moved_memory": lambda node, drawn: moved(drawn),
        }
        place = replace(later.inputs([]), submissions=[one], **memories)
        return look(place, later.store, VICTIM)

    wronged = judged(there, lambda drawn: replayed(before))
    assert wronged.violation is Violation.INVALID and "Replay disagrees" in wronged.reason
    print(f"without the rule: {wronged.reason}")
    finding = judged(there, lambda drawn: replayed(last_bits.moved(before, drawn)))
    assert finding.violation is None and "what it owes of earlier rounds" in finding.unsure
    assert finding.ask == ()
    # This machine's bits are not those: of this class it would be a lie.
    assert judged(here(), lambda drawn: replayed(last_bits.moved(before, drawn))).violation


def test_by_segments_a_receiver_is_judged_by_its_own_class_alone(tmp_path: Path) -> None:
    """Its one segment with the gradient is decided by rounding, for another class. The sender's
    segment with it is not, and is found if it is drawn. Control: without the rule the receiver's
    is found as well."""
    fields = {**spec("adamw", segment=1), "batches_per_round": 14}
    told = {"how": "chosen", "fields": fields}
    reveals = on_another_machine(tmp_path, told, ELSEWHERE, MODULE)
    store = EmbeddedStore(tmp_path)
    tiny, plan = make_mined_job(store, **fields)
    mined = MinedRound(store, tiny.published, tiny.job, tiny.before, plan, {})
    found: dict[int, dict[int, Finding]] = {node: {} for node in MINERS}
    wronged: dict[int, bool] = {}
    for seed in (bytes([number]) * 32 for number in range(64)):
        inputs = mined.inputs([mined.fetch(reveal, seed) for reveal in reveals.values()])
        for one in inputs.submissions:
            node = one.reveal.node
            assert isinstance(one, Mined) and one.segment is not None
            if one.segment.index in found[node]:
                continue
            found[node][one.segment.index] = look(inputs, store, node)
            if node == VICTIM:
                with mock.patch.object(miners, "excusers", return_value=()):
                    wronged[one.segment.index] = look(inputs, store, node).violation is not None
    false = {
        node: [index for index, one in drawn.items() if one.violation is not None]
        for node, drawn in found.items()
    }
    assert [node for node in MINERS if false[node]] == [CHEAT] and len(false[CHEAT]) == 1
    (place,) = (index for index, wrong in wronged.items() if wrong)
    assert found[VICTIM][place].unsure and CHEAT in found[VICTIM][place].ask
    assert len(found[CHEAT]) > 2
    won(
        "a chosen gradient, by segments, if its sender is drawn", -(PAY + SLASH) / len(found[CHEAT])
    )


class Lying(StageWork):
    """The receiver moves its weights as it likes in each step."""

    def do(self, entry: Entry) -> Passed:
        if (self.miner, entry.kind) != (VICTIM, Kind.STEP):
            return super().do(entry)
        passed = self._runner.do(Step())
        self.falsely()
        self.stepped()
        return passed

    def falsely(self) -> None:
        for tensor in self.state().values():
            tensor.add_(0.01)


class Huge(Lying):
    """Its published states hold numbers that no last bit can be added to, so that weights which
    were moved would be apart from them by more than any distance. Its last state holds none."""

    ends = 3

    def falsely(self) -> None:
        super().falsely()
        weights = self.state()
        rows = weights[next(name for name in sorted(weights) if "embedding" in name)]
        rows[-1] = torch.finfo(torch.float32).max if self.steps < self.ends - 1 else 0.01


def test_by_segments_a_false_state_of_ones_own_excuses_nobody(tmp_path: Path) -> None:
    """Without a friend: another class finds each segment, as the miner's own does."""
    fields = {**spec("adamw", segment=1), "batches_per_round": 14}
    mined = played(EmbeddedStore(tmp_path), fields, "honest", Huge)
    assert len(mined.works[VICTIM].log.steps) == Huge.ends
    for stated in fields["classes"]:
        drawn: dict[int, Finding] = {}
        for seed in (bytes([number]) * 32 for number in range(64)):
            one = mined.submit(VICTIM, determinism=stated, audit_seed=seed)
            assert one.segment is not None and one.reason == ""
            if one.segment.index not in drawn:
                drawn[one.segment.index] = look(mined.inputs([one]), mined.store, VICTIM)
        assert len(drawn) == Huge.ends
        assert all(one.violation is Violation.INVALID for one in drawn.values())


def test_by_segments_who_lies_beside_such_a_gradient_is_found_by_its_own_class(
    tmp_path: Path,
) -> None:
    """Another class has no word on the segment with the gradient, and finds all others."""
    fields = {**spec("adamw", segment=1), "batches_per_round": 14}
    mined = played(EmbeddedStore(tmp_path), fields, "chosen", Lying)
    unjudged = {}
    for stated in fields["classes"]:
        drawn: dict[int, Finding] = {}
        for seed in (bytes([number]) * 32 for number in range(64)):
            one = mined.submit(VICTIM, determinism=stated, audit_seed=seed)
            assert one.segment is not None
            if one.segment.index not in drawn:
                drawn[one.segment.index] = look(mined.inputs([one]), mined.store, VICTIM)
        assert len(drawn) > 2
        unjudged[stated] = [one for one in drawn.values() if one.violation is None]
    assert unjudged.pop(here()) == []
    ((unsure,),) = unjudged.values()
    assert CHEAT in unsure.ask and unsure.unsure


if __name__ == "__main__":
    place, given = asked()
    answer(revealed(played(place, given["fields"], given["how"])))
