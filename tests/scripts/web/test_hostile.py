# SPDX-License-Identifier: Apache-2.0
"""Thousands of requests that nobody sensible sends: every answer is one that the schema names, and
none is a fault of the server."""

from __future__ import annotations

import random
import string
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from scripts._web.serve import html
from tests.stage.chain.finished_job import FinishedJob
from tests.stage.web import Served, served

# Schemathesis asks for its fixture within a test. The isolation of contracts in this process, of
# which there are none here, would end before that fixture does.
pytestmark = pytest.mark.ignore_isolation

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
# A stream without an end, and texts that take a process seconds, have tests of their own.
APART = r"/api/live$|/generate$"


@pytest.fixture(scope="module")
def attacked(finished: FinishedJob, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A page with its HTML, of its own: what is asked here fills its caches."""
    database = f"sqlite:///{tmp_path_factory.mktemp('attacked') / 'index.db'}"
    given = finished.url, finished.deployment, database
    with served(*given, store=finished.store, pages=html(), follow=False) as page:
        yield page


@pytest.fixture(scope="module")
def schema(attacked: Served) -> schemathesis.openapi.OpenApiSchema:
    return schemathesis.openapi.from_url(f"{attacked.url}/api")


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """One connection for all requests."""
    with requests.Session() as session:
        yield session


fuzzed = schemathesis.pytest.from_fixture("schema").exclude(path_regex=APART)


@fuzzed.parametrize()
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
def test_hostile__no_request_of_the_schema_is_a_fault(
    case: schemathesis.Case, session: requests.Session, attacked: Served
) -> None:
    case.call_and_validate(checks=CHECKS, timeout=120, session=session)


def paths(draw: random.Random) -> Iterator[str]:
    """Addresses of pages and of the API, with parts that are none."""
    parts = ["jobs", "1", "rounds", "2", "nodes", "3", "api", "tasks", "events", "store", "static"]
    wild = ["-1", "0", "9" * 30, "1e3", "%00", "..", "%2e%2e", "'", "<script>", "\u202e", "٣", ""]
    for _ in range(1_000):
        path = "/".join(draw.choice(parts if draw.random() < 0.7 else wild) for _ in range(6))
        names = ("limit", "cursor", "job", "after", "before", "account", "name", "x")
        values = (*wild, "7", "".join(draw.choices(string.printable, k=12)))
        query = {draw.choice(names): draw.choice(values) for _ in range(draw.randrange(3))}
        yield f"/{path[: draw.randrange(1, 60)]}{'?' if query else ''}{httpx.QueryParams(query)}"


def test_hostile__no_address_is_a_fault(attacked: Served) -> None:
    draw = random.Random(17)
    faults = []
    with httpx.Client(base_url=attacked.url, timeout=120) as client:
        for path in paths(draw):
            accept = draw.choice(("text/html", "application/json", "*/*"))
            try:
                method = draw.choice(("GET", "GET", "HEAD", "POST"))
                found = client.request(method, path, headers={"accept": accept})
            except httpx.InvalidURL:
                continue
            if found.status_code >= 500:
                faults.append((path, accept, found.status_code, found.text[:200]))
    assert faults == []


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"x" * 20_000, {}, 413),
        (b"{", {"content-type": "application/json"}, 422),
        (b"[" * 5_000, {"content-type": "application/json"}, 422),
        (b'{"prompt": "\\ud800"}', {"content-type": "application/json"}, 422),
        (b"\xff\xfe", {"content-type": "application/json"}, 422),
        (b'{"prompt": "a", "max_tokens": 1e400}', {"content-type": "application/json"}, 422),
    ],
    ids=["large", "half", "deep", "surrogate", "no text", "infinite"],
)
def test_hostile__a_body_that_is_none_is_refused(
    attacked: Served, content: bytes, headers: dict[str, str], status: int
) -> None:
    url = f"{attacked.url}/api/jobs/1/generate"
    found = httpx.post(url, content=content, headers=headers, timeout=120)
    assert found.status_code in (status, 413), found.text


def test_hostile__an_endless_body_is_cut_off(attacked: Served) -> None:
    """Chunks without a length: the server reads as far as its bound, and no farther."""
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 1 << 16
            yield b"x" * (1 << 16)

    url = f"{attacked.url}/api/jobs/1/generate"
    try:
        found = httpx.post(url, content=endless(), timeout=120)
        assert found.status_code < 500
    except httpx.TransportError:
        pass
    assert sent < 1_000 << 16
    assert httpx.get(f"{attacked.url}/api/status", timeout=120).status_code == 200


def test_hostile__many_at_once_are_all_answered(attacked: Served, tmp_path: Path) -> None:
    """Twenty readers ask for different things at the same time; nothing is lost or mixed up."""
    found: dict[str, set[bytes]] = {}
    guard = threading.Lock()
    addresses = [f"/api/nodes/{n}" for n in range(1, 10)] + ["/", "/jobs/1", "/api/home"]

    def read(seed: int) -> None:
        draw = random.Random(seed)
        with httpx.Client(base_url=attacked.url, timeout=120) as client:
            for _ in range(40):
                address = draw.choice(addresses)
                answer = client.get(address)
                assert answer.status_code == 200
                with guard:
                    found.setdefault(address, set()).add(answer.content)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {address: len(answers) for address, answers in found.items()} == dict.fromkeys(
        addresses, 1
    )
