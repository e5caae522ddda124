# SPDX-License-Identifier: Apache-2.0
"""For each reason with which a contract may refuse what the page sends, it says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.stage.contract_reasons import reasons

ROOT = Path(__file__).resolve().parents[2]
ACTIONS = ROOT / "scripts/_web/island/src/actions"
REASONS = ROOT / "scripts/_web/island/src/chain/reasons.ts"
_CALL = re.compile(r'contract: "(\w+)",\s*fn: "(\w+)"')
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
_NEVER_OF = {
    # The page relays nobody's signature: it calls this with none, to queue what has its quorum.
    ("Coordinator", "approve_by_sig"): {"bad signature", "signer order"},
}
# Any reason of this family means that a signature is none.
_FAMILY = "ecdsa"


def _sent() -> list[tuple[str, str]]:
    found = {call for path in ACTIONS.glob("*.ts") for call in _CALL.findall(path.read_text())}
    return sorted({*found, *_MORE} - {("ZooToken", "approve")})


def _remedies() -> set[str]:
    text = REASONS.read_text()
    table = text[text.index("const REMEDIES") : text.index("\n};")]
    return {name.strip('"') for name in re.findall(r'^  ("[^"]+"|\w+): ?"', table, re.MULTILINE)}


@pytest.mark.parametrize(("contract", "function"), _sent(), ids=lambda name: name)
def test_reasons__each_has_a_remedy(contract: str, function: str) -> None:
    pairs = [reason.split(": ", 1) for reason in reasons(contract, function)]
    said = {what for family, what in pairs if family != _FAMILY}
    missing = said - _remedies() - _NEVER - _NEVER_OF.get((contract, function), set())
    assert not missing, f"{contract}.{function} may refuse with {sorted(missing)}"


def test_reasons__the_calls_were_found() -> None:
    assert len(_sent()) >= 20
    assert "registry: banned" in reasons("NodeRegistry", "begin_exit") | reasons(
        "NodeRegistry", "add_stake"
    )
