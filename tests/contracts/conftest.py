# SPDX-License-Identifier: Apache-2.0
"""The whole system for tests that need more than one contract. Boa's pytest plugin undoes every
fixture after its test, so each test gets a fresh system from code compiled once."""

from __future__ import annotations

import pytest

from tests.stage.contracts.system import Codes, System, deploy


@pytest.fixture(scope="session")
def codes() -> Codes:
    return Codes.compile()


@pytest.fixture
def system(codes: Codes) -> System:
    return deploy(codes)
