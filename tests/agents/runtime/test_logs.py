# SPDX-License-Identifier: Apache-2.0
"""Logs are one JSON object per line and never hold a secret."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest
import requests
from eth_account import Account

from agents.runtime import logs
from agents.runtime.errors import ConfigError
from agents.runtime.logs import LEVELS, Log, _Sink, open_log
from agents.runtime.metrics import Metrics
from agents.runtime.wallet import create_keystore, load_wallet


def test_a_line_has_time_level_event_and_context(tmp_path):
    path = tmp_path / "logs" / "agent.log"
    log = open_log("trainer", path=path).bind(node=3, job=1)
    log.bind(round=7).info("committed", commitment=b"\x01\x02", nothing=None, many=(1, b"\xff"))
    log.debug("too fine to show")
    (line,) = [json.loads(text) for text in path.read_text().splitlines()]
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "event": "committed",
        "role": "trainer",
        "node": 3,
        "job": 1,
        "round": 7,
        "commitment": "0x0102",
        "many": [1, "0xff"],
    }


def test_the_human_format_is_one_line():
    stream = io.StringIO()
    Log(_Sink(stream, LEVELS["info"], human=True), {"role": "trainer"}).warning("slow", s=2)
    assert stream.getvalue().count("\n") == 1
    assert "warning slow" in stream.getvalue() and "role=trainer  s=2" in stream.getvalue()


def test_libraries_are_heard(tmp_path):
    open_log("trainer", path=tmp_path / "log")
    logging.getLogger("some.library").warning("odd %s", "thing")
    logging.getLogger("some.library").info("chatter")
    (line,) = [json.loads(text) for text in (tmp_path / "log").read_text().splitlines()]
    assert (line["source"], line["message"]) == ("some.library", "odd thing")


@pytest.mark.parametrize("human", [True, False])
def test_keys_and_passphrases_never_appear(tmp_path, human):
    key, passphrase = bytes(range(100, 132)), 'pass"phrase\\ with é'
    create_keystore(tmp_path / "k.json", passphrase, key=key, iterations=8)
    wallet = load_wallet(str(tmp_path / "k.json"), passphrase)
    stream = io.StringIO()
    log = Log(_Sink(stream, LEVELS["debug"], human))
    log.info("a", wallet=wallet, raw=key, text="0x" + key.hex(), nested={"x": [passphrase]})
    log.info("b", passphrase="p1", operator_password="p2", reveal={"salt": "5a17", "n": 1})
    log.error("c", why=f"could not use {passphrase!s}", account=Account.from_key(key))
    text = stream.getvalue()
    for secret in (key.hex(), passphrase, json.dumps(passphrase)[1:-1], "p1", "p2", "5a17"):
        assert secret not in text
    assert text.count(logs.HIDDEN) >= 6 and wallet.address in text


def test_busy_time_is_a_share_of_wall_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("agents.runtime.metrics.time.monotonic", lambda: now[0])
    metrics = Metrics("trainer")
    with pytest.raises(ValueError, match="boom"), metrics.busy("train"):
        now[0] += 3
        raise ValueError("boom")
    now[0] += 1
    value = metrics.registry.get_sample_value
    assert metrics.utilisation() == value("menagerie_utilisation_ratio") == pytest.approx(0.75)
    assert value("menagerie_compute_seconds_total", {"work": "train"}) == 3
    assert value("menagerie_uptime_seconds") == 4


def test_metrics_are_served_and_a_taken_port_is_named(port):
    metrics = Metrics("verifier")
    metrics.serve(0)
    metrics.serve(port)
    metrics.error("Reverted", "rounds: closed" + "x" * 500)
    text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
    assert 'menagerie_errors_total{kind="Reverted"} 1.0' in text
    assert 'role="verifier"' in text and "rounds: closed" in text and "x" * 300 not in text
    with pytest.raises(ConfigError, match=f"served on 127.0.0.1:{port}.*metrics_port"):
        Metrics("other").serve(port)


def test_a_library_that_warns_goes_on_where_the_log_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a stranger's model config was "cannot be built", for a warning about it."""
    gone = io.StringIO()
    monkeypatch.setattr(sys, "stderr", gone)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    open_log("member", "info", True, None)
    logging.getLogger("library").warning("odd")
    assert "odd" in gone.getvalue(), "the warning comes here"
    gone.close()
    logging.getLogger("library").warning("odd again")
