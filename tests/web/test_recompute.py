# SPDX-License-Identifier: Apache-2.0
"""The button that recomputes an explanation: equal for a whole history, different for each lie."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Route, expect

from tests.stage.chain.finished_job import FinishedJob
from tests.stage.journeys import Visit
from tests.stage.web import Served


def _paid(history: Served) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and explanation of every node of every round."""
    with httpx.Client(base_url=history.url, timeout=60) as client:
        for job in client.get("/api/home").json()["jobs"]:
            job_id = job["job_id"]
            for number in range(1, job["rounds_opened"] + 1):
                place = f"/jobs/{job_id}/rounds/{number}"
                for node in range(1, 30):
                    answer = client.get(f"/api{place}/nodes/{node}/explanation")
                    if answer.status_code == 200 and answer.json()["nodes"][0]["payments"]:
                        yield f"{place}/nodes/{node}", answer.json()


@pytest.fixture
def reader(browser: Browser, history: Served) -> Iterator[Visit]:
    visit = Visit(browser, history.url)
    yield visit
    visit.close()


def _verdict(reader: Visit, path: str) -> str:
    """Recompute on a page, and return what it says."""
    reader.page.goto(path)
    reader.page.locator("button[data-recompute]").click()
    verdict = reader.page.locator(".recomputed .verdict, .recomputed .error")
    expect(verdict).to_be_visible()
    return verdict.inner_text()


def test_recompute__every_payment_of_a_whole_history_is_equal(
    reader: Visit, history: Served, finished: FinishedJob
) -> None:
    paths = [path for path, _ in _paid(history)]
    assert len(paths) >= 10
    for path in paths:
        words = _verdict(reader, path)
        assert words.startswith("All "), (
            f"{path}: {reader.page.locator('.recomputed').inner_text()}"
        )
        assert reader.page.locator(".recomputed li[data-equal=different]").count() == 0


def _one_unit_more(told: dict[str, Any]) -> None:
    payment = told["nodes"][0]["payments"][0]
    payment["due"] = str(int(payment["due"]) + 1)
    payment["steps"][-1]["result"]["value"] = payment["due"]
    payment["outcomes"][0]["amount"] = str(int(payment["outcomes"][0]["amount"]) + 1)


def _another_account(told: dict[str, Any]) -> None:
    outcome = told["nodes"][0]["payments"][0]["outcomes"][0]
    outcome["account"] = "0x" + "12" * 20


def _another_transaction(told: dict[str, Any]) -> None:
    told["nodes"][0]["payments"][0]["outcomes"][0]["tx"] = "0x" + "34" * 32


def _another_reward(told: dict[str, Any]) -> None:
    """Two wrong numbers that agree with each other."""
    terms = {t["name"]: t for t in told["nodes"][0]["payments"][0]["steps"][0]["terms"]}
    terms["reward"]["value"] = str(int(terms["reward"]["value"]) - 5)
    terms["carried"]["value"] = str(int(terms["carried"]["value"]) + 5)


def _made_up_deed(told: dict[str, Any]) -> None:
    told["nodes"][0]["deeds"].append({"sentence": "did more", "tx": "0x" + "56" * 32})


@pytest.mark.parametrize(
    "lie",
    [_one_unit_more, _another_account, _another_transaction, _another_reward, _made_up_deed],
    ids=lambda lie: lie.__name__.strip("_"),
)
def test_recompute__a_lie_of_the_server_is_different(
    reader: Visit, history: Served, lie: Callable[[dict[str, Any]], None]
) -> None:
    path, told = next(
        (path, told)
        for path, told in _paid(history)
        if told["nodes"][0]["payments"][0]["outcomes"][0]["what"] == "credited"
    )
    told = json.loads(json.dumps(told))
    lie(told)
    reader.page.route("**/explanation", lambda route: _answer(route, told))
    words = _verdict(reader, path)
    assert "do not trust this server" in words


def _answer(route: Route, told: dict[str, Any]) -> None:
    route.fulfill(json=told)
