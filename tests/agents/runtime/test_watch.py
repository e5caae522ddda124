# SPDX-License-Identifier: Apache-2.0
"""A step that takes long is named; a stop does not wait for it; errors come through."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest

from agents.runtime.watch import run_watched
from tests.agents.runtime.conftest import Lines


def test_what_ends_by_itself_has_ended(lines: Lines) -> None:
    assert run_watched(lambda: None, lambda: None, threading.Event(), lines.log)
    assert lines.events("slow_step") == []


def test_an_error_of_the_loop_is_raised(lines: Lines) -> None:
    def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_watched(fail, lambda: None, threading.Event(), lines.log)


def test_a_slow_step_is_named_with_growing_pauses(lines: Lines) -> None:
    free, began = threading.Event(), time.monotonic()

    def dawdle() -> None:
        while len(lines.events("slow_step")) < 3:
            free.wait(0.1)

    assert run_watched(dawdle, lambda: began, threading.Event(), lines.log, slow_s=0.25)
    said = lines.events("slow_step")
    assert all("in dawdle" in line["at"] for line in said)
    lasted = [line["after_s"] for line in said]
    assert all(later >= 2 * earlier - 0.2 for earlier, later in pairwise(lasted)), "rounded to 0.1"


def test_a_stop_waits_for_the_step_in_hand_and_no_longer(lines: Lines) -> None:
    stop, free, began = threading.Event(), threading.Event(), time.monotonic()
    stop.set()
    assert not run_watched(
        lambda: free.wait(60) and None, lambda: began, stop, lines.log, grace_s=0.5
    )
    (said,) = lines.events("stopped_in_a_step")
    assert "free.wait(60)" in said["at"]
    free.set()


def test_a_stop_lets_a_short_step_end(lines: Lines) -> None:
    stop, done = threading.Event(), []
    stop.set()

    def step() -> None:
        time.sleep(0.3)
        done.append(1)

    assert run_watched(step, lambda: None, stop, lines.log)
    assert done == [1]
