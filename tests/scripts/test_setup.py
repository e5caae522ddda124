# SPDX-License-Identifier: Apache-2.0
"""What the set-up hands from pip's configuration to uv, which reads none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts._setup.uv import arguments, environment, read_configuration, torch_flags

LISTING = """\
:env:.default-timeout='180'
:env:.find-links='/wheels'
global.cert='/etc/ca.crt'
global.extra-index-url='file:///one/simple\\nfile:///two/simple'
global.find-links='/older'
global.index-url='https://mirror.example/simple'
global.trusted-host='mirror.example other.example:8080'
install.proxy='http://proxy.example:3128'
freeze.timeout='5'
WARNING: something else = 'no setting'
broken.line
"""


def test_configuration__environment_counts_more_than_files_and_other_commands_nothing() -> None:
    found = read_configuration(LISTING)
    assert found["find-links"] == "/wheels"
    assert "timeout" not in found
    assert found["index-url"] == "https://mirror.example/simple"


def test_arguments__every_index_folder_and_host_is_passed_on() -> None:
    flags = arguments(read_configuration(LISTING))
    pairs = list(zip(flags[::2], flags[1::2], strict=True))
    assert pairs == [
        ("--index-strategy", "unsafe-best-match"),
        ("--default-index", "https://mirror.example/simple"),
        ("--extra-index-url", "file:///one/simple"),
        ("--extra-index-url", "file:///two/simple"),
        ("--find-links", "/wheels"),
        ("--allow-insecure-host", "mirror.example"),
        ("--allow-insecure-host", "other.example:8080"),
    ]


def test_arguments__no_index__asks_none() -> None:
    assert "--no-index" in arguments({"no-index": "true"})
    assert "--no-index" not in arguments({"no-index": "false"})


def test_environment__certificate_and_proxy__what_is_set_already_stays() -> None:
    found = environment(read_configuration(LISTING), {"HTTPS_PROXY": "http://own.example"})
    assert found == {
        "SSL_CERT_FILE": "/etc/ca.crt",
        "HTTP_PROXY": "http://proxy.example:3128",
        "HTTPS_PROXY": "http://own.example",
        "UV_HTTP_TIMEOUT": "180",
    }


@pytest.mark.parametrize(
    ("driver", "reachable", "flags"),
    [
        (False, True, ["--torch-backend", "cpu"]),
        (False, False, []),  # the ordinary builds run everywhere, they are only larger
        (True, True, []),
    ],
)
def test_torch__cpu_builds_where_there_is_no_driver(
    driver: bool, reachable: bool, flags: list[str]
) -> None:
    assert torch_flags(driver, reachable) == flags


def test_configuration_is_that_of_the_machines_pip(tmp_path: Path) -> None:
    """As pip itself prints it, from a file and the environment."""
    (tmp_path / "pip.conf").write_text(
        "[global]\nextra-index-url =\n    file:///a\n    file:///b\n"
    )
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env={**keep, "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_FIND_LINKS": "/c"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = read_configuration(listing)
    assert found["extra-index-url"].split()[-2:] == ["file:///a", "file:///b"]
    assert found["find-links"] == "/c"
