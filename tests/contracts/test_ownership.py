# SPDX-License-Identifier: Apache-2.0
"""Rule: the Coordinator hands a contract on in two steps, never to nobody, and it alone pauses what
a contract says can be paused."""

from __future__ import annotations

import pytest

from tests.stage.contracts.events import event
from tests.stage.contracts.registry import address_of
from tests.stage.contracts.system import ZERO, System, events_of, refuses

OWNED = (
    *("registry", "jobs", "rounds", "results", "reports"),
    *("scores", "tasks", "appeals", "benchmarks"),
)
# The bits that each knows.
PAUSES = {"registry": 1, "jobs": 1, "rounds": 1, "scores": 3, "tasks": 1, "benchmarks": 1}
UNKNOWN_BITS = [
    (name, bits) for name, known in PAUSES.items() for bits in (known + 1, 2 * known + 1, 2**255)
]
HEIR, STRANGER = address_of("heir"), address_of("stranger")
NOT_OWNERS = [
    STRANGER,
    *map(address_of, ("sponsor", "verifier 0", "node_owner", "operator", "slasher")),
]


@pytest.mark.parametrize("name", OWNED)
def test_ownership__moves_in_two_steps_and_is_not_renounced(system: System, name: str) -> None:
    contract, owner = getattr(system, name), str(system.coordinator.address)
    with refuses("ownable: caller is not the owner"):
        contract.transfer_ownership(HEIR, sender=HEIR)
    contract.transfer_ownership(HEIR, sender=owner)
    assert (contract.owner(), contract.pending_owner()) == (owner, HEIR)
    for sender in (owner, STRANGER):
        with refuses("ownable_2step: caller is not the new owner"):
            contract.accept_ownership(sender=sender)
    contract.accept_ownership(sender=HEIR)
    assert (contract.owner(), contract.pending_owner()) == (HEIR, ZERO)
    assert not hasattr(contract, "renounce_ownership")


@pytest.mark.parametrize("name", PAUSES)
def test_set_paused__by_the_owner__tells_old_and_new(system: System, name: str) -> None:
    contract, all_bits = getattr(system, name), PAUSES[name]
    for old, new in ((0, all_bits), (all_bits, all_bits), (all_bits, 0)):
        contract.set_paused(new, sender=system.coordinator.address)
        assert events_of(contract) == [event("PauseChanged", old_bits=old, new_bits=new)]
        assert contract.paused() == new


@pytest.mark.parametrize(("name", "bits"), UNKNOWN_BITS)
def test_set_paused__unknown_bit__reverts(system: System, name: str, bits: int) -> None:
    with refuses("pausing: unknown bit"):
        getattr(system, name).set_paused(bits, sender=system.coordinator.address)


@pytest.mark.parametrize("name", PAUSES)
def test_set_paused__by_anyone_else__reverts(system: System, name: str) -> None:
    for sender in NOT_OWNERS:
        with refuses("ownable: caller is not the owner"):
            getattr(system, name).set_paused(0, sender=sender)
