# SPDX-License-Identifier: Apache-2.0
"""Own attacks: jobs that pay best and that nobody can work in, whatever is wrong with them.

Mallory's files are real ones in a real store, and what they say can't be used. Her job costs her
gas: no round of it is ever paid, and its escrow comes back. The agents are whole ones, none with a
job in its settings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from agents.jobs.publish import Published
from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.training.data import Dataset, Shard
from agents.training.spec import JobSpec
from agents.training.state import model_hash, save_state
from tests.attacks.test_free_jobs import CHECKERS, FREE, ROUNDS, all_work, create
from tests.stage.chain.crowd import Crowd
from tests.stage.chain.people import CHALLENGE, COMMIT, DISPUTED, TERMS, Node, People, share
from tests.stage.memory.honest_round import TinyJob
from tests.stage.memory.tiny_specs import tiny_model

BAIT = replace(TERMS, reward_per_round=5 * TERMS.reward_per_round)
SOON = 120  # seconds until COMMIT ends


def changed(tiny: TinyJob, **fields: Any) -> Published:
    """The honest job with other fields of its spec."""
    spec = JobSpec.from_dict(tiny.published.spec.model_dump(mode="json") | fields)
    return replace(tiny.published, spec=spec, spec_cid=tiny.store.put_bytes(spec.to_bytes()))


def data(store: EmbeddedStore, tokens: int, **fields: Any) -> str:
    """A manifest of one shard that nobody has."""
    shards = (Shard(cid=cid_of_bytes(b"published nowhere"), tokens=tokens),)
    return store.put_bytes(Dataset(shards=shards, **fields).to_bytes())


def no_model(tiny: TinyJob) -> Published:
    """Its model is a file that is no config."""
    model = tiny.published.spec.model.model_dump(mode="json")
    config = tiny.store.put_bytes(b"no config.json")
    return changed(tiny, model={**model, "kind": "transformers", "config_cid": config})


def too_little_text(tiny: TinyJob) -> Published:
    """Its text is too little for one batch."""
    return changed(tiny, data=data(tiny.store, 10))


def no_shard(tiny: TinyJob) -> Published:
    """Its text is published nowhere."""
    return changed(tiny, data=data(tiny.store, 100_000))


def other_tokens(tiny: TinyJob) -> Published:
    """Its text has tokens that its model does not know."""
    return changed(tiny, data=data(tiny.store, 100_000, dtype="uint32", vocab_size=70_000))


def no_first_model(tiny: TinyJob) -> Published:
    """Its first model is published nowhere."""
    return replace(tiny.published, checkpoint_cid=cid_of_bytes(b"published nowhere"))


def first_model_out_of_range(tiny: TinyJob) -> Published:
    """The numbers of its first model are finite, and its losses are not."""
    state = {name: torch.full(shape, 3e38) for name, shape in tiny.job.shapes.items()}
    cid = tiny.store.put_bytes(save_state(state))
    return replace(tiny.published, checkpoint_cid=cid, model=model_hash(state))


def no_keys(tiny: TinyJob) -> Published:
    """Its text is said to be encrypted, and nobody answers who asks for the key."""
    return changed(tiny, access="encrypted")


def too_many_stages(tiny: TinyJob) -> Published:
    """Its model is split among more nodes than there are."""
    fields = {"mode": "pipeline", "score": "backward_passes"}
    model = {**tiny_model(16, 24, 16, layers=2), "tie_embeddings": False}
    stages = {"layers": [1, 1], "boundary_options": {"width": 4}}
    return changed(tiny, **fields, model=model, pipeline=stages)


MAKERS = [
    no_model,
    too_little_text,
    no_shard,
    other_tokens,
    no_first_model,
    first_model_out_of_range,
    no_keys,
    too_many_stages,
]


@pytest.mark.parametrize("make", MAKERS)
def test_best_paid_job_can_t_be_worked_in__the_other_one_is(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob, make: Callable[[TinyJob], Published]
) -> None:
    create(people, "mallory", BAIT, make(tiny), 100_000)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    all_work(crowd)
    crowd.until(lambda: crowd.finalized(paying) >= 1)
    assert people.gain(ann) == share(1, 1)


def test_a_spec_that_can_t_be_read__verifiers_challenge_a_wrong_result_all_the_same(
    crowd: Crowd, people: People, eve: Node, tiny: TinyJob
) -> None:
    """Mallory is eve, and abe's friend: abe proposes a result that nobody can recompute, and it
    pays eve alone. Each look at her other job ended the step of every verifier, in all jobs, so
    that nobody challenged: the result was final after its window, and she had 950 of 1,000 ZOO."""
    people.chain.send(eve.operator, people.registry, "set_active", eve.node_id, True)
    create(people, "mallory", FREE, no_model(tiny), 100_000)
    people.job = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    for name in ("vic", "vera"):
        crowd.join(name, "verifier")
    people.train(eve)
    people.offer({eve: 1})
    crowd.until(lambda: people.phase != CHALLENGE)
    assert people.phase == DISPUTED
    assert people.gain(eve) == 0


def test_its_files_come_slowly__a_trainer_misses_no_reveal_of_another_job(
    crowd: Crowd,
    people: People,
    ann: Node,
    bob: Node,
    tiny: TinyJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """She serves the list of its shards at 64 KiB a second, so 16 MiB of it take four minutes, and
    a spec names two files as long. Each look at a new job read them in the node's loop: ann lost 5
    of 100 ZOO for a reveal that she missed, and verifiers saw no wrong result for as long. Bob is
    there and commits to nothing, so that COMMIT lasts."""
    people.chain.send(bob.operator, people.registry, "set_active", bob.node_id, True)
    people.job = paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    people.round, reading = 1, 2 * (16 << 20) // (64 << 10)
    all_work(crowd)
    crowd.until(lambda: people.phase == COMMIT and people.state.n_committed == 1)
    slow, comes, had = data(tiny.store, 100_000), threading.Event(), tiny.store.get

    def served(cid: str, most: int) -> bytes:
        """A node that waits for her does nothing else; all others go on."""
        if cid == slow and threading.current_thread() is not threading.main_thread():
            comes.wait()
        elif cid == slow and not comes.is_set():
            comes.set()
            for passes in (SOON + 1, reading - SOON):
                people.chain.warp(passes)
                for name in 3 * [*CHECKERS]:
                    crowd.step(name)
        return had(cid, most)

    monkeypatch.setattr(tiny.store, "get", served)
    people.chain.warp(int(people.state.deadline) - people.chain.now - SOON)
    create(people, "mallory", BAIT, changed(tiny, data=slow), 100_000)
    try:
        crowd.until(lambda: crowd.finalized(paying) >= 1)
    finally:
        comes.set()
    assert people.gain(ann) == share(1, 1)


def test_its_files_come_slowly__members_decide_a_dispute_of_another_job(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mallory has a result of her own job disputed, whose files come slowly; a dozen such jobs, one
    after the other, take a member as long as a dispute lasts. It read them in its loop, so nobody
    ruled on a right result that she challenged in a job of somebody else."""
    slow, comes, had = data(tiny.store, 100_000), threading.Event(), tiny.store.get
    hers = create(people, "heidi", TERMS, changed(tiny, data=slow), ROUNDS + 2)
    job = create(people, "frank", TERMS, tiny.published, ROUNDS + 2)
    mallory = people.person("mallory", 2 * TERMS.challenge_bond)
    people.job = hers
    people.train(ann)
    people.offer({ann: 1})
    crowd.join("ann", "trainer", job_id=job)
    for name in ("abe", "ada"):
        crowd.join(name, "aggregator", job_id=job)
    people.challenge(mallory)
    crowd.until(lambda: int(people.chain.call(people.rounds, "phase", job, 1)) == CHALLENGE)
    people.job, people.round = job, 1
    people.challenge(mallory)
    before = people.wealth(mallory)
    crowd.agents.clear()

    def served(cid: str, most: int) -> bytes:
        if cid == slow and threading.current_thread() is threading.main_thread():
            people.chain.warp(TERMS.dispute_s)
        elif cid == slow:
            comes.wait()
        return had(cid, most)

    monkeypatch.setattr(tiny.store, "get", served)
    for number in range(3):
        crowd.join_member(number)
    try:
        crowd.until(lambda: people.phase != DISPUTED)
    finally:
        comes.set()
    assert people.phase == CHALLENGE
    assert people.wealth(mallory) == before
