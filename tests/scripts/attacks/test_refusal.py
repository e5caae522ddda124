# SPDX-License-Identifier: Apache-2.0
"""A refusal that an attack rests on is there, and for the reason that is named."""

from __future__ import annotations

import pytest

from scripts._attacks.embedded import Embedded
from scripts._attacks.refusal import refused
from scripts._net.deployment import DeploymentSettings

ANYBODY = "0x" + "11" * 20


@pytest.fixture(scope="module")
def chain() -> Embedded:
    members = tuple(f"0x{number:040x}" for number in range(1, 6))
    return Embedded(DeploymentSettings(members=members, holder=ANYBODY))


def test_refused__for_its_reason__passes(chain: Embedded) -> None:
    refused(chain, "tasks: not drawing", ANYBODY, "RedundantTasks", "draw", 1)


def test_refused__for_another_reason__fails(chain: Embedded) -> None:
    with pytest.raises(AssertionError, match="'tasks: not drawing' instead of 'tasks: too early'"):
        refused(chain, "tasks: too early", ANYBODY, "RedundantTasks", "draw", 1)


def test_refused__if_it_is_done__fails(chain: Embedded) -> None:
    with pytest.raises(AssertionError, match="was done"):
        refused(chain, "any", ANYBODY, "ZooToken", "transfer", ANYBODY, 1)
