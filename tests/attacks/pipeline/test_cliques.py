# SPDX-License-Identifier: Apache-2.0
"""Cliques that keep, repeat, divert or drop samples, and who refuses letters."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from agents.pipeline.credit import EpochPasses, scores
from tests.stage.memory.miners_pot import (
    COST,
    MINERS,
    PAY,
    POT,
    SAMPLES,
    SLASH,
    STAGES,
    paths,
    pay,
    won,
)
from tests.stage.memory.paid_by_logs import (
    ASKED,
    CLIQUE,
    EPOCH,
    GRIEFER,
    Does,
    drawn,
    each_paid,
    paid_by_logs,
)

# -- a clique that routes to itself -------------------------------------------------------------


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
