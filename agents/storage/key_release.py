# SPDX-License-Identifier: Apache-2.0
"""A file of keys for a round, each reader's sealed to it: what `DataKeys.disclose_keys` points to.

Rule: who may open what is readable by everybody, the keys by their receivers only. The file names
each reader with the public key it is sealed to, and the items whose keys it is given (places of
shards, or nodes whose payloads are sealed). A box has 32 bytes for each item and no others, so that
nobody is given more in it than the file says. Its HPKE `info` holds chain, contract, job, round,
kind, reader and items: a box that stands elsewhere, or under another list, doesn't open.

    canonical JSON {"version", "chain_id", "contract", "job", "round", "kind",
                    "readers": [{"reader", "key", "items", "box"}]}, readers ascending and different
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints, ValidationError

from agents.storage.canonical import dumps, loads
from agents.storage.envelope import BOX_BYTES, EnvelopeError, seal_box
from agents.storage.errors import StoreError
from agents.storage.sealed import KEY_BYTES

MAX_RELEASE_BYTES: Final = 16 * 1024 * 1024
_LABEL: Final = b"menagerie disclosed keys v1"

Kind = Literal["shards", "job", "payloads"]
Number = Annotated[int, Strict(), Field(ge=0, le=2**62)]
Item = Annotated[int, Strict(), Field(ge=0, le=2**32 - 1)]
Hex32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Address = Annotated[str, StringConstraints(pattern=r"^0x[0-9a-fA-F]{40}$")]
Name = Annotated[str, StringConstraints(pattern=r"^(node [1-9][0-9]{0,18}|0x[0-9a-fA-F]{40})$")]
Unwrap = Callable[[bytes, bytes], bytes]  # (box, info) -> plain bytes; raises EnvelopeError


class ReleaseError(StoreError):
    """A file of keys that can't be used, or holds nothing for this reader."""


def node_reader(node: int) -> str:
    """How a release names a node. A committee member is named by its address."""
    return f"node {node}"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Entry(_Frozen):
    """What one reader was given. `key`: the X25519 key that the box is sealed to."""

    reader: Name
    key: Hex32
    items: Annotated[tuple[Item, ...], Field(min_length=1, max_length=100_000)]
    box: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2})+$")]


@dataclass(frozen=True)
class Place:
    """Where a release belongs. `kind`: keys of shards, the one key of a job's data (item 0), or of
    sealed payloads (items are nodes)."""

    chain_id: int
    contract: str
    job_id: int
    round_id: int
    kind: Kind

    def info(self, reader: str, items: tuple[int, ...]) -> bytes:
        """What a box is bound to."""
        place = (self.chain_id, self.contract.lower(), self.job_id, self.round_id, self.kind)
        return _LABEL + dumps([*place, reader, list(items)])


class KeyRelease(_Frozen):
    """A file of keys as it stands in the store."""

    version: Literal[1] = 1
    chain_id: Number
    contract: Address
    job: Number
    round: Number
    kind: Kind
    readers: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=4096)]

    @property
    def place(self) -> Place:
        """Where it says that it belongs."""
        return Place(self.chain_id, self.contract, self.job, self.round, self.kind)

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(self.model_dump(mode="json"), MAX_RELEASE_BYTES)

    @classmethod
    def from_bytes(cls, raw: bytes) -> KeyRelease:
        """Read a stranger's file. Raises ReleaseError with what is wrong in it."""
        try:
            release = cls.model_validate(loads(raw, MAX_RELEASE_BYTES))
        except ValidationError as error:
            first: Any = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ReleaseError(f"The file of keys is wrong at {where}: {first['msg']}.") from None
        except ValueError as error:
            raise ReleaseError(f"The file of keys is not canonical JSON: {error}") from None
        names = [entry.reader for entry in release.readers]
        if names != sorted(set(names)):
            raise ReleaseError("The readers of a file of keys must be ascending and different.")
        for entry in release.readers:
            if list(entry.items) != sorted(set(entry.items)):
                raise ReleaseError(f"The items of {entry.reader} must be ascending and different.")
            if len(entry.box) // 2 != BOX_BYTES + KEY_BYTES * len(entry.items):
                raise ReleaseError(
                    f"The box of {entry.reader} has {len(entry.box) // 2} bytes, which is not one "
                    f"key for each of its {len(entry.items)} items."
                )
        return release

    def open(self, reader: str, unwrap: Unwrap) -> dict[int, bytes]:
        """The keys of a reader by item. Raises ReleaseError if it has none here that open."""
        entry = next((e for e in self.readers if e.reader == reader), None)
        if entry is None:
            raise ReleaseError(f"This file holds no key for {reader}.")
        try:
            plain = unwrap(bytes.fromhex(entry.box), self.place.info(reader, entry.items))
        except EnvelopeError as error:
            raise ReleaseError(f"The keys for {reader} do not open: {error}") from None
        parts = (plain[i : i + KEY_BYTES] for i in range(0, len(plain), KEY_BYTES))
        return dict(zip(entry.items, parts, strict=True))


@dataclass(frozen=True)
class Recipient:
    """Who is to be given which keys. `public`: its 32-byte X25519 key."""

    reader: str
    public: bytes
    keys: Mapping[int, bytes]


def make_release(place: Place, recipients: list[Recipient]) -> KeyRelease | None:
    """The file for these recipients. One whose public key can't be encrypted to, or that is to be
    given nothing, is left out; None if nobody is left."""
    entries = []
    for one in sorted(recipients, key=lambda r: r.reader):
        items = tuple(sorted(one.keys))
        if not items:
            continue
        plain = b"".join(one.keys[item] for item in items)
        try:
            box = seal_box(plain, one.public, place.info(one.reader, items))
        except EnvelopeError:
            continue  # its own loss: nobody else is to be kept from its keys
        entries.append(Entry(reader=one.reader, key=one.public.hex(), items=items, box=box.hex()))
    if not entries:
        return None
    return KeyRelease(
        chain_id=place.chain_id,
        contract=place.contract,
        job=place.job_id,
        round=place.round_id,
        kind=place.kind,
        readers=tuple(entries),
    )
