# SPDX-License-Identifier: Apache-2.0
"""What DataKeys refuses to whom. Every row begins with job 1, whose key is announced, and whose
releaser is the sponsor's hot key. What a node is refused whose request is open, and what changes
between request and release, is in `tests/attacks/test_key_requests.py`."""

from __future__ import annotations

import pytest

from tests.contracts.keys.conftest import ENVELOPE, JOB, KEY, NEXT_KEY, KeyStage, public_key
from tests.stage.contracts.clock import wait
from tests.stage.contracts.refusals import Act, Refusal, by, by_each, first, node
from tests.stage.contracts.refusals import refused as row
from tests.stage.contracts.system import AGGREGATOR, DAY, EMPTY, REPEATED, REWARD, UNBONDING
from tests.stage.contracts.system import VERIFIER as VERIFIER_ROLE

TRAINER = node("trainer 0")
NOT_SPONSORS = ("releaser", "stranger", "trainer 0", "coordinator", "other sponsor")


def request(who: str = "trainer 0", player: str = "trainer 0", job: int = JOB) -> Act:
    return by(who, "keys.request_key", job, node(player))


def release(who: str = "releaser", sealed_to: str = "trainer 0", envelope: bytes = ENVELOPE) -> Act:
    def key(stage: KeyStage) -> bytes:
        return public_key(stage.system.players[sealed_to])

    return by(who, "keys.release_key", JOB, TRAINER, KEY, key, envelope)


def set_key(who: str, job: int = JOB, key: bytes = NEXT_KEY) -> Act:
    return by(who, "keys.set_key", job, key)


def new_job(sponsor: str) -> Act:
    """Job 2, without a key."""

    def create(stage: KeyStage) -> None:
        stage.system.job(stage.system.person(sponsor, REWARD), escrow=0)

    return create


def owner(call: str, *arguments: object) -> Act:
    """Trainer 0's owner calls the registry."""
    return by("trainer 0 owner", f"registry.{call}", TRAINER, *arguments)


def banned(stage: KeyStage) -> None:
    stage.slash(stage.trainer, REPEATED)
    wait(365 * DAY)


def stake_too_low(stage: KeyStage) -> None:
    registry = stage.system.registry
    raised = list(registry.parameters())
    raised[1] = registry.bonded(stage.trainer.node_id) + 1
    registry.set_parameters(tuple(raised), sender=stage.system.coordinator.address)


def unapproved(player: str, role: int) -> Act:
    return by("coordinator", "registry.approve_role", node(player), role, False)


REFUSED = [
    row(
        "keys: not sponsor",
        *map(set_key, NOT_SPONSORS),
        set_key("sponsor", 99),
        # The hot key can't hand its right on.
        *by_each(NOT_SPONSORS, "keys.set_releaser", JOB, lambda stage: stage.stranger),
        by("sponsor", "keys.set_releaser", 99, lambda stage: stage.sponsor),
        after=new_job("other sponsor"),
    ),
    row("keys: empty key", set_key("sponsor", key=EMPTY)),
    row("keys: key unchanged", set_key("sponsor", key=KEY)),
    row(
        "keys: not operator",
        *by_each(("trainer 0",), "keys.request_key", JOB, 0),
        *by_each(("trainer 0",), "keys.request_key", JOB, 99),
        request("stranger"),
        request("trainer 1"),
    ),
    row("keys: no key", request(job=2), request(job=99), after=new_job("sponsor")),
    row("keys: node not eligible", request(), after=owner("set_active", False)),
    row("keys: node not eligible", request(), after=banned),
    row("keys: node not eligible", request(), after=stake_too_low),
    *(
        row("keys: node not eligible", request(who, who), after=unapproved(who, role))
        for who, role in (("verifier 0", VERIFIER_ROLE), ("aggregator 0", AGGREGATOR))
    ),
    # Stake that unbonds is not locked; a closed node has no operator.
    row("keys: node not eligible", request(), after=owner("begin_exit")),
    row(
        "keys: not operator",
        request(),
        after=first(owner("begin_exit"), lambda _: wait(UNBONDING), owner("withdraw")),
    ),
    row("keys: no encryption key", request(), after=owner("set_encryption_key", EMPTY)),
    row("keys: already requested", request(), after=first(request(), release())),
    # The sponsor neither, once it has named somebody.
    row(
        "keys: not releaser",
        *map(release, ("sponsor", "stranger", "trainer 0", "verifier 0")),
        after=request(),
    ),
    row("keys: empty envelope", release(envelope=b""), after=request()),
    row("keys: stale encryption key", release(sealed_to="trainer 1"), after=request()),
]


@pytest.mark.parametrize("refusal", REFUSED)
def test_call__is_refused_with_its_reason(stage: KeyStage, refusal: Refusal) -> None:
    refusal.check(stage)
