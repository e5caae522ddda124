# SPDX-License-Identifier: Apache-2.0
"""Amounts and addresses as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from scripts._shared.operator import ADDRESS, ZOO, ZOO_AMOUNT, deployment_path, zoo


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("100", 100 * ZOO),
        ("0.5", ZOO // 2),
        ("0", 0),
        ("0.000000000000000001", 1),
        ("1e3", 1000 * ZOO),
    ],
)
def test_amount_is_exact(text: str, units: int) -> None:
    assert ZOO_AMOUNT.convert(text, None, None) == units


@pytest.mark.parametrize("text", ["-1", "0.0000000000000000001", "ten", "", "nan", "inf"])
def test_amount__no_amount__is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no amount of ZOO"):
        ZOO_AMOUNT.convert(text, None, None)


@pytest.mark.parametrize(
    ("amount", "digits", "text"),
    [
        (1234 * ZOO + ZOO // 2, 18, "1,234.5 ZOO"),
        (0, 18, "0 ZOO"),
        (1, 18, "0.000000000000000001 ZOO"),
        (1_000_000 * ZOO, 2, "1,000,000 ZOO"),
        (99_999_999_999 * ZOO + 1, 18, "99,999,999,999.000000000000000001 ZOO"),
        (199 * ZOO // 100 + 5, 1, "1.9 ZOO"),
    ],
)
def test_zoo_for_people(amount: int, digits: int, text: str) -> None:
    assert zoo(amount, digits) == text


def test_address_is_checksummed_or_refused() -> None:
    lower = "0x" + "ab" * 20
    assert ADDRESS.convert(lower, None, None).lower() == lower
    with pytest.raises(click.BadParameter, match="40 hexadecimal digits"):
        ADDRESS.convert("0x12", None, None)


def test_deployment_path__missing__says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="ape run deploy"):
        deployment_path(tmp_path / "5.json", 5)
    path = tmp_path / "6.json"
    path.write_text(json.dumps({}))
    assert deployment_path(path, 6) == path
