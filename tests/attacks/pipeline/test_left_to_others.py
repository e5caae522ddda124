# SPDX-License-Identifier: Apache-2.0
"""Who leaves samples to others, and who would favour or starve, with no orchestrator."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.stage.memory.miners_pot import COST, PAY, STAGES, won
from tests.stage.memory.paid_by_logs import ASKED, GRIEFER, drawn, each_paid, paid_by_logs


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
