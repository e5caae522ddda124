# SPDX-License-Identifier: Apache-2.0
"""What is watched is written everywhere, also where there is no terminal."""

from __future__ import annotations

import pytest

from scripts._shared.watching import show


def test_once(capsys: pytest.CaptureFixture[str]) -> None:
    show(lambda: "a look", None)
    assert capsys.readouterr().out == "a look\n"


def test_again_and_again_until_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    """As into a pipe: every look is written, in order."""
    looks: list[str] = []

    def view() -> str:
        looks.append(f"look {len(looks)}")
        return looks[-1]

    show(view, 0.01, over=lambda: len(looks) == 3)
    assert capsys.readouterr().out == "look 0\nlook 1\nlook 2\n"


def test_ctrl_c_ends_it_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped() -> bool:
        raise KeyboardInterrupt

    show(lambda: "a look", 0.01, over=stopped)
    assert capsys.readouterr().out == "a look\n"
