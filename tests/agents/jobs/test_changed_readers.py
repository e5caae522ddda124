# SPDX-License-Identifier: Apache-2.0
"""Two public keys of a reader are served, each as often as something is due."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from agents.jobs.changed_readers import MOST_CHANGES, Served
from agents.storage.key_release import KeyRelease, Place, Recipient, make_release, node_reader
from agents.storage.sealed import new_key

PLACE = Place(31337, "0x" + "ab" * 20, 1, 7, "payloads")
KEYS = [X25519PrivateKey.generate().public_key().public_bytes_raw() for _ in range(3)]
ONE, OTHER = node_reader(1), node_reader(2)


def release(reader: str, public: bytes, item: int) -> KeyRelease:
    made = make_release(PLACE, [Recipient(reader, public, {item: new_key()})])
    assert made is not None
    return made


def test_a_reader_is_served_under_two_keys_and_goes_on_being_served_under_both() -> None:
    assert MOST_CHANGES == 2
    served = Served([release(ONE, KEYS[n], item) for n in (0, 1) for item in (3, 4)])
    assert [served.may_have(ONE, public) for public in KEYS] == [True, True, False]
    assert all(served.may_have(OTHER, public) for public in KEYS), "each reader by itself"


def test_after_one_key_any_other_may_be_the_second() -> None:
    served = Served([release(ONE, KEYS[0], 3)])
    assert all(served.may_have(ONE, public) for public in KEYS)
