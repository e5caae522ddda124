# SPDX-License-Identifier: Apache-2.0
"""Mechanisms of every kind: found by the names of their files, and by no other; none takes an
option that it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from agents.mechanisms import codec, merge, mode, privacy, score, verify
from agents.mechanisms.mode import Mode
from agents.mechanisms.registry import UnknownMechanism
from agents.mechanisms.verify import Verification
from agents.training.spec import MECHANISMS, JobSpec

# What an error calls a mechanism of the folder, and the names of all.
FOLDERS: dict[Any, tuple[str, str]] = {
    codec: ("codec", "cells demo dense directions polytope semantic sparse"),
    merge: (
        "merge rule",
        "centred_clipping demo_sign geometric_mean geometric_median mean median multi_krum "
        "norm_clip trimmed_mean weighted_mean",
    ),
    mode: ("mode", "data_parallel pipeline"),
    privacy: ("privacy mechanism", "aggregate dp_sgd gaussian none"),
    score: ("scoring rule", "alignment backward_passes batches clasp gauntlet shares"),
    verify: ("way of verifying", "gauntlet reexecution screening"),
}


def name_of(folder: Any) -> str:
    return str(folder.__name__.rpartition(".")[2])


def test_there_is_a_folder_for_every_field() -> None:
    assert sorted(map(name_of, FOLDERS)) == sorted(MECHANISMS)


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_files_of_the_folder_are_found_by_their_names(folder: Any) -> None:
    names = FOLDERS[folder][1].split()
    assert folder.names() == names
    assert JobSpec.model_fields[name_of(folder)].default in names


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
@pytest.mark.parametrize("name", ["container", "nothing", "os", "mean.py", "../mean", "", None, 3])
def test_an_unknown_name_is_refused_with_the_names_that_exist(folder: Any, name: object) -> None:
    kind, names = FOLDERS[folder]
    with pytest.raises(UnknownMechanism) as caught:
        folder.get(name)
    listed = ", ".join(names.split())
    assert str(caught.value) == f"There is no {kind} {str(name)!r}; choose one of: {listed}."


@pytest.mark.parametrize(
    ("folder", "name"),
    [(folder, name) for folder, (_, names) in FOLDERS.items() for name in names.split()],
    ids=lambda value: value if isinstance(value, str) else name_of(value),
)
def test_strange_options_are_type_errors(folder: Any, name: str) -> None:
    with pytest.raises(TypeError):
        folder.get(name)(strange=1)


@pytest.mark.parametrize(("folder", "base"), [(mode, Mode), (verify, Verification)])
def test_a_class_without_options_is_equal_to_another_of_it(folder: Any, base: type) -> None:
    for name in folder.names():
        assert issubclass(folder.get(name), base)
        assert folder.get(name)() == folder.get(name)()
