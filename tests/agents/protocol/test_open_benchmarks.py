# SPDX-License-Identifier: Apache-2.0
"""Which answers wait for verdicts: all that nobody has settled, however many blocks ago they were
given. The contract takes verdicts until the node asks for another attempt; a verifier that started
50,000 blocks after an answer, which a chain with four blocks a second has in 3.5 hours, did not see
it, and its node waited for verdicts that nobody gave."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from agents.protocol.network import Network
from agents.protocol.structs import Benchmark
from tests.stage.memory.old_event import QuickChain

NODE, ZERO = 5, b"\0" * 32
WAITING = Benchmark(1, 1, 1, ZERO, 2, 4, ZERO, ZERO, 3, ZERO, 0, 0, False)


class Asked(QuickChain):
    """The chain, with what its contract says of the node."""

    def watch(self, *_: Any) -> None:
        """Nothing is kept between two reads."""

    def call_many(self, calls: list[Any]) -> list[Any]:
        """The node's attempt, for each call."""
        return [WAITING for _ in calls]


class Contracts(defaultdict[str, str]):
    """A deployment of whatever is asked for, from the chain's first block on."""

    block = 0


def test_an_old_answer_is_judged_on_a_chain_of_quick_blocks_too() -> None:
    chain, deployment = Asked(("BenchmarkSubmitted", {"node_id": NODE})), Contracts(str)
    network = Network(chain, deployment)  # type: ignore[arg-type]
    assert network.open_benchmarks() == {NODE: WAITING}
