# SPDX-License-Identifier: Apache-2.0
"""Starting a local network removes what an earlier one left, and nobody else's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts._net.deployment import DeploymentError
from scripts._net.localnet import build_localnet
from scripts._net.own_folder import make_empty
from scripts._net.processes import Supervisor


def test_a_folder_of_ones_own_is_not_emptied(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    letter = home / "letter.txt"
    letter.write_text("mine")
    with Supervisor(home / "logs") as supervisor, pytest.raises(DeploymentError, match="no local"):
        build_localnet(supervisor, home)
    assert letter.read_text() == "mine"


@pytest.mark.parametrize("there", [False, True], ids=["not there", "empty"])
def test_an_earlier_network_makes_room(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "net"
    if there:
        (folder / "logs").mkdir(parents=True)
    make_empty(folder)
    (folder / "store").mkdir()
    make_empty(folder)
    assert not (folder / "store").exists()


def test_a_network_from_before_there_was_a_mark_makes_room(tmp_path: Path) -> None:
    for name in ("config", "keys", "store"):
        (tmp_path / name).mkdir()
    with pytest.raises(DeploymentError):
        make_empty(tmp_path)
    (tmp_path / "deployment.json").write_text("{}")
    make_empty(tmp_path)
    assert not (tmp_path / "store").exists()


def test_neither_a_file_nor_what_a_link_leads_to_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(DeploymentError):
            make_empty(tmp_path / name)
    assert (tmp_path / "file").exists()


def test_wallets_that_somebody_paid_for_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    for number in (1, 2):
        make_empty(folder, paid_on=11_155_111)
        (folder / "key").write_text(str(number))
    assert make_empty(folder) == tmp_path / "net-11155111-2"
    assert [(tmp_path / f"net-11155111-{n}" / "key").read_text() for n in (1, 2)] == ["1", "2"]
    assert make_empty(folder) is None
