# SPDX-License-Identifier: Apache-2.0
"""One Chromium for all tests of this folder, and one network with its page for each file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.stage.browser import chromium
from tests.stage.journeys import Visit, World
from tests.stage.journeys import world as make_world
from tests.stage.wallet import Wallet


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with make_world(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture
def visit(browser: Browser, world: World) -> Iterator[Callable[..., Visit]]:
    """Begin a visit with some wallets. What the page's script could not do fails the test."""
    visits = []

    def begin(*wallets: Wallet) -> Visit:
        visits.append(Visit(browser, world.page.url, *wallets))
        return visits[-1]

    yield begin
    for each in visits:
        each.close()
