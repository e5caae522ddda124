# SPDX-License-Identifier: Apache-2.0
"""The pages of a network where things are undecided: who acts next, until when, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from agents.protocol.network import Network
from agents.runtime.chain import ChainClient
from agents.runtime.logs import open_log
from scripts._web.index.reading import reading
from scripts._web.pages.tasks import newest
from tests.stage.crawl import Page, crawl
from tests.stage.underway import Underway, underway


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Underway]:
    with underway(tmp_path_factory.mktemp("underway")) as network:
        yield network


@pytest.fixture(scope="module")
def site(network: Underway) -> dict[str, Page]:
    return crawl(network.page.url)


def test_every_page_is_there_and_strict(site: dict[str, Page]) -> None:
    assert {path: page.status for path, page in site.items() if page.status != 200} == {}
    assert {path: page.problems for path, page in site.items() if page.problems} == {}


def test_the_first_page_shows_the_round_that_runs(site: dict[str, Page], network: Underway) -> None:
    page, job = site["/"], network.people.job
    ann, cat = (network.people.nodes[name].node_id for name in ("ann", "cat"))
    assert "1 model in training" in page.text and "commit 1 of" in page.text
    assert "Round clock, commit" in page.html
    assert f"node {ann} committed" in page.text and f"node {cat} at work" in page.text
    assert "committed to its work" in page.text  # what happened last
    running = site[f"/jobs/{job}/rounds/3"]
    assert re.search(r"data-until='\d+' data-now='\d+'", running.html)
    assert "shows here once the round is over" in running.text


def test_a_convicted_node_is_told_how_to_appeal_and_until_when(
    site: dict[str, Page], network: Underway
) -> None:
    bob, job = network.people.nodes["bob"].node_id, network.people.job
    for page in (site[f"/nodes/{bob}"], site[f"/jobs/{job}/rounds/2"]):
        assert "confirmed" in page.text and "INVALID" in page.text
        assert 'data-action="appeal"' in page.html and "ape run appeal" in page.text
    assert re.search(r"may appeal until \d{4}-\d\d-\d\d", site[f"/nodes/{bob}"].text)
    assert "open accusation" in site[f"/nodes/{bob}"].text
    ann = network.people.nodes["ann"].node_id
    assert 'data-action="appeal"' not in site[f"/nodes/{ann}"].html


def test_money_that_waits_is_shown_as_waiting(site: dict[str, Page], network: Underway) -> None:
    page = site[f"/jobs/{network.people.job}/rounds/2"]
    assert "set aside for a verdict" in page.html and "add up to the pool" in page.text


def test_tasks_say_who_acts_next(site: dict[str, Page]) -> None:
    listed = site["/tasks"].text
    assert [n for n in ("4", "3", "2", "1") if f"Task {n}" in listed] == ["4", "3", "2", "1"]
    assert "agree and are paid" in site["/tasks/1"].text
    assert "is alone and to be slashed" in site["/tasks/2"].text
    assert "to compute and commit" in site["/tasks/3"].text
    assert "drawn" in site["/tasks/4"].text
    for task in (1, 2):
        assert "Appeal" in site[f"/tasks/{task}"].text
    assert site["/tasks/2"].html.count('<th scope="row">') >= 3  # its lanes


def test_a_silent_chain_leaves_open_only_who_is_drawn(network: Underway) -> None:
    site = network.page.site
    dead = ChainClient("http://127.0.0.1:9", open_log("dead", "error", True, None), tries=1)
    with reading(site.engine) as look:
        known = newest(site.asked, look, None)
        part = newest(lambda: nullcontext(Network(dead, site.deployment)), look, None)
    assert known.whole and not part.whole
    drawn, *others = part.items
    assert drawn.task_id == 4 and "its node does not answer" in drawn.sentence
    assert others == known.items[1:] and len(others) == 3


def test_the_committee_reads_what_it_decides(site: dict[str, Page], network: Underway) -> None:
    page, (known, unknown) = site["/committee"], network.operations
    assert "Admit node" in page.text and "to the role VERIFIER" in page.text
    assert f"0x{known.hex()}" in page.html and f"0x{unknown.hex()}" in page.html
    assert page.text.count("Do not approve what you cannot read.") == 1
    assert "needs 2 more approvals" in page.text and "0xdeadbeef" in page.text
