# SPDX-License-Identifier: Apache-2.0
"""Own attacks: getting a data key that one is not owed, or making the sponsor pay for asking.

Rule: what is on record as released was asked for by that node, for that job, and sealed to the key
that the node had; whoever asks for nothing's sake pays more for it than the one who answers. What
envelopes hold, and how agents and keyholders behave, is `test_data_keys.py`.
"""

from __future__ import annotations

import pytest
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from agents.jobs.publish import ZOO
from tests.stage.chain.people import EMPTY, INVALID, TERMS, TRAINER, Node, World, share
from tests.stage.memory.honest_round import TinyJob

KEY, NEXT_KEY = keccak(text="data key"), keccak(text="next data key")
ENVELOPE = b"sealed" * 20
DAY = 86_400


def public_key(node: Node, number: int = 0) -> bytes:
    return keccak(text=f"public key {number} of {node.name}")


@pytest.fixture
def sealed(world: World, ann: Node, eve: Node) -> World:
    """The job's key is announced; ann and eve have public keys."""
    world.chain.send(world.sponsor, world.keys, "set_key", world.job, KEY)
    for node in (ann, eve):
        change_key(world, node, 0)
    return world


def change_key(world: World, node: Node, number: int) -> int:
    """The gas of a change of a node's public key."""
    args = (node.node_id, public_key(node, number))
    return gas(world.chain.send(node.operator, world.registry, "set_encryption_key", *args))


def gas(receipt: dict[str, object]) -> int:
    return int(str(receipt["gasUsed"]), 16)


def request(world: World, node: Node) -> int:
    """The gas of a request."""
    args = (world.job, node.node_id)
    return gas(world.chain.send(node.operator, world.keys, "request_key", *args))


def answer(node: Node, job: int, key_id: bytes = KEY, number: int = 0) -> tuple[object, ...]:
    """The arguments of a release."""
    return job, node.node_id, key_id, public_key(node, number), ENVELOPE


def release(world: World, node: Node, key_id: bytes = KEY, number: int = 0) -> int:
    """The gas of a release by the sponsor."""
    args = answer(node, world.job, key_id, number)
    return gas(world.chain.send(world.sponsor, world.keys, "release_key", *args))


def refused(world: World, reason: str, by: LocalAccount, *args: object) -> None:
    world.chain.refuse(reason, by, world.keys, "release_key", *args)


def released(world: World, node: Node, job: int = 0) -> bytes:
    """The key that a node has on record."""
    return bytes(world.chain.call(world.keys, "released", job or world.job, node.node_id).key_id)


# Asking for what one is not owed


def test_squatting__nobody_asks_in_anothers_name(sealed: World, ann: Node, eve: Node) -> None:
    """Eve asks for ann, with each of her keys, so that ann's request is spent on a key of eve's."""
    world = sealed
    ask = (world.keys, "request_key", world.job, ann.node_id)
    for key in (eve.owner, eve.operator, ann.owner, world.sponsor):
        world.chain.refuse("keys: not operator", key, *ask)
    args = (ann.node_id, public_key(eve))
    for key in (eve.owner, eve.operator):
        refusal = "registry: not the owner or operator"
        world.chain.refuse(refusal, key, world.registry, "set_encryption_key", *args)
    request(world, ann)
    release(world, ann)
    assert released(world, ann) == KEY
    assert released(world, eve) == EMPTY


def test_idle_registration__has_no_key_to_get(sealed: World) -> None:
    """Registering and staking is open to all; a benchmark that verifiers passed is not."""
    world = sealed
    dan = world.enlist("dan")
    change_key(world, dan, 0)
    ask = (dan.operator, world.keys, "request_key", world.job, dan.node_id)
    world.chain.refuse("keys: node not eligible", *ask)
    refused(world, "keys: no request", world.sponsor, *answer(dan, world.job))
    world.benchmark(dan)
    request(world, dan)


def test_hit_and_run__stake_that_unbonds_is_not_locked(sealed: World, eve: Node) -> None:
    """Eve asks, starts her exit, and waits for the key with her stake on its way out."""
    world = sealed
    request(world, eve)
    world.chain.send(eve.owner, world.registry, "begin_exit", eve.node_id)
    refused(world, "keys: node not eligible", world.sponsor, *answer(eve, world.job))
    assert released(world, eve) == EMPTY


def test_suspended_cheat__gets_nothing_until_time_and_stake_are_made_up(
    sealed: World, ann: Node, eve: Node
) -> None:
    """Eve asks in time and is found to have cheated: her request waits until her suspension is over
    and her stake is whole again."""
    world = sealed
    request(world, eve)
    world.train(ann, eve)
    arrays = world.offer({ann: 1})
    found = world.report(eve, INVALID, "vic", "vera")
    world.attest("vic", "vera")
    world.finalize(arrays)
    world.execute(found)
    assert not world.chain.call(world.registry, "is_eligible", eve.node_id, TRAINER)
    assert not world.chain.call(world.keys, "is_open", world.job, eve.node_id)
    refused(world, "keys: node not eligible", world.sponsor, *answer(eve, world.job))
    world.chain.warp(7 * DAY)
    refused(world, "keys: node not eligible", world.sponsor, *answer(eve, world.job))
    lost = eve.stake - world.bonded(eve)
    world.chain.send(eve.owner, world.registry, "add_stake", eve.node_id, lost)
    release(world, eve)
    assert released(world, eve) == KEY
    assert world.gain(eve) < 0
    world.assert_whole({ann: share(1, 1)})


# Keys that change between question and answer


def test_stale_key__a_node_that_lost_its_secret_is_not_answered_under_it(
    sealed: World, ann: Node
) -> None:
    """Eve has ann's old secret. Ann changes her key while the sponsor's answer is in the mempool:
    the answer reverts, and an answer under the new key that nobody asked for does too."""
    world = sealed
    request(world, ann)
    change_key(world, ann, 1)
    for number in (0, 1):
        args = answer(ann, world.job, KEY, number)
        refused(world, "keys: stale encryption key", world.sponsor, *args)
    request(world, ann)
    refused(world, "keys: stale encryption key", world.sponsor, *answer(ann, world.job))
    release(world, ann, KEY, 1)
    sealed_to = world.chain.call(world.keys, "released", world.job, ann.node_id).encryption_key
    assert bytes(sealed_to) == public_key(ann, 1)


def test_swapped_data_key__does_not_pass_for_the_one_that_was_asked_for(
    sealed: World, ann: Node
) -> None:
    """A sponsor announces another key between question and answer, so that the record would show
    ann with a key that she never asked for (and with it data that she never agreed to work on)."""
    world = sealed
    request(world, ann)
    world.chain.send(world.sponsor, world.keys, "set_key", world.job, NEXT_KEY)
    for_next = answer(ann, world.job, NEXT_KEY)
    refused(world, "keys: request is for another key", world.sponsor, *for_next)
    refused(world, "keys: not the current key", world.sponsor, *answer(ann, world.job))
    assert released(world, ann) == EMPTY
    request(world, ann)
    release(world, ann, NEXT_KEY)
    # What is on record stays true when the sponsor changes its mind again.
    world.chain.send(world.sponsor, world.keys, "set_key", world.job, KEY)
    assert released(world, ann) == NEXT_KEY


# Rights and records of another job


def test_replay__a_request_or_release_of_one_job_is_none_in_another(
    sealed: World, tiny: TinyJob, ann: Node
) -> None:
    """Mallory opens a job of the same key identifier and answers ann's request there, and as a
    sponsor, a releaser, in the other job."""
    world, real = sealed, sealed.job
    mallory = world.person("mallory", 10 * ZOO)
    fake = world.create_job(mallory, TERMS.encode(tiny.published), 0)
    world.chain.send(mallory, world.keys, "set_key", fake, KEY)
    request(world, ann)
    refused(world, "keys: no request", mallory, *answer(ann, fake))
    refused(world, "keys: not releaser", mallory, *answer(ann, real))
    release(world, ann)
    refused(world, "keys: already released", world.sponsor, *answer(ann, real))
    refused(world, "keys: no request", mallory, *answer(ann, fake))
    assert (released(world, ann), released(world, ann, fake)) == (KEY, EMPTY)


def test_releaser__hands_nothing_on_and_ends_when_the_sponsor_says_so(
    sealed: World, ann: Node, eve: Node
) -> None:
    """The hot key is stolen: it can answer open requests, until the sponsor names another, and
    nothing else: not announce a key, not name a releaser, not answer whom nobody let ask."""
    world = sealed
    hot = world.person("hot key")
    world.chain.send(world.sponsor, world.keys, "set_releaser", world.job, hot.address)
    for name, value in (("set_key", NEXT_KEY), ("set_releaser", eve.operator.address)):
        world.chain.refuse("keys: not sponsor", hot, world.keys, name, world.job, value)
    refused(world, "keys: no request", hot, *answer(eve, world.job))
    request(world, ann)
    world.chain.send(world.sponsor, world.keys, "set_releaser", world.job, "0x" + "00" * 20)
    refused(world, "keys: not releaser", hot, *answer(ann, world.job))
    release(world, ann)


# Asking for asking's sake


def test_griefing__a_node_that_asks_again_and_again_pays_more_than_who_answers(
    sealed: World, ann: Node, eve: Node
) -> None:
    """Eve wants the sponsor to spend gas. The same question twice reverts; a new one takes a new
    public key each time, two transactions of hers to one of the sponsor's. All that waits is one
    open request of hers, and ann is served as ever."""
    world = sealed
    asked = answered = 0
    for number in range(4):
        asked += change_key(world, eve, number + 1) + request(world, eve)
        again = (eve.operator, world.keys, "request_key", world.job, eve.node_id)
        world.chain.refuse("keys: already requested", *again)
        answered += release(world, eve, KEY, number + 1)
    assert asked > answered
    # Unanswered questions cost the sponsor nothing and replace one another.
    for number in (6, 7):
        change_key(world, eve, number)
        request(world, eve)
    refused(world, "keys: stale encryption key", world.sponsor, *answer(eve, world.job, KEY, 6))
    request(world, ann)
    release(world, ann)
    assert released(world, ann) == KEY
