# SPDX-License-Identifier: Apache-2.0
"""Who works on nothing, makes a step up, or sends something else, in a round that runs."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_utils import keccak

from agents.mechanisms.boundary.parts.wire import HEADER_BYTES
from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.letters import sign_passage
from agents.pipeline.miner_log import Kind
from agents.pipeline.stage import Passed, Step
from agents.pipeline.work import StageWork, digest
from agents.protocol.draw import CERTAIN
from agents.protocol.draw_chance import exposures, lasting_loss
from agents.protocol.numbers import ZOO
from agents.protocol.slashing import DEFAULTS
from agents.rounds.mined import Mined
from agents.rounds.outcome import compute
from agents.storage.embedded import EmbeddedStore
from agents.verify.spot_checks import malformed, reexecute
from tests.stage.memory.honest_round import DEVICE, JOB, scaled
from tests.stage.memory.mined_round import (
    PIPELINE,
    WALLETS,
    WHERE,
    MinedRound,
    copied,
    make_mined_round,
)
from tests.stage.memory.miners_pot import (
    COST,
    MATE,
    PAY,
    POISON_WORTH,
    POT,
    RIDER,
    SLASH,
    seeds,
    won,
)

RIDES = {
    # What a forward sends in place of its code: what was sent before, and the code.
    "stale": lambda sent, mates, code: sent[0] if sent else code,
    "copied": lambda sent, mates, code: mates[-1] if mates else code,
    "random": lambda sent, mates, code: at_random(code, len(sent)),
}


def at_random(code: bytes, seed: int) -> bytes:
    """Other numbers in bf16, near one in magnitude, behind the same header."""
    lots, numbers = random.Random(seed), (len(code) - HEADER_BYTES) // 2
    drawn = (bytes([lots.randrange(256), lots.randrange(0x3E, 0x41)]) for _ in range(numbers))
    return code[:HEADER_BYTES] + b"".join(drawn)


def riding(folder: Path, how: str, logs_it: bool) -> tuple[MinedRound, list[Mined]]:
    """The rider sends other codes. `logs_it`: whether its log says what it sent, as if it had made
    it; else the log says what honest work gives."""
    sent: list[bytes] = []
    mates: list[bytes] = []
    told: dict[int, bytes] = {}

    def instead(passage: Passage, message: bytes) -> bytes:
        if passage.kind is not Kind.FORWARD or passage.sender not in (RIDER, MATE):
            return message
        if passage.sender == MATE:
            mates.append(message)
            return message
        out = RIDES[how](sent, mates, message)
        sent.append(out)
        told[passage.sample] = keccak(out)
        return out

    mined = make_mined_round(EmbeddedStore(folder / "store"), sent=instead, batches_per_round=12)
    log = mined.works[RIDER].log
    events = [
        replace(event, digest_out=told.get(event.number, event.digest_out))
        if event.kind is Kind.FORWARD
        else event
        for event in log.events
    ]
    shown = replace(log, events=tuple(events)) if logs_it else log
    rider = mined.submit(RIDER, trace=shown.to_bytes(), root=shown.root())
    return mined, [rider, *mined.honest(without=(RIDER,))]


def convicted(mined: MinedRound, found: list[Mined], cheat: int) -> float:
    """The chance that the cheat is convicted: certain where logs deny it, else as it is drawn. No
    other is found wrong."""
    inputs = mined.inputs(sorted(found, key=lambda one: one.reveal.node))
    findings = {finding.node for finding in malformed(inputs)}
    assert findings <= {cheat}
    wrong = {m for m in mined.works if reexecute(inputs, m, DEVICE, mined.store).violation}
    assert wrong <= {cheat} and (wrong or findings)
    return 1.0 if findings else DRAWN / len(mined.works)


DRAWN = 2  # `audit_sample` of a job that does not say another


@pytest.mark.parametrize("logs_it", [False, True])
@pytest.mark.parametrize("how", RIDES)
def test_free_rider_sends_stale_random_or_copied_codes__it_loses(
    tmp_path: Path, how: str, logs_it: bool
) -> None:
    """At best it saves all of its work. Control: its receivers, who worked on them, are right."""
    mined, found = riding(tmp_path, how, logs_it)
    share = POT / len(mined.works)
    chance = convicted(mined, found, RIDER)
    assert (chance == 1) == (not logs_it)
    profit = share * COST / PAY - chance * (share + SLASH)
    where = "in its log too" if logs_it else "not in its log"
    assert won(f"free rider, {how} codes, {where}, convicted {chance:.0%}", profit) < 0


@pytest.mark.parametrize("gamma", [1, 2, 4])
def test_newcomer_lies_once_where_passes_are_paid_in_several_rounds__it_is_drawn_by_all_its_pay(
    tmp_path: Path, gamma: int
) -> None:
    """It did nothing in the rounds before, and leaves after this one, in which alone it can be
    found. Six miners share 240 ZOO, and each has a stake of 100. Control: drawn by its pay in the
    round of the lie."""
    mined = make_mined_round(EmbeddedStore(tmp_path / "store"), score_options={"gamma": gamma})
    before = mined.compute(mined.honest()).report.delivered(())
    del before[RIDER]
    plan = replace(mined.plan, step=gamma, earlier=(before,) * (gamma - 1))
    outcome = compute(mined.job, JOB, 1, plan, mined.before, mined.honest(), DEVICE)
    losses = dict.fromkeys(outcome.nodes, lasting_loss(100 * ZOO, DEFAULTS))
    place = 240 * ZOO, 0, outcome.nodes, outcome.contributions, losses
    once, in_all = exposures(*place)[RIDER], exposures(*place, outcome.worth(mined.job))[RIDER]
    profit = []
    for name, found in (("its pay in that round", once), ("all its pay", in_all)):
        chance = found.chance / CERTAIN
        profit.append(((1 - chance) * gamma * once.pay - chance * once.loss) / ZOO)
        won(f"lies once, gamma {gamma}, drawn with {chance:.1%} by {name}", profit[-1])
    assert profit[1] < -1
    assert (profit[0] > 3) == (gamma > 1)


class HalfIdle(StageWork):
    """The rider makes every second step up: its codes, its gradients and its weights are those of
    before. Its log, its states and its payload fit each other, and its other steps are honest."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._old: dict[Kind, Passed] = {}

    def do(self, entry: Entry) -> Passed:
        if self.miner != RIDER:
            return super().do(entry)
        if entry.kind is not Kind.STEP:
            passed = super().do(entry)
            old = self._old.setdefault(entry.kind, passed)
            if not self.is_idle:
                return passed
            event = self.events.pop()
            self.events.append(replace(event, digest_out=digest(old.message)))
            return old
        if not self.is_idle:
            return super().do(entry)
        kept = copied(self.state() | self.optimizer())
        passed = self._runner.do(Step())
        for name, tensor in (self.state() | self.optimizer()).items():
            tensor.copy_(kept[name])
        self.stepped()
        return passed

    @property
    def is_idle(self) -> bool:
        return self.steps % 2 == 1


def found_by_segment(mined: MinedRound, length: int) -> float:
    """The share of seeds that draw a segment which shows that the rider is wrong. No other miner
    is found wrong by any of its own."""
    shares = {}
    for node, work in mined.works.items():
        wrong: dict[int, bool] = {}
        drawn_parts = [work.log.segment(seed, length).index for seed in seeds(60)]
        for seed, index in zip(seeds(60), drawn_parts, strict=True):
            if index not in wrong:
                one = mined.submit(node, audit_seed=seed)
                wrong[index] = (
                    reexecute(mined.inputs([one]), node, DEVICE, mined.store).label != "ok"
                )
        shares[node] = statistics.fmean(wrong[index] for index in drawn_parts)
    rider = shares.pop(RIDER)
    assert set(shares.values()) == {0.0}
    return rider


@pytest.mark.parametrize("length", [0, 1, 2])
def test_free_rider_makes_half_of_its_steps_up__a_segment_finds_it_half_as_often_and_it_loses(
    tmp_path: Path, length: int
) -> None:
    """It saves half of its work. Control: a whole epoch done again finds it when it is drawn."""
    pipeline = {**PIPELINE, "segment": length} if length else PIPELINE
    store = EmbeddedStore(tmp_path / "store")
    mined = make_mined_round(store, work=HalfIdle, batches_per_round=30, pipeline=pipeline)
    steps = len(mined.works[RIDER].log.steps)
    idle = steps // 2 / steps
    share, chance = POT / len(mined.works), DRAWN / len(mined.works)
    if length:
        seen = found_by_segment(mined, length)
        assert seen == pytest.approx(idle if length == 1 else 1.0, abs=0.15)
        chance *= seen
    else:
        rider = mined.submit(RIDER)
        assert reexecute(mined.inputs([rider]), RIDER, DEVICE, mined.store).violation
    profit = idle * share * COST / PAY - chance * (share + SLASH)
    name = f"segments of {length}" if length else "the whole epoch"
    assert won(f"half of {steps} steps made up, {name}, convicted {chance:.0%}", profit) < 0


class OneFalse(StageWork):
    """The rider does all of its work, and moves its weights as it likes in its second step."""

    def do(self, entry: Entry) -> Passed:
        if (self.miner, entry.kind, entry.sample) != (RIDER, Kind.STEP, 1):
            return super().do(entry)
        passed = self._runner.do(Step())
        for tensor in self.state().values():
            tensor.mul_(0.9)  # more is refused (`agents.rounds.stage_bound`)
        self.stepped()
        return passed


@pytest.mark.parametrize("length", [0, 1, 5])
def test_poisoner_makes_one_step_false__segments_find_it_seldom_and_do_not_defend(
    tmp_path: Path, length: int
) -> None:
    """What it gains is worth what a poisoned shard is. Only a whole epoch done again finds it as
    often as it is drawn; two segments find it half as often."""
    pipeline = {**PIPELINE, "segment": length} if length else PIPELINE
    store = EmbeddedStore(tmp_path / "store")
    mined = make_mined_round(store, work=OneFalse, batches_per_round=30, pipeline=pipeline)
    steps = len(mined.works[RIDER].log.steps)
    chance = DRAWN / len(mined.works)
    if length:
        seen = found_by_segment(mined, length)
        assert seen == pytest.approx(length / steps, abs=0.15)
        chance *= length / steps
    else:
        rider = mined.submit(RIDER)
        assert reexecute(mined.inputs([rider]), RIDER, DEVICE, mined.store).violation
    profit = POISON_WORTH - chance * (POT / len(mined.works) + SLASH)
    name = f"segments of {length}" if length else "the whole epoch"
    won(f"one of {steps} steps false, {name}, convicted {chance:.1%}", profit)
    assert (profit > 0) == (length == 1)


@pytest.mark.parametrize("how", ["reversed", "twice", "a mate's"])
def test_poisoner_sends_another_change_than_its_log_gives__it_loses(
    tmp_path: Path, how: str
) -> None:
    """It does all of its work, and a poisoned stage is worth what a poisoned shard is. With its
    mate's change it does no work."""
    mined = make_mined_round(EmbeddedStore(tmp_path / "store"), batches_per_round=12)
    own, mate = mined.works[RIDER].change, mined.works[MATE].change
    change = {"reversed": scaled(own, -1.0), "twice": scaled(own, 2.0), "a mate's": mate}[how]
    poisoned = mined.submit(RIDER, payload=mined.encode(change))
    chance = convicted(mined, [poisoned, *mined.honest(without=(RIDER,))], RIDER)
    share = POT / len(mined.works)
    worth = share * COST / PAY if how == "a mate's" else POISON_WORTH
    profit = worth - chance * (share + SLASH)
    assert won(f"poisoner, {how}, convicted {chance:.0%}", profit) < 0


@pytest.mark.parametrize("how", ["replayed", "foreign"])
def test_replayed_or_foreign_activation_is_shown__nobody_signed_it_for_this_passage(
    tmp_path: Path, how: str
) -> None:
    """It claims a pass of an activation of another sample, or of an epoch before."""
    mined = make_mined_round(EmbeddedStore(tmp_path / "store"), batches_per_round=12)
    work, epoch = mined.works[RIDER], mined.plan.epoch
    assert epoch is not None
    at, other = [i for i, one in enumerate(work.entries) if one.kind is Kind.FORWARD][:2]
    entry, old = work.entries[at], work.entries[other]
    if how == "replayed":
        shown = replace(entry, message=old.message, signature=old.signature)
    else:
        before = replace(epoch, seed=keccak(b"another epoch"))
        passage = Passage.of(before, entry.sample, entry.kind, entry.sender, RIDER)
        message = old.message
        signature = sign_passage(WALLETS[entry.sender], WHERE, passage, message)
        shown = replace(entry, message=message, signature=signature)
    event = replace(work.log.events[at], digest_in=keccak(shown.message))
    log = replace(work.log, events=(*work.log.events[:at], event, *work.log.events[at + 1 :]))
    inbox = Inbox((*work.entries[:at], shown, *work.entries[at + 1 :])).to_bytes()
    cheat = mined.submit(RIDER, trace=log.to_bytes(), root=log.root(), inbox=inbox)
    chance = convicted(mined, [cheat, *mined.honest(without=(RIDER,))], RIDER)
    assert chance == 1
    share = POT / len(mined.works)
    assert won(f"{how} activation", share * COST / PAY - share - SLASH) < -SLASH
