# SPDX-License-Identifier: Apache-2.0
"""`ape run agent` says what it runs."""

from __future__ import annotations

from click.testing import CliRunner

from scripts.agent import cli


def test_each_role_has_its_article() -> None:
    told = CliRunner().invoke(cli, ["--help"]).output
    for words in ("a trainer", "an aggregator", "a verifier", "an executor", "a coordinator"):
        assert f"Run {words} until" in told
    assert "redundant" not in told
