# SPDX-License-Identifier: Apache-2.0
"""Who lies about losses, or makes somebody else's samples lose more, under the score `clasp`.

Controls: everybody honest.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
import torch

from agents.jobs.job import JobContext
from agents.pipeline.clasp import PPM, Clasp, PathLoss, lies
from agents.pipeline.credit import weighed
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Kind
from agents.pipeline.routes import route
from agents.pipeline.stage import Passed
from agents.pipeline.work import StageWork, digest
from agents.protocol.draw import draw
from agents.protocol.numbers import UNCLAIMED, Violation
from agents.rounds.mined import Mined
from agents.storage.embedded import EmbeddedStore
from agents.verify.spot_checks import malformed, reexecute, suspects
from tests.stage.memory.honest_round import DEVICE
from tests.stage.memory.mined_round import MinedRound, make_mined_job, work_through
from tests.stage.memory.miners_pot import MINERS, PAY, POT, SAMPLES, SEED, SLASH, paths, pay, won

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
