# SPDX-License-Identifier: Apache-2.0
"""The lint of Vyper files names each broken rule, and passes a contract that keeps all of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

CONTRACT = '''# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title Bell
@license AGPL-3.0-only
@notice A bell.
@custom:kill The owner may pause `ring`.
"""

# Pause bits.
PAUSE_RING: constant(uint256) = 1
PAUSE_OIL: constant(uint256) = 2


@deploy
def __init__(owner_: address):
    """
    @notice Hangs the bell.
    @dev Reverts: "bell: zero address".
    @param owner_ Who may pause.
    """
    assert owner_ != empty(address), "bell: zero address"


@external
def set_paused(bits: uint256):
    """
    @notice Owner only: replaces the pause bits, PAUSE_RING = 1 and PAUSE_OIL = 2.
    @param bits The new bits.
    """
    pausing._set_paused(bits, PAUSE_RING | PAUSE_OIL)


@external
def ring(times: uint256):
    """
    @notice Anyone: rings.
    @dev Reverts: "bell: too
         often".
    @param times How often.
    """
    self._check(times)
    assert times < 10, "bell: too often"


@internal
@pure
def _check(times: uint256):
    assert times != 0, "bell: never"
'''


@pytest.fixture(scope="module")
def lint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vyper_lint", ROOT / ".ci" / "vyper_lint.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(lint: ModuleType, folder: Path, text: str) -> list[str]:
    """What the lint says of this text as a deployable."""
    lint.ROOT = folder
    path = folder / "contracts" / "Bell.vy"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return list(lint.problems(path))


def test_contract_that_keeps_the_rules__has_no_problem(lint: ModuleType, tmp_path: Path) -> None:
    assert found(lint, tmp_path, CONTRACT) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@internal\n@pure", "@pure\n@internal", "stands first"),
        ("nonreentrancy on\n", "nonreentrancy on\n# pragma experimental-codegen\n", "experimental"),
        ('"bell: never"', '"bells: never"', 'begins with "bell: ", not "bells: "'),
        ('"bell: never"', f'"bell: {"n" * 40}"', "more than 40 characters"),
        ('often".\n', 'seldom".\n', 'doesn\'t list "bell: too often"'),
        ("@param times", "@param count", "@param of ring are ['count']"),
        ('Reverts: "bell: zero', 'Reverts with "bell: zero', "behind `Reverts:`"),
        ("owner_", "owner", "must end with an underscore"),
        ("PAUSE_OIL = 2.", "2 for oil.", "`set_paused` doesn't say PAUSE_OIL = 2"),
        ("PAUSE_OIL: constant(uint256) = 2", "PAUSE_OIL: constant(uint256) = 3", "must be 2"),
        ("PAUSE_", "_", "pause bits are constants PAUSE_..."),
        ("# Pause bits.\n", "", "pause bits are constants PAUSE_..."),
    ],
)
def test_broken_rule__is_named(
    lint: ModuleType, tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in CONTRACT
    assert any(said in line for line in found(lint, tmp_path, CONTRACT.replace(old, new)))
