# SPDX-License-Identifier: Apache-2.0
"""Who declared the classes that a job lists, in words; too few of them are an error."""

from __future__ import annotations

from typing import Any

import click
import pytest

from agents.protocol.numbers import ZOO
from agents.tasks import contract
from agents.tasks.compute.classes import CPU_CLASS, TORCH
from agents.tasks.contract import Recheckers
from scripts._shared.job_classes import OPTION, check_classes, sentences, written_out

H200 = (
    f"torch={TORCH};device=NVIDIA H200;chip=sm_90/132;cuda=13.0;matmul=highest;"
    "deterministic=yes;compiled=no"
)
IDS = {"cpu-fp32": 0, "cuda:sm_90/132/13.0": 1}
MANY = Recheckers(able=(4, 5), voters=3, weight=2_000 * ZOO, total=3_000 * ZOO)
FEW = Recheckers(able=(4,), voters=3, weight=2_000 * ZOO, total=3_000 * ZOO)
LIGHT = Recheckers(able=(4, 5), voters=3, weight=1_999 * ZOO, total=3_000 * ZOO)


def test_a_class_that_two_owners_with_two_thirds_run_is_fine() -> None:
    said, wrong = sentences([CPU_CLASS, H200], IDS, [MANY, MANY])
    assert wrong == []
    assert said[0] == (
        "cpu-fp32: 2 of 3 verifiers say that they run it; they hold 67% of the voters' weight"
    )
    assert "whether their GPU has the name that is listed is not on chain" in said[1]


@pytest.mark.parametrize("who", [FEW, LIGHT])
def test_too_few_or_too_light_verifiers_are_told(who: Recheckers) -> None:
    said, wrong = sentences([CPU_CLASS, H200], IDS, [MANY, who])
    assert len(said) == 2
    assert wrong == [
        "cuda:sm_90/132/13.0: two owners with two thirds of the weight have not declared it"
    ]


@pytest.mark.parametrize(
    ("text", "ids", "why"),
    [
        (CPU_CLASS.replace("threads=1", "threads=8"), IDS, "no class of redundant tasks"),
        (H200, {"cpu-fp32": 0}, "it has no pool"),
    ],
)
def test_a_class_that_nobody_can_declare_is_told(text: str, ids: dict[str, int], why: str) -> None:
    said, (wrong,) = sentences([text], ids, [MANY])
    assert said == [] and wrong.startswith(text) and why in wrong


def test_in_a_sponsors_spec_the_label_of_cpus_stands_for_their_class() -> None:
    fields = {"rounds": 3, "classes": ["cpu-fp32", H200]}
    assert written_out(fields) == {"rounds": 3, "classes": [CPU_CLASS, H200]}
    for other in ({}, {"classes": "cpu-fp32"}, {"classes": ["cuda:sm_90/132/13.0", 7]}):
        assert written_out(other) == other


def test_a_job_with_such_a_class_needs_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(contract.Tasks, "class_ids", lambda _: IDS)
    monkeypatch.setattr(contract.Tasks, "recheckers", lambda _: [FEW, MANY])
    network: Any = type("Stub", (), {"chain": None, "tasks": None})
    with pytest.raises(click.ClickException, match=f"{OPTION} creates it nevertheless"):
        check_classes(network, [CPU_CLASS], False)
    check_classes(network, [CPU_CLASS], True)
    check_classes(network, [H200], False)
    check_classes(network, [], False)
    assert "Warning: cpu-fp32: two owners" in capsys.readouterr().err
