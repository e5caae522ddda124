# SPDX-License-Identifier: Apache-2.0
"""Sealed payloads of lossy codecs, from nodes that state another determinism class.

Such a payload is compared before its codec's choices. The checks read it from the store for that:
the sealed bytes, which are longer than any payload may be. So no verifier and no member of the
committee had a verdict on such a node, and noise kept its full contribution.
"""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from agents.mechanisms.codec import names
from agents.protocol.numbers import Violation
from agents.rounds.submissions import Submission, fetch, left_out
from agents.storage.embedded import EmbeddedStore
from agents.storage.envelope import Purpose, open_key
from agents.storage.sealed_payload import open_payload, seal_payload
from agents.training.norms import norm
from agents.training.state import State
from agents.verify.spot_checks import Finding, reexecute
from tests.stage.memory.honest_round import DEVICE, NODES, HonestRound, make_honest_round, noise
from tests.stage.memory.tiny_specs import SEALED_PAYLOADS

# Options with which a codec keeps no memory, which sealed payloads take.
CODECS: dict[str, dict[str, Any]] = {
    "cells": {"decay": 0.0},
    "demo": {"chunk": 8, "per_chunk": 12, "decay": 0.0, "memory_rounds": 4},
    "directions": {"decay": 0.0},
    "polytope": {},
    "semantic": {"ratio": 8, "clip": 4.0},
    "sparse": {"decay": 0.0},
}
OTHER_CLASS = {"determinism_class": "torch=0;device=abacus"}
READER, NODE = 77, 9
PRIVATE = X25519PrivateKey.generate()
PUBLIC = PRIVATE.public_key().public_bytes_raw()


def purpose(node: int, key_id: bytes) -> Purpose:
    return Purpose(31337, "0x" + "ab" * 20, 1, node, key_id)


def unseal(raw: bytes) -> bytes:
    own = (READER, lambda envelope, made_for: open_key(envelope, PRIVATE, made_for))
    return open_payload(raw, *own, purpose, (READER,))


@pytest.fixture(scope="module", params=sorted(CODECS))
def sealed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    """A round whose payloads are sealed, for each codec in turn."""
    store = EmbeddedStore(tmp_path_factory.mktemp("sealed"))
    rules = {"codec": request.param, "codec_options": CODECS[request.param], **SEALED_PAYLOADS}
    return make_honest_round(store, **rules)


def plain(round_: HonestRound, node: int, update: State) -> bytes:
    seed = round_.plan.codec_seed(round_.job.codec, node)
    return round_.job.codec.encode(round_.job.privacy.release(update), None, seed)


def submit(round_: HonestRound, node: int, update: State, **proof: Any) -> Submission:
    payload = seal_payload(plain(round_, node, update), {READER: PUBLIC}, purpose)
    seed = round_.plan.codec_seed(round_.job.codec, node)
    reveal = round_.reveal(node, payload, **proof)
    return fetch(reveal, round_.job, round_.store, seed, unseal)


def judge(round_: HonestRound, update: State, **proof: Any) -> Finding:
    """What is found of NODE, which sends `update`, where the others are honest."""
    others = [submit(round_, n, round_.works[n].gradient) for n in NODES if n != NODE]
    inputs = round_.inputs([*others, submit(round_, NODE, update, **proof)])
    return reexecute(inputs, NODE, DEVICE, round_.store)


def test_every_lossy_codec_is_here() -> None:
    assert CODECS.keys() == {*names()} - {"dense"}


def test_who_rounds_otherwise_is_right(sealed: HonestRound) -> None:
    work = sealed.works[NODE].gradient
    drawn = noise(work, 5)
    scale = 2e-5 * norm(work) / norm(drawn)
    moved = {name: t + scale * drawn[name] for name, t in work.items()}
    finding = judge(sealed, moved, **OTHER_CLASS)
    assert finding.violation is None, finding.reason


@pytest.mark.parametrize("proof", [{}, OTHER_CLASS], ids=["own class", "other class"])
@pytest.mark.parametrize("sent", ["noise", "zeros"])
def test_who_sends_something_else_is_found(
    sealed: HonestRound, sent: str, proof: dict[str, Any]
) -> None:
    work = sealed.works[NODE].gradient
    update = noise(work, 1) if sent == "noise" else {n: 0 * t for n, t in work.items()}
    finding = judge(sealed, update, **proof)
    assert finding.violation == Violation.INVALID, finding.reason


def test_the_opened_payload_is_kept_while_the_submission_counts(sealed: HonestRound) -> None:
    work = sealed.works[NODE].gradient
    found = submit(sealed, NODE, work)
    assert found.payload == plain(sealed, NODE, work)
    (gone,) = left_out([found], {NODE})
    assert gone.gradient is None and gone.payload == b""
