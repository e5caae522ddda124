# SPDX-License-Identifier: Apache-2.0
"""Becoming a node that may train: registration, then a verified benchmark.

Rule: the owner's key is never needed by a running agent. Usually the owner registers the node
(`ape run node register`) and the agent waits for that; with `trainer.register_stake` set, the
operator key registers itself as its own owner, with the rewards going to `trainer.payout`.
"""

from __future__ import annotations

import math
import os

from agents.nodes import benchmark
from agents.nodes.benchmark_disputes import DUE_CHECKS
from agents.nodes.machine import machine
from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, Role
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.errors import ConfigError
from agents.runtime.faults import crashpoint
from agents.runtime.wallet import Identity
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore

_MIN_UNITS = 8
_MOST_BLOCKS = 200  # a contract knows the hashes of 256, and the seed is one until an answer
_MACHINE = "benchmark-machine"  # key of the journal: what the score is of


class Membership:
    """Keeps one trainer registered and benchmarked. `node_id` is 0 until it is registered."""

    def __init__(
        self, network: Network, context: Context, store: ContentStore, device: str
    ) -> None:
        self.node_id = 0
        self._network = network
        self._context = context
        self._store = store
        self._device = device
        self._told = False
        self._said_moved = False
        self.measuring = False  # a benchmark is asked for and not answered

    def step(self, head: Head, free: bool = True) -> str | None:
        """Register or benchmark if that is needed; returns what was done. The owner may give the
        key to another node: it is that one then.

        `free`: nothing that the node has committed to waits to be revealed. A benchmark takes long,
        so one that has a score already is measured again only then. Only then does the node change.
        """
        node = self._network.node_of(self._context.wallet.address)
        # A key that serves no node any more may still open what it committed to for its last one.
        if node and node != self.node_id and (free or not self.node_id):
            self.node_id = node
            self._context.log.info("node", node_id=node)
        if not self.node_id:
            return self._register()
        return self._benchmark(head, free)

    def _register(self) -> str | None:
        settings = self._context.settings.trainer
        if settings.register_stake is None:
            if not self._told:
                self._told = True
                self._context.log.warning(
                    "not_registered",
                    why=f"no node has {self._context.wallet.address} as its operator; the owner "
                    "registers it with `ape run node register`, or set trainer.register_stake",
                )
            return None
        address, token = self._context.wallet.address, self._network.token
        stake = settings.register_stake * ZOO
        chain, sender = self._context.chain, self._context.sender
        balance = chain.call(token, "balanceOf", address)
        if balance < stake:
            raise ConfigError(
                f"{address} holds {balance / ZOO:g} ZOO, but trainer.register_stake is "
                f"{settings.register_stake}. Send it ZOO, or lower the stake."
            )
        registry = self._network.registry
        if chain.call(token, "allowance", address, registry.address) < stake:
            sender.send(token, "approve", registry.address, stake)
        sender.ensure(
            lambda: self._network.node_of(address) != 0,
            registry,
            "register_node",
            address,
            settings.payout or address,
            int(Role.TRAINER),
            stake,
            Identity(self._context.wallet).public,
            b"",
        )
        return f"registered: {settings.register_stake} ZOO"

    # -- benchmark -----------------------------------------------------------------------------

    def _benchmark(self, head: Head, free: bool) -> str | None:
        node = self._network.node(self.node_id)
        if not node.roles & Role.TRAINER or node.banned or node.unlock_at:
            return None
        attempt = self._network.benchmark(self.node_id)
        parameters = self._context.chain.call(self._network.registry, "parameters")
        window = parameters.benchmark_window
        answered = attempt.submitted_at != 0
        stale = head.timestamp > attempt.requested_at + window
        # Verifiers may take as long again; an answer that too few judged is given up then.
        given_up = answered and head.timestamp > attempt.requested_at + 2 * window
        idle = attempt.settled or not attempt.attempt
        lasting = node.benchmark_score and not self._expires(head, parameters.unbonding_period)
        lasting = lasting and not self._moved()
        self.measuring = bool(attempt.attempt) and not answered and not stale
        if (idle and lasting) or not (free or not node.benchmark_score):
            return None
        if attempt.attempt and not answered and not stale:
            return self._answer(attempt.requested_at + window - head.timestamp)
        due = attempt.attempt == 0 or attempt.settled or given_up or (not answered and stale)
        # Whoever asks before enough verifiers may judge has worked in vain.
        if due and len(self._network.voters(head.timestamp)) >= parameters.benchmark_quorum:
            self._context.sender.send(self._network.benchmarks, "request_benchmark", self.node_id)
            self.measuring = True
            return "requested: a benchmark"
        return None

    def _moved(self) -> bool:
        """Whether the node computes on another machine than its score is of; said once."""
        measured = self._context.journal.get(_MACHINE)
        if measured is None:
            self._context.journal.put(_MACHINE, machine(self._device))
            return False
        if measured == machine(self._device):
            return False
        if not self._said_moved:
            self._said_moved = True
            why = f"the score is of {measured}, this is {machine(self._device)}"
            self._context.log.info("measuring_again", why=why)
        return True

    def _expires(self, head: Head, period: int) -> bool:
        """Whether the score expires within an unbonding period: time to measure again."""
        until = self._context.chain.call(self._network.registry, "score_until", self.node_id)
        return bool(head.timestamp + period > until)

    def _answer(self, left: float) -> str | None:
        """Do the work of the attempt and submit it. `left`: seconds of its window."""
        benchmarks = self._network.benchmarks
        seed = self._network.early(benchmarks, "capture_benchmark_seed", self.node_id)
        if seed is None:
            return None
        with self._context.metrics.busy("benchmark"):
            digests = benchmark.run_for(seed, self._seconds(left), _MIN_UNITS, self._device)
        units = len(digests)
        # What is wrong here would cost stake; a GPU's work is looked at by the CPU.
        mine = benchmark.draw_checks(os.urandom(32), units, DUE_CHECKS)
        wrong = benchmark.wrong_chunk(seed, digests, mine, "cpu")
        if wrong >= 0:
            why = f"chunk {wrong} of {units} is another when it is computed again on the CPU"
            self._context.log.error("computes_wrongly", device=self._device, why=why)
            return f"kept back: the answer to a benchmark, since {why}"
        artefact = self._store.put_bytes(benchmark.pack_artefact(digests))
        self._store.pin(artefact)
        crashpoint("trainer-before-benchmark")
        root = benchmark.root(seed, digests)
        self._context.sender.ensure(
            lambda: self._network.benchmark(self.node_id).submitted_at != 0,
            benchmarks,
            "submit_benchmark",
            self.node_id,
            seed,
            units,
            root,
            digest_of(artefact),
        )
        self._context.journal.put(_MACHINE, machine(self._device))
        return f"benchmarked: {units} units"

    def _seconds(self, left: float) -> float:
        """How long to work: as set, but for so many blocks that one more or less is within a tenth,
        and for so few that the seed is still known. `left`: seconds of the window, of which half is
        for the answer to be mined in."""
        settings, block_s = self._context.settings.trainer, self._context.sender.block_s
        wanted = max(settings.benchmark_s, settings.benchmark_blocks * max(1.0, block_s))
        known = _MOST_BLOCKS * block_s or math.inf
        return min(wanted, known, max(left / 2, 0.0))
