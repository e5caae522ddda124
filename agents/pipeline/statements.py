# SPDX-License-Identifier: Apache-2.0
"""Owners' statements about shards, as a post keeps them and gives them to whoever asks.

Rule: the last few statements of each miner of an epoch that its operator signed, of the last few
epochs that the post's own miner worked in. Who has no post of its own leaves its statement at those
of others. Everybody leaves it in a box of the store as well, for whoever reaches no post. Nobody
else's word is kept, so what a post holds is bounded. A miner makes one statement, and after a reorg
of the chain another under another seed; who sends the old one again doesn't push out the new one.

No statement names anybody outside its stage, or has more digests than a miner of its stage has
pairs. So an epoch says how long a list of its statements can be; of a longer one nothing is read.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress

from agents.pipeline.box_reader import BoxReader
from agents.pipeline.epoch import Epoch
from agents.pipeline.letters import SIGNATURE_BYTES, Domain, LetterError
from agents.pipeline.presence import box_of
from agents.pipeline.shards import MAX_STATEMENT, Statement
from agents.runtime.bounded_http import ask
from agents.runtime.logs import Log
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError
from agents.storage.nesting import parse_json

_OF_ONE = 4  # statements of one miner in an epoch
_EPOCHS = 4  # of all jobs together, whose statements are kept
_ASK_S = 2.0
_Key = tuple[int, int]  # job and epoch


class Statements:
    """What one post keeps. Any thread may call it."""

    def __init__(self, where: Domain) -> None:
        self._where = where
        self._expected: OrderedDict[_Key, tuple[Epoch, Mapping[int, str]]] = OrderedDict()
        self._kept: dict[_Key, dict[int, list[Statement]]] = {}
        self._lock = threading.Lock()

    def expect(self, epoch: Epoch, operators: Mapping[int, str]) -> None:
        """Take statements of an epoch from now on. `operators`: of all its miners."""
        key = epoch.key[:2]
        with self._lock:
            self._expected[key] = epoch, dict(operators)
            self._expected.move_to_end(key)
            # After a reorg the stages may be others, and what was long enough for them too long.
            kept = self._kept.get(key, {}).items()
            self._kept[key] = {who: [one for one in of if _fits(epoch, one)] for who, of in kept}
            while len(self._expected) > _EPOCHS:
                old, _ = self._expected.popitem(last=False)
                del self._kept[old]

    def put(self, said: Statement) -> bool:
        """Keep a statement; False unless it is of an epoch that runs here, by its operator, and
        can be true of its stage."""
        key = said.job, said.epoch
        epoch, operators = self._expected.get(key, (None, {}))
        operator = operators.get(said.owner)
        if epoch is None or operator is None or not _fits(epoch, said):
            return False
        if said.signer(self._where) != operator:
            return False
        with self._lock:
            if key not in self._kept or self._expected[key][0] != epoch:
                return False
            others = [one for one in self._kept[key].get(said.owner, ()) if one != said]
            self._kept[key][said.owner] = [said, *others][:_OF_ONE]
        return True

    def listed(self, job: int, epoch: int) -> bytes:
        """What a post answers to who asks for an epoch's statements."""
        with self._lock:
            kept = self._kept.get((job, epoch), {})
            return json.dumps([said.to_json() for of in kept.values() for said in of]).encode()


def _fits(epoch: Epoch, said: Statement) -> bool:
    """Whether a statement names nobody outside its stage, and no more shards than one can own."""
    stage = epoch.stage_of(said.owner)
    miners = () if stage is None else epoch.stages[stage]
    return {*said.contributors} <= {*miners} and len(said.digests) < len(miners)


def _most_bytes(epoch: Epoch) -> int:
    """Bytes of the longest list of statements that a post can have of an epoch."""
    total = 2
    for miners in epoch.stages:
        digests = (bytes(32),) * (len(miners) - 1)
        place = epoch.job, epoch.number, max(miners), bytes(32)
        longest = Statement(*place, miners, bytes(32), digests, bytes(SIGNATURE_BYTES))
        total += _OF_ONE * len(miners) * (len(json.dumps(longest.to_json())) + len(", "))
    return total


def shards_path(job: int, epoch: int) -> str:
    """Where a post gives an epoch's statements."""
    return f"/shards/{job}/{epoch}"


def leave(url: str, said: Statement) -> bool:
    """Leave a statement at a post; whether it took it."""
    body = json.dumps(said.to_json()).encode()
    try:
        return ask("POST", f"{url.rstrip('/')}/shards", body, _ASK_S, 4096)[0] == 200
    except (OSError, ValueError, http.client.HTTPException):
        return False


def fetch(url: str, epoch: Epoch) -> list[Statement]:
    """The statements that a post gives of an epoch, unchecked; none if it can't be asked, or gives
    more than there can be."""
    most = _OF_ONE * sum(map(len, epoch.stages))
    address = url.rstrip("/") + shards_path(epoch.job, epoch.number)
    try:
        status, body = ask("GET", address, None, _ASK_S, _most_bytes(epoch))
        values = parse_json(body) if status == 200 else []
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return []
    return list(_readable(values if isinstance(values, list) else [], most))


def leave_in_store(store: ContentStore, where: Domain, epoch: Epoch, said: Statement) -> None:
    """Leave a statement in the epoch's box; StoreError if the store doesn't take it."""
    body = json.dumps(said.to_json()).encode()
    store.leave(box_of("shards", where, epoch), store.put_bytes(body))


class LeftStatements:
    """The statements in an epoch's box that its miners' operators signed, a few of each."""

    def __init__(
        self,
        store: ContentStore,
        where: Domain,
        epoch: Epoch,
        operators: Mapping[int, str],
        log: Log,
    ) -> None:
        self._where, self._epoch, self._operators = where, epoch, operators
        box = box_of("shards", where, epoch)
        self._reader = BoxReader(store, box, MAX_STATEMENT, log, stays=True)
        self._found: dict[int, list[Statement]] = {}

    def look(self) -> list[Statement]:
        """All that were found so far; what the store can't give now is found later."""
        with suppress(StoreError):
            self._reader.look(self._take)
        return [said for of in self._found.values() for said in of]

    def _take(self, raw: bytes) -> None:
        said = Statement.from_bytes(raw)
        operator = self._operators.get(said.owner)
        if operator is None or said.signer(self._where) != operator:
            raise LetterError("This statement is not by the operator of a miner that revealed.")
        kept = self._found.setdefault(said.owner, [])
        if (said.job, said.epoch) != self._epoch.key[:2] or len(kept) >= _OF_ONE:
            raise LetterError("This statement is of another epoch, or one too many of its owner.")
        kept.append(said)


def _readable(values: Iterable[object], most: int) -> Iterable[Statement]:
    for value in list(values)[:most]:
        try:
            yield Statement.from_json(value)
        except LetterError:
            continue
