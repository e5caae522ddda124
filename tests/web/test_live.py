# SPDX-License-Identifier: Apache-2.0
"""An open page follows the chain by itself, says when it cannot, and leaves its reader alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from playwright.sync_api import Route, expect

from tests.stage.journeys import Stage, Visit

Begin = Callable[..., Visit]


def _block(reader: Visit) -> str:
    return reader.page.locator("#chainline").inner_text()


def test_offline_and_back__the_page_says_both_and_catches_up(stage: Stage, visit: Begin) -> None:
    reader = visit()
    reader.page.goto("/")
    banner = reader.page.locator("#connection")
    expect(banner).to_be_hidden()
    reader.context.set_offline(True)
    expect(banner).to_contain_text("You are offline")
    before = _block(reader)
    stage.people.chain.mine(3)
    reader.context.set_offline(False)
    expect(banner).to_contain_text("answers again")
    expect(reader.page.locator("#chainline")).not_to_have_text(before)


def test_the_server_goes_and_returns__the_page_says_both_and_catches_up(
    stage: Stage, visit: Begin
) -> None:
    reader = visit()
    reader.page.goto("/")
    before = _block(reader)
    # What a reader sees of a server that is started again: the stream ends, then nothing answers.
    reader.page.route("**/*", lambda route: route.abort("connectionrefused"))
    stage.page.site.live.close()
    banner = reader.page.locator("#connection")
    expect(banner).to_contain_text("This server does not answer")
    stage.people.chain.mine(2)
    stage.page.site.live.bind(stage.page.site.live._loop)  # type: ignore[arg-type]
    reader.page.unroute("**/*")
    expect(banner).to_contain_text("answers again")
    expect(reader.page.locator("#chainline")).not_to_have_text(before)
    expect(banner).to_be_hidden()


def test_a_round_goes_by__its_phases_are_shown_without_a_reload(stage: Stage, visit: Begin) -> None:
    people = stage.people
    ann, bob = people.nodes["ann"], people.nodes["bob"]
    job = stage.job()
    stage.indexed()
    reader = visit()
    reader.page.goto(f"/jobs/{job}")
    reader.page.evaluate("window.kept = true")
    main = reader.page.locator("main")
    people.open()
    expect(main).to_contain_text("commit")
    clock = reader.page.locator("time[data-until]").first
    expect(clock).to_be_visible()
    first = clock.inner_text()
    expect(clock).not_to_have_text(first)  # it counts down
    for node in (ann, bob):
        people.commit(node)
    people.pass_phase(1)
    expect(main).to_contain_text("reveal")
    for node in (ann, bob):
        people.reveal(node)
    people.finish({ann: 1, bob: 1})
    expect(main).to_contain_text("final")
    assert reader.page.evaluate("window.kept")


def test_a_node_that_the_index_has_not_read__is_shown_once_it_has(
    stage: Stage, visit: Begin
) -> None:
    """Whoever registers a node and opens its page at once may be earlier than the index."""
    people = stage.people
    reader = visit()
    next_id = int(people.chain.call(people.registry, "node_count")) + 1
    reader.page.goto(f"/nodes/{next_id}")
    expect(reader.page.locator("main")).to_contain_text(f"There is no node {next_id}.")
    asked: list[str] = []
    reader.page.on("request", lambda request: asked.append(request.url))
    before = _block(reader)
    people.chain.mine()
    expect(reader.page.locator("#chainline")).not_to_have_text(before)
    reader.page.wait_for_timeout(2_000)
    assert asked.count(reader.page.url) <= 2, "for the newest block and the next, not all the time"
    people.enlist("late")
    expect(reader.page.locator(f"#node-actions-{next_id}")).to_be_attached()


def test_a_page_whose_address_is_gone__is_asked_for_ever_more_seldom(
    stage: Stage, visit: Begin
) -> None:
    """A reorganisation may take back what it shows. What was shown stays; the next block has it
    asked for once more, and with an answer it is up to date again."""
    reader = visit()
    node = stage.people.nodes["ann"].node_id
    reader.page.goto(f"/nodes/{node}")
    address, there, asked = reader.page.url, False, []

    def answer(route: Route) -> None:
        if route.request.resource_type == "fetch":
            asked.append(time.monotonic())
        if there:
            route.continue_()
        else:
            route.fulfill(status=404, body="<html><body>There is nothing.</body></html>")

    reader.page.route(address, answer)
    stage.people.chain.mine()
    reader.page.wait_for_timeout(9_000)
    assert 2 <= len(asked) <= 6, "every 400 ms would be twenty"
    there = True
    before = _block(reader)
    stage.people.chain.mine()
    expect(reader.page.locator("#chainline")).not_to_have_text(before)


def test_what_somebody_types__is_left_alone_while_the_page_is_alive(
    stage: Stage, visit: Begin
) -> None:
    reader = visit()
    node = stage.people.nodes["ann"].node_id
    reader.page.goto(f"/nodes/{node}")
    reader.page.locator(f"#node-actions-{node} summary").click()
    field = reader.page.locator(f"#stake-{node}")
    field.fill("12.5")
    reader.page.locator("h1").click()
    before = _block(reader)
    stage.people.chain.mine()
    expect(reader.page.locator("#chainline")).not_to_have_text(before)
    assert field.input_value() == "12.5"
    expect(reader.page.locator(f"#node-actions-{node}")).to_have_attribute("open", "")
