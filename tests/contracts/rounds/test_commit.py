# SPDX-License-Identifier: Apache-2.0
"""commit: an expected node, its own operator, once, in time. seeds: pinned, captured, re-armed."""

from __future__ import annotations

from typing import Any

import boa
from eth_abi import encode
from eth_utils import keccak

from agents.protocol.formulas import commit_place
from tests.stage.contracts.clock import hash_of, mine
from tests.stage.contracts.events import event, of_round
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import COMMIT, EMPTY, REVEAL, Work, events_of, refuses


def round_key(round_id: int = 1) -> bytes:
    return keccak(encode(["uint256", "uint256"], [1, round_id]))


def seed_of(contract: Any, key: bytes, block: int) -> bytes:
    return keccak(
        encode(
            ["bytes32", "bytes32", "uint256", "address"],
            [hash_of(block), key, boa.env.evm.patch.chain_id, contract.address],
        )
    )


def test_commit__first_stores_the_seed_too(stage: RoundStage, rounds: Any, results: Any) -> None:
    stage.to_commit()
    player = stage.trainers[0]
    block = rounds.round(1, 1).seed_block
    seed = seed_of(rounds, round_key(), block)
    work = stage.work(player)
    digest = stage.system.commitment(1, 1, player.node_id, player.operator, work)
    rounds.commit(1, 1, player.node_id, digest, sender=player.operator)
    assert events_of(rounds) == [
        event("SeedCaptured", key=round_key(), target_block=block, seed=seed),
        of_round("Committed", node_id=player.node_id, commitment=digest),
    ]
    state = rounds.round(1, 1)
    assert (state.phase, state.n_committed, state.seed) == (COMMIT, 1, seed)
    assert rounds.commitment_of(1, 1, player.node_id) == digest
    assert results.aggregator_on_duty(1, 1) == 0  # nobody needs it before the reveals are over


def test_commit__digest_binds_everything(stage: RoundStage, rounds: Any) -> None:
    player, work = stage.trainers[0], Work.of("some")
    arguments = [
        1,
        1,
        player.node_id,
        player.operator,
        work.input_root,
        work.content,
        work.trace_root,
        work.salt,
    ]
    digest = rounds.commitment_digest(*arguments)
    assert digest == stage.system.commitment(1, 1, player.node_id, player.operator, work)
    others: list[Any] = [2, 2, 9, stage.stranger, *([b"\x09" * 32] * 4)]
    for index, other in enumerate(others):
        changed = [*arguments[:index], other, *arguments[index + 1 :]]
        assert rounds.commitment_digest(*changed) != digest
    with boa.env.anchor():
        boa.env.evm.patch.chain_id += 1
        assert rounds.commitment_digest(*arguments) != digest


def test_commit__last_expected_opens_reveal(stage: RoundStage, rounds: Any) -> None:
    stage.to_commit()
    for player in stage.trainers:
        assert stage.system.phase(1, 1) == COMMIT
        stage.system.commit(1, 1, player, stage.work(player))
    assert events_of(rounds)[-1] == of_round(
        "PhaseChanged", phase=REVEAL, deadline=boa.env.timestamp + 500
    )


def test_commit__at_the_deadline_and_after(stage: RoundStage, rounds: Any) -> None:
    stage.to_commit()
    first, second, _ = stage.trainers
    mine(1, rounds.round(1, 1).deadline - boa.env.timestamp)
    stage.system.commit(1, 1, first, stage.work(first))
    mine(1, 1)
    with refuses("rounds: too late"):
        stage.system.commit(1, 1, second, stage.work(second))


def test_commit__before_the_seed_is_due__reverts(stage: RoundStage, rounds: Any) -> None:
    rounds.open_round(1)
    player = stage.trainers[0]
    for _ in range(2):
        with refuses("randomness: too early"):
            stage.system.commit(1, 1, player, stage.work(player))
        mine()
    stage.system.commit(1, 1, player, stage.work(player))


def test_seed__expired__is_armed_again_and_commits_wait(stage: RoundStage, rounds: Any) -> None:
    stage.to_commit()
    old = rounds.round(1, 1).seed_block
    mine(300, 10)
    player = stage.trainers[0]
    with refuses("rounds: seed expired"):
        stage.system.commit(1, 1, player, stage.work(player))
    assert rounds.capture_seed(1, 1, sender=stage.stranger) == EMPTY
    new = boa.env.evm.patch.block_number + 1
    assert events_of(rounds) == [
        event("SeedRearmed", key=round_key(), old_target=old, new_target=new)
    ]
    mine(2)
    assert rounds.capture_seed(1, 1) == seed_of(rounds, round_key(), new)
    stage.system.commit(1, 1, player, stage.work(player))
    assert [name for name, _ in events_of(rounds)] == ["Committed"]


def test_audit_seed__is_pinned_only_after_the_reveals(
    stage: RoundStage, rounds: Any, results: Any
) -> None:
    stage.to_reveal()
    assert rounds.round(1, 1).audit_block == 0
    stage.reveal_all(1, *stage.trainers)
    block = boa.env.evm.patch.block_number + 1
    key = keccak(round_key())
    assert event("SeedRequested", key=key, target_block=block) in events_of(rounds, results)
    with refuses("randomness: too early"):
        results.capture_audit_seed(1, 1)
    mine(2)
    seed = seed_of(results, key, block)
    assert results.capture_audit_seed(1, 1) == seed
    state = rounds.round(1, 1)
    assert (state.audit_block, state.audit_seed) == (block, seed)
    with refuses("results: no seed due"):
        results.capture_audit_seed(1, 1)


def test_commit_on__the_chain_that_was_seen__is_a_commitment(
    stage: RoundStage, rounds: Any
) -> None:
    """By the hash of the seed's block, and by that of any later one."""
    stage.to_commit()
    first, second = stage.trainers[:2]
    block = rounds.round(1, 1).seed_block
    mine(3, 1)
    for player, seen in ((first, block), (second, boa.env.evm.patch.block_number - 1)):
        digest = stage.system.commitment(1, 1, player.node_id, player.operator, stage.work(player))
        place = commit_place(1, 1, player.node_id, (seen, hash_of(seen)))
        rounds.commit_on(place, digest, sender=player.operator)
        assert events_of(rounds)[-1] == of_round(
            "Committed", node_id=player.node_id, commitment=digest
        )
        assert rounds.commitment_of(1, 1, player.node_id) == digest


def test_commit_on__another_chain__reverts(stage: RoundStage, rounds: Any) -> None:
    """Another hash, a block to come, one too old to be known; then the node may still commit."""
    stage.to_commit()
    player = stage.trainers[0]
    mine(2, 1)
    now = boa.env.evm.patch.block_number
    block = rounds.round(1, 1).seed_block

    def commit(seen: int, known: bytes) -> None:
        place = commit_place(1, 1, player.node_id, (seen, known))
        rounds.commit_on(place, b"\x01" * 32, sender=player.operator)

    for seen, known in (
        (block, b"\x02" * 32),
        (block, EMPTY),
        (block + 1, hash_of(block)),
        (now, EMPTY),
        (now + 1, EMPTY),
        (2**256 - 1, EMPTY),
        (max(0, now - 257), hash_of(block)),
    ):
        with refuses("rounds: another chain"):
            commit(seen, known)
    assert rounds.commitment_of(1, 1, player.node_id) == EMPTY
    commit(block, hash_of(block))
    with refuses("rounds: already committed"):
        commit(block, hash_of(block))


def test_commit_on__a_block_of_256_ago__is_known_and_an_older_one_is_not(
    stage: RoundStage, rounds: Any
) -> None:
    """Only the end of its number is sent; an older block's hash is none of the block meant."""
    stage.to_commit()
    mine(2, 1)
    first, *others = stage.trainers
    rounds.commit(1, 1, first.node_id, b"\x01" * 32, sender=first.operator)  # stores the seed
    mine(300, 1)
    now = boa.env.evm.patch.block_number

    def commit(player: Any, ago: int) -> None:
        place = commit_place(1, 1, player.node_id, (now - ago, hash_of(now - ago)))
        rounds.commit_on(place, b"\x01" * 32, sender=player.operator)

    with refuses("rounds: another chain"):
        commit(others[0], 257)
    for player, ago in zip(others, (256, 255), strict=False):
        commit(player, ago)
        assert rounds.commitment_of(1, 1, player.node_id) == b"\x01" * 32


def test_commit_on__somebody_else__is_refused_as_by_commit(stage: RoundStage, rounds: Any) -> None:
    stage.to_commit()
    mine(2, 1)
    mine_block = rounds.round(1, 1).seed_block
    one, other = stage.trainers[:2]
    place = commit_place(1, 1, one.node_id, (mine_block, hash_of(mine_block)))
    with refuses("rounds: not operator"):
        rounds.commit_on(place, b"\x01" * 32, sender=other.operator)
