# SPDX-License-Identifier: Apache-2.0
"""Each cheat's card tells what it did, who caught it, the proof and the cost, from the chain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.protocol.numbers import ZOO
from scripts._report.page.cheats import cheats
from scripts._report.run import Run
from tests.stage.memory.demo_run import CID, HOSTILE, TX, a_run
from tests.stage.memory.page_reader import Element, Page


def cards(run: Run) -> dict[str, Element]:
    """By the name in the card's heading."""
    page = Page("\n".join(cheats(run)))
    assert page.faults == []
    return {card.children[0].text.split(" node ")[0]: card for card in page.find("article")}


def told(card: Element) -> str:
    return " ".join(card.text.split())


def test_one_card_each__and_none_for_the_honest() -> None:
    assert list(cards(a_run())) == ["trainer-3 (noise)", "trainer-4 (copier)", "trainer-5 (silent)"]


def test_invalid_work__its_reporters_and_their_evidence() -> None:
    said = told(cards(a_run())["trainer-3 (noise)"])
    assert "In round 1 it revealed work that its own task does not give." in said
    assert "verifier-1 and verifier-2 checked its work, each by itself, and reported it." in said
    assert "INVALID, reported by verifier-1 in block 41: its step 3 differs" in said
    assert TX in said and CID in said and HOSTILE not in said
    assert "confirmed by two thirds of the verifiers' stake in block 42; it did not appeal" in said
    assert "slashed for INVALID in block 53" in said
    assert "of its stake of 100 (20%)" in said and f"{20 * ZOO} wei" in said
    assert "It is suspended for 7 days." in said
    assert "Its share of round 1, 17" in said and "No pay for round 1." in said
    assert "verifier-1's owner got the finder's bounty" in said


def test_a_copy__names_whose_it_was() -> None:
    said = told(cards(a_run())["trainer-4 (copier)"])
    assert "In round 1 it revealed the very content of trainer-1 as its own work." in said
    assert "suspended for 30 days" in said


def test_silence__is_caught_by_the_chain() -> None:
    said = told(cards(a_run())["trainer-5 (silent)"])
    assert "In round 1 it committed to work and never showed it." in said
    assert "The chain: the time to reveal had passed. trainer-1 got the finder's bounty" in said


def test_a_report_that_was_dismissed__is_no_conviction() -> None:
    run = a_run()
    run.story.slashes.clear()
    run.story.accusations["aa"].outcome = "dismissed"
    said = told(cards(run)["trainer-3 (noise)"])
    assert "the report was dismissed: no slash followed from it" in said
    assert "by the slashing table" not in said
    assert "What it did" not in said and "Who caught it" not in said
    assert "What it was reported for" in said and "Who reported it" in said
    assert "it did not hold: the node appealed and was cleared" in said


@pytest.mark.parametrize(
    ("outcome", "words"),
    [("", "a report says that is open"), ("lapsed", "report said that lapsed")],
)
def test_a_report_that_convicted_nobody__is_told_as_a_report(outcome: str, words: str) -> None:
    run = a_run()
    run.story.slashes.clear()
    run.story.accusations["aa"].outcome = outcome
    said = told(cards(run)["trainer-3 (noise)"])
    assert words in said and "What it did" not in said


def test_a_report_that_did_not_hold__is_told_beside_a_slash_that_did() -> None:
    run = a_run()
    run.story.accusations["aa"].round_id = 2
    run.story.accusations["aa"].outcome = "dismissed"
    said = told(cards(run)["trainer-3 (noise)"])
    assert "In round 1 it revealed work that its own task does not give. In round 2" in said
    assert said.count("it did not hold") == 1


def test_a_cheat_that_no_rule_convicts__shows_what_it_got() -> None:
    run = a_run()
    run.story.slashes.clear()
    run.story.accusations.clear()
    said = told(cards(run)["trainer-3 (noise)"])
    assert "It revealed in 1 of 3 rounds; its update went into 0 of the merges." in said
    assert "The merge left it out, 1 time because" in said and "<script>" in said
    assert "Merge mean and score shares, which gave it 25.0% of the contributions" in said
    assert "an equal share is 25.0%" in said
    assert "An honest trainer earned 90.00 ZOO on average." in said


def test_a_node_is_known_by_what_the_chain_says__not_by_the_script() -> None:
    assert len(cards(replace(a_run(), cheats={}))) == 3
