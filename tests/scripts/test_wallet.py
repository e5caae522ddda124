# SPDX-License-Identifier: Apache-2.0
"""What `wallet new` refuses leaves no file behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stage.terminal import Terminal


@pytest.mark.parametrize("alias", ["..", ".", ".hidden", "a/b", "../up", "a" * 65, "ä"])
def test_an_alias_that_is_no_plain_file_name_is_refused(tmp_path: Path, alias: str) -> None:
    somebody = Terminal(tmp_path)
    line = f"wallet new {alias} --passphrase-env MENAGERIE_PASSPHRASE"
    assert "1 to 64 letters" in somebody.here(line, fails=True)
    assert list(tmp_path.rglob("*.json")) == []


def test_an_empty_passphrase_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "")
    said = Terminal(tmp_path).here("wallet new somebody --passphrase-env EMPTY", fails=True)
    assert "passphrase is empty" in said and len(said.splitlines()) == 1
    assert list(tmp_path.rglob("*.json")) == []
