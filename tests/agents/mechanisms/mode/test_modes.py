# SPDX-License-Identifier: Apache-2.0
"""Modes: found by name, and by no other."""

from __future__ import annotations

import pytest

from agents.mechanisms import mode
from agents.mechanisms.mode import Mode
from agents.mechanisms.registry import UnknownMechanism
from agents.training.spec import MECHANISMS, JobSpec


def test_a_file_of_the_folder_is_found_by_its_name() -> None:
    assert mode.names() == ["data_parallel"]
    assert issubclass(mode.get("data_parallel"), Mode)


def test_the_folder_has_the_name_of_the_field() -> None:
    assert mode.__name__.rpartition(".")[2] in MECHANISMS
    assert JobSpec.model_fields["mode"].default in mode.names()


def test_an_unknown_name_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(UnknownMechanism) as caught:
        mode.get("pipeline")
    assert str(caught.value) == "There is no mode 'pipeline'; choose one of: data_parallel."


def test_it_takes_no_options() -> None:
    assert mode.get("data_parallel")() == mode.get("data_parallel")()
    with pytest.raises(TypeError):
        mode.get("data_parallel")(stages=4)
