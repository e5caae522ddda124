# SPDX-License-Identifier: Apache-2.0
"""Checks other nodes' benchmarks: verifiers recompute a few chunks, drawn after the answer, and as
many that each draws by itself.

Rule: a verdict is signed (agents/protocol/benchmark_verdict.py), so anyone can relay it. A verifier
never judges a node of its own owner.

An artefact that is not there is looked for again after a pause, which doubles with each miss, and
no more once its node may ask for a new benchmark. A distant store searches long for what nobody
serves: once that took a while, what else was missing waits for a later step. Else those who answer
without an artefact would hold every verifier up. Nor is one waited for that comes slowly: of the
longest, at the least pace that a store bears with, that would take a quarter of an hour.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import partial

from agents.nodes.benchmark import Check, check_submission
from agents.protocol.benchmark_verdict import benchmark_verdict
from agents.protocol.network import Network
from agents.protocol.numbers import Role
from agents.protocol.structs import Benchmark
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.errors import Reverted
from agents.runtime.slow_calls import SlowCalls
from agents.runtime.transaction import Order
from agents.storage.content_store import ContentStore
from agents.storage.errors import CorruptContent, NotFound, StoreError, TooLarge

_VERDICT = "submit_verdicts"
_SEED_BLOCKS = 256
_BYTES_PER_UNIT = 67
_PAUSE_MIN_S = 1.0  # until an artefact that was missing is looked for again
_PAUSE_MAX_S = 3_600.0
_LOST_S = 1.0  # spent on what was missing, after which a step looks for nothing else
_WAITED_S = 2.0  # for one that comes, before it comes beside
_AT_ONCE = 8  # that come beside; each may have 67 MB
_WINDOWS = 2  # after which a node gives an answer up that too few have judged, and asks again


_Read = tuple[bytes | StoreError, float]  # an artefact, or why not, and how long that took


class BenchmarkChecks:
    """Spot-checks submitted benchmarks for one verifier node. `clock`: seconds."""

    def __init__(
        self,
        network: Network,
        context: Context,
        store: ContentStore,
        device: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._network = network
        self._context = context
        self._store = store
        self._device = device
        self._clock = clock
        self._done: set[tuple[int, int]] = set()
        self._missed: dict[tuple[int, int], tuple[float, float]] = {}  # the pause, its end
        self._lost = 0.0  # seconds of this step, spent on what was missing
        self._coming = SlowCalls[tuple[int, int], _Read](_WAITED_S, "benchmark")

    def step(self, verifier: int, head: Head) -> str | None:
        """Check the waiting benchmarks and send the signed verdicts; returns what was done."""
        registry, chain = self._network.registry, self._context.chain
        if not chain.call(registry, "is_eligible", verifier, int(Role.VERIFIER)):
            return None
        orders: list[Order] = []
        did: list[str] = []
        judged: list[tuple[int, int]] = []
        for node, attempt in self._due():
            if self._lost > _LOST_S:
                break
            found = self._judged(verifier, node, attempt, head)
            if found is not None:
                orders.append(found[0])
                did.append(found[1])
                judged.append((node, attempt.attempt))
        outcomes = self._context.sender.send_all(orders)
        for (node, number), order, outcome in zip(judged, orders, outcomes, strict=True):
            # Refused: others have settled it meanwhile, or it is asked about again.
            sent = not isinstance(outcome, Reverted) or self._network.benchmark(node).settled
            if order.function == _VERDICT and sent:
                self._done.add((node, number))
        return "; ".join(did) or None

    def _due(self) -> list[tuple[int, Benchmark]]:
        """The benchmarks to look at now, those first that were missing least often."""
        found = self._network.open_benchmarks()
        waiting = {(node, attempt.attempt): attempt for node, attempt in found.items()}
        self._missed = {place: miss for place, miss in self._missed.items() if place in waiting}
        self._coming.drop_ended(waiting)
        self._lost, now = 0.0, self._clock()
        due = [
            place
            for place in waiting
            if place not in self._done and now >= self._missed.get(place, (0.0, 0.0))[1]
        ]
        due.sort(key=lambda place: self._missed.get(place, (0.0, 0.0))[0])
        return [(place[0], waiting[place]) for place in due]

    def _judged(
        self, verifier: int, node: int, attempt: Benchmark, head: Head
    ) -> tuple[Order, str] | None:
        """What to send about a benchmark, and how to say it; None if there is nothing to send."""
        network, benchmarks = self._network, self._network.benchmarks
        chain, registry = self._context.chain, network.registry
        owners = (chain.call(registry, "owner_of", n) for n in (verifier, node))
        own = len(set(owners)) == 1
        if (
            own
            or not self._may_judge(verifier, attempt)
            or self._has_voted(verifier, node, attempt)
        ):
            self._done.add((node, attempt.attempt))
            return None
        check_seed = network.early(benchmarks, "capture_check_seed", node)
        if check_seed is None:
            if head.number > attempt.check_block + _SEED_BLOCKS:
                rearm = Order(benchmarks, "capture_check_seed", (node,))
                return rearm, f"rearmed: check seed of node {node}"
            return None
        with self._context.metrics.busy("benchmark"):
            check = self._check(node, attempt, check_seed, head)
        if check is None:
            return None
        chain_id = self._context.deployment.chain_id
        place = (benchmarks.address, chain_id, node)
        verdict = benchmark_verdict(*place, attempt, check_seed, check.passed)
        signature = self._context.wallet.sign_typed(*verdict)
        args = (node, check.passed, [verifier], [signature])
        outcome = "passed" if check.passed else "failed"
        return (
            Order(benchmarks, _VERDICT, args),
            f"checked: benchmark of node {node} {outcome}: {check.reason}",
        )

    def _check(self, node: int, attempt: Benchmark, check_seed: bytes, head: Head) -> Check | None:
        read = self._artefact((node, attempt.attempt), attempt)
        if read is None:
            return None
        artefact, took = read
        if isinstance(artefact, NotFound | TooLarge | CorruptContent):
            # The node may still be publishing it; without it nobody signs, and no other node waits.
            self._miss(node, attempt, took, head)
            return None
        if isinstance(artefact, StoreError):
            raise artefact
        return check_submission(
            artefact,
            seed=attempt.seed,
            units=attempt.units,
            claimed_root=attempt.root,
            check_seed=check_seed,
            count=self._context.settings.verifier.benchmark_checks,
            device=self._device,
            # Its node may have seen the other draw before it let anybody see the artefact.
            secret=secrets.token_bytes(32),
        )

    def _artefact(self, place: tuple[int, int], attempt: Benchmark) -> _Read | None:
        """What the store gave; None while it is still coming, or while too many others are."""
        if place not in self._coming:
            if len(self._coming) >= _AT_ONCE:
                return None
            began = self._clock()
            self._coming.run({place: partial(self._read, attempt)})
            if not self._coming.ended(place):
                self._lost += self._clock() - began
        return self._coming.take(place) if self._coming.ended(place) else None

    def _read(self, attempt: Benchmark) -> _Read:
        """Read an artefact, in a thread of its own."""
        limit, began = _BYTES_PER_UNIT * attempt.units + 1, self._clock()
        found: bytes | StoreError
        try:
            found = self._store.get_digest(attempt.artefact, limit)
        except StoreError as error:
            found = error
        return found, self._clock() - began

    def _miss(self, node: int, attempt: Benchmark, took: float, head: Head) -> None:
        """Note that an artefact was not there: it is looked for again later, or no more."""
        place = node, attempt.attempt
        self._lost += took
        parameters = self._context.chain.call(self._network.registry, "parameters")
        if head.timestamp > attempt.requested_at + _WINDOWS * parameters.benchmark_window:
            self._done.add(place)
            return
        before = self._missed.get(place, (0.0, 0.0))[0]
        pause = min(max(2 * before, took, _PAUSE_MIN_S), _PAUSE_MAX_S)
        self._missed[place] = pause, self._clock() + pause

    def _may_judge(self, verifier: int, attempt: Benchmark) -> bool:
        """Whether this verifier's stake is older than the answer."""
        return verifier in self._network.voters(attempt.submitted_at)

    def _has_voted(self, verifier: int, node: int, attempt: Benchmark) -> bool:
        events = self._context.chain.events(
            self._network.benchmarks,
            "BenchmarkVerdictGiven",
            attempt.check_block - 1,
            self._context.chain.head().number,
            {"node_id": node, "verifier_id": verifier},
        )
        return any(event.args["attempt"] == attempt.attempt for event in events)
