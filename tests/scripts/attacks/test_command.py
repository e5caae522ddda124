# SPDX-License-Identifier: Apache-2.0
"""`ape run economics attacks`: its options, its table, its page, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from agents.jobs.publish import Terms
from agents.protocol.numbers import ZOO
from scripts._attacks import catalogue, command
from scripts._attacks.attack import Attack, Outcome
from scripts._attacks.catalogue import attacks
from scripts._attacks.command import BEGIN, END, chosen, usual
from scripts._attacks.known import KNOWN
from scripts._attacks.market import Numbers
from scripts._attacks.table import amount, page, rows, verdict
from scripts.economics import cli


def run(*arguments: str, fails: bool = False) -> str:
    """What the command prints."""
    result = CliRunner().invoke(cli, ["attacks", *arguments], env={"COLUMNS": "100"})
    assert (result.exit_code != 0) == fails, result.output
    return result.output


def nothing(market: object) -> Outcome:
    raise AssertionError("not played here")


LOSES = Attack("lose", "training", nothing), Outcome(Fraction(-ZOO), Fraction(0), ZOO, "refused")
PAYS = Attack("win", "training", nothing), Outcome(Fraction(ZOO), Fraction(ZOO), 2 * ZOO)
WITHIN = (
    Attack("vary", "scoring", nothing),
    Outcome(Fraction(ZOO), Fraction(ZOO), ZOO, allowed=Fraction(2 * ZOO)),
)


def test_a_family_is_played__nothing_pays() -> None:
    said = " ".join(run("--family", "training").split())
    assert "send noise instead of work" in said and "scoring" not in said
    assert re.search(r"None of \d+ attacks pays?", said)


def test_a_family_is_played_and_what_is_known_to_pay_is_said() -> None:
    said = " ".join(run("--family", "verifying").split())
    assert re.search(r" 1 of \d+ attacks pay: verifying: attest without a look\.", said)
    said = " ".join(run("--family", "tasks").split())
    named = re.search(r"(\d+) of \d+ attacks pay: (.*?)\.", said)
    assert named is not None
    paying = {*named[2].split("; ")}
    assert len(paying) == int(named[1]) and paying <= set(KNOWN)


def test_honest_work_stands_above() -> None:
    said = run("--family", "training")
    assert said.index("trainer: a round") < said.index("send noise")


def test_options_replace_the_numbers() -> None:
    said = run("--family", "training", "--nodes", "6", "--stake", "50", "--reward", "10")
    assert "6 trainers with 50 ZOO each" in said and "a round pays 10" in said
    assert "the attacker has 2 trainers" in said


def test_a_page_is_markdown_with_a_table_for_each_family() -> None:
    said = run("--family", "training", "--page", "-")
    assert "## Training" in said and "|---|--:|--:|--:|---|" in said


def test_a_page_is_rewritten_between_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"above\n{BEGIN}\nforgotten\n{END}\nbelow\n")
    assert "Written" in run("--family", "training", "--page", str(path))
    text = path.read_text()
    assert text.startswith("above\n") and text.endswith(f"{END}\nbelow\n")
    assert "## Training" in text and "forgotten" not in text


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("mine\n")
    assert BEGIN in run("--family", "training", "--page", str(path), fails=True)
    assert path.read_text() == "mine\n"


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    assert "none of training" in run("--family", "magic", fails=True)


def test_a_job_needs_a_network() -> None:
    assert "--job takes --rpc" in run("--job", "1", fails=True)


def test_full_takes_twenty_rounds_and_three_seeds(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("score: alignment\n")
    found = chosen(Numbers(), spec, True, {"retain_rounds": 8, "reward": None})
    assert (found.rounds, found.seeds, found.spec) == (20, 3, {"score": "alignment"})
    assert found.terms == replace(Terms(), retain_rounds=8)


def test_a_small_stake_is_one_that_the_deployment_asks_for() -> None:
    found = chosen(Numbers(), None, False, {"stake": 5 * ZOO}).settings
    assert found is not None and found.trainer_stake == found.tasks.task_stake == 5 * ZOO
    assert found.verifier_stake == 1_000 * ZOO


def test_numbers_that_the_contracts_refuse_end_in_a_sentence() -> None:
    said = run("--family", "training", "--reward", "0", fails=True)
    assert "The contracts refuse these numbers: " in said


def test_a_profit_is_said_in_the_row_and_below() -> None:
    cells = dict(zip(("loses", "pays", "within"), rows([LOSES, PAYS, WITHIN]), strict=True))
    assert cells["loses"] == ("lose", "1", "-1", "0", "refused")
    assert cells["pays"][-1].startswith("PAYS")
    assert not cells["within"][-1]
    assert verdict([LOSES, PAYS, WITHIN]) == "1 of 3 attacks pay: training: win."
    assert verdict([LOSES, WITHIN]) == "None of 2 attacks pays."
    unplayed = Attack("ride", "scoring", nothing), Outcome.unplayed("the model is split")
    assert verdict([LOSES, unplayed]) == (
        "None of 1 attacks pays. 1 can't be played on such a job."
    )
    assert page([LOSES, WITHIN]).count("## ") == 2


@pytest.mark.parametrize(
    ("units", "text"),
    [(0, "0"), (ZOO // 10_000, "0"), (-42_948 * ZOO // 1_000, "-42.9"), (1_500 * ZOO, "1,500")],
)
def test_amounts_have_the_digits_that_help(units: int, text: str) -> None:
    assert amount(units) == text


def test_a_plot_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    assert "ends.doc" in run(
        "--family", "training", "--nodes", "3", "--plot", str(tmp_path / "ends.doc"), fails=True
    )


def test_usual_numbers_are_those_of_job_create() -> None:
    """What pays verifiers for their work, unless something else was named."""
    found = usual(Numbers(), {}).terms
    assert (found.retain_rounds, found.verifier_bps) == (8, 4_200)
    named = usual(Numbers(), {"retain_rounds": 0, "verifiers_cut": 12.5}).terms
    assert (named.retain_rounds, named.verifier_bps) == (0, 1_250)


def test_where_nothing_is_done_again__the_usual_cut_is_that_of_such_a_job() -> None:
    """`job create` gives it the cut of `Terms`, unless the sponsor names another one."""
    alone = Numbers(spec={"verify": "gauntlet"})
    for found in (usual(Numbers(), {}, by_scores=True), usual(alone, {})):
        assert (found.terms.retain_rounds, found.terms.verifier_bps) == (8, Terms().verifier_bps)
    assert usual(Numbers(), {"verifiers_cut": 30.0}, by_scores=True).terms.verifier_bps == 3_000


def test_families_that_scores_pay__are_played_and_named_at_their_own_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first scores that tie pay everybody alike: three trainers whose work is worth nothing win
    250 of 850 ZOO, with what the cuts of the two cost. The last rows of honest work are of the same
    terms."""
    tie = next(one for one in attacks() if one.name == "tie the first scores with stake at the cap")
    monkeypatch.setattr(catalogue, "attacks", lambda of_tasks=None: (tie,))
    monkeypatch.setattr(command, "attacks", lambda of_tasks=None: (tie,))
    text = " ".join(run("--page", "-").split())
    assert "the verifiers have 42 %, and 10 % where their scores pay it (gauntlet, cons" in text
    assert f"| {tie.name} | 2,300 | 250 | 250 | PAYS" in text
    assert "| trainer: a round | 58.9 |" in text and "| trainer: a scored round | 142 |" in text
