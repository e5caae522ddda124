# SPDX-License-Identifier: Apache-2.0
"""One segment of a miner's epoch done again, from the state that it published before it.

Honest miners pass whichever segment is drawn. What is false in one step is found if its segment is
drawn and only then; what is false in the states or the payload is found in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.pipeline.checkpoint import joined, parted, state_hash
from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.miner_log import Kind, MinerLog
from agents.pipeline.stage import Passed, Step
from agents.pipeline.work import StageWork, change
from agents.protocol.numbers import Violation
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.determinism import determinism_class
from agents.training.state import State, model_hash, save_state
from agents.verify import segments
from agents.verify.miners import Verdict, check_miner
from agents.verify.reexecution import Comparison, compare
from agents.verify.spot_checks import malformed, suspects
from tests.stage.memory.honest_round import AUDIT_SEED, DEVICE, JOB, ROUND, scaled
from tests.stage.memory.mined_round import (
    MINERS,
    OTHER_CLASS,
    PIPELINE,
    MinedRound,
    copied,
    make_mined_job,
    make_mined_round,
    signed,
    stage_before,
)
from tests.stage.memory.other_machine import class_there, on_another_machine

NODE, PEER, LAST = 3, 7, 2  # two of the middle and one of the last stage
SEEDS = [bytes([number]) * 32 for number in range(64)]
MUON = {"inner": "muon", "inner_options": {"lr_ratio": 2.0}}


def segmented(folder: Path, segment: int = 1, **changes: Any) -> MinedRound:
    """Three or more steps a miner, of two passes each; the last may have one."""
    pipeline = {**PIPELINE, "segment": segment}
    store = EmbeddedStore(folder / "store")
    return make_mined_round(store, pipeline=pipeline, batches_per_round=14, **changes)


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    return segmented(tmp_path_factory.mktemp("segments"))


def check(mined: MinedRound, one: Mined) -> Verdict:
    """Without the round's merge, which a committee member does not need either."""
    assert one.reason == ""
    place = mined.job, JOB, ROUND, mined.plan, mined.before, [one]
    return check_miner(RoundInputs(*place, signed=signed), one, DEVICE, mined.store)


def seeds_of(log: MinerLog, length: int) -> dict[int, bytes]:
    """By segment, a seed that draws it: all there are."""
    found: dict[int, bytes] = {}
    for seed in SEEDS:
        found.setdefault(log.segment(seed, length).index, seed)
    count = -(-len(log.steps) // length)
    assert sorted(found) == list(range(count))
    return found


def drawn(mined: MinedRound, node: int, **shown: Any) -> Iterator[tuple[int, Mined]]:
    """The miner's submission, by each segment that can be drawn."""
    length = mined.job.spec.segment
    for index, seed in sorted(seeds_of(mined.works[node].log, length).items()):
        yield index, mined.submit(node, audit_seed=seed, **shown)


# -- honest miners ---------------------------------------------------------------------------------


@pytest.mark.parametrize("segment", [1, 2])
@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_an_honest_miner_passes_whichever_segment_is_drawn(
    tmp_path: Path, inner: str, segment: int
) -> None:
    """In its own class to the bit, and as a miner of another one."""
    changes: dict[str, Any] = {}
    if inner == "muon":
        changes["optimizer"] = {"batch_size": 2, "seq_len": 16, "lr": 1e-2, **MUON}
    mined = segmented(tmp_path, segment, **changes)
    ragged = 0
    for node in MINERS:
        steps = len(mined.works[node].log.steps)
        assert steps >= 3
        ragged += steps % segment != 0
        for determinism in ("", OTHER_CLASS):
            for index, one in drawn(mined, node, determinism=determinism):
                verdict = check(mined, one)
                assert verdict.right, verdict.reason
                assert verdict.details["segment"] == index
    assert ragged or segment == 1


def test_segments_change_no_weights_and_no_message(tmp_path: Path) -> None:
    """The epoch is the same to the bit; the log's state hashes are others."""
    whole = make_mined_round(EmbeddedStore(tmp_path / "whole"), batches_per_round=14)
    cut = segmented(tmp_path, 2)
    for node in MINERS:
        one, other = whole.works[node], cut.works[node]
        assert model_hash(one.change) == model_hash(other.change)
        assert one.losses == other.losses and one.entries == other.entries
        for mine, theirs in zip(one.log.events, other.log.events, strict=True):
            assert (mine == theirs) == (mine.kind is not Kind.STEP)


def test_a_miner_without_a_sample_publishes_no_state_and_passes(tmp_path: Path) -> None:
    mined = make_mined_round(
        EmbeddedStore(tmp_path), pipeline={**PIPELINE, "segment": 1}, batches_per_round=2
    )
    (idle,) = [node for node in MINERS if not mined.works[node].log.events]
    found = mined.submit(idle)
    assert check(mined, found).right and found.states == ()
    moved = {n: torch.full_like(t, 0.01) for n, t in mined.works[idle].change.items()}
    assert "is not the change" in mined.submit(idle, payload=mined.encode(moved)).reason


def test_states_are_bound_by_what_everybody_can_say_of_the_epochs_start(mined: MinedRound) -> None:
    log = mined.works[NODE].log
    assert log.origin.state == state_hash(model_hash(stage_before(mined, 1)))
    weights, optimizer = parted(mined.works[NODE].states[0])
    assert log.state_after(1) == state_hash(model_hash(weights), model_hash(optimizer))


# -- work that is false ----------------------------------------------------------------------------


class FalseStep(StageWork):
    """Miner 3 moves its weights as it likes in step 1, and logs what came of it."""

    def do(self, entry: Entry) -> Passed:
        if (self.miner, entry.kind, entry.sample) != (NODE, Kind.STEP, 1):
            return super().do(entry)
        passed = self.falsely()
        self.stepped()
        return passed

    def falsely(self) -> Passed:
        passed = self._runner.do(Step())
        for tensor in self.state().values():
            tensor.add_(0.01)
        return passed


class ChosenMoments(FalseStep):
    """Its weights are those of the step; its moments it chooses, so that the next step leaps."""

    def falsely(self) -> Passed:
        passed = self._runner.do(Step())
        self.optimizer()["second"].mul_(1e-2)
        return passed


class Skipped(FalseStep):
    """It counts a step and makes none."""

    def falsely(self) -> Passed:
        kept = copied(self.state() | self.optimizer())
        passed = self._runner.do(Step())
        for name, tensor in (self.state() | self.optimizer()).items():
            tensor.copy_(kept[name])
        return passed


FALSE = {"false step": FalseStep, "chosen moments": ChosenMoments, "skipped step": Skipped}


@pytest.mark.parametrize("determinism", ["", OTHER_CLASS])
@pytest.mark.parametrize("how", FALSE)
def test_a_false_step_is_found_if_its_segment_is_drawn_and_only_then(
    tmp_path: Path, how: str, determinism: str
) -> None:
    """All that it publishes fits its log, and what follows the step is honest."""
    mined = segmented(tmp_path, 1, work=FALSE[how])
    for index, one in drawn(mined, NODE, determinism=determinism):
        assert check(mined, one).right == (index != 1)
    assert all(check(mined, mined.submit(node)).right for node in MINERS if node != NODE)


@pytest.mark.parametrize("determinism", ["", OTHER_CLASS])
def test_a_false_loss_is_found_in_its_segment(mined: MinedRound, determinism: str) -> None:
    (sample, loss), *others = mined.works[LAST].losses
    told = ((sample, round(loss * 0.99)), *others)
    log = mined.works[LAST].log
    wrong = 0
    for index, one in drawn(mined, LAST, losses=told, determinism=determinism):
        samples = {
            event.number for event in log.part(index, 1).events if event.kind is Kind.FORWARD
        }
        verdict = check(mined, one)
        assert verdict.right == (sample not in samples)
        # In its class the log, which binds the loss, differs by a bit.
        wrong += ("The loss of sample" if determinism else "differs from replay") in verdict.reason
    assert wrong == 1


def test_what_nobody_signed_is_found_in_its_segment(mined: MinedRound) -> None:
    entries = list(mined.works[NODE].entries)
    at = next(i for i, entry in enumerate(entries) if entry.kind is Kind.FORWARD)
    entries[at] = replace(entries[at], signature=bytes(65))
    inbox = Inbox(tuple(entries)).to_bytes()
    for index, one in drawn(mined, NODE, inbox=inbox):
        verdict = check(mined, one)
        assert verdict.right == (index != 0)
        assert verdict.right or "did not sign what came in" in verdict.reason


# -- what is published -----------------------------------------------------------------------------


def with_state(mined: MinedRound, place: int, raw: bytes) -> dict[str, Any]:
    states = list(mined.shown(NODE).states)
    states[place] = raw
    return {"states": tuple(states)}


def spoilt(raw: bytes, value: bytes) -> bytes:
    return raw[:-4] + value


STATES: dict[str, tuple[Callable[[MinedRound, bytes], bytes], str]] = {
    "that of another step": (lambda m, raw: m.shown(NODE).states[1], "is not the one in its log"),
    "one number changed": (lambda m, raw: spoilt(raw, b"\0\0\0\x3f"), "is not the one in its log"),
    "cut": (lambda m, raw: raw[:-4], "bad payload"),
    "empty": (lambda m, raw: b"", "too few for a safetensors header"),
    "not a number": (lambda m, raw: spoilt(raw, b"\0\0\xc0\x7f"), "holds NaN or infinity"),
    "huge": (lambda m, raw: bytes(1 << 20), "too large"),
    "weights alone": (lambda m, raw: save_state(m.works[NODE].last), "tensor names differ"),
}


@pytest.mark.parametrize("how", STATES)
def test_a_state_that_is_not_the_logs_makes_the_payload_bad_if_it_is_asked_for(
    mined: MinedRound, how: str
) -> None:
    """It is asked for where a segment begins or ends with it. Then nothing needs to be done again:
    the miner is found invalid."""
    make, why = STATES[how]
    shown = with_state(mined, 0, make(mined, mined.shown(NODE).states[0]))
    for index, one in drawn(mined, NODE, **shown):
        assert (one.reason == "") == (index > 1)
        if one.reason:
            assert why in one.reason and not one.unavailable
            findings = malformed(mined.inputs([one, *mined.honest(without=(NODE,))]))
            assert [(f.node, f.violation) for f in findings] == [(NODE, Violation.INVALID)]
        else:
            assert check(mined, one).right


def test_a_withheld_state_makes_the_payload_unavailable_if_it_is_asked_for(tmp_path: Path) -> None:
    """So who sees what is drawn and withdraws it is neither merged nor paid, and is not slashed."""
    mined = segmented(tmp_path)
    ended = mined.submit(PEER, withheld=(-1,))
    assert ended.unavailable
    for index, one in drawn(mined, NODE, withheld=(0,)):
        assert one.unavailable == (index < 2) and (one.gradient is None) == one.unavailable
    submissions = [ended, *mined.honest(without=(PEER,))]
    assert PEER not in mined.compute(submissions).paid()
    inputs = mined.inputs(submissions, sample=99)
    assert not malformed(inputs) and PEER not in suspects(inputs, mined.store)


WEIGHTS: Mapping[str, tuple[Callable[[MinedRound], dict[str, Any]], str]] = {
    "other weights": (
        lambda m: {"weights": save_state(scaled(m.works[NODE].last, 2.0))},
        "are not those in its log",
    ),
    "another optimizer": (lambda m: {"optimizer": "00" * 32}, "are not those in its log"),
    "no weights": (lambda m: {"weights": None}, "names no weights"),
    "no optimizer": (lambda m: {"optimizer": None}, "names no weights"),
    "a state too few": (lambda m: {"states": m.shown(NODE).states[:-1]}, "states of"),
    "a state too many": (
        lambda m: {"states": (*m.shown(NODE).states, m.shown(NODE).states[0])},
        "states of",
    ),
    "another payload": (
        lambda m: {"payload": m.encode(scaled(m.works[NODE].change, 2.0))},
        "is not the change",
    ),
    "its change in reverse": (
        lambda m: {"payload": m.encode(scaled(m.works[NODE].change, -1.0))},
        "is not the change",
    ),
}


@pytest.mark.parametrize("how", WEIGHTS)
def test_a_payload_that_is_not_the_change_to_the_logs_last_state_is_bad_whatever_is_drawn(
    mined: MinedRound, how: str
) -> None:
    make, why = WEIGHTS[how]
    for _, one in drawn(mined, NODE, **make(mined)):
        assert why in one.reason and not one.unavailable


def test_before_the_seed_is_known_nothing_is_there(mined: MinedRound) -> None:
    reveal = mined.submit(NODE).reveal
    found = mined.fetch(reveal, None)
    assert found.unavailable and "seed is not known yet" in found.reason
    assert mined.fetch(reveal).gradient is not None


def test_who_lists_one_class_needs_no_state_after_the_segment(tmp_path: Path) -> None:
    """Its last step's hash says it all to verifiers of that class, who need not read it."""
    mined = segmented(tmp_path, 1, classes=[determinism_class(DEVICE)])
    for index, one in drawn(mined, NODE):
        steps = len(mined.works[NODE].log.steps)
        assert len(one.states) == 1 + (index > 0)
        assert index < steps and check(mined, one).right


def test_the_result_rests_on_the_states_that_are_asked_for(mined: MinedRound) -> None:
    """Whoever proposes it pins them, so nobody can withdraw them later."""
    honest = mined.honest()
    resting = set(mined.compute(honest).rests_on)
    for one in honest:
        assert one.states and resting >= {digest_of(cid) for cid in one.states}
        assert one.segment == mined.works[one.reveal.node].log.segment(AUDIT_SEED, 1)
        last = mined.shown(one.reveal.node).weights
        assert last is not None and one.states[-1] == cid_of_bytes(last)


# -- in another class ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A state after a segment, which a miner of another class publishes in the place of its own."""

    change: Callable[[State, State], tuple[State, State]]
    why: str = ""  # of a refusal; empty where it passes


def only(optimizer: State, name: str, factor: float, below: float = float("inf")) -> State:
    made = {key: tensor.clone() for key, tensor in optimizer.items()}
    small = made[name].abs() < below
    made[name][small] *= factor
    return made


CASES: dict[str, Case] = {
    "rounded": Case(lambda w, o: (scaled(w, 1 + 1e-7), only(o, "first", 1 + 1e-5))),
    "weights moved": Case(lambda w, o: (scaled(w, 1.01), o), "Replay disagrees: cosine"),
    "no first moment": Case(lambda w, o: (w, only(o, "first", 0.0)), "The optimizer's first"),
    "no second moment": Case(lambda w, o: (w, only(o, "second", 0.0)), "The optimizer's second"),
    "small second moments gone": Case(
        lambda w, o: (w, only(o, "second", 0.0, 1e-9)), "The next step from the optimizer"
    ),
    "negative second moments": Case(
        lambda w, o: (w, only(o, "second", -1.0, 1e-12)), "is not finite"
    ),
    "both scaled alike": Case(
        lambda w, o: (w, only(only(o, "first", 10.0), "second", 100.0)), "The optimizer's first"
    ),
    "another step": Case(
        lambda w, o: (w, o | {"steps": torch.tensor([0.0, 3.0])}), "after 3 steps, not 1"
    ),
}


@pytest.mark.parametrize("how", CASES)
def test_in_another_class_a_state_may_be_rounded_and_no_more(mined: MinedRound, how: str) -> None:
    """The log states the hash of what it publishes after its first segment."""
    work, case = mined.works[NODE], CASES[how]
    weights, optimizer = case.change(*parted(work.states[0]))
    log = retold(work.log, state_hash(model_hash(weights), model_hash(optimizer)))
    states = (save_state(joined(weights, optimizer)), *mined.shown(NODE).states[1:])
    shown = {"trace": log.to_bytes(), "root": log.root(), "states": states}
    seed = seeds_of(work.log, 1)[0]
    one = mined.submit(NODE, determinism=OTHER_CLASS, audit_seed=seed, **shown)
    verdict = check(mined, one)
    assert verdict.right == (not case.why), verdict.reason
    assert case.why in verdict.reason
    assert not verdict.right or verdict.unsure


@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_a_miner_of_another_machine_passes_whichever_segment_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    """It worked in a process of its own, without vector instructions, so its bits are others."""
    spec: dict[str, Any] = {"pipeline": {**PIPELINE, "segment": 2}, "batches_per_round": 14}
    spec["classes"] = [determinism_class(DEVICE), class_there()]
    if inner == "muon":
        spec["optimizer"] = {"batch_size": 2, "seq_len": 16, "lr": 1e-2, **MUON}
    reveals = on_another_machine(tmp_path, spec)
    tiny, plan = make_mined_job(EmbeddedStore(tmp_path), **spec)
    mined = MinedRound(tiny.store, tiny.published, tiny.job, tiny.before, plan, {})
    apart: list[float] = []

    def noted(*given: Any) -> Comparison:
        found = compare(*given)
        apart.append(found.rel_l2)
        return found

    monkeypatch.setattr(segments, "compare", noted)
    inexact = 0
    for reveal in reveals.values():
        log = mined.fetch(reveal).log
        assert log is not None
        for seed in seeds_of(log, 2).values():
            verdict = check(mined, mined.fetch(reveal, seed))
            assert verdict.right, verdict.reason
            inexact += bool(verdict.unsure)
    assert inexact, "both machines give the same bits"
    limit = mined.job.spec.tolerances.rel_l2_max
    print(f"{inner}: honest states are at most {max(apart):.1e} apart, {limit} are allowed")
    assert max(apart) < 0.1 * limit


def retold(log: MinerLog, state: bytes) -> MinerLog:
    """The log with another state after its first step."""
    events = list(log.events)
    first, second = log.steps[:2]
    events[first] = replace(events[first], digest_out=state)
    events[second] = replace(events[second], digest_in=state)
    return replace(log, events=tuple(events))


def test_the_change_of_the_last_weights_is_the_payload(mined: MinedRound) -> None:
    work = mined.works[NODE]
    assert model_hash(change(stage_before(mined, 1), work.last)) == model_hash(work.change)
