# SPDX-License-Identifier: Apache-2.0
"""One Chromium for all tests of this folder, and one network with its page for each file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect

from scripts._web.pages.routes import PAGES
from tests.stage.browser import PATIENCE_MS, chromium
from tests.stage.chain.finished_job import FinishedJob
from tests.stage.island import built_island
from tests.stage.journeys import Stage, Visit
from tests.stage.journeys import stage as make_stage
from tests.stage.underway import Underway, underway
from tests.stage.wallet import Wallet
from tests.stage.web import Served, served

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with make_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def visit(browser: Browser, stage: Stage) -> Iterator[Callable[..., Visit]]:
    """Begin a visit with some wallets. What the page's script could not do fails the test."""
    visits = []

    def begin(*wallets: Wallet) -> Visit:
        visits.append(Visit(browser, stage.page.url, *wallets))
        return visits[-1]

    yield begin
    for each in visits:
        each.close()


@pytest.fixture(scope="session")
def history(finished: FinishedJob, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The pages of a finished job, so that every page has something to show."""
    built_island()
    database = f"sqlite:///{tmp_path_factory.mktemp('history') / 'index.db'}"
    given = finished.url, finished.deployment, database
    with served(*given, store=finished.store, pages=PAGES) as page:
        yield page


@pytest.fixture(scope="session")
def undecided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Underway]:
    """A network in the middle of everything."""
    built_island()
    with underway(tmp_path_factory.mktemp("underway")) as network:
        yield network
