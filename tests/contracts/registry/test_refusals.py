# SPDX-License-Identifier: Apache-2.0
"""What NodeRegistry and NodeBenchmarks refuse to whom, one row a call: the reason, the call, and
what happens before it. Every row begins with one node: a TRAINER with a pending benchmark, whose
owner holds ZOO for more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.registry import AGGREGATOR, EMPTY, TRAINER, VERIFIER, ZERO, address_of

NODE, UNKNOWN = 1, 9
FRESH, KEY = address_of("fresh"), b"\x02" * 32
NOT_OWNERS = ("operator", "payout", "coordinator", "slasher", "stranger")
NEITHER_KEY = ("payout", "coordinator", "slasher", "stranger")
NOT_SLASHERS = ("node_owner", "operator", "coordinator", "stranger")

Step = Callable[[dict[str, Any]], Any]


def by(sender: str, function: str, *arguments: Any) -> Step:
    """The call of "contract.function" by the account of this name. An argument that is a function,
    such as `now`, is asked for its value when the call is made."""
    contract, name = function.split(".")

    def send(contracts: dict[str, Any]) -> Any:
        values = [value() if callable(value) else value for value in arguments]
        return getattr(contracts[contract], name)(*values, sender=address_of(sender))

    send.__name__ = f"{function} by the {sender}"
    return send


def later(seconds: int, blocks: int = 1) -> Step:
    return lambda contracts: mine(blocks, seconds)


def owner(function: str, *arguments: Any) -> Step:
    """The node's owner calls the registry."""
    return by("node_owner", f"registry.{function}", *arguments)


def governor(function: str, *arguments: Any) -> Step:
    """The Coordinator calls the registry."""
    return by("coordinator", f"registry.{function}", *arguments)


def register(
    operator: str = stage.NODE_OWNER,
    payout: str = stage.PAYOUT,
    roles: int = TRAINER,
    who: str = "node_owner",
) -> Step:
    return by(who, "registry.register_node", operator, payout, roles, stage.STAKE, EMPTY, b"")


def slash(
    who: str = "slasher", node: int = NODE, kind: int = stage.NO_REVEAL, at: Any = now
) -> Step:
    return by(who, "registry.slash", node, kind, at, ZERO)


def request(who: str = "operator", node: int = NODE) -> Step:
    return by(who, "benchmarks.request_benchmark", node)


def answer(
    who: str = "operator",
    node: int = NODE,
    units: int = stage.UNITS,
    root: bytes = stage.ROOT,
    artefact: bytes = stage.ARTEFACT,
    seed: bytes | None = None,
) -> Step:
    """An answer that names the attempt's seed, while there is one, or `seed`."""

    def send(contracts: dict[str, Any]) -> Any:
        named = seed or _seed(contracts["benchmarks"], node)
        call = by(who, "benchmarks.submit_benchmark", node, named, units, root, artefact)
        return call(contracts)

    send.__name__ = f"benchmarks.submit_benchmark by the {who}"
    return send


def _seed(benchmarks: Any, node: int) -> bytes:
    try:
        return stage.seed_now(benchmarks, node)
    except boa.BoaError:
        return EMPTY


EXITING, WITHDRAWN = owner("begin_exit", NODE), owner("withdraw", NODE)
CLOSED = (EXITING, later(stage.UNBONDING), WITHDRAWN)
BANNED = slash(kind=stage.REPEATED)
LOCKED, UNLOCKED = (by("slasher", f"registry.{name}", NODE) for name in ("lock", "unlock"))
PAUSED = by("coordinator", "benchmarks.set_paused", stage.PAUSE_BENCHMARK)
NEXT_WINDOW, SEEDED = later(stage.WINDOW + 1), later(24, blocks=2)

# What only the node's owner may do, with its arguments after the node's id.
OWNERS_CALLS: dict[str, tuple[Any, ...]] = {
    "add_stake": (stage.ZOO,),  # otherwise anyone could flush the ring that protects additions
    "begin_exit": (),
    "set_operator": (FRESH, b""),
    "set_payout": (FRESH,),  # a stolen hot key cannot redirect rewards
    "set_roles": (VERIFIER,),
}

REFUSED: list[tuple[Any, ...]] = [
    # Registration.
    ("registry: operator in use", register(operator=stage.OPERATOR)),
    ("registry: operator in use", register(operator=stage.OPERATOR, who="stranger")),
    ("registry: zero address", register(operator=ZERO)),
    ("registry: no consent", register(operator=FRESH)),
    ("registry: zero address", register(payout=ZERO)),
    *(("registry: bad roles", register(roles=roles)) for roles in (0, 8, 9, 2**255)),
    ("pausing: paused", register(), governor("set_paused", stage.PAUSE_REGISTER)),
    # The owner's calls.
    *(
        ("registry: not the owner", by(who, f"registry.{name}", NODE, *rest))
        for name, rest in OWNERS_CALLS.items()
        for who in NOT_OWNERS
    ),
    *(("registry: unknown node", owner(name, UNKNOWN, *r)) for name, r in OWNERS_CALLS.items()),
    # Stake.
    ("registry: addition too small", owner("add_stake", NODE, stage.ZOO - 1)),
    ("registry: too many additions", *[owner("add_stake", NODE, stage.ZOO)] * 17),
    ("registry: exiting", owner("add_stake", NODE, stage.ZOO), EXITING),
    ("registry: banned", owner("add_stake", NODE, stage.ZOO), BANNED),
    ("registry: exiting", EXITING, EXITING),
    ("registry: unknown node", owner("withdraw", UNKNOWN)),
    ("registry: not exiting", WITHDRAWN),
    ("registry: closed", WITHDRAWN, *CLOSED),
    *(
        (
            "registry: not the owner",
            by(who, "registry.withdraw", NODE),
            EXITING,
            later(stage.UNBONDING),
        )
        for who in NOT_OWNERS
    ),
    # Settings of a node. A node without stake must not occupy an address, and an exiting one must
    # not come back into the lists.
    ("registry: zero address", owner("set_operator", NODE, ZERO, b"")),
    ("registry: no consent", owner("set_operator", NODE, FRESH, b"")),
    ("registry: closed", owner("set_operator", NODE, FRESH, b""), *CLOSED),
    ("registry: zero address", owner("set_payout", NODE, ZERO)),
    *(("registry: bad roles", owner("set_roles", NODE, roles)) for roles in (0, 8, 15)),
    ("registry: exiting", owner("set_roles", NODE, TRAINER | VERIFIER), EXITING),
    ("registry: banned", owner("set_roles", NODE, TRAINER), BANNED),
    ("registry: unknown node", by("stranger", "registry.set_active", UNKNOWN, True)),
    ("registry: unknown node", by("stranger", "registry.set_encryption_key", UNKNOWN, KEY)),
    *(
        ("registry: not the owner or operator", by(who, f"registry.{name}", NODE, value))
        for name, value in (("set_active", False), ("set_encryption_key", KEY))
        for who in NEITHER_KEY
    ),
    # Locks.
    *(("registry: not a slasher", by(who, "registry.lock", NODE)) for who in NOT_SLASHERS),
    ("registry: unknown node", by("slasher", "registry.lock", UNKNOWN)),
    *(
        ("registry: no lock", by(who, "registry.unlock", NODE), LOCKED)
        for who in (*NOT_SLASHERS, "second_slasher")
    ),
    ("registry: no lock", UNLOCKED, LOCKED, UNLOCKED),
    # Slashes.
    *(("registry: not a slasher", slash(who)) for who in (*NOT_SLASHERS, "payout", "treasury")),
    ("registry: not a slasher", slash(), governor("set_slasher", stage.SLASHER, False)),
    ("registry: unknown node", slash(node=UNKNOWN)),
    ("registry: offence in the future", slash(at=lambda: now() + 1)),
    *(("penalties: unknown violation", slash(kind=kind)) for kind in (0, 17, 2**256 - 1)),
    # Governance.
    ("registry: unknown node", governor("approve_role", UNKNOWN, VERIFIER, True)),
    *(
        ("registry: role needs no approval", governor("approve_role", NODE, role, True))
        for role in (0, TRAINER, VERIFIER | AGGREGATOR, 8)
    ),
    ("registry: role not requested", governor("approve_role", NODE, VERIFIER, True)),
    ("registry: zero address", governor("set_slasher", ZERO, True)),
    ("registry: slasher unchanged", governor("set_slasher", stage.SLASHER, True)),
    ("registry: slasher unchanged", governor("set_slasher", stage.STRANGER, False)),
    # Requests of a benchmark. In its window a node could ask until it likes the seed.
    ("benchmarks: benchmark pending", request(), later(stage.WINDOW)),
    *(("benchmarks: not the owner or operator", request(who), NEXT_WINDOW) for who in NEITHER_KEY),
    ("benchmarks: unknown node", request("stranger", UNKNOWN)),
    ("benchmarks: exiting", request("node_owner"), NEXT_WINDOW, EXITING),
    ("benchmarks: banned", request("node_owner"), NEXT_WINDOW, BANNED),
    ("pausing: paused", request(), NEXT_WINDOW, PAUSED),
    ("randomness: not requested", by("stranger", "benchmarks.capture_benchmark_seed", UNKNOWN)),
    ("randomness: not requested", by("stranger", "benchmarks.capture_check_seed", UNKNOWN)),
    ("randomness: too early", by("stranger", "benchmarks.capture_benchmark_seed", NODE)),
    # Answers. None can change once its check is about to be drawn.
    *(("benchmarks: not the owner or operator", answer(who), SEEDED) for who in NEITHER_KEY),
    ("benchmarks: unknown node", answer("stranger", UNKNOWN)),
    ("randomness: too early", answer()),
    ("randomness: too early", answer(), later(12)),
    (
        "benchmarks: no benchmark pending",
        answer(root=stage.ARTEFACT, artefact=stage.ROOT),
        SEEDED,
        answer(),
    ),
    ("benchmarks: benchmark window passed", answer(), later(stage.WINDOW + 1, blocks=2)),
    *(
        ("benchmarks: bad units", answer(units=units), SEEDED)
        for units in (0, 1_000_001, 2**256 - 1)
    ),
    ("benchmarks: empty benchmark", answer(root=EMPTY), SEEDED),
    ("benchmarks: empty benchmark", answer(artefact=EMPTY), SEEDED),
    ("benchmarks: not its seed", answer(seed=KEY), SEEDED),
    ("benchmarks: exiting", answer("node_owner"), SEEDED, EXITING),
    ("benchmarks: banned", answer(), SEEDED, BANNED),
    ("pausing: paused", answer(), SEEDED, PAUSED),
]


@pytest.mark.parametrize("row", REFUSED, ids=[f"{row[1].__name__}: {row[0]}" for row in REFUSED])
def test_call__is_refused_with_its_reason(
    registry: Any, benchmarks: Any, node: int, row: tuple[Any, ...]
) -> None:
    """The steps before succeed; the call reverts."""
    assert node == NODE
    contracts = {"registry": registry, "benchmarks": benchmarks}
    reason, refused, *before = row
    for step in before:
        step(contracts)
    with boa.reverts(reason):
        refused(contracts)
