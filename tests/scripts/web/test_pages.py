# SPDX-License-Identifier: Apache-2.0
"""The pages of a real chain over HTTP: whole without a script, strict, and right to the wei."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx
import pytest

from agents.audit.explain import Explainer
from agents.audit.sources.record import Record
from agents.storage.content_store import open_store
from scripts._web.api import artefacts
from scripts._web.pages.draw.money import money_of
from scripts._web.pages.draw.sankey import balanced, sankey
from scripts._web.pages.routes import PAGES
from tests.stage.chain.finished_job import CONTESTED, JOB, UNPUNISHED, FinishedJob
from tests.stage.crawl import FIRST, Page, crawl
from tests.stage.web import Served, served

HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def shown(finished: FinishedJob, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    database = f"sqlite:///{tmp_path_factory.mktemp('pages') / 'index.db'}"
    given = finished.url, finished.deployment, database
    with served(*given, store=finished.store, pages=PAGES) as page:
        yield page


@pytest.fixture(scope="module")
def site(shown: Served) -> dict[str, Page]:
    return crawl(shown.url)


def test_every_page_that_a_link_leads_to_is_there(site: dict[str, Page]) -> None:
    wrong = {path: page.status for path, page in site.items() if page.status != 200}
    assert wrong == {} and set(FIRST) <= set(site)
    kinds = {re.sub(r"\d+", "N", path) for path in site}
    assert {"/jobs/N", "/jobs/N/rounds/N", "/jobs/N/rounds/N/nodes/N", "/nodes/N"} <= kinds


def test_every_page_keeps_the_strictest_policy(site: dict[str, Page], shown: Served) -> None:
    wrong = {path: page.problems for path, page in site.items() if page.problems}
    assert wrong == {}
    policy = httpx.get(shown.url, timeout=120).headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy


def test_links_lead_to_pages_files_or_places_of_the_same_page(
    site: dict[str, Page], shown: Served
) -> None:
    files = set()
    for page in site.values():
        for link in page.links:
            whole, anchor = urldefrag(urljoin(shown.url + page.path, link))
            assert urlsplit(whole).scheme in ("http", "https"), link
            if whole == shown.url + page.path and anchor:
                assert anchor in page.ids, link
            if urlsplit(whole).path.startswith(("/static", "/api")):
                files.add(whole)
    files = {file for file in files if "/api/store/" not in file}
    missing = [file for file in files if httpx.get(file, timeout=120).status_code != 200]
    assert missing == [] and any("menagerie.css" in file for file in files)


def test_every_page_has_one_name_and_headings_in_order(site: dict[str, Page]) -> None:
    for path, page in site.items():
        assert page.headings.count(1) == 1, path
        steps = zip(page.headings, page.headings[1:], strict=False)
        assert all(below <= above + 1 for above, below in steps), (path, page.headings)
        assert "None" not in page.text and "Undefined" not in page.text, path
        assert "{{" not in page.text and "object at 0x" not in page.text, path


def test_hashes_and_amounts_are_whole_for_copying(site: dict[str, Page]) -> None:
    page = site[f"/jobs/{JOB}/rounds/1"]
    heads = re.findall(r"class='id-head'>([^<]+)</span><span class='id-tail'>([^<]+)<", page.html)
    assert {len(a + b) for a, b in heads} <= {42, 59, 64, 66} and len(heads) > 10
    assert re.search(r"title='\d{19,} wei'", page.html)


# -- money -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def explainers(finished: FinishedJob) -> dict[int, Explainer]:
    jobs = (JOB, UNPUNISHED, CONTESTED)
    return {job: Explainer(Record(finished.network, job)) for job in jobs}


def test_the_money_of_every_round_is_one_picture_that_adds_up(
    site: dict[str, Page], explainers: dict[int, Explainer]
) -> None:
    seen = 0
    for job, explainer in explainers.items():
        for found in explainer.all():
            stops, flows = money_of(found, 1000 * 10**18, lambda n: f"node {n}", lambda n: f"/{n}")
            through = balanced(stops, flows)
            ends = {flow.target for flow in flows} - {flow.source for flow in flows}
            kept = sum(
                through[s.key] - sum(f.amount for f in flows if f.source == s.key)
                for s in stops
                if s.keeps
            )
            last = sum(through[s.key] for s in stops if s.key in ends and not s.keeps)
            assert through["pool"] == found.pool == kept + last
            page = site[f"/jobs/{job}/rounds/{found.round_id}"]
            assert f"the pool of {found.pool} wei" in page.text and "differ" not in page.text
            assert page.html.count('class="ribbon') == len(flows)
            credited = sum(f.amount for f in flows if "credited" in f.target)
            paid = sum(
                outcome.amount
                for node in found.nodes
                for payment in node.payments
                for outcome in payment.outcomes
                if outcome.last.what == "credited"
            )
            assert credited == paid
            assert sankey("Money", stops, flows)
            seen += 1
    assert seen >= 7


def test_every_payment_is_explained_and_the_explained_is_what_was_paid(
    site: dict[str, Page], explainers: dict[int, Explainer]
) -> None:
    for job, explainer in explainers.items():
        for found in explainer.all():
            for each in found.nodes:
                page = site.get(f"/jobs/{job}/rounds/{found.round_id}/nodes/{each.node}")
                if not each.payments:
                    assert page is None or each.why in page.text
                    continue
                assert page is not None
                for payment in each.payments:
                    assert sum(o.amount for o in payment.outcomes) == payment.due
                    for step in payment.steps:
                        assert step.result.name in page.text
                        if step.result.unit == "ZOO":
                            assert f"{step.result.value} wei" in page.text
                    for outcome in payment.outcomes:
                        assert outcome.tx is None or f"0x{outcome.tx.hex()}" in page.html


def test_the_pages_say_what_happened(site: dict[str, Page], finished: FinishedJob) -> None:
    eve, bob = finished.node("eve"), finished.node("bob")
    assert "INVALID" in site[f"/jobs/{JOB}/rounds/2"].text
    assert "✗ invalid" in site[f"/jobs/{JOB}/rounds/2"].text
    assert "silent" in site[f"/jobs/{JOB}/rounds/3"].text
    assert "COPIED" in site[f"/jobs/{JOB}/rounds/3"].text
    assert "void" in site[f"/jobs/{JOB}/rounds/4"].text
    assert "the node is cleared" in site[f"/jobs/{CONTESTED}/rounds/1"].text
    assert "until 20" in site[f"/nodes/{eve}"].text and "Slashed" in site[f"/nodes/{eve}"].text
    assert "dismissed" in site[f"/nodes/{bob}"].text
    assert "Uphold the appeal" in site["/committee"].text
    checkpoint = finished.artefact("checkpoint")
    newest = site[f"/jobs/{JOB}"].html
    assert "Checkpoint of round" in newest and f"/api/store/{checkpoint[:7]}" in newest


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/jobs/99", 404, "There is no job 99."),
        (f"/jobs/{JOB}/rounds/99", 404, "has no round 99"),
        (f"/jobs/{JOB}/rounds/1/nodes/99", 404, "There is no node 99."),
        ("/tasks/99", 404, "There is no task 99."),
        ("/nowhere", 404, "no such page"),
        ("/jobs/0", 422, "greater than or equal to 1"),
        ("/nodes?after=-1", 422, "greater than or equal to 0"),
        ("/jobs/%22%3E%3Cscript%3E", 422, "valid integer"),
    ],
)
def test_an_error_is_a_page_in_the_same_language(
    shown: Served, path: str, status: int, says: str
) -> None:
    answer = httpx.get(shown.url + path, headers=HTML, timeout=120)
    page = Page(path, answer.status_code, answer.text)
    assert page.status == status and says in page.text and page.problems == []
    assert page.headings == [1] and "menagerie.css" in page.html


def test_while_the_index_is_empty_the_page_says_how_far_it_is(
    finished: FinishedJob, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = f"sqlite:///{tmp_path_factory.mktemp('empty') / 'index.db'}"
    given = finished.url, finished.deployment, database
    with served(*given, pages=PAGES, follow=False, caught_up=False) as empty:
        empty.site.standing.head = empty.site.deployment.block + 100
        answer = httpx.get(empty.url, headers=HTML, timeout=120)
        page = Page("/", answer.status_code, answer.text)
    assert page.status == 503 and "0 of 100 blocks read" in page.text and page.problems == []


def test_when_the_node_is_down_pages_stay_and_say_so(
    finished: FinishedJob, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = f"sqlite:///{tmp_path_factory.mktemp('down') / 'index.db'}"
    given = finished.url, finished.deployment, database
    with served(*given, store=finished.store, pages=PAGES, follow=False) as down:
        down.site.standing.rpc_down = True
        down.site.chain = type(down.site.chain)(
            "http://127.0.0.1:9", down.indexer._log, tries=1, timeout_s=1.0
        )
        home = httpx.get(down.url, headers=HTML, timeout=120)
        round_ = httpx.get(f"{down.url}/jobs/{JOB}/rounds/1", headers=HTML, timeout=120)
        why = httpx.get(f"{down.url}/jobs/{JOB}/rounds/1/nodes/6", headers=HTML, timeout=120)
        tasks = httpx.get(f"{down.url}/tasks", headers=HTML, timeout=120)
        committee = httpx.get(f"{down.url}/committee", headers=HTML, timeout=120)
    assert tasks.status_code == 200, "tasks are in the index"
    assert committee.status_code == 503 and Page("/", 503, committee.text).problems == []
    assert home.status_code == 200 and "does not answer" in home.text
    assert round_.status_code == 200 and "cannot be explained right now" in round_.text
    assert why.status_code == 503 and Page("/", 503, why.text).problems == []


def test_a_page_that_leaves_out_what_its_store_is_too_slow_with_is_kept_by_nobody(
    finished: FinishedJob,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(artefacts, "PAGE_S", 0.0)
    database = f"sqlite:///{tmp_path_factory.mktemp('slow') / 'index.db'}"
    given = finished.url, finished.deployment, database
    store = open_store("http://127.0.0.1:9")
    losses = f"/api/jobs/{JOB}/losses"
    with served(*given, store=store, pages=PAGES, follow=False) as slow:
        for path in ("/", f"/jobs/{JOB}", f"/jobs/{JOB}/rounds/1", losses):
            found = httpx.get(f"{slow.url}{path}", timeout=120)
            assert found.status_code == 200 and found.headers["cache-control"] == "no-store", path
        other = httpx.get(f"{slow.url}/nodes", timeout=120)
        assert other.status_code == 200 and other.headers["cache-control"] == "no-cache"
        checkpoint = httpx.get(f"{slow.url}/api/jobs/{JOB}/checkpoint", timeout=120)
        assert checkpoint.status_code == 503 and "takes long" in checkpoint.text
