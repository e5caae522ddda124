# SPDX-License-Identifier: Apache-2.0
"""The API over HTTP: what it answers, with which status and headers."""

from __future__ import annotations

import hashlib

import httpx

from tests.stage.chain.finished_job import FinishedJob
from tests.stage.web import Served


def get(page: Served, path: str, **headers: str) -> httpx.Response:
    return httpx.get(page.url + path, headers=headers)


def test_api__every_answer_names_its_block(page: Served) -> None:
    for path in ("home", "jobs/1", "jobs/1/rounds/2", "nodes", "nodes/1", "payments", "events"):
        found = get(page, f"/api/{path}")
        assert found.status_code == 200, found.text
        assert found.json()["at"]["block"] == page.site.standing.block


def test_api__an_amount_is_text_to_the_last_unit(finished: FinishedJob, page: Served) -> None:
    network = finished.network
    pool = network.chain.call(network.pool, "pool", 1, 1)
    assert get(page, "/api/jobs/1/rounds/1").json()["summary"]["paid"] == str(pool.paid)


def test_api__what_is_not_there_is_said_in_a_sentence(page: Served) -> None:
    for path, words in {
        "jobs/7": "There is no job 7.",
        "jobs/1/rounds/77": "Job 1 has no round 77.",
        "nodes/77": "There is no node 77.",
    }.items():
        found = get(page, f"/api/{path}")
        assert (found.status_code, found.json()["detail"]) == (404, words)


def test_api__pages_of_payments_are_the_whole_list(page: Served) -> None:
    whole = get(page, "/api/payments?limit=200").json()
    assert whole["next"] is None and len(whole["items"]) > 20
    found, cursor = [], ""
    while cursor is not None:
        part = get(page, f"/api/payments?limit=7{cursor and '&cursor='}{cursor}").json()
        assert len(part["items"]) <= 7
        found += part["items"]
        cursor = part["next"]
    assert found == whole["items"]


def test_api__who_has_the_answer_is_told_so(page: Served) -> None:
    first = get(page, "/api/home")
    tag = first.headers["etag"]
    again = get(page, "/api/home", **{"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == tag
    assert get(page, "/api/home", **{"If-None-Match": '"other"'}).content == first.content


def test_api__the_deployment_file_is_served_byte_for_byte(
    finished: FinishedJob, page: Served
) -> None:
    raw = finished.deployment.read_bytes()
    assert get(page, "/api/deployment/file").content == raw
    found = get(page, "/api/deployment").json()
    assert found["sha256"] == hashlib.sha256(raw).hexdigest()
    assert found["contracts"]["RewardPool"]["address"] == finished.network.pool.address


def test_api__no_answer_may_load_anything_from_elsewhere(page: Served) -> None:
    for path in ("/api/home", "/api/jobs/7", "/nothing", "/api/live?" + "x" * 4_000):
        rule = get(page, path).headers["content-security-policy"]
        assert "default-src 'self'" in rule and "unsafe" not in rule
