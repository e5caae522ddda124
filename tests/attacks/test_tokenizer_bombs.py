# SPDX-License-Identifier: Apache-2.0
"""Own attack: Mallory's job names a tokenizer of a few hundred bytes that ends whoever uses it.

Her job pays the most, and its nodes bring their own text. Ann's trainer reads her text with the
file, leaves the job and is paid in another one. Until 2026-11-30 the file did its work in her
agent's process: a panic of the library is no Exception and ended it, and so did the memory that the
file asks for where there is not as much.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agents.storage.cid import cid_of_bytes
from agents.training.data import Dataset
from tests.agents.training.conftest import word_tokenizer
from tests.attacks.test_free_jobs import CHECKERS, create
from tests.stage.chain.crowd import Crowd
from tests.stage.chain.people import TERMS, Node, People, share
from tests.stage.memory.honest_round import TinyJob, make_tiny_job

RARE = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
BOMBS = {
    "asks for 8 GiB": ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
    "panics": ("pre_tokenizer", RARE),
    "a million tokens of a word": ("normalizer", {"type": "Prepend", "prepend": "w " * 2**21}),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_trainer_leaves_the_job_and_is_paid_in_another(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob, tmp_path: Path, bomb: str
) -> None:
    part, content = BOMBS[bomb]
    raw = json.dumps(json.loads(word_tokenizer(40)) | {part: content}).encode()
    local = make_tiny_job(tiny.store, access="local", verify="screening").published
    manifest = Dataset.from_bytes(tiny.store.get(local.spec.data, 1 << 20))
    named = manifest.model_copy(update={"tokenizer": tiny.store.put_bytes(raw)})
    spec = local.spec.model_copy(update={"data": tiny.store.put_bytes(named.to_bytes())})
    mined = replace(local, spec=spec, spec_cid=tiny.store.put_bytes(spec.to_bytes()))
    bait = replace(TERMS, reward_per_round=5 * TERMS.reward_per_round)
    create(people, "mallory", bait, mined, 100_000)
    paying = create(people, "grace", TERMS, tiny.published, 4)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.txt").write_text("x" * 60 + " my own words\n" * 400)
    own = {"local_data": tmp_path / "own", "accept_no_privacy": True, "accept_riders": True}
    crowd.join("ann", "trainer", trainer=own)
    for name, role in CHECKERS.items():
        crowd.join(name, role)
    crowd.until(lambda: crowd.finalized(paying) >= 1)
    assert f"the dataset's tokenizer {cid_of_bytes(raw)} " in crowd.said("ann")
    assert people.gain(ann) == share(1, 1)
