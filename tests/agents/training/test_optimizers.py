# SPDX-License-Identifier: Apache-2.0
"""Inner optimizers are found by the names of their files and take only options they know."""

from __future__ import annotations

from typing import Any

import pytest

from agents.training.optimizers import chosen, names
from agents.training.spec import SpecError

NAMES = ["adamw", "gradient", "muon"]


def test_the_files_of_the_folder_are_the_optimizers() -> None:
    assert names() == NAMES


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("sgd", {}, f"optimizer.inner: .* 'sgd'; choose one of: {', '.join(NAMES)}"),
        ("parts", {}, "optimizer.inner: There is no inner optimizer 'parts'"),
        *[(name, {"x": 1}, f"inner_options: {name} refuses {{'x': 1}}") for name in NAMES],
        ("muon", {"momentum": 1.0}, "momentum must be a number from 0 to 0.9999"),
        ("muon", {"lr_ratio": 0}, "lr_ratio must be a number from 0.001 to 1000"),
        ("muon", {"boundary_ratio": 0}, "boundary_ratio must be a number from 0.001 to 1000"),
        ("muon", {"newton_schulz": "fp16"}, "newton_schulz must be one of fp32, bf16"),
    ],
)
def test_an_unknown_name_or_option_is_refused(
    name: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SpecError, match=reason):
        chosen(name, options)
