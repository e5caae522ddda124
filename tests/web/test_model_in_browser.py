# SPDX-License-Identifier: Apache-2.0
"""A job's newest model: its download is verified in the browser, and it goes on with a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from agents.storage.cid import cid_of_file
from tests.stage.journeys import Visit
from tests.stage.web import Served

JOB = "/jobs/1"


@pytest.fixture
def reader(browser: Browser, history: Served) -> Iterator[Visit]:
    visit = Visit(browser, history.url)
    yield visit
    visit.close()


def test_download__the_saved_file_has_the_cid_that_the_chain_names(
    reader: Visit, tmp_path: Path
) -> None:
    reader.page.goto(JOB)
    link = reader.page.locator("a[data-download]").first
    cid = link.get_attribute("data-cid")
    with reader.page.expect_download() as waiting:
        link.click()
    expect(reader.page.locator(".download-state")).to_have_attribute("data-state", "verified")
    saved = tmp_path / "checkpoint"
    waiting.value.save_as(saved)
    with saved.open("rb") as file:
        assert cid_of_file(file) == cid
    assert saved.stat().st_size > 10_000


@pytest.mark.parametrize("how", ["one bit", "cut off", "not there"])
def test_download__other_bytes__are_not_saved(reader: Visit, how: str) -> None:
    reader.page.goto(JOB)
    downloads: list[object] = []
    reader.page.on("download", lambda each: downloads.append(each))

    def lie(route: Route) -> None:
        if how == "not there":
            route.fulfill(status=404, body="{}")
            return
        body = bytearray(route.fetch().body())
        if how == "one bit":
            body[len(body) // 2] ^= 1
        else:
            del body[-1:]
        route.fulfill(body=bytes(body), content_type="application/octet-stream")

    reader.page.route("**/api/store/*", lie)
    reader.page.locator("a[data-download]").first.click()
    state = reader.page.locator(".download-state")
    expect(state).to_have_attribute("data-state", "failed")
    words = "does not have the file" if how == "not there" else "Nothing was saved"
    expect(state).to_contain_text(words)
    assert not downloads


def test_generate__the_model_goes_on_with_what_was_typed(reader: Visit) -> None:
    reader.page.goto(JOB)
    form = reader.page.locator("form[data-generate]")
    form.locator("[name=prompt]").fill("import ")
    form.locator("[name=max_tokens]").fill("8")
    form.locator("button[type=submit]").click()
    written = reader.page.locator("pre.generated")
    expect(written).to_contain_text("import ")
    assert len(written.inner_text()) > len("import ")
    expect(reader.page.locator(".generate-place .hint")).to_contain_text("8 tokens in")


def test_generate__too_many_readers__are_told_when_to_come_back(reader: Visit) -> None:
    reader.page.goto(JOB)
    reader.page.route(
        "**/generate",
        lambda route: route.fulfill(
            status=429, headers={"retry-after": "7"}, json={"detail": "Too many."}
        ),
    )
    form = reader.page.locator("form[data-generate]")
    form.locator("[name=prompt]").fill("import ")
    form.locator("button[type=submit]").click()
    expect(reader.page.locator(".generate-place .error")).to_contain_text("in 7 s")
