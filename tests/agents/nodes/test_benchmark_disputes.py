# SPDX-License-Identifier: Apache-2.0
"""For how long a member looks after verdicts on a benchmark: for the unbonding period, however many
blocks that is. It was 50,000 blocks, which a chain of four blocks a second has in 3.5 hours: a
member that was started later, or had no time until then, overruled nobody."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.nodes.benchmark_disputes import BenchmarkDisputes, FalseVerdict
from agents.protocol.formulas import benchmark_check_key, benchmark_seed_key
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.old_event import FORTNIGHT_S, QuickChain

NODE, ATTEMPT, UNITS, VERIFIER = 5, 1, 4, 9
PLACE = {"node_id": NODE, "attempt": ATTEMPT}
INVENTED = b"no proof of any work"
ANSWER = {"units": UNITS, "root": b"\3" * 32, "artefact": digest_of(cid_of_bytes(INVENTED))}
EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("SeedCaptured", {"key": benchmark_seed_key(NODE, ATTEMPT), "seed": b"\1" * 32}),
    ("BenchmarkSubmitted", PLACE | ANSWER),
    ("SeedCaptured", {"key": benchmark_check_key(NODE, ATTEMPT), "seed": b"\2" * 32}),
    ("BenchmarkVerdictGiven", {**PLACE, "verifier_id": VERIFIER, "passed": True}),
    ("BenchmarkSettled", PLACE),
]


def found(store: EmbeddedStore, age_s: int) -> list[Any]:
    """What a member that starts says of a pass of invented work, given so long ago."""
    chain = QuickChain(*EVENTS, age_s=age_s)
    store.put_bytes(INVENTED)
    network: Any = SimpleNamespace(
        chain=chain,
        benchmarks=None,
        deployment=SimpleNamespace(block=0),
        unbonding_s=lambda: FORTNIGHT_S,
    )
    context: Any = SimpleNamespace(settings=SimpleNamespace(device="cpu"))
    disputes = BenchmarkDisputes(network, context, store)
    return disputes.step(chain.head())


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path)


def test_a_false_pass_is_overruled_while_its_verifier_answers_for_it(store: EmbeddedStore) -> None:
    (one,) = found(store, FORTNIGHT_S - 1)
    assert isinstance(one, FalseVerdict) and one.verifiers == (VERIFIER,)


def test_what_is_older_than_stake_answers_for_is_left_alone(store: EmbeddedStore) -> None:
    assert found(store, FORTNIGHT_S + 1) == []
