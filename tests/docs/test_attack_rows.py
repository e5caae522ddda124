# SPDX-License-Identifier: Apache-2.0
"""Each attack of the threat model is played by the command, or the page says why it is not."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

from scripts._attacks.catalogue import attacks

ROOT = Path(__file__).resolve().parents[2]
ROWS = tomllib.loads((Path(__file__).parent / "attack_rows.toml").read_text())
PLAYED: dict[str, list[str]] = ROWS["played"]
UNPLAYED: dict[str, list[str]] = ROWS["unplayed"]
OF_ITS_OWN = {
    "training: send noise, found by a friend",
    "verifying: attest without a look",
    "verifying: propose a result that pays oneself",
    "verifying: shield a lie by a challenge",
    "gauntlet: do a quarter of the work",
    "gauntlet: adapt a quarter of the work",
    "gauntlet: do half of the work",
    "gauntlet: add past merges to a quarter of the work",
    "gauntlet: train the output layer only",
    "gauntlet: train the output layer, and the rest on a quarter of the data",
}
"""Attacks of other pages: deterrence.md, gauntlet.md, the threat model's last sections."""


def test_each_row_of_the_threat_model_is_played_or_is_said_not_to_be() -> None:
    model = (ROOT / "docs" / "threat-model.md").read_text()
    rows = re.findall(r"^\| (?:\d+|[a-z]) \| ([^|]+) \|", model, re.MULTILINE)
    told = [*PLAYED, *(row for part in UNPLAYED.values() for row in part)]
    assert len(rows) > 100 and len(set(told)) == len(told)
    found = {row: [one for one in told if row.startswith(one)] for row in rows}
    assert {row[:60]: ways for row, ways in found.items() if len(ways) != 1} == {}
    counted = Counter(one for ways in found.values() for one in ways)
    assert [one for one in told if counted[one] != 1] == [], "rows that are no more there"


def test_what_plays_a_row_is_an_attack_of_the_command_and_each_attack_has_a_row() -> None:
    played = {name for names in PLAYED.values() for name in names}
    known = {attack.full_name for attack in attacks()}
    assert played <= known and played | OF_ITS_OWN == known and not played & OF_ITS_OWN


def test_each_reason_is_one_that_the_page_gives() -> None:
    page = (ROOT / "docs" / "attacks.md").read_text().partition("## What has no row")[2]
    given = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", page.partition("\n## ")[0], re.MULTILINE)
    begun = {why: [one for one in UNPLAYED if why.startswith(one)] for why in given[1:]}
    assert [one for ways in begun.values() for one in ways] == [*UNPLAYED]
