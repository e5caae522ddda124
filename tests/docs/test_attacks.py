# SPDX-License-Identifier: Apache-2.0
"""The page about attacks has those that the command plays."""

from __future__ import annotations

from pathlib import Path

from scripts._attacks.catalogue import FAMILIES, attacks
from scripts._attacks.command import usual
from scripts._attacks.known import BEYOND, KNOWN
from scripts._attacks.market import Numbers
from scripts._attacks.table import said

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "attacks.md").read_text()


def test_each_attack_has_its_row_in_the_section_of_its_family() -> None:
    """Else: ape run economics attacks --page docs/attacks.md"""
    for family in FAMILIES:
        shown = [_name(line) for line in _rows(_section(family))]
        assert shown == [attack.name for attack in attacks() if attack.family == family]


def test_nothing_pays_on_the_page_but_what_is_known_to() -> None:
    paying = {
        f"{family}: {_name(line)}"
        for family in FAMILIES
        for line in _rows(_section(family))
        if "| PAYS" in line
    }
    assert paying and paying <= set(KNOWN)
    assert len(paying) == sum("| PAYS" in line for line in PAGE.splitlines())


def test_the_page_says_the_usual_numbers_of_both_kinds_of_job() -> None:
    assert said(usual(Numbers(), {}), usual(Numbers(), {}, by_scores=True)) in PAGE


def test_an_attack_that_brings_nothing_hurts_nobody() -> None:
    """So a profit of 0 is enough: whoever tries it has its gas to lose, and nothing to win. But for
    two by which the treasury has what nodes that are left out would have had."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines()]
    nothing = [row for row in cells if len(row) == 5 and row[2] == "0"]
    assert len(nothing) > 10
    hurting = {row[0] for row in nothing if row[3] != "0"}
    assert hurting == {"withhold a payload", "leave all but one's own out of the result"}


def test_the_threat_model_has_the_profit_of_a_tie_that_the_page_has() -> None:
    model = " ".join((ROOT / "docs" / "threat-model.md").read_text().split())
    (line,) = [line for line in PAGE.splitlines() if "| tie the first scores with stake" in line]
    capital, profit = (cell.strip() for cell in line.split("|")[2:4])
    told = f"({capital} ZOO with three trainers), ties the consensus by silence. A tie before the "
    assert f"{told}first consensus pays everybody alike: +{profit} a round for three" in model


def test_the_readme_counts_the_attacks_that_the_command_plays() -> None:
    """But those that take half of the verifiers' weight, which it counts apart as the page does."""
    told = " ".join((ROOT / "README.md").read_text().split())
    count = sum(attack.full_name not in BEYOND for attack in attacks())
    assert f"`ape run economics attacks` plays {count} on the contracts" in told


def _section(family: str) -> str:
    """What follows a family's heading."""
    return PAGE.partition(f"## {family.capitalize()}\n")[2]


def _name(row: str) -> str:
    return row.split("|")[1].strip()


def _rows(section: str) -> list[str]:
    """Of the first table of a section, without its head."""
    table = section.partition("\n## ")[0].splitlines()
    return [line for line in table if line.startswith("|")][2:]
