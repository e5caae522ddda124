# SPDX-License-Identifier: Apache-2.0
"""The search runs on revm. What it is copied from and compared with runs on py-evm."""

from __future__ import annotations

from collections.abc import Iterator

import boa
import pytest
from boa.environment import Env


@pytest.fixture(scope="module", autouse=True)
def on_py_evm() -> Iterator[None]:
    with boa.swap_env(Env()):
        yield
