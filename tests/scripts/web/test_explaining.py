# SPDX-License-Identifier: Apache-2.0
"""Whoever asks for reasons a hundred times at once takes some of the server's threads, not all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from agents.audit.explain import Explainer
from scripts._web.api import explaining
from tests.stage.chain.finished_job import JOB
from tests.stage.web import Served

ASKING = 100


def test_a_hundred_at_once_leave_threads_for_others(
    page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{page.url}/api/jobs/{JOB}/rounds/1/nodes/1/explanation"
    limits = httpx.Limits(max_connections=ASKING)
    slow, round_ = threading.Event(), Explainer.round

    def wait(self: Explainer, number: int) -> object:
        assert slow.wait(60)
        return round_(self, number)

    monkeypatch.setattr(Explainer, "round", wait)
    monkeypatch.setattr(explaining, "_PATIENCE_S", 120.0)
    most = page.site.at_the_chain.most
    refused = threading.Semaphore(0)

    with httpx.Client(timeout=120, limits=limits) as client, ThreadPoolExecutor(ASKING) as pool:

        def ask(number: int) -> int:
            # Another question each time, so that the cache has no answer.
            found = client.get(f"{address}?x={number}")
            if found.status_code == 503:
                assert "retry-after" in found.headers
                refused.release()
            return found.status_code

        asked = [pool.submit(ask, number) for number in range(ASKING)]
        try:
            for _ in range(ASKING - most):
                assert refused.acquire(timeout=60)
            assert httpx.get(f"{page.url}/api/nodes/1?y=1", timeout=60).status_code == 200
        finally:
            slow.set()
        found = [one.result() for one in asked]
    assert found.count(200) == most
    assert httpx.get(f"{address}?x=after", timeout=60).status_code == 200, "all turns are free"
