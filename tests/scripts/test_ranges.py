# SPDX-License-Identifier: Apache-2.0
"""A number that no network can have is refused where it is typed, with its option and its range."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from scripts._job.terms import funded
from scripts._net.compiled import ROOT

NAMES = sorted(path.stem for path in (ROOT / "scripts").glob("[!_]*.py"))


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """The commands below one, those of ape's own kinds too."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, f"{path} {name}")


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_a_range(name: str) -> None:
    """Without one a number below zero is found by the encoder of calls, in a traceback."""
    found = importlib.import_module(f"scripts.{name}").cli
    without = [
        f"{path} {parameter.name}"
        for path, command in leaves(found, name)
        for parameter in command.params
        if type(parameter.type) in (type(click.INT), type(click.FLOAT))
    ]
    assert without == []


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "--job", "-1"],
        ["explain", "--job", "1", "--round", "0"],
        ["audit", "--job", "0"],
        ["model", "pull", "--job", "-1"],
        ["job", "show", "0"],
        ["job", "pack", "--commit-s", "-1"],
        ["job", "pack", "--max-nodes", "129"],
        ["job", "create", "--fund-rounds", "-1"],
        ["devnet", "--block-time", "0"],
    ],
    ids=" ".join,
)
def test_the_option_and_its_range_are_named(words: list[str]) -> None:
    command = importlib.import_module(f"scripts.{words[0]}").cli
    done = CliRunner().invoke(command, words[1:])
    assert done.exit_code == 2
    assert f"{words[-1]}" in done.output and "is not in the range" in done.output


def test_no_more_rounds_are_paid_for_than_there_are() -> None:
    """What is paid beyond them lies in the escrow until the job's end, and pays nobody."""
    assert [funded(3, chosen) for chosen in (None, 0, 3)] == [3, 0, 3]
    with pytest.raises(click.BadParameter, match="has 3 rounds, and 4 would be paid for"):
        funded(3, 4)
