# SPDX-License-Identifier: Apache-2.0
"""For each reason with which a contract may refuse what the page sends, it says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ACTIONS = ROOT / "scripts/_web/island/src/actions"
REASONS = ROOT / "scripts/_web/island/src/chain/reasons.ts"
_CALL = re.compile(r'contract: "(\w+)",\s*fn: "(\w+)"')
_QUOTED = re.compile(r'"([a-z]+: [^"]+)"')
# Sent with names that are not literal, see the tables of `claim.ts` and `appeals.ts`.
_MORE = [
    ("RewardPool", "claim"),
    ("RewardPool", "release"),
    ("RewardPool", "release_retained"),
    ("NodeRegistry", "claim_bounty"),
    ("TaskAppeals", "appeal"),
    ("TaskAppeals", "contest"),
]
# What no call of the page can meet: it never gives such arguments.
_NEVER = {"zero address"}
# Any reason of this family means that a signature is none.
_FAMILY = "ecdsa"


def _sent() -> list[tuple[str, str]]:
    found = {call for path in ACTIONS.glob("*.ts") for call in _CALL.findall(path.read_text())}
    return sorted({*found, *_MORE} - {("ZooToken", "approve")})


def _reasons(contract: str, function: str) -> set[str]:
    """The reasons in a function's own text: its NatSpec, and what it asserts itself."""
    source = (ROOT / f"contracts/{contract}.vy").read_text()
    start = re.search(rf"^def {function}\(", source, re.MULTILINE)
    assert start is not None, f"{contract} has no function {function}"
    rest = source[start.start() :]
    end = re.search(r"\n\n\n", rest)
    return set(_QUOTED.findall(re.sub(r"\s*\n\s*", " ", rest[: end.start() if end else None])))


def _remedies() -> set[str]:
    text = REASONS.read_text()
    table = text[text.index("const REMEDIES") : text.index("\n};")]
    return {name.strip('"') for name in re.findall(r'^  ("[^"]+"|\w+): ?"', table, re.MULTILINE)}


@pytest.mark.parametrize(("contract", "function"), _sent(), ids=lambda name: name)
def test_reasons__each_has_a_remedy(contract: str, function: str) -> None:
    pairs = [reason.split(": ", 1) for reason in _reasons(contract, function)]
    said = {what for family, what in pairs if family != _FAMILY}
    missing = said - _remedies() - _NEVER
    assert not missing, f"{contract}.{function} may refuse with {sorted(missing)}"


def test_reasons__the_calls_were_found() -> None:
    assert len(_sent()) >= 20
    assert "registry: banned" in _reasons("NodeRegistry", "begin_exit") | _reasons(
        "NodeRegistry", "add_stake"
    )
