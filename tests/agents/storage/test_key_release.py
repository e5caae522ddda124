# SPDX-License-Identifier: Apache-2.0
"""Files of keys: each reader opens its own box, where it was put, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.storage.canonical import dumps, loads
from agents.storage.envelope import open_box
from agents.storage.key_release import (
    KeyRelease,
    Place,
    Recipient,
    ReleaseError,
    Unwrap,
    make_release,
    node_reader,
)
from agents.storage.sealed import new_key

PLACE = Place(31337, "0x" + "Ab" * 20, 3, 7, "shards")
ANN, BOB = X25519PrivateKey.generate(), X25519PrivateKey.generate()
KEYS = {index: new_key() for index in (2, 5, 11)}


def public(private: X25519PrivateKey) -> bytes:
    return private.public_key().public_bytes_raw()


def unwrap(private: X25519PrivateKey) -> Unwrap:
    return lambda box, info: open_box(box, private, info)


def two_readers() -> KeyRelease:
    release = make_release(
        PLACE,
        [
            Recipient(node_reader(12), public(BOB), {5: KEYS[5]}),
            Recipient(node_reader(4), public(ANN), KEYS),
        ],
    )
    assert release is not None
    return release


def changed(**fields: Any) -> bytes:
    return dumps({**loads(two_readers().to_bytes()), **fields})


def test_each_reader_opens_its_own_keys() -> None:
    release = KeyRelease.from_bytes(two_readers().to_bytes())
    assert release.place == PLACE
    assert release.open("node 4", unwrap(ANN)) == KEYS
    assert release.open("node 12", unwrap(BOB)) == {5: KEYS[5]}
    raw = release.to_bytes()
    assert not any(key in raw or key.hex().encode() in raw for key in KEYS.values())


def test_nobody_opens_anothers() -> None:
    release = two_readers()
    with pytest.raises(ReleaseError, match="do not open"):
        release.open("node 4", unwrap(BOB))
    with pytest.raises(ReleaseError, match="no key for node 5"):
        release.open("node 5", unwrap(ANN))


@pytest.mark.parametrize(
    "other",
    [
        {"chain_id": 1},
        {"contract": "0x" + "ac" * 20},
        {"job": 4},
        {"round": 8},
        {"kind": "payloads"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_box_that_stands_elsewhere_does_not_open(other: dict[str, Any]) -> None:
    release = KeyRelease.from_bytes(changed(**other))
    with pytest.raises(ReleaseError, match="do not open"):
        release.open("node 4", unwrap(ANN))


def test_a_box_under_another_list_or_name_does_not_open() -> None:
    entries = loads(two_readers().to_bytes())["readers"]
    ann = next(e for e in entries if e["reader"] == "node 4")
    for field, value in (("items", [2, 5, 12]), ("reader", "node 5")):
        release = KeyRelease.from_bytes(changed(readers=[{**ann, field: value}]))
        with pytest.raises(ReleaseError, match="do not open"):
            release.open(str(release.readers[0].reader), unwrap(ANN))


def test_a_file_gives_no_more_keys_than_it_says() -> None:
    entries = loads(two_readers().to_bytes())["readers"]
    ann = next(e for e in entries if e["reader"] == "node 4")
    with pytest.raises(ReleaseError, match="not one key for each of its 2 items"):
        KeyRelease.from_bytes(changed(readers=[{**ann, "items": [2, 5]}]))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"version": 2}, "version"),
        ({"readers": []}, "readers"),
        ({"kind": "all"}, "kind"),
        ({"more": 1}, "more"),
        ({"job": -1}, "job"),
        ({"contract": "0x12"}, "contract"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ReleaseError, match=f"wrong at {why}"):
        KeyRelease.from_bytes(changed(**fields))


def test_readers_and_items_have_one_order() -> None:
    entries = loads(two_readers().to_bytes())["readers"]
    for readers in (entries[::-1], [entries[0], entries[0]]):
        with pytest.raises(ReleaseError, match="ascending and different"):
            KeyRelease.from_bytes(changed(readers=readers))
    wrong = [{**entry, "items": entry["items"][::-1]} for entry in entries]
    with pytest.raises(ReleaseError, match="items of node 4 must be ascending"):
        KeyRelease.from_bytes(changed(readers=wrong))
    for raw in (b"", b"{", b"[]", b'{"a": 1}', b"\xff"):
        with pytest.raises(ReleaseError):
            KeyRelease.from_bytes(raw)


def test_who_cannot_be_written_to_keeps_nobody_from_its_keys() -> None:
    small_order = Recipient(node_reader(1), bytes(32), KEYS)
    nothing = Recipient(node_reader(2), public(BOB), {})
    assert make_release(PLACE, [small_order, nothing]) is None
    release = make_release(PLACE, [small_order, nothing, Recipient("node 4", public(ANN), KEYS)])
    assert release is not None
    assert [entry.reader for entry in release.readers] == ["node 4"]
    assert make_release(replace(PLACE, kind="job"), []) is None


# -- anybody's bytes -------------------------------------------------------------------------------

FUZZED = settings(max_examples=300, deadline=None, derandomize=True)
Leaf = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
Json = st.recursive(
    Leaf, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=8), x, max_size=3)
)
# Lists of one length, so that swapped parts still have the right sizes. Made once: sealing draws.
GIVEN = {"node 12": {5: KEYS[5], 11: KEYS[11]}, "node 4": {2: KEYS[2], 5: KEYS[5]}}
_MADE = make_release(
    PLACE,
    [
        Recipient(name, public(private), GIVEN[name])
        for name, private in (("node 12", BOB), ("node 4", ANN))
    ],
)
assert _MADE is not None
FILE = _MADE.to_bytes()
FIELDS = sorted(loads(FILE))
ENTRY_FIELDS = sorted(loads(FILE)["readers"][0])


def opened(raw: bytes) -> dict[str, dict[int, bytes]]:
    """What a stranger's file gives the two readers; nothing but ReleaseError ever comes out."""
    try:
        release = KeyRelease.from_bytes(raw)
    except ReleaseError:
        return {}
    found = {}
    for name, private in (("node 4", ANN), ("node 12", BOB)):
        try:
            found[name] = release.open(name, unwrap(private))
        except ReleaseError:
            continue
    return found


def gives_nothing_false(raw: bytes) -> None:
    """A changed file gives a reader the keys that were sealed to it, or none."""
    assert opened(raw).items() <= GIVEN.items()


@given(st.binary(max_size=400))
@FUZZED
def test_any_bytes_give_nothing(raw: bytes) -> None:
    assert opened(raw) == {}


@given(st.data())
@FUZZED
def test_a_file_with_a_changed_byte_gives_no_wrong_key(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(FILE) - 1))
    byte = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([0, 1, 2]))  # replaced, inserted, or the rest cut off
    rest = (FILE[place + 1 :], FILE[place:], b"")[cut]
    gives_nothing_false(FILE[:place] + bytes([byte]) + rest)


@given(st.sampled_from([*FIELDS, "more"]), Json)
@FUZZED
def test_a_file_with_a_changed_field_gives_no_wrong_key(name: str, value: Any) -> None:
    gives_nothing_false(dumps({**loads(FILE), name: value}))


@given(st.integers(0, 1), st.sampled_from([*ENTRY_FIELDS, "more"]), Json)
@FUZZED
def test_a_reader_with_a_changed_field_is_given_no_wrong_key(
    which: int, name: str, value: Any
) -> None:
    readers = loads(FILE)["readers"]
    readers[which] = {**readers[which], name: value}
    gives_nothing_false(dumps({**loads(FILE), "readers": readers}))


@given(st.permutations(["items", "box", "key", "reader"]), st.integers(1, 3))
@FUZZED
def test_readers_with_swapped_fields_are_given_no_wrong_key(names: list[str], count: int) -> None:
    """Each part of the file is true of somebody."""
    one, other = (dict(entry) for entry in loads(FILE)["readers"])
    for name in names[:count]:
        one[name], other[name] = other[name], one[name]
    readers = sorted((one, other), key=lambda entry: str(entry["reader"]))
    gives_nothing_false(dumps({**loads(FILE), "readers": readers}))


def test_the_file_that_is_fuzzed_gives_both_their_keys() -> None:
    assert opened(FILE) == GIVEN
