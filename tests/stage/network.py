# SPDX-License-Identifier: Apache-2.0
"""A network of real processes on a real chain, as the tests of this folder use it.

Rule: everything is observed from outside, on the chain or in the store. Nothing waits for a fixed
time: conditions are polled, and where the protocol waits for a deadline the chain's clock is moved
on, so deadlines can be generous and the tests quick at once. A process that ends although nobody
asked it to fails the test that is running.
"""

from __future__ import annotations

import inspect
import json
import resource
import signal
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import requests

from agents.jobs.publish import Terms, publish_job
from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, JobStatus, Phase, Violation
from agents.rounds.models import Models
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.errors import RpcDown
from agents.runtime.faults import CRASH_VARIABLE
from agents.runtime.logs import open_log
from agents.storage.content_store import ContentStore, open_store
from scripts._net.localnet import ROLES, Localnet
from scripts._net.pace import paced
from scripts._report.history import History
from scripts._report.verdict import Check, check_books, check_explained, check_ledger
from tests.stage.memory.tiny_specs import tiny_model

PATIENCE_S = 150.0  # of the test, for anything; the machine may be busy with other things
TERMS = Terms(
    reward_per_round=100 * ZOO,
    commit_s=180,
    reveal_s=180,
    aggregate_s=180,
    challenge_s=180,
    appeal_s=60,
    dispute_s=180,
    challenge_bond=50 * ZOO,
)
SPEC: dict[str, Any] = {
    "batches_per_round": 12,
    "eval_batches": 4,
    "audit_sample": 8,
    "checkpoint_every": 2,
    "model": tiny_model(16, 32, 16),
    "optimizer": {"batch_size": 8, "seq_len": 16, "lr": 1e-2},
}


@dataclass
class LocalNetwork:
    """One running network. `crashed` lists the armed processes that died at their crash point."""

    net: Localnet
    network: Network
    store: ContentStore
    jobs: list[int] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    _armed: set[str] = field(default_factory=set)
    _histories: dict[int, History] = field(default_factory=dict)
    _slashes_before: int = 0  # of this test

    @classmethod
    def of(cls, net: Localnet) -> LocalNetwork:
        log = open_log("test", path=net.directory / "test.log")
        chain = ChainClient(net.chain.url, log)
        network = Network(chain, load_deployment(net.deployment_file))
        return cls(net, network, open_store(str(net.store)))

    # -- processes -----------------------------------------------------------------------------

    def names(self, *roles: str) -> list[str]:
        return [seat.name for role in roles for seat in self.net.of_role(role)]

    def start(
        self, *names: str, program: tuple[str, ...] | None = None, crash_at: str | None = None
    ) -> None:
        """Start agents together and wait until every one has said that it is ready.

        With `crash_at` they die at that crash point, once, and are then started as before.
        """
        self._wait_ready(self._launch(names, program, crash_at))

    def arm(self, points: Mapping[str, tuple[str, ...]]) -> None:
        """Replace agents by ones that die at a crash point: `points` gives the names by point."""
        self.stop(*(name for names in points.values() for name in names))
        launched: dict[str, int] = {}
        for point, names in points.items():
            launched |= self._launch(names, None, point)
        self._wait_ready(launched)

    def _launch(
        self, names: Iterable[str], program: tuple[str, ...] | None, crash_at: str | None
    ) -> dict[str, int]:
        """Start agents; returns how often each has been ready before."""
        before = {name: self._times_ready(name) for name in names}
        for name in before:
            if crash_at is not None:
                self._armed.add(name)
            env = {} if crash_at is None else {CRASH_VARIABLE: crash_at}
            self.net.start_agent(name, program, env=env)
        return before

    def _wait_ready(self, before: dict[str, int]) -> None:
        self.until(
            lambda: all(self._times_ready(name) > times for name, times in before.items()),
            f"ready: {', '.join(before)}",
        )

    def stop(self, *names: str) -> None:
        """End agents as a power cut would."""
        for name in names:
            self.net.supervisor[name].kill()

    def kill_in(self, job: int, plan: Mapping[Phase, Iterable[str]]) -> None:
        """Kill and restart these agents as soon as a job's first round is seen in a phase."""
        for phase, names in plan.items():
            self.until_reached(job, phase)
            self.stop(*names)
            for name in names:
                self.net.start_agent(name)

    def settle(self, *names: str) -> None:
        """Make every armed process an ordinary one again, and start those of `names` that are not
        running."""
        self.stop(*self._armed)
        self._armed.clear()
        self.crashed.clear()
        running = {process.name for process in self.net.supervisor if process.running}
        self.start(*(name for name in names if name not in running))
        if self.jobs:
            self._slashes_before = len(self.history(self.jobs[-1]).slashes)

    @contextmanager
    def frozen(self, *names: str) -> Iterator[None]:
        """Stop agents' time (SIGSTOP) for as long as the block runs."""
        try:
            for name in names:
                self.net.supervisor[name].signal_group(signal.SIGSTOP)
            yield
        finally:
            for name in names:
                self.net.supervisor[name].signal_group(signal.SIGCONT)

    def pause(self) -> None:
        """Stop all agents' time, unless a job still needs them."""
        states = [self.network.job(job).status for job in self.jobs]
        if all(state in (JobStatus.COMPLETED, JobStatus.CANCELLED) for state in states):
            self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let their time go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for name in self.net.seats:
            with suppress(KeyError):  # a seat whose agent was never started
                self.net.supervisor[name].signal_group(number)

    @contextmanager
    def full_disk(self, name: str) -> Iterator[None]:
        """Let an agent's process write nothing to any file for as long as the block runs."""
        pid = self.net.supervisor[name].pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    def wait_eligible(self, names: Iterable[str]) -> None:
        """Wait until these seats' nodes may take part in rounds."""
        waiting = {name: self.net.seats[name] for name in names}

        def done() -> bool:
            for name, seat in list(waiting.items()):
                role = ROLES[seat.role]
                if self.network.chain.call(
                    self.network.registry, "is_eligible", seat.node_id, role
                ):
                    del waiting[name]
            return not waiting

        self.until(done, "the nodes are eligible")

    def _times_ready(self, name: str) -> int:
        log = self.net.directory.parent / "logs" / f"{name}.log"
        return log.read_bytes().count(b'"event": "ready"') if log.exists() else 0

    def _nurse(self) -> None:
        """Restart armed processes that died; anything else that ended is an error."""
        for process in self.net.supervisor.fallen():
            code = process.returncode
            process.stopped = True
            if process.name not in self._armed:
                raise AssertionError(f"{process.name} ended with {code}\n{process.tail()}")
            assert code == -signal.SIGKILL, f"{process.name} ended with {code}\n{process.tail()}"
            self.crashed.append(process.name)
            self._armed.discard(process.name)
            self.net.start_agent(process.name)

    # -- waiting -------------------------------------------------------------------------------

    def until(self, holds: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Poll until `holds()`; the failure says what was waited for."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._nurse()
            try:
                if holds():
                    return
            except (RpcDown, requests.RequestException):
                pass  # the chain's own outage is part of some tests
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s:g} s: {what}. {self.describe()}")
            time.sleep(0.1)

    def until_phase(self, job: int, phase: Phase, number: int = 1) -> None:
        """Wait until a round is in `phase`. A later phase is an error: it has been missed."""

        def there() -> bool:
            now = self.phase(job, number)
            assert now <= phase, f"round {number} is in {now.name}, past {phase.name}"
            return now == phase

        self.until(there, f"round {number} of job {job} is in {phase.name}")

    def until_reached(self, job: int, phase: Phase, number: int = 1) -> None:
        self.until(
            lambda: self.phase(job, number) >= phase,
            f"round {number} of job {job} has reached {phase.name}",
        )

    def skip(self, seconds: int) -> None:
        """Move the chain's clock on."""
        self.net.anvil.rpc("evm_increaseTime", max(1, seconds))
        self.net.anvil.rpc("evm_mine")

    def skip_deadline(self, job: int, number: int = 1, share: float = 1.0) -> None:
        """Let this share of what is left of the current phase pass."""
        left = int(self.round(job, number).deadline) - self.network.chain.head().timestamp
        self.skip(int(left * share) + 2)

    # -- looking -------------------------------------------------------------------------------

    def round(self, job: int, number: int = 1) -> Any:
        return self.network.round(job, number)

    def phase(self, job: int, number: int = 1) -> Phase:
        return Phase(self.round(job, number).phase)

    def node_id(self, name: str) -> int:
        return self.net.seats[name].node_id

    def history(self, job: int) -> History:
        """What happened on the chain, up to now."""
        if job not in self._histories:
            names = {str(seat.operator.address): seat.name for seat in self.net.seats.values()}
            self._histories[job] = History(self.network, self.store, job, names)
        self._histories[job].update()
        return self._histories[job]

    def forget(self) -> None:
        """Read all histories again from the start, as after a reorg."""
        self._histories.clear()

    def describe(self) -> str:
        """The newest job's newest round, in words."""
        try:
            job = self.network.job(self.jobs[-1]) if self.jobs else None
            if job is None or not job.rounds_opened:
                return "No round is open."
            number = int(job.rounds_opened)
            now = self.round(self.jobs[-1], number)
            return (
                f"Job {self.jobs[-1]} round {number}: {Phase(now.phase).name}, committed "
                f"{now.n_committed}, revealed {now.n_revealed}, of {now.n_eligible}."
            )
        except (RpcDown, requests.RequestException) as error:
            return f"The chain does not answer: {error}"

    # -- jobs ----------------------------------------------------------------------------------

    def job(
        self,
        rounds: int = 1,
        funded_rounds: int | None = None,
        terms: Terms = TERMS,
        **changes: Any,
    ) -> int:
        """Create a small job; returns its id. `changes`: fields of the spec."""
        published = publish_job(self.store, _corpus(), {**SPEC, "rounds": rounds, **changes})
        paced_terms = paced(terms, self.net.chain.block_s)
        job = self.net.create_job(published, paced_terms, funded_rounds or rounds)
        self.jobs.append(job)
        return job

    def finish(self, job: int, meanwhile: Callable[[], None] = lambda: None) -> History:
        """Wait until a job is complete and paid; `meanwhile` runs at each look."""

        def complete() -> bool:
            meanwhile()
            state = self.network.job(job)
            if state.status != JobStatus.COMPLETED:
                return False
            return bool(self.round(job, int(state.rounds_opened)).settled)

        self.until(complete, f"job {job} is complete")
        return self.history(job)

    def books(self, job: int) -> list[Check]:
        """The verdict on every token of the network and on the job's ledger."""
        total = self.history(self.jobs[0])
        funded, unclaimed = total.funded, total.unclaimed
        earned = {n: s.earned for n, s in total.nodes.items()}
        try:
            for other in map(self.history, self.jobs[1:]):
                total.funded += other.funded
                total.unclaimed += other.unclaimed
                for node, story in other.nodes.items():
                    total.nodes[node].earned += story.earned
            seats = self.net.seats.values()
            wallets = [key for seat in seats for key in (seat.owner, seat.operator)]
            wallets += [self.net.sponsor, self.net.faucet]
            holders = [str(wallet.address) for wallet in wallets]
            found = check_books(self.network, total, holders)
        finally:
            total.funded, total.unclaimed = funded, unclaimed
            for node, amount in earned.items():
                total.nodes[node].earned = amount
        models = Models(self.network, self.store)
        ledger = check_ledger(self.network, models, self.history(job), job)
        return [*found, check_explained(self.network), ledger]

    def assert_whole(
        self,
        job: int,
        accepted: Iterable[str] | None = None,
        slashed: Mapping[str, Violation] = MappingProxyType({}),
    ) -> History:
        """Nobody was slashed but those in `slashed`, each once; the job's rounds are
        final with all (or `accepted`) trainers' work in each; every token is where it belongs."""
        history = self.history(job)
        slashes = history.slashes[self._slashes_before :]
        wanted_slashes = sorted((self.node_id(name), kind) for name, kind in slashed.items())
        found_slashes = sorted((slash.node_id, slash.violation) for slash in slashes)
        assert found_slashes == wanted_slashes, f"{wanted_slashes} should be slashed: {slashes}"
        final = [r for r in history.rounds.values() if r.phase == Phase.FINALIZED]
        paid = self.network.job(job).terms.rounds
        assert len(final) == paid, f"all {paid} rounds should be final, and {len(final)} are"
        assert len(final) == len(history.rounds), "a round is void"
        wanted = None if accepted is None else {self.node_id(name) for name in accepted}
        for round_ in final:
            assert round_.report is not None, "a final round should have a report in the store"
            found, due = round_.report.accepted(), wanted or set(round_.nodes)
            assert found == due, f"the work of nodes {due} should be accepted, and {found} was"
        broken = [check.sentence for check in self.books(job) if not check.holds]
        assert broken == [], "every token should be where it belongs"
        return history

    def claim(self, name: str) -> tuple[int, int]:
        """Let a seat's owner claim; returns what it was owed and what it got."""
        pool, token = self.net.contract("RewardPool"), self.net.contract("ZooToken")
        owner = self.net.seats[name].owner
        owed = int(pool.functions.pending(owner.address).call())
        before = int(token.functions.balanceOf(owner.address).call())
        batch = self.net.batch()
        batch.add(owner, pool.functions.claim())
        batch.settle()
        return owed, int(token.functions.balanceOf(owner.address).call()) - before

    # -- when a test fails ---------------------------------------------------------------------

    def tails(self, lines: int = 12) -> str:
        parts = [self.describe()]
        for process in self.net.supervisor:
            state = "running" if process.running else f"ended with {process.returncode}"
            parts.append(f"--- {process.name} ({state})\n{process.tail(lines)}")
        return "\n".join(parts)


def _corpus() -> list[bytes]:
    """Some real text: the sources of two modules that every Python has."""
    return [inspect.getsource(module).encode() for module in (textwrap, json)]
