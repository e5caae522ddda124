# SPDX-License-Identifier: Apache-2.0
"""The page about attacks has those that the command plays."""

from __future__ import annotations

from pathlib import Path

from scripts._attacks.catalogue import FAMILIES, attacks
from scripts._attacks.known import KNOWN

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "attacks.md").read_text()


def test_each_attack_has_its_row_in_the_section_of_its_family() -> None:
    """Else: ape run economics attacks --page docs/attacks.md"""
    for family in FAMILIES:
        _, _, section = PAGE.partition(f"## {family.capitalize()}\n")
        shown = [line.split("|")[1].strip() for line in _rows(section)]
        assert shown == [attack.name for attack in attacks() if attack.family == family]


def test_nothing_pays_on_the_page_but_what_is_known_to() -> None:
    paying = [line.split("|")[1].strip() for line in PAGE.splitlines() if "| PAYS" in line]
    assert paying and set(paying) <= set(KNOWN)


def _rows(section: str) -> list[str]:
    """Of the first table of a section, without its head."""
    table = section.partition("\n## ")[0].splitlines()
    return [line for line in table if line.startswith("|")][2:]
