# SPDX-License-Identifier: Apache-2.0
"""Rule: nobody knows a seed before its block is mined, and a captured seed never changes."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.contracts.chain_time import block, hash_of, mine
from tests.contracts.event_log import logged

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
    assert logged(draws) == [("SeedRequested", {"key": KEY, "target_block": target})]
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


def test_source__silent__is_waited_for_and_not_redrawn(sourced: Any, source: Any) -> None:
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


def test_source__silent_for_a_lifetime__rearms(sourced: Any, source: Any) -> None:
    sourced.request(KEY)
    mine(2 + LIFETIME)
    assert sourced.capture(KEY) == EMPTY
    assert sourced.target(KEY) == block() + 1
