# SPDX-License-Identifier: Apache-2.0
"""Keys that were disclosed to one reader, found on chain and in the store.

Rule: a file of keys counts if one of those who may disclose such keys put its digest on record, and
only for the job and round that the chain names. A file that the store lacks is looked for again; a
wrong one is said once and passed over. Keys are in memory only: after a restart the reader opens
the same files again.

Whoever may disclose may put as many files on record as it likes, of 16 MiB each and served so
slowly that one takes five minutes. So a node or a member that receives keys reads them beside its
other work, a few of each teller at a time, and keeps of each what is sealed to itself. A teller is
a node, whatever operator keys it takes one after the other, or the job's sponsor with its
releasers. Each teller has a room of its own there: else one liar would fill it, and no key of
anybody else's would be kept from then on.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agents.protocol.network import Network
from agents.protocol.numbers import MAX_NODES
from agents.runtime.context import Context
from agents.runtime.contracts import Event
from agents.runtime.event_cursor import EventCursor, EventLog
from agents.runtime.slow_calls import SlowCalls
from agents.runtime.wallet import Identity
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.storage.key_release import (
    MAX_RELEASE_BYTES,
    KeyRelease,
    Kind,
    Place,
    ReleaseError,
)

SPONSOR = 0  # as a teller: with whoever it has named as its releaser

_OF_ONE = 64  # files of one teller about a round's payloads that are looked for
_AT_ONCE = 2  # files of one teller that are under way
_WAIT_S = 2.0  # that one file is waited for; it is taken at a later look
_LOOK_S = 2.0  # after which one look begins no further file
_MOST_BYTES = 16 << 20  # of a teller's boxes for one reader in one job: half a million keys


_Key = tuple[str, int, bytes]  # of a file: who put it on record, the round and the digest


@dataclass(frozen=True)
class Disclosure:
    """A file of keys that is on record. `by`: the account that put it there."""

    release: KeyRelease
    by: str
    block: int


class Disclosures:
    """Every usable file of keys of one job, in the order of the chain."""

    def __init__(self, network: Network, store: ContentStore, job_id: int) -> None:
        self._network = network
        self._store = store
        self._job_id = job_id
        self._contract = network.deployment["DataKeys"]
        self._log = EventLog(
            EventCursor(
                network.chain,
                self._contract,
                ["KeysDisclosed"],
                network.deployment.block,
                {"job_id": job_id},
            )
        )
        self._read: dict[_Key, KeyRelease | ReleaseError] = {}

    def read(
        self, by: Mapping[str, int] | None = None, round_id: int | None = None
    ) -> list[Disclosure]:
        """The files that these accounts disclosed, or anybody; with `round_id` those of that round
        alone, of each teller the newest few. No other file is asked for. `by`: the teller that each
        account speaks for, a node or SPONSOR. Raises StoreUnavailable.
        """
        events = [e for e in self._log.read() if by is None or e.args["by"] in by]
        if by is not None and round_id is not None:
            events = _newest([e for e in events if e.args["round_id"] == round_id], by)
        self._gather(events, by or {})
        found = []
        for event in events:
            release = self._fetch(event)
            if isinstance(release, KeyRelease):
                found.append(Disclosure(release, event.args["by"], event.block))
        return found

    def faults(self) -> list[str]:
        """What is wrong with files that are on record and of no use, as sentences."""
        return sorted(str(f) for f in self._read.values() if isinstance(f, ReleaseError))

    def place(self, round_id: int, kind: Kind) -> Place:
        """Where a file of this job belongs."""
        chain_id = self._network.deployment.chain_id
        return Place(chain_id, self._contract.address, self._job_id, round_id, kind)

    def _gather(self, events: Sequence[Event], by: Mapping[str, int]) -> None:
        """Read what is to be read beside other work: nothing here."""

    def _fetch(self, event: Event) -> KeyRelease | ReleaseError | None:
        """The file of an event; None while the store has not got it."""
        key = _key(event)
        if key not in self._read:
            try:
                self._read[key] = self._load(key)
            except StoreUnavailable:
                raise
            except StoreError:
                return None
        return self._read[key]

    def _load(self, key: _Key) -> KeyRelease | ReleaseError:
        """Read a file. Raises StoreError while the store has not got it."""
        _, round_id, digest = key
        try:
            raw = self._store.get_digest(digest, MAX_RELEASE_BYTES)
            release = KeyRelease.from_bytes(raw)
            if release.place != self.place(round_id, release.kind):
                raise ReleaseError("The file of keys is of another job, round or contract.")
        except ReleaseError as error:
            return error
        return release


class _Own(Disclosures):
    """Those of one reader, by its public key, which waits for no file longer than a moment."""

    def __init__(self, network: Network, store: ContentStore, job_id: int, public: str) -> None:
        super().__init__(network, store, job_id)
        self._public = public
        self._taken: Counter[int] = Counter()  # bytes of the boxes that are kept, by teller
        self._coming = SlowCalls[_Key, KeyRelease | StoreError](_WAIT_S, "keys")
        self._due: dict[_Key, int] = {}  # what is coming, and whose it is
        self._tries: Counter[_Key] = Counter()
        self._gathers = threading.Lock()

    def _gather(self, events: Sequence[Event], by: Mapping[str, int]) -> None:
        if self._gathers.acquire(blocking=False):  # else another thread does
            try:
                self._begin(events, by)
            finally:
                self._gathers.release()

    def _begin(self, events: Sequence[Event], by: Mapping[str, int]) -> None:
        """Begin what may be begun, wait a moment for it, and keep what has come."""
        end = time.monotonic() + _LOOK_S
        due = defaultdict[int, deque[_Key]](deque)
        for event in reversed(events):  # the newest of each teller first
            if _key(event) not in self._read:
                due[by[event.args["by"]]].append(_key(event))
        due |= {who: deque(sorted(keys, key=self._tries.__getitem__)) for who, keys in due.items()}
        while True:
            self._take()
            fresh = {key: who for who, keys in due.items() for key in self._next(who, keys)}
            if not fresh or time.monotonic() > end:
                return
            self._due |= fresh
            self._coming.run({key: partial(self._tried, key) for key in fresh})

    def _next(self, teller: int, due: deque[_Key]) -> list[_Key]:
        """The files of a teller that are begun now."""
        found = list[_Key]()
        room = _AT_ONCE - sum(who == teller for who in self._due.values())
        while due and len(found) < room:
            key = due.popleft()
            if key not in self._read and key not in self._coming:
                found.append(key)
        return found

    def _tried(self, key: _Key) -> KeyRelease | StoreError:
        try:
            return self._load(key)
        except StoreError as error:
            return error

    def _take(self) -> None:
        """Keep what has come. Raises StoreUnavailable."""
        down: StoreUnavailable | None = None
        for key, found in self._coming.take_ended().items():
            teller = self._due.pop(key)
            self._tries[key] += 1
            if isinstance(found, StoreUnavailable):
                down = found
            elif isinstance(found, KeyRelease | ReleaseError):
                self._read[key] = self._kept(key[0], teller, found)
        if down is not None:
            raise down

    def _fetch(self, event: Event) -> KeyRelease | ReleaseError | None:
        return self._read.get(_key(event))

    def _kept(
        self, by: str, teller: int, found: KeyRelease | ReleaseError
    ) -> KeyRelease | ReleaseError:
        if isinstance(found, ReleaseError):
            return found
        own = tuple(entry for entry in found.readers if entry.key == self._public)
        if found.kind == "payloads" and any(len(entry.items) > MAX_NODES for entry in own):
            return ReleaseError(f"{by} tells keys of more payloads than a round has.")
        size = sum(len(entry.box) // 2 for entry in own)
        if self._taken[teller] + size > _MOST_BYTES:
            who = f"{by}, for node {teller}," if teller else f"{by}, for the sponsor,"
            return ReleaseError(f"{who} tells this reader more keys than it keeps of one teller.")
        self._taken[teller] += size
        return found.model_copy(update={"readers": own})


def _key(event: Event) -> _Key:
    return event.args["by"], event.args["round_id"], event.args["digest"]


def _newest(events: list[Event], by: Mapping[str, int]) -> list[Event]:
    """Of each teller the last that a round can take."""
    kept: list[Event] = []
    seen: Counter[int] = Counter()
    for event in reversed(events):
        seen[by[event.args["by"]]] += 1
        if seen[by[event.args["by"]]] <= _OF_ONE:
            kept.append(event)
    return kept[::-1]


class ReceivedKeys:
    """The keys that one reader was given in a job. `identity` opens what is sealed to it."""

    def __init__(
        self, network: Network, store: ContentStore, context: Context, identity: Identity
    ) -> None:
        self._network = network
        self._store = store
        self._context = context
        self._identity = identity
        self._of: dict[int, Disclosures] = {}
        self._opened: dict[tuple[str, Place, str], dict[int, bytes]] = {}
        self._told: set[str] = set()

    def of_releaser(self, job_id: int, reader: str) -> tuple[dict[int, bytes], bytes | None]:
        """Keys of shards by place, and the job's one key if there is such, from its releaser and
        its sponsor."""
        contract = self._network.deployment["DataKeys"]
        releaser = self._network.chain.call(contract, "releaser_of", job_id)
        by = dict.fromkeys((str(releaser), self._network.job(job_id).sponsor), SPONSOR)
        shards: dict[int, bytes] = {}
        whole = None
        for one in self._disclosures(job_id).read(by):
            if one.release.kind == "shards":
                shards |= self._open(one.release, reader)
            elif one.release.kind == "job":
                whole = self._open(one.release, reader).get(0, whole)
        self._tell(job_id)
        return shards, whole

    def of_payloads(
        self, job_id: int, round_id: int, reader: str, by: Mapping[str, int]
    ) -> list[bytes]:
        """Keys of a round's sealed payloads, as its verifiers disclosed them (`by`: their accounts,
        with the node of each). A payload names its key, so a wrong one opens nothing; but anybody
        could have a member look for files that nobody has."""
        found: list[bytes] = []
        for one in self._disclosures(job_id).read(by, round_id):
            if one.release.kind == "payloads":
                found += self._open(one.release, reader).values()
        return found

    def _disclosures(self, job_id: int) -> Disclosures:
        if job_id not in self._of:
            public = self._identity.public.hex()
            self._of[job_id] = _Own(self._network, self._store, job_id, public)
        return self._of[job_id]

    def _open(self, release: KeyRelease, reader: str) -> dict[int, bytes]:
        entry = next((e for e in release.readers if e.reader == reader), None)
        if entry is None or entry.key != self._identity.public.hex():
            return {}
        key = reader, release.place, entry.box
        if key not in self._opened:
            try:
                self._opened[key] = release.open(reader, self._identity.open_box)
            except ReleaseError as error:
                self._opened[key] = {}
                self._say(str(error))
        return self._opened[key]

    def _tell(self, job_id: int) -> None:
        for fault in self._disclosures(job_id).faults():
            self._say(fault)

    def _say(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            self._context.log.warning("no_data_key", why=why)
