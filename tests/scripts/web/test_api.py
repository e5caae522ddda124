# SPDX-License-Identifier: Apache-2.0
"""The API over HTTP: what it answers, with which status and headers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from agents.storage.cid import cid_of_bytes, parse_cid
from scripts._web.api import writing
from scripts._web.api.live import Live
from scripts._web.api.turns import Goes
from scripts._web.follow.indexer import Change
from tests.stage.chain.finished_job import JOB, FinishedJob
from tests.stage.chain.proxy import Proxy
from tests.stage.web import Served, served


def get(page: Served, path: str, **headers: str) -> httpx.Response:
    return httpx.get(page.url + path, headers=headers, timeout=120)


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
    found: list[dict[str, object]] = []
    cursor: str | None = ""
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


# -- the store and the model -------------------------------------------------------------------


def test_store__an_artefact_is_served_as_its_bytes(finished: FinishedJob, page: Served) -> None:
    cid = finished.artefact("checkpoint")
    found = get(page, f"/api/store/{cid}")
    assert found.content == finished.store.get(cid, 1 << 30)
    assert found.headers["content-length"] == str(len(found.content))
    assert "immutable" in found.headers["cache-control"]
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"].startswith("attachment")
    assert found.headers["x-content-type-options"] == "nosniff"
    part = get(page, f"/api/store/{cid}", Range="bytes=3-9")
    assert (part.status_code, part.content) == (206, found.content[3:10])


def test_store__what_it_lacks_or_holds_wrongly_is_said(finished: FinishedJob, page: Served) -> None:
    missing = cid_of_bytes(b"nobody has put this there")
    found = get(page, f"/api/store/{missing}")
    assert (found.status_code, found.json()["detail"]) == (
        404,
        f"The store does not keep {missing}.",
    )
    assert get(page, f"/api/store/b{'a' * 40}").status_code == 404
    cid = finished.store.put_bytes(b"what was put there")
    path = finished.store._path(parse_cid(cid))
    path.chmod(0o600)
    path.write_bytes(b"and what became of it")
    damaged = get(page, f"/api/store/{cid}")
    path.unlink()
    assert damaged.status_code == 502
    for answer in (found, damaged):
        assert str(finished.store.root) not in answer.text


def test_store__the_newest_checkpoint_and_the_losses_are_those_of_the_reports(
    finished: FinishedJob, page: Served
) -> None:
    job = finished.network.job(JOB)
    found = get(page, f"/api/jobs/{JOB}/checkpoint").json()
    outcome = finished.outcomes[JOB, 5]
    assert found["cid"] == outcome.report.checkpoint
    assert found["model"] == "0x" + job.model.hex()
    assert found["size"] == len(finished.store.get(found["cid"], 1 << 30))
    losses = get(page, f"/api/jobs/{JOB}/losses").json()["losses"]
    assert [loss["round_id"] for loss in losses] == [1, 2, 3, 5]
    assert losses[-1]["after"] == outcome.report.val_loss


def test_generate__the_newest_model_goes_on_from_a_prompt(
    finished: FinishedJob, page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SECONDS", 600)  # a busy machine makes no test fail

    def ask(**words: object) -> httpx.Response:
        return httpx.post(f"{page.url}/api/jobs/{JOB}/generate", json=words, timeout=600)

    first = ask(prompt="line 1", max_tokens=12, how="likeliest")
    assert first.status_code == 200, first.text
    assert first.json()["model"] == "0x" + finished.network.job(JOB).model.hex()
    assert 0 < first.json()["tokens"] <= 12
    assert (
        ask(prompt="line 1", max_tokens=12, how="likeliest").json()["text"]
        == (first.json()["text"])
    )
    assert ask(prompt="x" * 401).status_code == 422
    assert ask(prompt="", max_tokens=1).status_code == 422
    assert ask(prompt="a", max_tokens=10_000).status_code == 422
    none = httpx.post(f"{page.url}/api/jobs/77/generate", json={"prompt": "a"}, timeout=120)
    assert (none.status_code, none.json()["detail"]) == (404, "There is no job 77.")
    answers = [ask(prompt="b", max_tokens=1) for _ in range(8)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused and int(refused[0].headers["retry-after"]) >= 1


# -- health, metrics, live changes -------------------------------------------------------------


def test_metrics__say_how_the_index_stands(page: Served) -> None:
    get(page, "/nothing")
    found = get(page, "/metrics").text
    assert f"menagerie_web_block {float(page.site.standing.block)}" in found
    assert 'menagerie_web_answers_total{status="404"}' in found
    assert "menagerie_web_rpc_up 1.0" in found


def test_health__is_good_while_the_index_follows(page: Served) -> None:
    found = get(page, "/health")
    assert (found.status_code, found.json()["indexer"]) == (200, "ok")


def test_health__an_outage_is_said_and_pages_go_on(finished: FinishedJob, tmp_path: Path) -> None:
    proxy = Proxy(finished.url, faults=("503",))
    try:
        database = f"sqlite:///{tmp_path / 'index.db'}"
        with served(proxy.url_of("web"), finished.deployment, database) as page:
            before = get(page, "/api/home").json()
            proxy.fault_rate = 1.0
            wait_for(lambda: get(page, "/health").status_code == 503)
            found = get(page, "/api/status").json()
            assert found["rpc"] == "down" and "did not answer" in found["problem"]
            assert get(page, "/api/home").json() == before
            proxy.fault_rate = 0.0
            wait_for(lambda: get(page, "/health").status_code == 200)
    finally:
        proxy.close()


def wait_for(condition: Callable[[], bool], tries: int = 1_500) -> None:
    for _ in range(tries):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def test_live__tells_of_the_newest_step_and_ends_with_the_server(
    finished: FinishedJob, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path / 'index.db'}"
    ended = threading.Event()
    with served(finished.url, finished.deployment, database, follow=False) as page:
        change = Change(7, "0x07", 70, jobs=(1,), nodes=(2, 3))
        messages: list[dict[str, object]] = []

        def listen() -> None:
            with httpx.stream("GET", f"{page.url}/api/live", timeout=60) as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
                for line in stream.iter_lines():
                    if line.startswith("data: "):
                        messages.append(json.loads(line.removeprefix("data: ")))
            ended.set()

        thread = threading.Thread(target=listen)
        thread.start()
        wait_for(lambda: bool(messages))
        page.site.live.told(change)
        wait_for(lambda: len(messages) > 1)
        assert messages[-1] == {
            "block": 7,
            "hash": "0x07",
            "time": 70,
            "jobs": [1],
            "nodes": [2, 3],
            "reorg": False,
        }
        began = time.monotonic()
    assert ended.wait(60) and time.monotonic() - began < 60
    thread.join()


def test_live__readers_are_bounded(finished: FinishedJob, page: Served) -> None:
    page.site.live._most, before = 0, page.site.live._most
    try:
        found = get(page, "/api/live")
        assert (found.status_code, found.headers["retry-after"]) == (503, "2")
    finally:
        page.site.live._most = before


def test_live__what_a_slow_reader_has_not_taken_is_joined() -> None:
    async def listen() -> list[dict[str, object]]:
        live = Live(heartbeat_s=0.01)
        live.bind(asyncio.get_running_loop())
        found = live.listen()
        assert (await anext(found)).startswith(b"retry")
        live.told(Change(1, "0x01", 1, jobs=(1,), reorg=True))
        live.told(Change(2, "0x02", 2, jobs=(2,), nodes=(5,)))
        texts = [await anext(found) for _ in range(3)]
        live.close()
        return [json.loads(t.removeprefix(b"data: ")) for t in texts if t.startswith(b"data")]

    [said] = asyncio.run(listen())
    assert said == {
        "block": 2,
        "hash": "0x02",
        "time": 2,
        "jobs": [1, 2],
        "nodes": [5],
        "reorg": True,
    }


def test_goes__come_back_with_time() -> None:
    now = [0.0]
    goes = Goes(each=3, all=5, clock=lambda: now[0])
    assert [goes.wait_s("a") for _ in range(3)] == [0, 0, 0]
    assert goes.wait_s("a") == 20
    assert [goes.wait_s("b") for _ in range(2)] == [0, 0]
    assert goes.wait_s("b") == 12  # all together have had five
    now[0] = 20.0
    assert goes.wait_s("a") == 0
    assert goes.wait_s("a") == 20


def test_problems__a_database_that_is_gone_is_said(finished: FinishedJob, tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with served(finished.url, finished.deployment, f"sqlite:///{path}", follow=False) as page:
        with page.site.engine.begin() as connection:
            connection.execute(sa.text("ALTER TABLE nodes RENAME TO gone"))
        found = get(page, "/api/nodes")
        assert (found.status_code, found.json()["detail"]) == (
            503,
            "The index's database does not answer; try again in a moment.",
        )
        assert get(page, "/api/status").status_code == 200
