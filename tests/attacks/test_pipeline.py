# SPDX-License-Identifier: Apache-2.0
"""Attacks on the rules of pipeline mode: what they win without the rule, with it, and honestly.

No chain is needed: pay and slashes follow from the rules. Five stages of five miners share 1,000
ZOO an epoch, 40 each. A miner has 1,000 ZOO at stake; INVALID takes a fifth. Half of a miner's pay
is what its work costs. Amounts are in ZOO; `pytest -s` prints them.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from eth_utils import keccak

from agents.jobs.job import JobContext
from agents.mechanisms import merge as merges
from agents.mechanisms.boundary.parts.wire import HEADER_BYTES
from agents.pipeline.butterfly import Butterfly
from agents.pipeline.clasp import PPM, Clasp, PathLoss, lies
from agents.pipeline.credit import EpochPasses, payouts, scores, weighed
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.letters import sign_passage
from agents.pipeline.miner_log import Event, Kind, MinerLog, Origin
from agents.pipeline.passes import counted
from agents.pipeline.routes import route
from agents.pipeline.shards import Settlement, Statement, flat, merge_shards, settle
from agents.pipeline.stage import Passed, Step
from agents.pipeline.unclaimed import with_unclaimed
from agents.pipeline.work import StageWork, digest
from agents.protocol.draw import CERTAIN, draw
from agents.protocol.draw_chance import exposures, lasting_loss
from agents.protocol.numbers import UNCLAIMED, ZOO, Violation
from agents.protocol.slashing import DEFAULTS, slash_amount
from agents.rounds.mined import Mined
from agents.rounds.outcome import Outcome, compute
from agents.rounds.shares import Shares
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import PipelineSpec
from agents.verify.spot_checks import malformed, reexecute, suspects
from tests.stage.memory.honest_round import DEVICE, JOB, scaled
from tests.stage.memory.mined_round import (
    PIPELINE,
    WALLETS,
    WHERE,
    MinedRound,
    copied,
    make_mined_job,
    make_mined_round,
    work_through,
)

SEED = bytes(range(32))
STAGES = [list(range(10 * stage, 10 * stage + 5)) for stage in range(5)]
MINERS = [miner for stage in STAGES for miner in stage]
POT, PAY, COST, STAKE = 1000.0, 40.0, 20.0, 1000
SLASH = slash_amount(STAKE, 0, DEFAULTS[Violation.INVALID].bps)
SAMPLES = 2000


def seeds(count: int) -> list[bytes]:
    return [keccak(number.to_bytes(4, "big")) for number in range(count)]


def won(attack: str, profit: float) -> float:
    """The profit, printed."""
    print(f"{attack}: {profit:+.1f} ZOO")
    return profit


def pay(worth: dict[int, int], friends: Collection[int]) -> float:
    """What the attacker's miners are paid of the pot. `worth`: of all, nobody's as well."""
    paid = payouts(int(POT) * PPM, worth)
    return sum(paid[miner] for miner in friends if miner in paid) / PPM


@cache
def paths() -> list[tuple[int, ...]]:
    return [route(SEED, sample, STAGES) for sample in range(SAMPLES)]


# -- the miner of the last stage reports losses ------------------------------------------------

LIAR, FRIENDS, VICTIMS = 40, (0, 10, 20, 30, 40), (1, 11, 21, 31)


def losses(lying: bool) -> list[PathLoss]:
    """5 more for each victim in a path that the liar reports, and less for all its paths, so that
    its own mean stays and tells nothing."""
    noise = random.Random(1)
    added = [5 * len({*path} & {*VICTIMS}) if path[-1] == LIAR else None for path in paths()]
    mean = statistics.fmean(extra for extra in added if extra is not None)
    log = []
    for sample, (path, extra) in enumerate(zip(paths(), added, strict=True)):
        loss = noise.gauss(6.0, 0.5)
        if lying and extra is not None:
            loss += extra - mean
        log.append(PathLoss(sample, path, round(max(0.0, loss) * PPM)))
    return log


def paid_by_clasp(log: list[PathLoss], by_reporter: bool, liars: Collection[int] = ()) -> float:
    judged = Clasp(by_reporter=by_reporter).judge(log, liars)
    worth = weighed(dict.fromkeys(MINERS, PPM), {m: one.factor_ppm for m, one in judged.items()})
    return pay(worth, FRIENDS)


def test_lying_loss__by_plain_means_it_pays__by_the_median_of_reporters_it_does_not() -> None:
    """Control: everybody honest, the five friends have a fifth of the pot by either rule."""
    honest, lying = losses(False), losses(True)
    for by_reporter in (False, True):
        assert paid_by_clasp(honest, by_reporter) == 5 * PAY
    assert won("lying loss, plain means", paid_by_clasp(lying, False) - 5 * PAY) > 10
    assert won("lying loss, median of reporters", paid_by_clasp(lying, True) - 5 * PAY) == 0
    # A validator works one loss in fifty out again: the liar is convicted, and nobody else.
    true = {one.sample: one.loss for one in honest}
    looked_at = draw(SEED, range(SAMPLES), SAMPLES // 50)
    found = lies(lying, {sample: true[sample] for sample in looked_at}, tolerance=1)
    assert set(found) == {LIAR}
    assert lies(honest, true, tolerance=0) == {}
    caught = paid_by_clasp(lying, True, found) - SLASH - 5 * PAY
    assert won("lying loss, recomputed", caught) == pytest.approx(
        POT * 4 / 24 - 5 * PAY - SLASH, abs=0.1
    )


# -- the same lie in a round that runs: three miners a stage, paid by the score `clasp` ------------


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    """Everybody is honest."""
    store = EmbeddedStore(tmp_path_factory.mktemp("clasp") / "store")
    return make_mined_round(store, range(2, 11), batches_per_round=45, score="clasp")


def framing(mined: MinedRound, liars: Collection[int], victims: Collection[int]) -> list[Mined]:
    """The liars report 3 nats more for each victim on a way, and less for all."""
    found = []
    for one in mined.honest():
        node, epoch = one.reveal.node, mined.plan.epoch
        assert epoch is not None
        if node in liars:
            own = mined.works[node].losses
            ways = [{*route(epoch.seed, sample, epoch.stages)} for sample, _ in own]
            added = [3 * PPM * len(way & {*victims}) for way in ways]
            mean = statistics.fmean(added)
            told = zip(own, added, strict=True)
            losses = tuple((s, max(0, round(loss + more - mean))) for (s, loss), more in told)
            one = mined.submit(node, losses=losses)
        found.append(one)
    return found


def paid_in_round(
    mined: MinedRound,
    found: list[Mined],
    friends: Collection[int],
    convicted: Collection[int] = (),
    fixed: bool = False,
) -> float:
    """What a convicted miner would have got goes back to the job, to nobody else. `fixed`: the
    miners share all of the pot, so what is cut of one is the others'."""
    left, paid = {*friends} - {*convicted}, mined.compute(found).paid()
    if fixed:
        paid.pop(UNCLAIMED, None)
    return pay(paid, left) - SLASH * len(convicted)


@pytest.mark.parametrize(
    ("by_reporter", "count", "shared", "audited"),
    [(False, 1, 19.2, True), (True, 1, 0, False), (True, 2, 59.5, True)],
)
def test_lying_loss_in_a_round__what_cuts_an_honest_pay_has_its_author_checked(
    mined: MinedRound, by_reporter: bool, count: int, shared: float, audited: bool
) -> None:
    """Liars have a friend in each stage and no luck is needed: nobody is drawn. What they have cut
    is nobody's; `shared`: what they would win were it the others'. Control: with true losses the
    friends are paid by their passes, and nobody is checked."""
    spec = mined.job.spec.model_copy(update={"score_options": {"by_reporter": by_reporter}})
    mined = replace(mined, job=JobContext(spec, mined.store))
    assert mined.plan.epoch is not None
    stages = mined.plan.epoch.stages
    liars = stages[2][:count]
    friends = {stages[0][0], stages[1][0], *liars}
    honest = mined.honest()
    due = {miner: len(mined.plan.epoch.due(miner)) for stage in stages for miner in stage}
    fair = paid_in_round(mined, honest, friends)
    assert fair == pytest.approx(POT * sum(due[m] for m in friends) / sum(due.values()))
    assert suspects(mined.inputs(honest), mined.store) == {}

    lying = framing(mined, liars, (*stages[0][1:], stages[1][1]))
    name = f"{count} of 3 reporters lie, {'median of reporters' if by_reporter else 'plain means'}"
    free = paid_in_round(mined, lying, friends, fixed=True) - fair
    assert won(f"{name}, the pot is shared", free) == pytest.approx(shared, abs=0.1)
    assert won(name, paid_in_round(mined, lying, friends) - fair) == 0
    inputs = mined.inputs(lying)
    checked = suspects(inputs, mined.store)
    assert bool({*checked} & {*liars}) == audited
    wrong = {m for m in liars if reexecute(inputs, m, DEVICE, mined.store).violation}
    assert wrong == {*liars}
    right = {m for m in checked if not reexecute(inputs, m, DEVICE, mined.store).violation}
    assert right == {*checked} - {*liars}
    found = {*checked} & wrong or {liars[0]}
    after = paid_in_round(mined, lying, friends, found) - fair
    how = "checked by the rule" if audited else "if it is drawn"
    assert won(f"the same, {len(found)} of them {how}", after) < -150


def test_lying_loss_is_chosen_at_the_reveal__its_log_was_committed_to(mined: MinedRound) -> None:
    """Once it has seen the others' losses a reporter states its own as they suit it, and shows the
    log that it committed to. Everybody sees that without doing anything again."""
    assert mined.plan.epoch is not None
    liar = mined.plan.epoch.stages[2][0]
    log, losses = mined.works[liar].log, mined.works[liar].losses
    suited = tuple((sample, loss + PPM) for sample, loss in losses)
    late = mined.submit(liar, losses=suited, trace=log.to_bytes(), root=log.root())
    found = sorted([late, *mined.honest(without=(liar,))], key=lambda one: one.reveal.node)
    (finding,) = malformed(mined.inputs(found))
    assert (finding.node, finding.violation) == (liar, Violation.INVALID)
    fair = pay(mined.compute(mined.honest()).paid(), (liar,))
    assert won("loss chosen at the reveal", -fair - SLASH) < -SLASH


# -- noise in some samples alone, so that somebody else's lose more --------------------------------


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    """A round of a model that has learnt something, in which losses hardly fall. Everybody is
    honest."""
    store = EmbeddedStore(tmp_path_factory.mktemp("taught") / "store")
    tiny, plan = make_mined_job(store, range(2, 5), batches_per_round=200)
    before = dict(tiny.before)
    for one in work_through(tiny, plan).values():
        before |= {name: before[name] - tensor for name, tensor in one.change.items()}
    rate = {"batch_size": 2, "seq_len": 16, "lr": 1e-6}
    spec: dict[str, Any] = {"score": "clasp", "batches_per_round": 60, "optimizer": rate}
    tiny, plan = make_mined_job(store, range(2, 11), **spec)
    tiny = replace(tiny, before=before)
    works = work_through(tiny, plan)
    return MinedRound(store, tiny.published, tiny.job, before, plan, works)


def spoiling(mined: MinedRound, by: dict[int, int]) -> list[Mined]:
    """What all show where some send noise in place of their codes, and log it. `by`: who does so,
    by sample."""

    class Spoils(StageWork):
        def do(self, entry: Entry) -> Passed:
            passed = super().do(entry)
            if entry.kind is not Kind.FORWARD or by.get(entry.sample) != self.miner:
                return passed
            assert passed.values is not None
            source = torch.Generator().manual_seed(entry.sample)
            noise = 300 * torch.randn(passed.values.shape, generator=source)
            message = self.slices.boundary.codes.pack(noise)
            self.events[-1] = replace(self.events[-1], digest_out=digest(message))
            return replace(passed, message=message)

    return replace(mined, works=work_through(mined, mined.plan, work=Spoils)).honest()


@pytest.mark.parametrize("where", ["last", "middle"])
def test_noise_in_a_rivals_samples_alone__who_sent_it_is_checked(
    taught: MinedRound, where: str
) -> None:
    """A rival of the last stage has nobody but itself to say what its samples lose, and the sender
    loses more with one of three reporters alone. Against a rival of the middle stage two senders
    have one reporter each, and the rival loses with both. Its pay is cut to nothing or to a part,
    theirs is not, and what it loses is nobody's. Control: everybody honest."""
    epoch = taught.plan.epoch
    assert epoch is not None
    first, middle, last = epoch.stages
    ways = {sample: epoch.route(sample) for sample in epoch.samples}
    if where == "last":
        rival, senders = last[0], (middle[0],)
        beside = {(middle[0], last[0]): middle[0]}
        by = {s: beside[way[1:]] for s, way in ways.items() if way[1:] in beside}
    else:
        rival, senders = middle[0], first[:2]
        full = {(first[0], rival, last[0]): first[0], (first[1], rival, last[1]): first[1]}
        by = {s: full[way] for s, way in ways.items() if way in full}
    assert {*by.values()} == {*senders} and len(by) < 6
    honest = taught.honest()
    assert suspects(taught.inputs(honest), taught.store) == {}
    fair = taught.compute(honest).paid()
    found = spoiling(taught, by)
    paid = taught.compute(found).paid()
    assert paid.get(rival, 0) < fair[rival] / 2
    assert all(paid[sender] == fair[sender] for sender in senders)
    inputs = taught.inputs(found)
    assert malformed(inputs) == []
    wrong = {m for m in taught.works if reexecute(inputs, m, DEVICE, taught.store).violation}
    assert wrong == {*senders}
    lost = pay(fair, (rival,)) - pay(paid, (rival,))
    won(f"{len(by)} of 60 codes are noise, {where} stage: the rival", -lost)
    convicted = wrong & suspects(inputs, taught.store).keys()
    assert convicted
    profit = -sum(pay(fair, (one,)) + SLASH for one in convicted)
    assert won(f"the same: {len(convicted)} of {len(senders)} senders", profit) < -lost


# -- a clique that routes to itself -------------------------------------------------------------

CLIQUE = tuple(miner for stage in STAGES for miner in stage[:2])


def clique_pay(extra: int, drawn: bool) -> float:
    """Pay of two miners a stage that claim `extra` samples each, passed among themselves only.

    `drawn`: whether a claim must be of a sample that the miner was drawn for.
    """
    records = []
    for miner in MINERS:
        claimed = {sample for sample, path in enumerate(paths()) if miner in path}
        if miner in CLIQUE:
            others = [sample for sample in range(SAMPLES) if sample not in claimed]
            claimed |= set(others[:extra])
        counted = {one for one in claimed if miner in paths()[one]} if drawn else claimed
        # Friends confirm one another, so every check of a pass between them finds it right.
        records.append(EpochPasses(miner, 0, len(counted), len(counted), len(counted)))
    return pay(scores(records, 0, 1), CLIQUE)


def test_clique_routes_to_itself__drawn_routes_leave_it_nothing() -> None:
    """Control: without extra samples, both rules pay the same."""
    honest = clique_pay(0, drawn=True)
    assert honest == clique_pay(0, drawn=False) == pytest.approx(10 * PAY, rel=0.05)
    chosen = won("clique, chosen routes", clique_pay(400, drawn=False) - honest)
    assert chosen == pytest.approx(POT * 8000 / 14_000 - 400, abs=10)
    assert won("clique, drawn routes", clique_pay(400, drawn=True) - honest) == 0


def test_clique_owns_a_whole_path__too_few_to_pay_for_one_conviction() -> None:
    """Where all five miners are friends nobody else sees the sample, and they may skip its work:
    0.4^5 of all samples, 0.4^4 of a member's own. A replay of a tenth of the steps sees it."""
    own = sum({*path} <= {*CLIQUE} for path in paths()) / SAMPLES
    assert own == pytest.approx(0.4**5, abs=0.007)
    saved = own / 0.4 * COST * len(CLIQUE)
    # Each member fakes in most of its steps, so any audited segment holds a fake.
    assert won("clique skips its own paths", saved - 0.1 * SLASH * len(CLIQUE)) < -150


# -- the same clique, paid by logs ----------------------------------------------------------------

EPOCH = Epoch(0, 0, SEED, tuple(map(tuple, STAGES)), range(400))


def log_of(miner: int, samples: Collection[int]) -> MinerLog:
    """All samples in one step. Only which they are is read."""
    stage, start = EPOCH.stage_of(miner), keccak(b"start")
    assert stage is not None
    events = [
        Event(kind, sample, bytes(32), bytes(32))
        for sample in samples
        for kind in (Kind.FORWARD, Kind.BACKWARD)
    ]
    events.append(Event(Kind.STEP, 0, start, keccak(start)))
    return MinerLog(Origin(miner, 0, stage, start), tuple(events))


ASKED = [
    [EPOCH.candidates(sample, stage) for stage in range(len(STAGES))] for sample in EPOCH.samples
]
Does = Callable[[int, tuple[int, ...]], Collection[int]]  # a sample, its drawn way -> who does it


def drawn(sample: int, way: tuple[int, ...]) -> Collection[int]:
    return way


@cache
def each_paid(
    does: Does,
    rule: bool = True,
    late: int | None = None,
    fixed: bool = False,
    dead: bool = False,
) -> dict[int, float]:
    """Pay by miner. `rule`: that of `passes.py`; else each log's own count is paid. `late`: a miner
    whose payload and log are left out, though it revealed; if `dead`, as if it had not. `fixed`:
    without `unclaimed.py`, so those whose passes count share all of the pot."""
    done: dict[int, set[int]] = {m: set() for m in MINERS}
    for sample, asked in enumerate(ASKED):
        for miner in does(sample, tuple(order[0] for order in asked)):
            done[miner].add(sample)
    if late is not None:
        done[late].clear()
    logs = {miner: log_of(miner, samples) if samples else None for miner, samples in done.items()}
    found = counted(EPOCH, logs, () if late is None or dead else (late,))
    worth = {m: len(found[m]) if rule else log.backward_passes for m, log in logs.items() if log}
    parts = {miner + 1: PPM * number for miner, number in worth.items()}  # the chain counts from 1
    if rule and not fixed:
        parts = with_unclaimed(parts, len(EPOCH.samples) * len(STAGES))
    paid = payouts(int(POT) * PPM, parts)
    return {miner: paid.get(miner + 1, 0) / PPM for miner in MINERS}


def paid_by_logs(
    does: Does, friends: Collection[int] = CLIQUE, rule: bool = True, fixed: bool = False
) -> float:
    return sum(each_paid(does, rule, fixed=fixed)[miner] for miner in friends)


def repeat(sample: int, way: tuple[int, ...]) -> Collection[int]:
    """Each member does every second sample, whoever else does it."""
    return {*way, *CLIQUE} if sample % 2 == 0 else way


def divert(sample: int, way: tuple[int, ...]) -> Collection[int]:
    """Members pass a sample on to members only, by others that are there."""
    taken = list(way[:1])
    for stage, first in enumerate(way[1:], start=1):
        friends = [m for m in ASKED[sample][stage] if m in CLIQUE]
        taken.append(friends[0] if taken[-1] in CLIQUE else first)
    return taken


def test_clique_repeats_samples_of_others__a_pass_counts_for_the_first_candidate_there() -> None:
    """Control: where nobody repeats, both counts pay the same."""
    honest = paid_by_logs(drawn)
    assert honest == paid_by_logs(drawn, rule=False) == pytest.approx(10 * PAY, rel=0.1)
    assert won("clique, each log's own count", paid_by_logs(repeat, rule=False) - honest) > 100
    assert won("clique repeats, by the rule", paid_by_logs(repeat) - honest) == 0


def test_clique_passes_by_miners_that_are_there__and_loses_these_samples() -> None:
    honest = paid_by_logs(drawn)
    assert (
        won("clique diverts, each log's own count", paid_by_logs(divert, rule=False) - honest) > 250
    )
    assert -240 < won("clique diverts, by the rule", paid_by_logs(divert) - honest) < -150


# -- who drops samples on purpose -----------------------------------------------------------------


def dropping(friends: Collection[int], most: int) -> Does:
    """A friend of the way refuses, or is silent, where `most` friends or fewer are on it."""

    def does(sample: int, way: tuple[int, ...]) -> Collection[int]:
        return () if 1 <= len({*way} & {*friends}) <= most else way

    return does


@pytest.mark.parametrize(
    ("staff", "least", "most"),
    [
        # Were the pot shared, it would begin to pay at one in five seats: a friend's share of its
        # own way.
        ((1, 0, 0, 0, 0), -45, -30),
        ((1, 1, 1, 0, 0), -80, -40),
        ((2, 2, 0, 0, 0), -100, -20),
        ((2, 2, 2, 0, 0), 0, 60),
        ((2, 2, 2, 2, 2), 100, 160),
    ],
)
def test_clique_drops_samples_of_which_it_has_few__it_loses_their_passes(
    staff: tuple[int, ...], least: float, most: float
) -> None:
    """Nobody else does a sample that it drops. Profit is that of the best threshold. Control: what
    it would be were the pot shared by what counts, `least` to `most`."""
    friends = [miner for stage, held in zip(STAGES, staff, strict=True) for miner in stage[:held]]
    share = f"{len(friends)} of {len(MINERS)} seats"

    def best(fixed: bool) -> float:
        dropped = (dropping(friends, few) for few in range(1, 5))
        found = max(paid_by_logs(does, friends, fixed=fixed) for does in dropped)
        return found - paid_by_logs(drawn, friends, fixed=fixed)

    assert least < won(f"clique drops samples, {share}, the pot is shared", best(True)) < most
    assert won(f"clique drops samples, {share}", best(False)) < -30


GRIEFER = STAGES[2][0]


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_griefer_refuses_letters__it_loses_as_much_as_all_others_together(kept: float) -> None:
    """It does one sample, so that it is there, and the share `kept` of its others. They are done by
    another. Who sent them to it loses them with it."""
    own = [s for s in EPOCH.samples if ASKED[s][2][0] == GRIEFER]
    taken = {*own[: max(1, round(kept * len(own)))]}

    def does(sample: int, way: tuple[int, ...]) -> Collection[int]:
        if GRIEFER not in way or sample in taken:
            return way
        return [ASKED[sample][2][1] if m == GRIEFER else m for m in way]

    change = {miner: paid - each_paid(drawn)[miner] for miner, paid in each_paid(does).items()}
    lost = change.pop(GRIEFER)
    assert won(f"griefer keeps {len(taken)} of {len(own)} samples", lost) < -0.4 * PAY
    beside = change.values()
    print(f"    the others: {min(beside):+.1f} to {max(beside):+.1f} ZOO")
    assert sum(beside) == pytest.approx(lost, abs=0.01)
    assert min(beside) > lost / 4
    assert {miner for miner, one in change.items() if one} == {*STAGES[1]}


# -- who takes the places of samples that it never had --------------------------------------------

SQUATTER, FRIEND = STAGES[1][0], STAGES[4][0]


def squat(sample: int, way: tuple[int, ...], trail: bool = True) -> Collection[int]:
    """The squatter, of the second stage, sends numbers of its own for a sample to all miners of the
    third before its true sender does. They take one sample once, so they refuse the true one. It
    spares the samples of its friend, and shows no log: nobody can say what it should have sent.

    With the `trail` of a sample it can do so only where the sample was handed to it."""
    there = [ASKED[sample][1][1] if m == SQUATTER else m for m in way]
    if FRIEND in way or (trail and SQUATTER not in way):
        return there
    return there[2:]


def squat_without_trails(sample: int, way: tuple[int, ...]) -> Collection[int]:
    return squat(sample, way, trail=False)


def test_squatter_takes_the_places_of_samples__their_trail_does_not_lead_to_it() -> None:
    """It loses with its friend, and without trails it would take far more from the others with it.
    Control: were the pot shared, a smaller part of what it takes would be its own loss."""
    pair = (SQUATTER, FRIEND)
    honest, cost = each_paid(drawn), dict[Does, float]()
    for name, does in (("without trails", squat_without_trails), ("with trails", squat)):
        shared = paid_by_logs(does, pair, fixed=True) - paid_by_logs(drawn, pair)
        won(f"squatter, letters {name}, the pot is shared", shared)
        found = each_paid(does)
        profit = sum(found[miner] - honest[miner] for miner in pair)
        assert won(f"squatter, letters {name}", profit) < -20
        # A log convicts it, by one letter: with it neither logged nor true, and without it signed.
        assert won("    the same with a log", shared - SLASH) < -60
        cost[does] = sum(honest[m] - found[m] for m in MINERS if m not in pair)
        print(f"    the others: {-cost[does]:+.1f} ZOO")
    assert cost[squat_without_trails] > 5 * cost[squat]


@pytest.mark.parametrize("friends", range(1, 5))
def test_squatter_with_more_friends__wins_nothing(friends: int) -> None:
    """What it was handed itself it can still spoil: it gives up its own pay for its friends'."""
    clique = (SQUATTER, *(STAGES[stage][0] for stage in (4, 3, 2, 0)[:friends]))

    def spoil(sample: int, way: tuple[int, ...]) -> Collection[int]:
        """Where it has the sample and no friend does."""
        mine = SQUATTER in way and not {*clique[1:]} & {*way}
        there = [ASKED[sample][1][1] if m == SQUATTER else m for m in way]
        return there[2:] if mine else there

    profit = paid_by_logs(spoil, clique) - paid_by_logs(drawn, clique)
    assert won(f"squatter with trails, {friends} friends", profit) < 0


# -- owners of shards ----------------------------------------------------------------------------

OWNERS, POISON_WORTH = range(8), PAY  # what a poisoned shard is worth to an attacker: a guess
ROWS = [torch.randn(280, generator=torch.Generator().manual_seed(n)) for n in OWNERS]


def settled(seed: bytes, liars: Collection[int]) -> tuple[bool, Settlement]:
    """(whether a lie got into the weights, what was settled) where liars state the same lie of the
    shard that two of them own, or of all of theirs if there is one."""
    butterfly, mean = Butterfly.draw(seed, OWNERS, 280), merges.get("mean")()
    merged, said = mean([{"shard": row} for row in ROWS])["shard"], dict[int, Statement]()
    for owner in OWNERS:
        lies_in = [
            shard
            for shard in butterfly.owned(owner)
            if owner in liars and (len(liars) == 1 or {*butterfly.pairs[shard]} <= {*liars})
        ]
        made = merge_shards(butterfly, owner, ROWS, mean)
        told = tuple(butterfly.digest(s, one + (s in lies_in)) for s, one in made.items())
        said[owner] = Statement(1, 1, owner, seed, tuple(OWNERS), SEED, told)
    found = settle(butterfly, merged, OWNERS, said, Fraction(1), lambda owner, shard: None)
    return not torch.equal(found.update, merged), found


def test_lying_owner__it_is_convicted_always() -> None:
    """Control: with no liar nobody is convicted."""
    assert settled(SEED, ())[1].liars == {}
    for seed in seeds(5):
        entered, found = settled(seed, (3,))
        assert not entered and found.liars.keys() == {3}
    assert won("lying owner", -float(SLASH)) == -200


def test_pair_of_owners_agrees_on_a_lie__it_would_win_by_votes_and_loses() -> None:
    """Where only shards were merged again whose owners disagree, nobody would look at theirs."""
    for seed in seeds(20):
        entered, found = settled(seed, (3, 6))
        assert found.matrix[3][6] is True and not any(False in row for row in found.matrix)
        assert not entered and found.liars.keys() == {3, 6}
    assert won("pair of owners, told by votes", float(POISON_WORTH)) == 40
    assert won("pair of owners, merged again", -2 * float(SLASH)) == -400


@pytest.mark.parametrize("count", [1, 2])
def test_owner_lies_in_a_round__it_moves_nothing_and_is_convicted(
    mined: MinedRound, count: int
) -> None:
    """One owner, and a pair that agrees on the lie in its shard. Control: who merges right is not
    accused."""
    pipeline = {**PIPELINE, "all_reduce": "butterfly", "least_valid": 0.5}
    spec = mined.job.spec.model_copy(update={"pipeline": PipelineSpec(**pipeline)})
    round_, epoch = replace(mined, job=JobContext(spec, mined.store)), mined.plan.epoch
    assert epoch is not None
    friends, found = epoch.stages[0][:count], round_.honest()

    def merged(liars: Collection[int]) -> Outcome:
        shares, said = Shares(SEED, frozenset(mined.works)), dict[int, Statement]()
        for miners in epoch.stages:
            rows = [flat(mined.works[miner].change) for miner in miners]
            butterfly = shares.butterfly(epoch, epoch.stages.index(miners), len(rows[0]))
            assert butterfly is not None
            for owner in miners:
                made = merge_shards(butterfly, owner, rows, round_.job.merge)
                digests = tuple(
                    butterfly.digest(
                        shard,
                        values + (owner in liars and {*liars} <= {*butterfly.pairs[shard]}),
                    )
                    for shard, values in made.items()
                )
                place = epoch.job, epoch.number, owner, butterfly.seed, miners
                said[owner] = Statement(*place, SEED, digests)
        given = replace(shares, statements=said)
        facts = round_.job, 1, 1, round_.plan, round_.before, found
        return compute(*facts, DEVICE, shares=given)

    fair, outcome = merged(()), merged(friends)
    assert not fair.lies and outcome.lies.keys() == {*friends}
    assert outcome.model == fair.model
    lost = pay(fair.paid(), friends) - (pay(outcome.paid(), ()) - SLASH * len(friends))
    assert won(f"{count} lying owners in a round", -lost) < -SLASH * count


# -- who works on nothing, or sends something else, in a round that runs ---------------------------

RIDER, MATE = 3, 7  # both of the middle stage
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
            tensor.mul_(-1.0)
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


@pytest.mark.parametrize("how", ["reversed", "ten times", "a mate's"])
def test_poisoner_sends_another_change_than_its_log_gives__it_loses(
    tmp_path: Path, how: str
) -> None:
    """It does all of its work, and a poisoned stage is worth what a poisoned shard is. With its
    mate's change it does no work."""
    mined = make_mined_round(EmbeddedStore(tmp_path / "store"), batches_per_round=12)
    own, mate = mined.works[RIDER].change, mined.works[MATE].change
    change = {"reversed": scaled(own, -1.0), "ten times": scaled(own, 10.0), "a mate's": mate}[how]
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


# -- who times out on purpose, and who would favour or starve, with no orchestrator ----------------


def test_miner_times_out_on_purpose__its_samples_go_to_others_and_it_is_paid_nothing() -> None:
    """It takes letters and never answers, and saves its work. It has no log, so what others do in
    its place counts. Control: all others gain by it."""

    def does(sample: int, way: tuple[int, ...]) -> Collection[int]:
        return [ASKED[sample][2][1] if m == GRIEFER else m for m in way]

    change = {miner: paid - each_paid(drawn)[miner] for miner, paid in each_paid(does).items()}
    lost = change.pop(GRIEFER)
    assert won("miner times out on purpose", lost + COST) < -0.3 * PAY
    assert sum(change.values()) == pytest.approx(-lost, abs=0.01)


@pytest.mark.parametrize("starve", [False, True])
def test_orchestrator_favours_or_starves__a_way_is_the_seeds_so_its_miners_lose(
    starve: bool,
) -> None:
    """Nobody hands out samples, so who wants to prefer friends, or to pass a rival by, can only do
    it where it hands one on itself. The passes of others than the drawn ones don't count."""
    friends, rival = (STAGES[1][0], STAGES[2][0]), STAGES[2][1]

    def does(sample: int, way: tuple[int, ...]) -> Collection[int]:
        if way[1] != friends[0]:
            return way
        instead = friends[1] if not starve or way[2] == rival else way[2]
        return [*way[:2], instead, *way[3:]]

    profit = paid_by_logs(does, friends) - paid_by_logs(drawn, friends)
    free = paid_by_logs(does, friends, rule=False) - paid_by_logs(drawn, friends, rule=False)
    name = "starves a rival" if starve else "favours a friend"
    assert won(f"a miner {name}, each log's own count", free) > 0
    assert won(f"a miner {name}, by the rule", profit) < 0


@pytest.mark.parametrize("friends", [1, 4])
def test_proposer_leaves_a_rival_out_as_late__what_it_would_have_had_is_nobodys(
    friends: int,
) -> None:
    """Nobody can prove when a payload could be had. Control: were the pot shared, the rival's stage
    would gain by it."""
    rival, *mates = STAGES[2]
    name = f"a proposer leaves a rival out, for {friends} of its stage"
    for fixed in (True, False):
        honest, found = each_paid(drawn, fixed=fixed), each_paid(drawn, late=rival, fixed=fixed)
        profit = sum(found[mate] - honest[mate] for mate in mates[:friends])
        assert found[rival] == 0
        if fixed:
            assert 3 * friends < won(f"{name}, the pot is shared", profit) < 5 * friends
        else:
            assert won(name, profit) == 0
            # It costs those that had sent the rival its samples as much as the rival, together.
            beside = sum(found[miner] - honest[miner] for miner in STAGES[1])
            assert beside == pytest.approx(-honest[rival], abs=0.01)


def test_proposer_leaves_a_rival_out_whose_samples_friends_did__they_count_for_nobody() -> None:
    """Two senders of five hand the rival's samples to the next of its stage, a friend among them,
    and the proposer leaves the rival out. It revealed, so it was there. Control: were it not, the
    way of those samples would be the friend's."""
    rival, *mates = STAGES[2]
    friends = (*STAGES[1][:2], mates[0])

    def does(sample: int, way: tuple[int, ...]) -> Collection[int]:
        if way[2] != rival or way[1] not in friends:
            return way
        return [*way[:2], ASKED[sample][2][1], *way[3:]]

    honest = each_paid(drawn)
    for dead in (True, False):
        found = each_paid(does, late=rival, dead=dead)
        more = sum(found[miner] - honest[miner] for miner in friends)
        done = found[mates[0]] - honest[mates[0]]
        senders = sum(found[m] - honest[m] for m in STAGES[1][:2])
        profit = more - max(0, done) * COST / PAY
        if dead:
            assert senders == 0 and 0 < done < 0.2 * PAY
            assert 1 < won("and senders had a friend do its samples, it counts as dead", profit) < 4
        else:
            assert senders < 0 == done
            assert won("and senders had a friend do its samples", profit) < -0.2 * PAY


def test_who_reveals_and_shows_nothing_costs_others_as_much_as_itself() -> None:
    """It takes no sample, and withholds its payload: others did its samples for nothing, and who
    had handed them over is not paid either. One that shows a log of a single step costs as much."""

    def does(sample: int, way: tuple[int, ...]) -> Collection[int]:
        return [ASKED[sample][2][1] if m == GRIEFER else m for m in way]

    found = each_paid(does, late=GRIEFER)
    change = {miner: paid - each_paid(drawn)[miner] for miner, paid in found.items()}
    lost = change.pop(GRIEFER)
    assert won("a miner reveals and shows nothing", lost + COST) < -0.3 * PAY
    assert sum(change.values()) == pytest.approx(lost, abs=0.01)
    assert {miner for miner, moved in change.items() if moved} <= {*STAGES[1]}


# -- the log, rewritten once the audit's seed is known --------------------------------------------

STEPS, LENGTH = 20, 2


def miners_log(skipped: Collection[int]) -> MinerLog:
    """One sample a step. What a skipped step says went out is invented."""
    events, state = [], keccak(b"start")
    origin = Origin(miner=1, epoch=0, stage=2, state=state)
    for step in range(STEPS):
        given = keccak(b"in" + bytes([step]))
        out = keccak(b"invented") if step in skipped else keccak(given)
        events += [Event(kind, step, given, out) for kind in (Kind.FORWARD, Kind.BACKWARD)]
        after = keccak(state + out)
        events.append(Event(Kind.STEP, step, state, after))
        state = after
    return MinerLog(origin, tuple(events))


def stands(log: MinerLog, root: bytes, seed: bytes) -> bool:
    """The audit: the log is the committed one, and the drawn segment's work gives its digests."""
    if log.root() != root:
        return False
    passes = [one for one in log.segment(seed, LENGTH).events if one.kind is not Kind.STEP]
    return all(one.digest_out == keccak(one.digest_in) for one in passes)


@pytest.mark.parametrize("count", [1, 10, 20])
def test_log_rewritten_after_the_draw__has_another_root__and_skipping_is_a_loss(count: int) -> None:
    """Control: the honest log stands, whatever is drawn."""
    lazy, honest = miners_log(range(count)), miners_log(())
    committed = lazy.root()
    saved = COST * count / STEPS
    mended = stood = 0
    for seed in seeds(120):
        assert stands(honest, honest.root(), seed)
        stood += stands(lazy, committed, seed)
        # It does the drawn steps after all, and shows a log with their true digests.
        part = lazy.segment(seed, LENGTH)
        drawn = {one.number for one in part.events}
        rewritten = miners_log({*range(count)} - drawn)
        mended += stands(rewritten, rewritten.root(), seed)
        if drawn & {*range(count)}:
            assert not stands(rewritten, committed, seed)
    assert mended == 120  # so without the root it would keep what it saved
    won(f"log rewritten, {count} of {STEPS} steps skipped, without the root", saved)
    caught = 1 - stood / 120
    assert caught == pytest.approx(-(-count // LENGTH) / (STEPS // LENGTH), abs=0.1)
    assert won(f"the same, with the root, {caught:.0%} caught", saved - caught * SLASH) < -8


def test_log_rewritten_in_a_round__whoever_reads_it_sees_that_it_is_not_the_committed_one(
    tmp_path: Path,
) -> None:
    """It commits to a log in which it made its first code up, and shows the true one at the reveal.
    Nobody has to draw it for that."""
    mined = make_mined_round(EmbeddedStore(tmp_path / "store"), batches_per_round=12)
    log = mined.works[RIDER].log
    made_up = replace(log.events[0], digest_out=keccak(b"invented"))
    lazy = replace(log, events=(made_up, *log.events[1:]))
    cheat = mined.submit(RIDER, trace=log.to_bytes(), root=lazy.root())
    found = sorted([cheat, *mined.honest(without=(RIDER,))], key=lambda one: one.reveal.node)
    (finding,) = malformed(mined.inputs(found))
    assert (finding.node, finding.violation) == (RIDER, Violation.INVALID)
    assert b"not the root that was committed to" in finding.evidence
    share = POT / len(mined.works)
    assert won("log rewritten in a round", share * COST / PAY - share - SLASH) < -SLASH
