# SPDX-License-Identifier: Apache-2.0
"""Rule: nobody knows a seed before its block is mined, and a captured seed never changes."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.clock import block, hash_of, mine
from tests.stage.contracts.events import event, logged

KEY = b"\x11" * 32
OTHER_KEY = b"\x22" * 32
EMPTY = bytes(32)
LIFETIME = 256


def expected_seed(value: bytes, key: bytes, contract: Any) -> bytes:
    """keccak256(abi_encode(value, key, chain.id, self)), written out again."""
    chain_id = boa.env.evm.patch.chain_id
    types = ["bytes32", "bytes32", "uint256", "address"]
    return keccak(encode(types, [value, key, chain_id, contract.address]))


def test_request__names_the_next_block(draws: Any) -> None:
    target = draws.request(KEY)
    assert target == block() + 1
    assert logged(draws) == [event("SeedRequested", key=KEY, target_block=target)]
    assert draws.target(KEY) == target
    assert draws.seed(KEY) == EMPTY


def test_request__a_second_time__reverts(draws: Any) -> None:
    draws.request(KEY)
    with boa.reverts("randomness: already requested"):
        draws.request(KEY)


def test_request__after_the_capture__reverts(draws: Any) -> None:
    """A redraw of a known seed would be a free choice."""
    draws.request(KEY)
    mine(2)
    draws.capture(KEY)
    with boa.reverts("randomness: already requested"):
        draws.request(KEY)


def test_capture__never_requested__reverts(draws: Any) -> None:
    with boa.reverts("randomness: not requested"):
        draws.capture(KEY)


@pytest.mark.parametrize("blocks", [0, 1])
def test_capture__before_the_target_is_mined__reverts(draws: Any, blocks: int) -> None:
    """In the target block itself its own hash does not exist yet."""
    draws.request(KEY)
    mine(blocks)
    assert draws.peek(KEY) == EMPTY
    with boa.reverts("randomness: too early"):
        draws.capture(KEY)


@pytest.mark.parametrize("blocks", [2, 100, 1 + LIFETIME])
def test_capture__while_the_hash_lives__stores_the_seed(draws: Any, blocks: int) -> None:
    target = draws.request(KEY)
    mine(blocks)
    seed = expected_seed(hash_of(target), KEY, draws)
    assert draws.peek(KEY) == seed
    assert draws.capture(KEY) == seed
    fields = {"key": KEY, "target_block": target, "seed": seed}
    assert logged(draws) == [("SeedCaptured", fields)]
    assert draws.seed(KEY) == seed


def test_capture__again__gives_the_same_seed_forever(draws: Any) -> None:
    draws.request(KEY)
    mine(2)
    seed = draws.capture(KEY)
    mine(10 * LIFETIME)
    assert draws.capture(KEY) == seed
    assert logged(draws) == []
    assert draws.peek(KEY) == seed


def test_capture__differs_by_key_and_by_contract(draws: Any, harness_code: Any) -> None:
    twin = harness_code.deploy("0x" + "00" * 20)
    for contract in (draws, twin):
        contract.request(KEY)
        contract.request(OTHER_KEY)
    mine(2)
    seeds = {contract.capture(key) for contract in (draws, twin) for key in (KEY, OTHER_KEY)}
    assert len(seeds) == 4


def test_capture__when_the_hash_is_gone__rearms_to_a_future_block(draws: Any) -> None:
    target = draws.request(KEY)
    mine(2 + LIFETIME)
    assert draws.peek(KEY) == EMPTY
    assert draws.capture(KEY) == EMPTY
    fields = {"key": KEY, "old_target": target, "new_target": block() + 1}
    assert logged(draws) == [("SeedRearmed", fields)]
    assert draws.seed(KEY) == EMPTY
    with boa.reverts("randomness: too early"):
        draws.capture(KEY)
    mine(2)
    assert draws.capture(KEY) == expected_seed(hash_of(draws.target(KEY)), KEY, draws)


def test_capture__rearmed_and_forgotten_again__rearms_again(draws: Any) -> None:
    draws.request(KEY)
    for _ in range(3):
        mine(2 + LIFETIME)
        assert draws.capture(KEY) == EMPTY
    mine(2)
    assert draws.capture(KEY) != EMPTY


def test_source__value_is_used_instead_of_the_hash(sourced: Any, source: Any) -> None:
    target = sourced.request(KEY)
    value = b"\x77" * 32
    source.publish(target, value)
    mine(2)
    assert sourced.peek(KEY) == expected_seed(value, KEY, sourced)
    assert sourced.capture(KEY) == expected_seed(value, KEY, sourced)


def test_source__published_too_soon__still_waits_for_the_block(sourced: Any, source: Any) -> None:
    source.publish(sourced.request(KEY), b"\x77" * 32)
    mine(1)
    with boa.reverts("randomness: too early"):
        sourced.capture(KEY)


def test_source__silent__is_waited_for_and_not_redrawn(sourced: Any) -> None:
    target = sourced.request(KEY)
    mine(1 + LIFETIME)
    with boa.reverts("randomness: too early"):
        sourced.capture(KEY)
    assert sourced.target(KEY) == target


def test_source__answers_late__is_still_used(sourced: Any, source: Any) -> None:
    target = sourced.request(KEY)
    mine(5 * LIFETIME)
    source.publish(target, b"\x77" * 32)
    assert sourced.capture(KEY) == expected_seed(b"\x77" * 32, KEY, sourced)


def test_source__silent_for_a_lifetime__rearms(sourced: Any) -> None:
    sourced.request(KEY)
    mine(2 + LIFETIME)
    assert sourced.capture(KEY) == EMPTY
    assert sourced.target(KEY) == block() + 1


# Importers that keep the target themselves


@pytest.mark.parametrize("blocks", [0, 1, 2, 100, LIFETIME, 1 + LIFETIME, 2 + LIFETIME])
def test_derive__of_a_block__while_its_hash_is_known(draws: Any, blocks: int) -> None:
    """Exactly what a request would capture, without one; never two answers that differ."""
    target = draws.request(OTHER_KEY)
    mine(blocks)
    known = 2 <= blocks <= 1 + LIFETIME
    seed = expected_seed(hash_of(target), KEY, draws) if known else EMPTY
    assert draws.derive(KEY, target) == seed
    assert draws.derive(OTHER_KEY, target) == draws.peek(OTHER_KEY)
    assert draws.is_lost(target) == (blocks > 1 + LIFETIME)


@pytest.mark.parametrize("ahead", [0, 1, 10**9])
def test_derive__of_a_block_to_come__is_unknown(draws: Any, ahead: int) -> None:
    assert draws.derive(KEY, block() + ahead) == EMPTY
    assert not draws.is_lost(block() + ahead)


def test_derive__with_a_source__has_no_end_but_is_lost_all_the_same(
    sourced: Any, source: Any
) -> None:
    """So an importer asks `is_lost` first, and a late answer cannot bring a lost draw back."""
    target = block() + 1
    source.publish(target, b"\x77" * 32)
    mine(1)
    assert sourced.derive(KEY, target) == EMPTY
    mine(LIFETIME)
    seed = expected_seed(b"\x77" * 32, KEY, sourced)
    assert (sourced.derive(KEY, target), sourced.is_lost(target)) == (seed, False)
    mine(1)
    assert (sourced.derive(KEY, target), sourced.is_lost(target)) == (seed, True)


def test_derive__source_silent__is_unknown(sourced: Any) -> None:
    target = block() + 1
    mine(100)
    assert sourced.derive(KEY, target) == EMPTY
