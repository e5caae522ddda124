# SPDX-License-Identifier: Apache-2.0
"""The demo's own copy of the slashing table, and the checks that rest on it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agents.protocol.numbers import Role, Violation
from scripts._demo.pipeline import PIPELINE
from scripts._report.story import NodeStory, Slash
from scripts._report.verdict import check_cheats, check_earned, check_held, expected_slashes

ZOO = 10**18


def slash(violation: Violation, amount: int, before: int, node: int = 1) -> Slash:
    return Slash(node, violation, amount, before, time=0, banned=False)


def history(*slashes: Slash) -> SimpleNamespace:
    nodes = {1: NodeStory(1, name="cheat"), 2: NodeStory(2, name="honest")}
    return SimpleNamespace(slashes=list(slashes), nodes=nodes, label=lambda node: nodes[node].name)


@pytest.mark.parametrize(
    ("violation", "share"),
    [(Violation.NO_REVEAL, 5), (Violation.INVALID, 20), (Violation.COPIED, 50)],
)
def test_first_offence__costs_the_row(violation, share):
    told = history(slash(violation, 0, 100 * ZOO))
    assert expected_slashes(told) == {1: [share * ZOO]}


def test_silence__escalates_by_five_percent():
    told = history(
        slash(Violation.NO_REVEAL, 0, 100 * ZOO), slash(Violation.NO_REVEAL, 0, 95 * ZOO)
    )
    assert expected_slashes(told) == {1: [5 * ZOO, 95 * ZOO // 10]}


def test_third_strike__takes_everything():
    told = history(
        slash(Violation.INVALID, 0, 100 * ZOO),
        slash(Violation.COPIED, 0, 80 * ZOO),
        slash(Violation.INVALID, 0, 40 * ZOO),
    )
    assert expected_slashes(told) == {1: [20 * ZOO, 40 * ZOO, 40 * ZOO]}


def test_a_slash__rounds_up():
    assert expected_slashes(history(slash(Violation.NO_REVEAL, 0, 1))) == {1: [1]}


def test_check_cheats__wrong_amount_fails():
    told = history(slash(Violation.INVALID, 20 * ZOO - 1, 100 * ZOO))
    found = check_cheats(told, {"cheat": Violation.INVALID})
    assert [check.holds for check in found] == [False, True]


def test_check_cheats__unpunished_cheat_fails():
    found = check_cheats(history(), {"cheat": Violation.INVALID})
    assert [check.holds for check in found] == [False, True]


def test_check_cheats__honest_node_slashed_fails():
    told = history(
        slash(Violation.INVALID, 20 * ZOO, 100 * ZOO),
        slash(Violation.NO_REVEAL, 5 * ZOO, 100 * ZOO, node=2),
    )
    found = check_cheats(told, {"cheat": Violation.INVALID})
    assert [check.holds for check in found] == [True, False]


@pytest.mark.parametrize(
    ("held", "named"),
    [({"ann": 30, "ben": 40}, None), ({"ann": 30, "ben": 41}, "ben 41"), ({"ann": 0}, "ann 0")],
    ids=["one stage each", "more than a stage", "nothing"],
)
def test_check_held__who_held_more_than_a_stage_or_nothing_is_named(held, named):
    check = check_held(held, [30, 40])
    assert check.holds == (named is None)
    assert "40 of 70 numbers" in check.sentence or named
    assert named is None or f"NOT {named}" in check.sentence


def test_check_held__without_a_trainer_fails():
    assert not check_held({}, [30, 40]).holds


def paid(**earned: int) -> SimpleNamespace:
    """A history of trainers that earned so much, and of a verifier that earned nothing."""
    nodes = {
        number: NodeStory(number, name=name, roles=Role.TRAINER, earned=amount)
        for number, (name, amount) in enumerate(earned.items(), start=1)
    }
    nodes[99] = NodeStory(99, name="victor", roles=Role.VERIFIER)
    return SimpleNamespace(nodes=nodes)


def test_check_earned__says_the_least_and_the_most():
    check = check_earned(paid(ann=2 * ZOO, ben=5 * ZOO, cheat=0), ["cheat"])
    assert check.holds
    assert check.sentence == "each of 2 honest trainers earned pay: from 2 to 5 ZOO"


def test_check_earned__who_earned_nothing_is_named():
    check = check_earned(paid(ann=2 * ZOO, ben=0, cheat=0), ["cheat"])
    assert not check.holds
    assert check.sentence.endswith("from 0 to 2 ZOO; NOT ben")


def test_check_earned__without_an_honest_trainer_fails():
    assert not check_earned(paid(cheat=ZOO), ["cheat"]).holds


@pytest.mark.parametrize("killed", [1, 0])
def test_the_pipelines_demo_asks_it_of_the_killed_miner_too(killed):
    history = paid(**{"trainer-1": killed, "trainer-2": ZOO, "trainer-12 (loafer)": 0})
    checks = PIPELINE.checks(history, {"loafer": "trainer-12 (loafer)"})
    assert [check.holds for check in checks] == [bool(killed)]
