# SPDX-License-Identifier: Apache-2.0
"""A committee that no network can have is refused where it is typed, before anything is started."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scripts._shared.quorum import refuse_quorum
from scripts.devnet import cli


@pytest.mark.parametrize(("members", "threshold"), [(1, 1), (2, 2), (3, 2), (3, 3), (5, 3)])
def test_more_than_half_may_decide(members: int, threshold: int) -> None:
    refuse_quorum(members, threshold)


@pytest.mark.parametrize(
    ("members", "threshold", "says"),
    [
        (3, 5, "--threshold 5: a committee of 3 needs 2 to 3 approvals"),
        (4, 2, "--threshold 2: a committee of 4 needs 3 to 4 approvals"),
        (1, 2, "--threshold 2: a committee of 1 needs 1 to 1 approvals"),
    ],
)
def test_others_are_refused(members: int, threshold: int, says: str) -> None:
    with pytest.raises(click.UsageError, match=says):
        refuse_quorum(members, threshold)


def test_localnet_starts_nothing(tmp_path: Path) -> None:
    """It started a chain, and failed by the constructor's words."""
    folder = tmp_path / "net"
    done = CliRunner().invoke(
        cli, ["--members", "3", "--threshold", "5", "--directory", str(folder)]
    )
    assert done.exit_code == 2 and "a committee of 3 needs 2 to 3" in done.output
    assert not folder.exists()
