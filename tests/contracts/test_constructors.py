# SPDX-License-Identifier: Apache-2.0
"""Rule: no contract is deployed without a neighbour or an owner, and each says who its neighbours
are. NodeRegistry takes lists of them: see `registry/test_constructor.py`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.tasks.test_settings import CLASSES
from tests.stage.contracts.system import BOUNDS, TASK_TERMS, ZERO, Codes, System, refuses

# The neighbours that a constructor takes first, by the names of their views; what follows them.
CONSTRUCTORS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "pool": ("token registry jobs results scores reports", ()),
    "ledger": ("results pool coordinator", ()),
    "jobs": ("registry rounds results owner", (BOUNDS,)),
    "rounds": ("registry jobs results owner", (ZERO,)),
    "results": ("token registry pool ledger reports jobs rounds owner", (ZERO,)),
    "reports": ("token registry jobs rounds results pool owner", (1,)),
    "keys": ("registry jobs", ()),
    "scores": ("registry jobs rounds results owner", ()),
    "tasks": ("token registry appeals owner", (tuple(TASK_TERMS.values()), CLASSES, ZERO)),
    "appeals": ("token registry tasks owner", ()),
    "benchmarks": ("registry owner", (ZERO,)),
}
# Their token is the bonds' module's, which keeps it to itself.
TAKE_BONDS = ("results", "reports", "tasks", "appeals")


def neighbour(system: System, part: str) -> str:
    return str(getattr(system, "coordinator" if part == "owner" else part).address)


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructor__zero_address__reverts(codes: Codes, system: System, name: str) -> None:
    parts, rest = CONSTRUCTORS[name]
    addresses = {part: neighbour(system, part) for part in parts.split()}
    for part in addresses:
        module = "bonds" if name in TAKE_BONDS and part == "token" else name
        with refuses(f"{module}: zero address"):
            getattr(codes, name).deploy(*(addresses | {part: ZERO}).values(), *rest)


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructor__neighbours__are_public(system: System, name: str) -> None:
    contract = getattr(system, name)
    for part in CONSTRUCTORS[name][0].split():
        if not (part == "token" and name in TAKE_BONDS):
            assert getattr(contract, part)() == neighbour(system, part)
