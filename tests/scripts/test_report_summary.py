# SPDX-License-Identifier: Apache-2.0
"""The sentence on top says what the run's facts are, and nothing good of a run that failed."""

from __future__ import annotations

from dataclasses import replace

from scripts._report.page.report import render
from scripts._report.page.summary import PROVES, PROVES_NOTHING, headline, meaning
from scripts._report.verdict import Check
from tests.stage.memory.demo_run import NAMES, a_run
from tests.stage.memory.page_reader import Page


def test_it_is_made_of_the_facts() -> None:
    run = a_run()
    said = headline(run)
    for fact in (
        "In 3 rounds 5 trainers",
        "from 5.34 down to 2.68",
        "3 cheats were caught and slashed 75 ZOO",
        f"{NAMES[2][0]}'s owner claimed 90.00 ZOO, and it arrived",
        "a stranger's replay of 1,432 facts found no difference",
    ):
        assert fact in said
    assert meaning(run) == PROVES


def test_a_failed_check_is_what_it_says() -> None:
    run = a_run()
    failed = replace(run, checks=[*run.checks, Check(False, "the books differ by 1 wei")])
    assert headline(failed) == (
        "This run is not what it should be: 1 of 3 checks failed. The first: the books differ by "
        "1 wei."
    )
    assert meaning(failed) == PROVES_NOTHING
    page = Page(render(failed))
    assert "books differ" in page.text("h1")
    assert page.find("p", kind="fails") and not Page(render(run)).find("p", kind="fails")


def test_what_was_not_seen_is_not_said() -> None:
    run = a_run()
    assert run.claim is not None and run.replay is not None
    partly = replace(
        run,
        claim=replace(run.claim, received=1),
        replay=replace(run.replay, differences=["round 1: it differs"]),
    )
    assert "arrived" not in headline(partly) and "no difference" not in headline(partly)


def test_cheats_that_no_rule_convicts_are_counted_apart() -> None:
    run = a_run()
    free = {**run.cheats, "trainer-1": "Cheat."}
    assert "1 more broke no rule that is slashed and earned 90.00 ZOO" in headline(
        replace(run, cheats=free)
    )


def test_what_a_stranger_cannot_repeat_is_said() -> None:
    run = replace(a_run(), limits="The data never left the nodes.")
    assert meaning(run).endswith("The data never left the nodes.")
    assert "--deep" not in render(run) and "--deep" in render(a_run())
