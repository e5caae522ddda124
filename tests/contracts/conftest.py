# SPDX-License-Identifier: Apache-2.0
"""The whole system for tests that need more than one contract. It is deployed once a module; boa's
pytest plugin undoes what each test did to it, so each test finds it as it was deployed.

A family of tests whose stage is the same for all (a job with its people, say) makes it in a fixture
`made`, once a module too: `system` is then the one that `made` stands on.
"""

from __future__ import annotations

import boa
import pytest

from tests.stage.contracts.copies import own_system
from tests.stage.contracts.revm import use_revm
from tests.stage.contracts.system import Codes, System, deploy

use_revm()


@pytest.fixture(scope="module", autouse=True)
def own_traces() -> None:
    """A module forgets which storage slots the modules before it wrote.

    Boa undoes what a module did to the chain, but not its own list of slots by address. The next
    module puts another contract at the same address, and boa prints that contract's storage when a
    call reverts: it would read the old slots as if they were the new contract's, and fail.
    """
    boa.env.sha3_trace.clear()
    boa.env.sstore_trace.clear()


@pytest.fixture
def deployer() -> str:
    return str(boa.env.eoa)


@pytest.fixture
def owner(system: System) -> str:
    """The Coordinator, which owns the contracts."""
    return str(system.coordinator.address)


@pytest.fixture(scope="session")
def codes() -> Codes:
    return Codes.compile()


@pytest.fixture(scope="module")
def deployed(codes: Codes) -> System:
    return deploy(codes)


@pytest.fixture
def system(request: pytest.FixtureRequest, deployed: System) -> System:
    """Without people, unless the test asks for a stage that its family makes."""
    if "made" in request.fixturenames:
        return own_system(request.getfixturevalue("made").system)
    return own_system(deployed)
