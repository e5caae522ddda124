# SPDX-License-Identifier: Apache-2.0
"""One look at the chain: all that is read in it is of one block, and each thing is asked once.

Rule: an answer belongs to the block, named by its hash, that it was asked of. The next block keeps
an answer only if it is the child of the last one, none of the watched contracts logged anything in
it, and the view reads storage alone: every function of the contracts that writes logs an event
(`.ci/vyper_static.py` holds that), so their storage has not changed.

A new block costs one request: its logs, together with the views that depend on the block and were
asked in the look before. If there are logs, a second one asks again what else was asked then. What
was not asked before goes out by itself. A look at a block that is known already costs nothing.
Views of one block travel in one call where the network has a Lens (`lens.py`).

A look holds for `_HOLDS_S`: who computes for minutes reads a newer block afterwards. What is kept
is asked again after `_LASTS_S` in any case.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from agents.runtime.errors import RpcRefused
from agents.runtime.head import Head
from agents.runtime.lens import Answer, Bundle, Call, Lens
from agents.runtime.log_book import LogBook, RawLog

_HOLDS_S = 8.0
_LASTS_S = 60.0  # the longest that an answer is kept: no node is trusted to miss no log for ever
_DOUBTS = 2  # refusals of a block by its hash, and it is asked for by its number
_GAP = 500  # blocks that may be missed between two looks, and their logs still be asked for
_MOST_ANSWERS = 4_096
_MOST_HASHES = 4_096
_MOST_PAST = 256  # filters on blocks before the book's
_MOST_PAST_LOGS = 2_000  # that one of them keeps
_NEVER = float("-inf")

LATEST, PENDING = "latest", "pending"


class Node(Protocol):
    """What a look asks of the RPC client."""

    def ask(self, method: str, params: list[Any]) -> Answer:
        """The answer to one request, a refusal too."""
        ...

    def ask_many(self, batch: Sequence[tuple[str, list[Any]]]) -> list[Answer]:
        """The answers to several requests in one."""
        ...

    def value(self, method: str, answer: Answer) -> Any:
        """The result in an answer. Raises RpcRefused."""
        ...

    def refuses(self, answer: Answer) -> bool:
        """Whether the node itself refuses, and not a contract."""
        ...

    def newest_head(self) -> Head:
        """The newest block that the node has."""
        ...

    def logs(
        self, address: str | Sequence[str], topics: Sequence[str | None], first: int, last: int
    ) -> list[RawLog]:
        """The logs of a range of blocks."""
        ...


class Look:
    """The newest look of one thread, with what is kept for the next one.

    `watched`: addresses of the contracts whose views are asked. `lens`: the contract that asks many
    of them in one call, if the network has one.
    """

    def __init__(self, node: Node, watched: Sequence[str], lens: Lens | None = None) -> None:
        self._node = node
        self._lens = lens
        self.watched = list(watched)
        self._head: Head | None = None
        self._next: Head | None = None  # the block to look at next
        self._began = _NEVER
        self._all_asked = _NEVER  # when nothing was kept from the look before
        self._by_hash = True  # as long as the node takes a block by its hash, in a call
        self._logs_by_hash = True  # and in a request for logs
        self._doubts = 0
        self._answers: dict[Call, Answer] = {}
        self._fresh: dict[Call, Answer] = {}  # asked along with the logs of the newest block
        self._used: dict[Call, None] = {}  # in this look
        self._before: dict[Call, None] = {}  # in the one before
        self._hashes: dict[int, bytes] = {}  # of blocks on this branch
        self._book = LogBook(0)
        self._past: dict[tuple[Any, ...], list[RawLog]] = {}  # logs of blocks before the book's

    # -- which block ---------------------------------------------------------------------------

    @property
    def head(self) -> Head:
        """The block that is looked at."""
        assert self._head is not None
        return self._head

    def begin(self, head: Head) -> None:
        """Look at a block, or at a newer one that is known already. Raises RpcDown, RpcRefused."""
        for newer in (self._head, self._next):
            if newer is not None and newer.number > head.number and not head.reorged:
                head = newer
        if self._head is None or head.hash != self._head.hash:
            self._move(head)
        elif self._all_asked == _NEVER:
            self._answers = {}
            self._fetch(list(self._used))
            self._all_asked = time.monotonic()
        self._next = None
        self._began = time.monotonic()

    def end(self, head: Head | None = None) -> None:
        """The next read is of `head`; without it, of the newest block, and nothing is kept."""
        self._next = head
        if head is None:
            self._all_asked = _NEVER
        self._began = _NEVER

    def renew(self) -> None:
        """Look at the newest block, if the look was ended or has lasted too long."""
        if time.monotonic() - self._began > _HOLDS_S:
            self.begin(self._next or self._node.newest_head())

    def _move(self, head: Head) -> None:
        old = self._head
        learned = list(self._before | self._used)[-_MOST_ANSWERS:]
        logs = self._follow(old, head, [call for call in learned if not call.lasting])
        now = time.monotonic()
        quiet = logs == [] and now - self._all_asked < _LASTS_S
        if logs is None:
            self._hashes, self._past, self._book = {}, {}, LogBook(head.number + 1)
        else:
            self._book.add(logs)
        kept = {c: a for c, a in self._answers.items() if c.lasting} if quiet else {}
        self._answers = kept | self._fresh
        self._head = head
        self._hashes[head.number] = head.hash
        self._before, self._used = self._used, {}
        _shorten(self._answers, _MOST_ANSWERS)
        if not quiet:
            self._all_asked = now
            self._fetch([call for call in learned if call.lasting])

    def _follow(self, old: Head | None, head: Head, timed: Sequence[Call]) -> list[RawLog] | None:
        """The logs since the last look, None if it was at another branch or too long ago.

        Asks the `timed` calls by the way; their answers are in `_fresh`.
        """
        near = old is not None and old.number < head.number <= old.number + _GAP
        near = near and bool(self.watched)  # no address would stand for every one
        child = old is not None and head.parent == old.hash
        batch: list[tuple[str, list[Any]]] = []
        if old is not None and near:
            batch.append(("eth_getLogs", [self._filter(old, head, child)]))
            if not child:
                for number in (old.number, head.number):
                    batch.append(("eth_getBlockByNumber", [hex(number), False]))
        rest = len(batch)
        bundle = self._bundle(timed, head)
        answers = self._ask(batch + bundle.requests)
        self._fresh = bundle.answers(answers[rest:])
        if old is None or not near:
            return None
        if not child:
            was, now = (_hash_in(answer) for answer in answers[1:rest])
            if now != head.hash:
                raise RpcRefused("eth_getLogs", 0, f"block {head.number} is another one by now")
            if was != old.hash:
                return None
        if not self._node.refuses(answers[0]):
            self._doubts = 0
            return list(answers[0]["result"])
        if child and self._logs_by_hash and self._doubts < _DOUBTS:
            # It may have this block in a moment.
            self._doubts += 1
            self._node.value("eth_getLogs", answers[0])
        return self._logs_by_number(old.number + 1, head)

    def _filter(self, old: Head, head: Head, child: bool) -> dict[str, Any]:
        if child and self._logs_by_hash:
            return {"address": self.watched, "blockHash": _hex(head.hash)}
        blocks = {"fromBlock": hex(old.number + 1), "toBlock": hex(head.number)}
        return {"address": self.watched, **blocks}

    def _logs_by_number(self, first: int, head: Head) -> list[RawLog]:
        """For a node that refuses so long a range, or a block by its hash."""
        found = self._node.logs(self.watched, [], first, head.number)
        last = [entry for entry in found if int(entry["blockNumber"], 16) == head.number]
        strays = any(entry["blockHash"] != _hex(head.hash) for entry in last)
        if strays or self._asked_hash(head.number) != head.hash:
            raise RpcRefused("eth_getLogs", 0, f"block {head.number} is another one by now")
        self._logs_by_hash = self._logs_by_hash and first < head.number
        return found

    # -- calls ---------------------------------------------------------------------------------

    def answers(self, calls: Sequence[Call]) -> list[Answer]:
        """The node's answers to calls, of the block that is looked at. Raises RpcDown."""
        self.renew()
        self._used.update(dict.fromkeys(calls))
        self._fetch(calls)
        return [
            self._answers[call] if call in self._answers else self._asked_alone(call)
            for call in calls
        ]

    def _fetch(self, calls: Sequence[Call]) -> None:
        """Ask what is not known yet, together. What the node refuses stays unknown."""
        missing = [call for call in dict.fromkeys(calls) if call not in self._answers]
        if len(missing) == 1 and len(calls) == 1:
            return  # asked alone, where a refusal is dealt with
        bundle = self._bundle(missing, self.head)
        self._answers |= bundle.answers(self._ask(bundle.requests))

    def _bundle(self, calls: Sequence[Call], head: Head) -> Bundle:
        return Bundle(calls, lambda call: self._tag(call, head), self._lens, self._node.refuses)

    def _asked_alone(self, call: Call) -> Answer:
        """The answer to one call. A node that does not know the block by its hash is asked by its
        number, and one that does not know it at all for its newest one, which is not kept."""
        tags = [self._tag(call, self.head)]
        if call.block == LATEST and self._by_hash:
            tags.append(hex(self.head.number))
        for tag in tags:
            answer = self._node.ask("eth_call", call.params(tag))
            if not self._node.refuses(answer):
                self._by_hash = self._by_hash and tag == tags[0]
                self._answers[call] = answer
                return answer
        return answer if call.block == PENDING else self._node.ask("eth_call", call.params(LATEST))

    def _tag(self, call: Call, head: Head) -> object:
        if call.block == PENDING:
            return PENDING
        return {"blockHash": _hex(head.hash)} if self._by_hash else hex(head.number)

    def _ask(self, batch: Sequence[tuple[str, list[Any]]]) -> list[Answer]:
        if len(batch) == 1:
            return [self._node.ask(*batch[0])]
        return self._node.ask_many(batch) if batch else []

    # -- blocks and logs -----------------------------------------------------------------------

    def hash_of(self, number: int) -> bytes | None:
        """The hash of a block of this branch, None if there is no such block."""
        known = self._hashes.get(number)
        if known is None:
            known = self._asked_hash(number)
            if known is not None and number <= self.head.number:
                self._hashes[number] = known
                _shorten(self._hashes, _MOST_HASHES)
        return known

    def _asked_hash(self, number: int) -> bytes | None:
        answer = self._node.ask("eth_getBlockByNumber", [hex(number), False])
        return None if self._node.refuses(answer) else _hash_in(answer)

    def logs(
        self, address: str, topics: Sequence[str | None], first: int, last: int
    ) -> list[RawLog]:
        """The logs of a watched contract in a range of blocks, in chain order."""
        if address not in self.watched or last > self.head.number:
            return self._node.logs(address, topics, first, last)
        found: list[RawLog] = []
        end = min(last, self._book.start - 1)
        if first <= end:
            key = (address, tuple(topics), first, end)
            past = self._past.get(key)
            if past is None:
                past = self._node.logs(address, topics, first, end)
                if len(past) <= _MOST_PAST_LOGS:
                    self._past[key] = past
                    _shorten(self._past, _MOST_PAST)
            found += past
        return found + self._book.find(address, topics, max(first, self._book.start), last)


def _hex(digest: bytes) -> str:
    return "0x" + digest.hex()


def _hash_in(answer: Answer) -> bytes | None:
    raw = answer.get("result")
    return None if raw is None else bytes.fromhex(raw["hash"][2:])


def _shorten(kept: dict[Any, Any], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
