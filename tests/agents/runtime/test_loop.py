# SPDX-License-Identifier: Apache-2.0
"""The loop stays alive; a whole agent process starts, stops, crashes and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agents.runtime.errors import (
    ConfigError,
    JournalError,
    JournalFull,
    Reverted,
    RpcDown,
    Stopped,
    TxRefused,
)
from agents.runtime.feed import HeadFeed
from agents.runtime.journal import Journal
from agents.runtime.loop import _BREATH_S, Loop, jitter
from agents.runtime.metrics import Metrics
from agents.runtime.wallet import create_keystore
from tests.agents.runtime.conftest import eventually

ROOT = Path(__file__).parents[3]


class StoreDown(Exception):
    """Stands for another package's patient error."""


class Pauses(threading.Event):
    """A `stop` that remembers for how long the loop wanted to wait for it."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def wait(self, timeout=None):
        self.asked.append(timeout)
        return super().wait(timeout)


class Scripted:
    """An agent whose steps are given in advance; stops the loop after the last."""

    def __init__(self, stop, *script):
        self.stop, self.script = stop, list(script)

    def step(self, head):
        if not self.script:
            self.stop.set()
            return None
        item = self.script.pop(0)
        if isinstance(item, BaseException):
            raise item
        return item


@pytest.fixture
def run_loop(chain, lines, monkeypatch):
    monkeypatch.setattr("agents.runtime.loop._PAUSE_MIN_S", 0.02)
    monkeypatch.setattr("agents.runtime.loop._PAUSE_MAX_S", 0.08)
    feed = HeadFeed(chain, lines.log, "", poll_s=0.05).start()

    def run(*script, **options):
        stop, metrics = Pauses(), Metrics("test")
        agent = Scripted(stop, *script)
        Loop(agent, chain, feed, lines.log, metrics, stop, timer_s=0.05, **options).run()
        return agent, metrics

    yield run
    feed.stop()


def test_what_was_done_is_logged_and_counted(run_loop, lines):
    _, metrics = run_loop("commit round 3", None, "reveal round 3", "commit round 4")
    said = [line["what"] for line in lines.events("did")]
    assert said == ["commit round 3", "reveal round 3", "commit round 4"]
    value = metrics.registry.get_sample_value
    assert value("menagerie_actions_total", {"action": "commit"}) == 2


def test_nothing_expected_or_unexpected_ends_the_loop(run_loop, lines):
    undecodable = UnicodeDecodeError("utf-8", b"", 0, 1, "x")
    expected = [Reverted("rounds: closed"), RpcDown("down"), TxRefused("poor")]
    bugs = [KeyError("bug"), RecursionError("deep"), undecodable, MemoryError()]
    troubles = [*expected, *bugs, ZeroDivisionError()]
    agent, metrics = run_loop(*troubles, "commit")
    assert agent.script == [] and lines.events("did")
    assert lines.events("reverted")[0]["why"] == "The call reverted: rounds: closed."
    assert len(lines.events("unexpected")) == 5
    assert all("traceback" in line for line in lines.events("unexpected"))
    value = metrics.registry.get_sample_value
    assert value("menagerie_errors_total", {"kind": "unexpected"}) == 5


def test_an_outage_of_the_store_is_said_once_and_backed_off(run_loop, lines):
    down = StoreDown("The store is unreachable.")
    agent, _ = run_loop(*[down] * 5, "commit", down, patient=(StoreDown,))
    assert len(lines.events("StoreDown")) == 2
    assert len(lines.events("recovered")) == 1
    assert agent.stop.asked == [0.02, 0.04, 0.08, 0.08, 0.08, _BREATH_S, 0.02]
    assert lines.events("unexpected") == []


def test_a_full_disk_is_said_loudly_once_and_waited_for(run_loop, lines):
    full = JournalFull("The journal could not be written.")
    agent, _ = run_loop(*[full] * 4, "commit")
    assert agent.script == [] and lines.events("did")
    (said,) = lines.events("journal_full")
    assert said["level"] == "error" and "traceback" not in said
    assert len(lines.events("recovered")) == 1


def test_a_damaged_journal_ends_it(run_loop):
    with pytest.raises(JournalError):
        run_loop(JournalError("Line 3 is damaged."), "never")


def test_what_waiting_cannot_mend_ends_it(run_loop):
    with pytest.raises(ConfigError, match="wrong job"):
        run_loop(ConfigError("wrong job"))


def test_a_stop_inside_a_step_is_a_clean_end(run_loop, lines):
    agent, _ = run_loop(Stopped("asked to"), "never")
    assert agent.script == ["never"] and lines.events("unexpected") == []


def test_a_new_head_wakes_the_agent_before_its_timer(chain, lines, anvil):
    stop = threading.Event()
    feed = HeadFeed(chain, lines.log, None, poll_s=0.05).start()
    heads = []

    class Watcher:
        def step(self, head):
            heads.append(head.number)
            if head.number == 3:
                stop.set()

    loop = Loop(Watcher(), chain, feed, lines.log, Metrics("t"), stop, timer_s=30)
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    for _ in range(3):
        time.sleep(0.2)
        anvil.mine()
    thread.join(25)
    feed.stop()
    assert not thread.is_alive() and heads[-1] == 3 and len(heads) <= 6


def test_jitter_is_fixed_per_address_and_anchor_and_spread():
    addresses = ["0x" + bytes([i]).hex() * 20 for i in range(200)]
    drawn = [jitter(a, 7, 2.0) for a in addresses]
    assert drawn == [jitter(a, 7, 2.0) for a in addresses]
    assert all(0 <= d < 2 for d in drawn) and 0.8 < sum(drawn) / 200 < 1.2
    assert drawn != [jitter(a, 8, 2.0) for a in addresses]
    assert jitter(addresses[0], 7, 0) == 0


AGENT = """
import hashlib, os, sys, time
from agents.runtime.config import load_settings
from agents.runtime.context import run_agent
from agents.runtime.faults import crashpoint

def hang():
    if os.environ["HANGS"] == "python":
        while True:
            pass
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # minutes in a library

class Pinger:
    '''Counts to five on chain; its journal remembers what it was about to do.'''
    def __init__(self, context):
        self.c = context
        self.tiny = context.deployment["Tiny"]

    def step(self, head):
        n = self.c.chain.call(self.tiny, "n")
        if os.environ.get("HANGS"):
            self.c.journal.put("next", n)
            self.c.log.info("hangs")
            hang()
        if n == 5:
            return None
        self.c.journal.put("next", n + 1)
        crashpoint("journalled")
        self.c.sender.ensure(lambda: self.c.chain.call(self.tiny, "n") > n, self.tiny, "ping")
        crashpoint("sent")
        return f"ping {n + 1}"

sys.exit(run_agent(load_settings(sys.argv[1]), "pinger", Pinger))
"""


@pytest.fixture
def agent_dir(tmp_path, anvil, tiny):
    address = create_keystore(tmp_path / "key.json", "hunter22", iterations=8)
    anvil.rpc("anvil_setBalance", address, hex(10**18))
    deployment = {
        "chain_id": 31337,
        "block": 0,
        "contracts": {"Tiny": {"address": tiny.address, "abi": tiny.abi}},
    }
    (tmp_path / "deployment.json").write_text(json.dumps(deployment))
    (tmp_path / "agent.toml").write_text(
        f'rpc_url = "{anvil.url}"\nchain_id = 31337\ndeployment = "{tmp_path}/deployment.json"\n'
        f'keystore = "{tmp_path}/key.json"\npassphrase_env = "NODE_PASS"\n'
        f'data_dir = "{tmp_path}/data"\nlog_file = "{tmp_path}/log"\nlog_level = "debug"\n'
    )
    return tmp_path


def launch(agent_dir, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", AGENT, str(agent_dir / "agent.toml")],
        cwd=ROOT,
        env={**os.environ, "NODE_PASS": "hunter22", **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def end(agent, number=signal.SIGTERM, status=0):
    """Stops an agent's process, which says nothing."""
    agent.send_signal(number)
    assert agent.wait(timeout=60) == status and agent.stderr.read() == ""
    agent.stderr.close()


def logged(agent_dir, event):
    path = agent_dir / "log"
    text = path.read_text() if path.exists() else ""
    return [line for line in map(json.loads, text.splitlines()) if line["event"] == event]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_process_works_and_stops_cleanly(agent_dir, chain, tiny, number):
    agent = launch(agent_dir)
    eventually(lambda: chain.call(tiny, "n") == 5)
    end(agent, number)
    assert logged(agent_dir, "ready") and logged(agent_dir, "stopped")
    assert "hunter22" not in (agent_dir / "log").read_text()


@pytest.mark.parametrize("where", ["python", "a library"])
def test_an_agent_in_the_middle_of_a_long_step_stops_within_five_seconds(agent_dir, where):
    agent = launch(agent_dir, HANGS=where)
    eventually(lambda: logged(agent_dir, "hangs"))
    began = time.monotonic()
    end(agent)
    assert time.monotonic() - began < 5 + 25  # what a machine with other things to do may take
    (said,) = logged(agent_dir, "stopped_in_a_step")
    assert "in hang" in said["at"] and logged(agent_dir, "stopped")
    with Journal(next((agent_dir / "data").glob("*.journal"))) as journal:
        assert journal.get("next") == 0


@pytest.mark.parametrize("point", ["journalled", "sent"])
def test_a_crash_between_two_effects_is_caught_up(agent_dir, chain, tiny, point):
    agent = launch(agent_dir, MENAGERIE_CRASH_AT=point)
    assert agent.wait(timeout=60) == -signal.SIGKILL
    agent.stderr.close()
    assert chain.call(tiny, "n") == (1 if point == "sent" else 0)
    agent = launch(agent_dir)
    eventually(lambda: chain.call(tiny, "n") == 5)
    end(agent)
    assert chain.call(tiny, "n") == 5


def test_a_second_agent_on_the_same_data_refuses(agent_dir, chain, tiny):
    agent = launch(agent_dir)
    eventually(lambda: logged(agent_dir, "ready"))
    second = launch(agent_dir)
    assert second.wait(timeout=60) == 2
    said = second.stderr.read()
    assert f"in use by process {agent.pid}" in said and said.count("\n") == 1
    second.stderr.close()
    end(agent)


def test_an_agent_of_another_key_on_the_same_data_refuses(agent_dir, chain, tiny):
    agent = launch(agent_dir)
    eventually(lambda: logged(agent_dir, "ready"))
    (agent_dir / "key.json").unlink()
    create_keystore(agent_dir / "key.json", "hunter22", iterations=8)
    second = launch(agent_dir)
    assert second.wait(timeout=60) == 2
    said = second.stderr.read()
    assert "another data_dir" in said and said.count("\n") == 1
    second.stderr.close()
    end(agent)


def test_an_agent_waits_for_a_node_that_is_not_there_yet(start_anvil, agent_dir, anvil):
    anvil.stop()
    agent = launch(agent_dir)
    eventually(lambda: logged(agent_dir, "rpc_down"))
    time.sleep(1.5)
    assert agent.poll() is None and len(logged(agent_dir, "rpc_down")) == 1
    end(agent)


def test_the_runtime_is_light():
    code = (
        "import sys, agents.runtime.context; "
        "print([m for m in ('torch', 'ape', 'vyper', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
