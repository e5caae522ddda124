# SPDX-License-Identifier: Apache-2.0
"""Looks at a real chain: each thing is asked once, and nothing is kept longer than it holds."""

from __future__ import annotations

import threading

import pytest

from agents.runtime import log_book, look
from agents.runtime.errors import Reverted
from agents.runtime.event_cursor import EventCursor, EventLog
from agents.runtime.log_book import LogBook
from tests.agents.runtime.test_feed import numbers, ping


class Seen:
    """What was asked of the node since the last time."""

    def __init__(self, chain):
        self._chain = chain
        self._requests, self._calls = chain.traffic.requests, chain.traffic.calls()

    def __call__(self):
        """(requests, calls of views)"""
        before = Seen(self._chain)
        requests = before._requests - self._requests
        calls = before._calls.get("eth_call", 0) - self._calls.get("eth_call", 0)
        self._requests, self._calls = before._requests, before._calls
        return requests, calls


@pytest.fixture
def watched(chain, deployment):
    """A client that knows the contract; `pair` stands for a view that depends on the block."""
    chain.watch(deployment, frozenset({"Tiny.pair"}))
    return chain


@pytest.fixture
def asked(watched):
    return Seen(watched)


@pytest.fixture
def look_at(watched):
    def read(contract):
        """What n and pair are in the newest block."""
        with watched.look(watched.newest_head()):
            return watched.call(contract, "n"), watched.call(contract, "pair", 1)[0]

    return read


def test_a_question_is_asked_once_in_a_look_and_not_again_in_the_same_block(watched, tiny, asked):
    head = watched.newest_head()
    asked()
    for _ in range(3):
        with watched.look(head) as seen:
            assert seen == head == watched.head()
            assert [watched.call(tiny, "n") for _ in range(5)] == [0] * 5
            assert watched.call_many([(tiny, "n", []), (tiny, "pair", [1])])[0] == 0
            assert watched.block_hash(head.number) == head.hash
    assert asked() == (2, 2)


def test_outside_of_a_look_and_in_other_threads_every_question_is_asked(watched, tiny, asked):
    head = watched.newest_head()
    with watched.look(head):
        watched.call(tiny, "n")
        asked()
        other = threading.Thread(target=lambda: watched.call(tiny, "n"))
        other.start()
        other.join()
        assert asked() == (1, 1)
    watched.call(tiny, "n")
    assert asked() == (1, 1)


def test_a_block_without_logs_costs_one_request_and_keeps_what_reads_storage(
    anvil, tiny, asked, look_at
):
    assert look_at(tiny) == (0, 2)
    for _ in range(3):
        anvil.mine()
        asked()
        assert look_at(tiny) == (0, 2)
        assert asked() == (2, 1), "the head, the logs with the view that depends on the block"


def test_a_block_with_logs_is_read_again_in_two_requests(anvil, tiny, asked, look_at):
    look_at(tiny)
    for number in (1, 2):
        ping(anvil, tiny)
        asked()
        assert look_at(tiny) == (number, 2)
        assert asked() == (3, 2)


def test_blocks_that_were_skipped_are_not_missed(anvil, tiny, look_at, monkeypatch):
    look_at(tiny)
    ping(anvil, tiny, 3)
    anvil.mine(5)
    assert look_at(tiny) == (3, 2)
    monkeypatch.setattr(look, "_GAP", 20)
    anvil.mine(21)
    ping(anvil, tiny)
    anvil.mine(21)
    assert look_at(tiny) == (4, 2)


def test_all_reads_of_a_look_are_of_its_block_until_it_has_lasted_too_long(
    anvil, tiny, watched, monkeypatch
):
    head = watched.newest_head()
    with watched.look(head):
        ping(anvil, tiny)
        assert (watched.call(tiny, "n"), watched.head()) == (0, head)
        assert watched.events(tiny, "Pinged", 0, head.number) == []
        monkeypatch.setattr(look, "_HOLDS_S", 0.0)
        assert (watched.call(tiny, "n"), watched.head().number) == (1, head.number + 1)


def test_a_reorg_takes_answers_and_events_back(anvil, tiny, watched, look_at):
    log = EventLog(EventCursor(watched, tiny, ["Pinged"], 0))
    anvil.mine(4)
    ping(anvil, tiny)
    with watched.look(watched.newest_head()):
        assert (watched.call(tiny, "n"), [e.args["n"] for e in log.read()]) == (1, [1])
    before = watched.newest_head()
    anvil.rpc("anvil_reorg", 3, [])
    head = watched.newest_head()
    assert (head.number, head.hash) != (before.number, before.hash)
    with watched.look(head):
        assert (watched.call(tiny, "n"), log.read()) == (0, [])
    ping(anvil, tiny, 2)
    with watched.look(watched.newest_head()):
        assert (watched.call(tiny, "n"), [e.args["n"] for e in log.read()]) == (2, [1, 2])


def test_a_head_on_another_branch_than_the_last_look_is_seen_by_its_parent(anvil, tiny, watched):
    anvil.mine(3)
    ping(anvil, tiny)
    with watched.look(watched.newest_head()):
        assert watched.call(tiny, "n") == 1
    anvil.rpc("anvil_reorg", 2, [])
    anvil.mine(3)  # nothing was logged on the new branch, and yet the answer is another one
    with watched.look(watched.newest_head()):
        assert watched.call(tiny, "n") == 0


def test_what_this_thread_sent_is_in_what_it_reads_next(watched, tiny, sender):
    old = watched.newest_head()
    with watched.look(old):
        assert watched.call(tiny, "n") == 0
        sender.send(tiny, "ping")
        assert watched.call(tiny, "n") == 1
    with watched.look(old) as seen:  # the feed may still be behind
        assert seen.number > old.number
        assert watched.call(tiny, "n") == 1


def test_after_a_refusal_the_chain_is_read_anew(watched, tiny, sender, anvil):
    with watched.look(watched.newest_head()):
        assert not watched.call(tiny, "once")
        anvil_sends(anvil, tiny, "only_once")
        assert not watched.call(tiny, "once")
        assert sender.ensure(lambda: watched.call(tiny, "once"), tiny, "only_once") is None


def test_after_a_refusal_nothing_is_kept_of_the_same_block_either(watched, tiny, asked):
    with watched.look(watched.newest_head()):
        watched.call_many([(tiny, "n", []), (tiny, "once", [])])
        watched.look_again()
        asked()
        watched.call_many([(tiny, "n", []), (tiny, "once", [])])
        assert asked() == (2, 2)


def test_reverts_are_remembered_and_stay_reverts(watched, tiny, asked):
    with watched.look(watched.newest_head()):
        asked()
        for _ in range(3):
            with pytest.raises(Reverted, match="rounds: not committed"):
                watched.call(tiny, "refuse", 1)
        assert asked() == (1, 1)


def test_answers_are_asked_again_after_a_while_whatever_the_logs_say(
    anvil, tiny, look_at, monkeypatch
):
    look_at(tiny)
    anvil_sends(anvil, tiny, "close")  # a contract that breaks the rule: it writes and logs nothing
    assert look_at(tiny)[0] == 0
    monkeypatch.setattr(look, "_LASTS_S", 0.0)
    anvil.mine()
    assert look_at(tiny)[0] == 1


def test_events_of_every_cursor_come_out_of_one_request(anvil, tiny, watched, asked):
    cursors = [EventCursor(watched, tiny, ["Pinged"], 0) for _ in range(5)]
    ping(anvil, tiny)
    found = []
    for _ in range(3):
        head = watched.newest_head()
        asked()
        with watched.look(head):
            found.append([numbers(cursor.poll()) for cursor in cursors])
        ping(anvil, tiny)
    assert found == [[[n]] * 5 for n in (1, 2, 3)]
    head = watched.newest_head()
    asked()
    with watched.look(head):
        assert [numbers(cursor.poll()) for cursor in cursors] == [[4]] * 5
    assert asked() == (1, 0)


def test_old_events_are_asked_for_once(anvil, tiny, watched, asked):
    ping(anvil, tiny, 3)
    head = watched.newest_head()
    for _ in range(3):
        with watched.look(head):
            found = watched.events(tiny, "Pinged", 0, head.number)
        assert [event.args["n"] for event in found] == [1, 2, 3]
    asked()
    ping(anvil, tiny)
    head = watched.newest_head()
    asked()
    with watched.look(head):
        found = watched.events(tiny, "Pinged", 0, head.number)
    assert [event.args["n"] for event in found] == [1, 2, 3, 4]
    assert asked() == (1, 0)


@pytest.mark.parametrize("what", ["eth_call", "eth_getLogs"])
def test_a_node_that_takes_no_block_by_its_hash_is_asked_by_its_number(
    anvil, tiny, watched, look_at, monkeypatch, what
):
    def without(real):
        def ask(*args):
            batch = args[0] if isinstance(args[0], list) else [args]
            refusal = {"error": {"code": -32602, "message": "invalid params"}}
            answers = [
                refusal if method == what and "blockHash" in str(params) else real(method, params)
                for method, params in batch
            ]
            return answers if isinstance(args[0], list) else answers[0]

        return ask

    ask = without(watched.ask)
    monkeypatch.setattr(watched, "ask", ask)
    monkeypatch.setattr(watched, "ask_many", ask)
    monkeypatch.setattr(look, "_DOUBTS", 0)
    assert look_at(tiny) == (0, 2)
    for number in (1, 2, 3):
        ping(anvil, tiny)
        assert look_at(tiny) == (number, 2)


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(log_book, "_MOST", 10)
    book = LogBook(5)
    for block in range(5, 100):
        book.add([{"address": "0xAb", "topics": ["0x01", "0x02"], "blockNumber": hex(block)}])
    assert 5 < book.start < 100
    found = book.find("0xaB", ["0x01", None], 0, 1000)
    assert [int(entry["blockNumber"], 16) for entry in found] == list(range(book.start, 100))
    assert len(found) <= 10
    assert book.find("0xab", ["0x01", "0x03"], 0, 1000) == []
    assert book.find("0xab", ["0x01", "0x02", None], 0, 1000) == []
    assert book.find("0xcd", ["0x01"], 0, 1000) == []


def anvil_sends(anvil, tiny, function):
    caller = anvil.rpc("eth_accounts")[0]
    data = "0x" + tiny.function(function, 0).encode([]).hex()
    tx = anvil.rpc("eth_sendTransaction", {"from": caller, "to": tiny.address, "data": data})
    anvil.receipt(tx)
