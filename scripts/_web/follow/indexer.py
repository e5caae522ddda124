# SPDX-License-Identifier: Apache-2.0
"""Follows the chain into the database: forwards range by range, back when it is reorganised.

Rule: a range is one transaction, so the database always holds the state after one block, whose
number and hash it names. Before each range the last block is looked up again. When it is no longer
in the chain, the tables go back to the newest block that is; when the chain's past is farther back
than `KEPT` blocks, the index starts again from the deployment's first block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from agents.runtime.chain import ChainClient, Head
from agents.runtime.contracts import Deployment
from agents.runtime.errors import AgentError, ConfigError, RpcDown
from agents.runtime.logs import Log
from scripts._web.follow.fold import fold
from scripts._web.follow.source import Range, Source
from scripts._web.index.rows import Rows
from scripts._web.index.tables import BLOCKS, META

KEPT = 1_024
"""Blocks whose changes can be taken back one by one."""

_SMALLEST, _LARGEST = 16, 20_000  # blocks in one range
_FEW, _MANY = 1_000, 5_000  # events in one range: with fewer it grows, with more it shrinks
_PATIENCE = 3  # polls in a row of a node that is behind, before its shorter chain is believed


@dataclass(frozen=True)
class Change:
    """What a step of the index changed. `jobs`, `nodes`: ids that its events name.

    `reorg`: blocks were taken back first, so that anything may have changed.
    """

    block: int
    hash: str
    time: int
    jobs: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    events: int = 0
    reorg: bool = False


@dataclass
class Standing:
    """How the index stands. `problem`: a sentence while it can't go on, else empty.

    `block`: the last one folded. `head`: the newest one that the node has named.
    """

    block: int = -1
    head: int = -1
    problem: str = ""
    rpc_down: bool = False
    events: int = 0
    reorgs: int = 0

    @property
    def behind(self) -> int:
        """Blocks that are yet to be folded."""
        return max(0, self.head - self.block)


@dataclass(frozen=True)
class _Mark:
    number: int
    hash: str


@dataclass
class _Batch:
    jobs: set[int] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)


class Indexer:
    """Keeps one database at the head of one chain. Only one may write to a database."""

    def __init__(
        self,
        chain: ChainClient,
        deployment: Deployment,
        identity: str,
        engine: Engine,
        log: Log,
        changed: Callable[[Change], None] = lambda change: None,
    ) -> None:
        """`identity`: digest of the deployment file. `changed`: told of every step, in its thread.

        Raises ConfigError when the database holds the index of another deployment.
        """
        self._source = Source(chain, deployment)
        self._chain = chain
        self._deployment = deployment
        self._first = deployment.block
        self._engine = engine
        self._log = log
        self._changed = changed
        self._rows = Rows()
        self._size = _SMALLEST
        self._behind = 0
        self.standing = Standing()
        with engine.begin() as connection:
            _claim(connection, identity)
            mark = _newest(connection)
        self.standing.block = self._first - 1 if mark is None else mark.number

    # -- following -----------------------------------------------------------------------------

    def run(self, stop: threading.Event, poll_s: float = 0.5) -> None:
        """Follow the chain until `stop` is set. What fails is said in `standing`."""
        checked = False
        while not stop.is_set():
            try:
                if not checked:
                    self._chain.check(self._deployment)
                    checked = True
                busy = self.step()
            except Exception as error:  # the page goes on with what it has, and says so
                self._failed(error)
                busy = False
            if not busy:
                stop.wait(poll_s)

    def _failed(self, error: Exception) -> None:
        self._rows.forget()
        known = isinstance(error, AgentError)
        problem = str(error) if known else f"The index can't go on: {type(error).__name__}."
        if problem != self.standing.problem:
            self._log.warning("index_waits", why=problem, detail=None if known else str(error))
        self.standing.problem = problem
        self.standing.rpc_down = isinstance(error, RpcDown)

    def catch_up(self) -> None:
        """Step until the head is reached. Raises as `step` does."""
        while self.step():
            pass

    def step(self) -> bool:
        """Fold the next range of blocks; whether there may be more to do at once.

        Raises AgentError with the database at the block where it was: RpcDown, RpcRefused,
        ChainMoved, ConfigError.
        """
        head = self._chain.newest_head()
        self.standing.head = head.number
        back = self._go_back(head)
        first = self.standing.block + 1
        if head.number < first:
            if back:
                self._tell_of(head)
            self._well()
            return back
        last = min(head.number, first + self._size - 1)
        end = head if last == head.number else self._chain.head(last)
        found = self._source.read(first, end)
        self._write(found, head.number, back)
        self._resize(len(found.entries))
        self._well()
        return last < head.number

    def _tell_of(self, head: Head) -> None:
        hash_ = "0x" + head.hash.hex()
        self._changed(Change(head.number, hash_, head.timestamp, reorg=True))

    def _well(self) -> None:
        if self.standing.problem:
            self._log.info("index_goes_on", block=self.standing.block)
        self.standing.problem, self.standing.rpc_down = "", False

    def _resize(self, events: int) -> None:
        if events > _MANY:
            self._size = max(_SMALLEST, self._size // 2)
        elif events < _FEW:
            self._size = min(_LARGEST, self._size * 2)

    # -- a range -------------------------------------------------------------------------------

    def _write(self, found: Range, head: int, reorg: bool) -> None:
        batch = _Batch()
        blocks: dict[int, dict[str, Any]] = {}
        oldest = head - KEPT
        try:
            with self._engine.begin() as connection:
                self._rows.begin(connection)
                for entry in found.entries:
                    if entry.block not in blocks:
                        self._rows.enter(entry.block, entry.block > oldest)
                        blocks[entry.block] = _block(
                            entry.block, entry.event.block_hash, entry.time
                        )
                    fold(self._rows, entry)
                    batch.jobs.update(_ids(entry.args, "job_id"))
                    batch.nodes.update(_ids(entry.args, "node_id", "verifier_id"))
                last = found.last
                blocks[last.number] = _block(last.number, last.hash, last.timestamp)
                self._rows.write()
                connection.execute(BLOCKS.delete().where(BLOCKS.c.number < oldest))
                newest = [blocks[number] for number in sorted(blocks) if number >= oldest]
                connection.execute(BLOCKS.insert(), newest or [blocks[last.number]])
                self._rows.prune(oldest)
        except BaseException:
            self._rows.forget()
            raise
        self.standing.block = last.number
        self.standing.events += len(found.entries)
        self._changed(
            Change(
                block=last.number,
                hash="0x" + last.hash.hex(),
                time=last.timestamp,
                jobs=tuple(sorted(batch.jobs)),
                nodes=tuple(sorted(batch.nodes)),
                events=len(found.entries),
                reorg=reorg,
            )
        )

    # -- back ----------------------------------------------------------------------------------

    def _go_back(self, head: Head) -> bool:
        """Take back what is no longer in the chain; whether anything was."""
        with self._engine.connect() as connection:
            mark = _newest(connection)
        if mark is None or self._holds(mark, head):
            self._behind = 0
            return False
        if head.number < mark.number:
            self._behind += 1
            if self._behind < _PATIENCE:
                return False  # a node among several that has not seen the newest blocks yet
        self._behind = 0
        with self._engine.begin() as connection:
            self._rows.begin(connection)
            ancestor = self._ancestor(connection, head)
            if ancestor is None:
                self._rows.clear()
                connection.execute(BLOCKS.delete())
            else:
                self._rows.roll_back(ancestor.number)
                connection.execute(BLOCKS.delete().where(BLOCKS.c.number > ancestor.number))
        self.standing.block = self._first - 1 if ancestor is None else ancestor.number
        self.standing.reorgs += 1
        self._size = _SMALLEST
        self._log.warning("index_reorganised", from_block=mark.number, to=self.standing.block)
        return True

    def _holds(self, mark: _Mark, head: Head) -> bool:
        if mark.number == head.number:
            return "0x" + head.hash.hex() == mark.hash
        found = self._chain.block_hash(mark.number) if mark.number < head.number else None
        return found is not None and "0x" + found.hex() == mark.hash

    def _ancestor(self, connection: Connection, head: Head) -> _Mark | None:
        """The newest block of the index that is still in the chain."""
        rows = connection.execute(sa.select(BLOCKS).order_by(BLOCKS.c.number.desc()))
        for row in rows.mappings():
            mark = _Mark(row["number"], row["hash"])
            if mark.number <= head.number and self._holds(mark, head):
                return mark
        return None


def _ids(args: dict[str, Any], *names: str) -> list[int]:
    return [args[name] for name in names if isinstance(args.get(name), int)]


def _block(number: int, hash_: bytes, time: int) -> dict[str, Any]:
    return {"number": number, "hash": "0x" + hash_.hex(), "time": time}


def _newest(connection: Connection) -> _Mark | None:
    newest = sa.select(BLOCKS).order_by(BLOCKS.c.number.desc()).limit(1)
    row = connection.execute(newest).mappings().first()
    return None if row is None else _Mark(row["number"], row["hash"])


def _claim(connection: Connection, identity: str) -> None:
    """Note whose index this is. Raises ConfigError if it is another deployment's."""
    where = META.c.name == "deployment"
    found = connection.execute(sa.select(META.c.value).where(where)).scalar()
    if found is None:
        connection.execute(META.insert(), [{"name": "deployment", "value": identity}])
    elif found != identity:
        raise ConfigError(
            "The database holds the index of another deployment. It is a cache: give another "
            "database with --database, or delete this one."
        )
