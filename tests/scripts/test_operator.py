# SPDX-License-Identifier: Apache-2.0
"""Amounts and addresses as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from agents.runtime.errors import RpcRefused
from agents.storage.errors import NotFound
from scripts._shared.operator import (
    ADDRESS,
    ZOO,
    ZOO_AMOUNT,
    deployment_path,
    refusals,
    store_to_read,
    when,
    zoo,
)

WORDS = "no\x1b]0;t\x07 \u202e\ud800"


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


@pytest.mark.parametrize(
    "text",
    [
        *("-1", "0.0000000000000000001", "ten", "", "nan", "inf"),
        # What no decimal holds, what only a rounded one does, and what no word of a contract does.
        *("1e999999999", "1e-999999999", "1" * 120, "1e60", "1e5000"),
    ],
)
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


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (1_700_000_060, "2023-11-14 22:14 UTC (in 0:01:00)"),
        (1_700_000_000 + 14 * 86_400, "2023-11-28 22:13 UTC (in 14 days, 0:00:00)"),
        (1_699_999_999, "2023-11-14 22:13 UTC (0:00:01 ago)"),
    ],
)
def test_chain_time_for_people(moment: int, words: str) -> None:
    assert when(moment, 1_700_000_000) == words


def test_deployment_path__missing__says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="ape run deploy"):
        deployment_path(tmp_path / "5.json", 5)
    path = tmp_path / "6.json"
    path.write_text(json.dumps({}))
    assert deployment_path(path, 6) == path


def test_a_folder_that_is_not_there_is_no_store_to_read(tmp_path: Path) -> None:
    """To open it would make it, and what is read is then said to be lost."""
    wrong = tmp_path / "stroe"
    for name in (str(wrong), f"file://{wrong}"):
        with pytest.raises(click.ClickException, match=f"There is no folder {wrong} to read"):
            store_to_read(name, 5)
    assert not wrong.exists()
    for name in (str(tmp_path), "/ip4/127.0.0.1/tcp/5001", "http://127.0.0.1:5001"):
        assert store_to_read(name, 5) == name


@pytest.mark.parametrize("error", [RpcRefused("eth_call", -1, WORDS), NotFound(WORDS)])
def test_a_refusal__moves_no_terminal_in_a_strangers_words(error: Exception) -> None:
    with pytest.raises(click.ClickException) as refused, refusals():
        raise error
    assert r"no\x1b]0;t\x07 \u202e\ud800" in refused.value.message
