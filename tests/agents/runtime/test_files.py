# SPDX-License-Identifier: Apache-2.0
"""A file that is too large or nests too deep is refused in a sentence, soon, by every reader."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.runtime.config import load_settings
from agents.runtime.contracts import load_deployment
from agents.runtime.errors import ConfigError, WalletError
from agents.runtime.files import DEPLOYMENT_BYTES, SETTINGS_BYTES, read_toml, read_yaml
from agents.runtime.wallet import load_wallet

SOON = 5.0  # seconds; the YAML parser alone took 5 to 11 for 50 KB

JSON = {
    "lists": "[" * 50_000,
    "objects": '{"a":' * 10_000,
    "closed": "[" * 25_000 + "]" * 25_000,
}
YAML = {
    "flow": "[" * 50_000,
    "flow-maps": "{a: " * 12_000,
    "rows": "- " * 25_000,
    "keys": "? " * 25_000,
    "indented": "".join(" " * i + "a:\n" for i in range(300)),
}
TOML = {
    "lists": "job_id = " + "[" * 50_000,
    "tables": "job_id = " + "{a=" * 10_000 + "1" + "}" * 10_000,
    "dots": "a." * 25_000 + "a = 1",
    "header": "[" + "a." * 25_000 + "a]",
    "setting": "trainer.compile." + "a." * 63 + "a = 1",
}


def _cases(*kinds: tuple[str, Callable[[str], Any], dict[str, str]]) -> list[Any]:
    return [
        pytest.param(name, read, text, id=f"{name}-{case}")
        for name, read, texts in kinds
        for case, text in texts.items()
    ]


@pytest.mark.parametrize(
    ("name", "read", "text"),
    _cases(
        ("deployment.json", load_deployment, JSON),
        ("key.json", lambda path: load_wallet(path, "pass"), JSON),
        ("my.yaml", load_settings, YAML),
        ("my.toml", load_settings, TOML),
    ),
)
def test_deep_nesting_is_a_sentence_and_soon(
    tmp_path: Path, name: str, read: Callable[[str], Any], text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    began = time.monotonic()
    with pytest.raises((ConfigError, WalletError), match=rf"{name}.*(deeper than 64|64 dots)"):
        read(str(path))
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize(
    ("name", "read", "limit"),
    [
        ("deployment.json", load_deployment, DEPLOYMENT_BYTES),
        ("key.json", lambda path: load_wallet(path, "pass"), SETTINGS_BYTES),
        ("my.yaml", load_settings, SETTINGS_BYTES),
        ("my.toml", load_settings, SETTINGS_BYTES),
    ],
)
def test_a_large_file_is_not_read(
    tmp_path: Path, name: str, read: Callable[[str], Any], limit: int
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of zeros, none of them on disk
    with pytest.raises((ConfigError, WalletError), match=rf"{name}.*more than {limit} bytes"):
        read(str(path))


def test_yaml_that_grows_is_refused(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{f'*a{i - 1},' * 9}]" for i in range(1, 20)]
    path = tmp_path / "my.yaml"
    path.write_text("\n".join(rows))
    with pytest.raises(ConfigError, match="has an alias"):
        load_settings(path)


def test_ordinary_files_are_read(tmp_path: Path) -> None:
    yaml, toml = tmp_path / "a.yaml", tmp_path / "a.toml"
    yaml.write_text("a: [1, {b: c}]\nd:\n  e: true\n")
    toml.write_text('a = [1, {b = "c"}]\n[d.e.f]\ng = "x.y.z.html"\n')
    assert read_yaml(yaml) == {"a": [1, {"b": "c"}], "d": {"e": True}}
    assert read_toml(toml) == {"a": [1, {"b": "c"}], "d": {"e": {"f": {"g": "x.y.z.html"}}}}


@pytest.mark.parametrize("text", ["[]", "{}", '{"contracts":{},"chain_id":1e999,"block":1}'])
def test_a_malformed_deployment_is_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deployment.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is malformed"):
        load_deployment(path)
