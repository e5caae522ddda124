# SPDX-License-Identifier: Apache-2.0
"""`ape run agent` says what it runs, and writes settings that its agents read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agents.runtime.config import load_settings
from scripts.agent import cli


def test_each_role_has_its_article() -> None:
    told = CliRunner().invoke(cli, ["--help"]).output
    for words in ("a trainer", "an aggregator", "a verifier", "an executor", "a coordinator"):
        assert f"Run {words} until" in told
    assert "redundant" not in told


@pytest.mark.parametrize("variable", [None, "PW"])
def test_settings_name_the_variable_of_the_passphrase(tmp_path: Path, variable: str | None) -> None:
    deployment, out = tmp_path / "network.json", tmp_path / "verifier.yaml"
    deployment.write_text(json.dumps({"chain_id": 31337, "block": 1, "contracts": {}}))
    named = ["--passphrase-env", variable] if variable else []
    files = ["--deployment", deployment, "--store", tmp_path / "store", "--out", out]
    words = ["config", "verifier", "--keystore", "my-operator", *map(str, files), *named]
    told = CliRunner().invoke(cli, words)
    assert told.exit_code == 0, told.output
    settings = load_settings(out)
    assert (settings.keystore, settings.passphrase_env) == ("my-operator", variable)
