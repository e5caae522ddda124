# SPDX-License-Identifier: Apache-2.0
"""Proofs that nobody serves are looked for side by side, and once in a round."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from agents.rounds.inputs import RoundInputs
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.errors import NotFound, StoreUnavailable
from agents.storage.ipfs import IpfsStore
from agents.verify.proofs import Proofs
from agents.verify.spot_checks import reexecute, suspects, suspects_by_proof, suspects_by_sign
from scripts._net.kubo import KuboHandler, KuboServer
from tests.stage.memory.honest_round import DEVICE, NODES, HonestRound
from tests.stage.served import serving


class Searching:
    """A store that says what it was asked for and lacks; `search`: what it does meanwhile."""

    def __init__(self, store: Any, search: Callable[[], object] = lambda: None) -> None:
        self._store, self._search = store, search
        self.missed = Counter[bytes]()

    def get_digest(self, digest: bytes, most: int) -> bytes:
        try:
            return self._store.get_digest(digest, most)
        except NotFound:
            self.missed[digest] += 1
            self._search()
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def without_proofs(tiny: HonestRound, *mute: int, sample: int = 0) -> RoundInputs:
    """A round whose payloads are all there, and the proofs of `mute` nowhere."""
    found = [
        replace(one, reveal=replace(one.reveal, proof=bytes([one.reveal.node]) * 32))
        if one.reveal.node in mute
        else one
        for one in tiny.honest()
    ]
    return tiny.inputs(found, sample=sample)


def test_what_is_missing_is_looked_for_side_by_side(tiny: HonestRound) -> None:
    """Each of four searches waits until all have begun: one after the other none would end."""
    begun = threading.Barrier(len(NODES), timeout=30)
    store = Searching(tiny.store, begun.wait)
    due = suspects_by_proof(without_proofs(tiny, *NODES), Proofs(store))
    assert list(due) == [*NODES]
    assert all(why.startswith("no usable proof") for (why,) in due.values())


def test_a_missing_proof_is_looked_for_once_in_a_round(tiny: HonestRound) -> None:
    """By who asks for suspects at each step, and does their work again."""
    store = Searching(tiny.store)
    inputs, proofs = without_proofs(tiny, 3, 5), Proofs(store)
    for _ in range(3):
        for node in suspects_by_proof(inputs, proofs):
            finding = reexecute(inputs, node, DEVICE, store, proofs)
            assert finding.violation is None and finding.unsure
    assert sorted(store.missed.values()) == [1, 1]
    suspects_by_proof(replace(inputs, draw_seed=b"\1" * 32), proofs)
    assert sorted(store.missed.values()) == [2, 2], "it is another round, or another branch"


def test_who_is_drawn_is_known_without_any_search(tiny: HonestRound) -> None:
    store = Searching(tiny.store)
    inputs = without_proofs(tiny, *NODES, sample=2)
    first = suspects_by_sign(inputs, store)
    assert len(first) == 2 and not store.missed
    everybody = suspects(inputs, store)
    assert list(everybody)[:2] == list(first) and everybody.keys() == {*NODES}
    assert all(everybody[node][0] == "drawn" for node in first)


def test_a_store_that_is_down_is_said_and_nothing_of_it_is_kept(tiny: HonestRound) -> None:
    def down() -> None:
        raise StoreUnavailable("it does not accept connections")

    store = Searching(tiny.store, down)
    proofs = Proofs(store)
    with pytest.raises(StoreUnavailable):
        suspects_by_proof(without_proofs(tiny, 3, 5), proofs)
    store._search = lambda: None
    assert list(suspects_by_proof(without_proofs(tiny, 3, 5), proofs)) == [3, 5]


class Holding(KuboServer):
    """A daemon to which some content comes only when the test says so."""

    def __init__(self) -> None:
        super().__init__(0, _Holds)
        self.held: set[bytes] = set()
        self.comes = threading.Event()


class _Holds(KuboHandler):
    server: Holding

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        if "arg" in options and digest_of(options["arg"]) in self.server.held:
            self.server.comes.wait(30)
        super().answer(call, options, body, fault)


@pytest.fixture
def holding() -> Iterator[Holding]:
    with serving(Holding()) as server:
        yield server
        server.comes.set()


def test_what_comes_slowly_counts_as_missing_and_holds_nobody_up(
    tiny: HonestRound, holding: Holding
) -> None:
    """Of two nodes the daemon finds the proof of one, and the trace of the other, late."""
    store = IpfsStore(holding.address, timeout_s=60)
    for work in tiny.works.values():
        for raw in (work.trace, work.proof.to_bytes(), work.payload):
            store.put_bytes(raw)
    late = [digest_of(cid_of_bytes(tiny.works[3].proof.to_bytes()))]
    late.append(digest_of(cid_of_bytes(tiny.works[8].trace)))
    holding.held.update(late)
    inputs, proofs = tiny.inputs(tiny.honest()), Proofs(store, longest_s=5.0)
    told = proofs.of(inputs, NODES)
    assert not holding.comes.is_set()
    slow = [node for node in NODES if isinstance(told[node], str)]
    assert slow == [3, 8] and all("still coming" in str(told[node]) for node in slow)
    due = suspects_by_proof(inputs, proofs)
    assert list(due) == [3, 8], "their work is done again, as if the proofs were missing"
    holding.comes.set()
    assert [*suspects_by_proof(inputs, proofs)] == [3, 8], "and so it stays in this round"
    again = replace(inputs, draw_seed=b"\1" * 32)
    assert not suspects_by_proof(again, proofs)
    store.close()
