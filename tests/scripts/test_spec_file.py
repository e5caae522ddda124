# SPDX-License-Identifier: Apache-2.0
"""A file with fields of a job spec, as `job create` and `make localnet` take it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agents.tasks.compute.classes import CPU, CPU_CLASS
from scripts._shared.spec_file import spec_fields
from scripts.devnet import cli


def test_its_fields_are_read__the_rounds_that_were_typed_come_first(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(f"rounds: 3\nmodel: {{d_model: 16}}\nclasses: [{CPU}, other]\n")
    fields = {"model": {"d_model": 16}, "classes": [CPU_CLASS, "other"]}
    assert spec_fields(file, None) == {**fields, "rounds": 3}
    assert spec_fields(file, 7) == {**fields, "rounds": 7}
    assert spec_fields(None, 7) == {"rounds": 7}
    assert spec_fields(None, None) == {}


@pytest.mark.parametrize(
    ("text", "why"), [("[1, 2]", "must hold the spec's fields by name"), ("a: [", "cannot be used")]
)
def test_what_is_none_is_refused__and_localnet_starts_nothing(
    tmp_path: Path, text: str, why: str
) -> None:
    file, folder = tmp_path / "spec.yaml", tmp_path / "net"
    file.write_text(text)
    with pytest.raises(click.ClickException, match=why):
        spec_fields(file, None)
    done = CliRunner().invoke(cli, ["--spec", str(file), "--directory", str(folder)])
    assert done.exit_code == 1 and why in done.output
    assert not folder.exists()


@pytest.mark.parametrize(
    ("typed", "rounds"), [((), 3), (("--rounds", "7"), 7)], ids=["the spec's", "typed"]
)
def test_localnet_plays_the_rounds_of_its_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...], rounds: int
) -> None:
    """As far as the first job; the network before it is not started."""
    file, told = tmp_path / "spec.yaml", list[object]()
    file.write_text("rounds: 3\n")

    class Ended(Exception):
        pass

    def first_job(net: object, fields: dict[str, object], files: tuple[Path, ...]) -> None:
        told.append(fields["rounds"])
        raise Ended

    monkeypatch.setattr("scripts._net.localnet.build_localnet", lambda *_: None)
    monkeypatch.setattr("scripts.devnet._first_job", first_job)
    asked = ["--spec", str(file), "--directory", str(tmp_path / "net"), "--no-web", *typed]
    assert isinstance(CliRunner().invoke(cli, asked).exception, Ended)
    assert told == [rounds]
