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
from tests.stage.chain.people import EMPTY, TERMS, TRAINER, Node, People, share
from tests.stage.memory.honest_round import TinyJob

KEY, NEXT_KEY = keccak(text="data key"), keccak(text="next data key")
ENVELOPE = b"sealed" * 20
DAY = 86_400


def public_key(node: Node, number: int = 0) -> bytes:
    return keccak(text=f"public key {number} of {node.name}")


@pytest.fixture
def people(people: People) -> People:
    """The job's key is announced; ann and eve have public keys."""
    people.chain.send(people.sponsor, people.keys, "set_key", people.job, KEY)
    for name in ("ann", "eve"):
        change_key(people, people.nodes[name], 0)
    return people


def change_key(people: People, node: Node, number: int) -> int:
    """The gas of a change of a node's public key."""
    args = (node.node_id, public_key(node, number))
    return gas(people.chain.send(node.operator, people.registry, "set_encryption_key", *args))


def gas(receipt: dict[str, object]) -> int:
    return int(str(receipt["gasUsed"]), 16)


def request(people: People, node: Node) -> int:
    """The gas of a request."""
    args = (people.job, node.node_id)
    return gas(people.chain.send(node.operator, people.keys, "request_key", *args))


def answer(node: Node, job: int, key_id: bytes = KEY, number: int = 0) -> tuple[object, ...]:
    """The arguments of a release."""
    return job, node.node_id, key_id, public_key(node, number), ENVELOPE


def release(people: People, node: Node, key_id: bytes = KEY, number: int = 0) -> int:
    """The gas of a release by the sponsor."""
    args = answer(node, people.job, key_id, number)
    return gas(people.chain.send(people.sponsor, people.keys, "release_key", *args))


def refused(people: People, reason: str, by: LocalAccount, *args: object) -> None:
    people.chain.refuse(reason, by, people.keys, "release_key", *args)


def released(people: People, node: Node, job: int = 0) -> bytes:
    """The key that a node has on record."""
    return bytes(people.chain.call(people.keys, "released", job or people.job, node.node_id).key_id)


# Asking for what one is not owed


def test_squatting__nobody_asks_in_anothers_name(people: People, ann: Node, eve: Node) -> None:
    """Eve asks for ann, with each of her keys, so that ann's request is spent on a key of eve's."""
    ask = (people.keys, "request_key", people.job, ann.node_id)
    for key in (eve.owner, eve.operator, ann.owner, people.sponsor):
        people.chain.refuse("keys: not operator", key, *ask)
    args = (ann.node_id, public_key(eve))
    for key in (eve.owner, eve.operator):
        refusal = "registry: not the owner or operator"
        people.chain.refuse(refusal, key, people.registry, "set_encryption_key", *args)
    request(people, ann)
    release(people, ann)
    assert released(people, ann) == KEY
    assert released(people, eve) == EMPTY


def test_idle_registration__has_no_key_to_get(people: People) -> None:
    """Registering and staking is open to all; a benchmark that verifiers passed is not."""
    dan = people.enlist("dan")
    change_key(people, dan, 0)
    ask = (dan.operator, people.keys, "request_key", people.job, dan.node_id)
    people.chain.refuse("keys: node not eligible", *ask)
    refused(people, "keys: no request", people.sponsor, *answer(dan, people.job))
    people.benchmark(dan)
    request(people, dan)


def test_hit_and_run__stake_that_unbonds_is_not_locked(people: People, eve: Node) -> None:
    """Eve asks, starts her exit, and waits for the key with her stake on its way out."""
    request(people, eve)
    people.chain.send(eve.owner, people.registry, "begin_exit", eve.node_id)
    refused(people, "keys: node not eligible", people.sponsor, *answer(eve, people.job))
    assert released(people, eve) == EMPTY


def test_suspended_cheat__gets_nothing_until_time_and_stake_are_made_up(
    people: People, ann: Node, eve: Node
) -> None:
    """Eve asks in time and is found to have cheated: her request waits until her suspension is over
    and her stake is whole again."""
    request(people, eve)
    people.execute(people.convict(eve, ann))
    assert not people.chain.call(people.registry, "is_eligible", eve.node_id, TRAINER)
    assert not people.chain.call(people.keys, "is_open", people.job, eve.node_id)
    refused(people, "keys: node not eligible", people.sponsor, *answer(eve, people.job))
    people.chain.warp(7 * DAY)
    refused(people, "keys: node not eligible", people.sponsor, *answer(eve, people.job))
    lost = eve.stake - people.bonded(eve)
    people.chain.send(eve.owner, people.registry, "add_stake", eve.node_id, lost)
    release(people, eve)
    assert released(people, eve) == KEY
    assert people.gain(eve) < 0
    people.assert_whole({ann: share(1, 2)})


# Keys that change between question and answer


def test_stale_key__a_node_that_lost_its_secret_is_not_answered_under_it(
    people: People, ann: Node
) -> None:
    """Eve has ann's old secret. Ann changes her key while the sponsor's answer is in the mempool:
    the answer reverts, and an answer under the new key that nobody asked for does too."""
    request(people, ann)
    change_key(people, ann, 1)
    for number in (0, 1):
        args = answer(ann, people.job, KEY, number)
        refused(people, "keys: stale encryption key", people.sponsor, *args)
    request(people, ann)
    refused(people, "keys: stale encryption key", people.sponsor, *answer(ann, people.job))
    release(people, ann, KEY, 1)
    sealed_to = people.chain.call(people.keys, "released", people.job, ann.node_id).encryption_key
    assert bytes(sealed_to) == public_key(ann, 1)


def test_swapped_data_key__does_not_pass_for_the_one_that_was_asked_for(
    people: People, ann: Node
) -> None:
    """A sponsor announces another key between question and answer, so that the record would show
    ann with a key that she never asked for (and with it data that she never agreed to work on)."""
    request(people, ann)
    people.chain.send(people.sponsor, people.keys, "set_key", people.job, NEXT_KEY)
    for_next = answer(ann, people.job, NEXT_KEY)
    refused(people, "keys: request is for another key", people.sponsor, *for_next)
    refused(people, "keys: not the current key", people.sponsor, *answer(ann, people.job))
    assert released(people, ann) == EMPTY
    request(people, ann)
    release(people, ann, NEXT_KEY)
    # What is on record stays true when the sponsor changes its mind again.
    people.chain.send(people.sponsor, people.keys, "set_key", people.job, KEY)
    assert released(people, ann) == NEXT_KEY


# Rights and records of another job


def test_replay__a_request_or_release_of_one_job_is_none_in_another(
    people: People, tiny: TinyJob, ann: Node
) -> None:
    """Mallory opens a job of the same key identifier and answers ann's request there, and as a
    sponsor, a releaser, in the other job."""
    real = people.job
    mallory = people.person("mallory", 10 * ZOO)
    fake = people.create_job(mallory, TERMS.encode(tiny.published), 0)
    people.chain.send(mallory, people.keys, "set_key", fake, KEY)
    request(people, ann)
    refused(people, "keys: no request", mallory, *answer(ann, fake))
    refused(people, "keys: not releaser", mallory, *answer(ann, real))
    release(people, ann)
    refused(people, "keys: already released", people.sponsor, *answer(ann, real))
    refused(people, "keys: no request", mallory, *answer(ann, fake))
    assert (released(people, ann), released(people, ann, fake)) == (KEY, EMPTY)


def test_releaser__hands_nothing_on_and_ends_when_the_sponsor_says_so(
    people: People, ann: Node, eve: Node
) -> None:
    """The hot key is stolen: it can answer open requests, until the sponsor names another, and
    nothing else: not announce a key, not name a releaser, not answer whom nobody let ask."""
    hot = people.person("hot key")
    people.chain.send(people.sponsor, people.keys, "set_releaser", people.job, hot.address)
    for name, value in (("set_key", NEXT_KEY), ("set_releaser", eve.operator.address)):
        people.chain.refuse("keys: not sponsor", hot, people.keys, name, people.job, value)
    refused(people, "keys: no request", hot, *answer(eve, people.job))
    request(people, ann)
    people.chain.send(people.sponsor, people.keys, "set_releaser", people.job, "0x" + "00" * 20)
    refused(people, "keys: not releaser", hot, *answer(ann, people.job))
    release(people, ann)


# Asking for asking's sake


def test_griefing__a_node_that_asks_again_and_again_pays_more_than_who_answers(
    people: People, ann: Node, eve: Node
) -> None:
    """Eve wants the sponsor to spend gas. The same question twice reverts; a new one takes a new
    public key each time, two transactions of hers to one of the sponsor's. All that waits is one
    open request of hers, and ann is served as ever."""
    asked = answered = 0
    for number in range(4):
        asked += change_key(people, eve, number + 1) + request(people, eve)
        again = (eve.operator, people.keys, "request_key", people.job, eve.node_id)
        people.chain.refuse("keys: already requested", *again)
        answered += release(people, eve, KEY, number + 1)
    assert asked > answered
    # Unanswered questions cost the sponsor nothing and replace one another.
    for number in (6, 7):
        change_key(people, eve, number)
        request(people, eve)
    refused(people, "keys: stale encryption key", people.sponsor, *answer(eve, people.job, KEY, 6))
    request(people, ann)
    release(people, ann)
    assert released(people, ann) == KEY
