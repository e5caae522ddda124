# SPDX-License-Identifier: Apache-2.0
"""The demo of redundant tasks: strangers run them, the chain compares, cheats pay.

A chain, the contracts, nine executors and three verifiers, each agent its own process. A sponsor
has two models trained, measured and tried, all by tasks. Two of the executors cheat. The exit code
says whether everything that must hold at the end held.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live

from agents.protocol.network import Network
from agents.protocol.numbers import Violation
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from agents.runtime.pace import stretched
from agents.storage.content_store import open_store
from agents.storage.errors import StoreError
from agents.tasks.compute.classes import CPU
from agents.tasks.deterrence import deterrence
from agents.training.documents import read_documents, stdlib_corpus
from scripts._demo import typed
from scripts._demo.demo import show
from scripts._demo.run_folder import check_gas, stage
from scripts._demo.task_plan import Size, Wishes
from scripts._demo.task_report import write_report
from scripts._demo.task_run import FEES, Machine, TaskRun
from scripts._net.compiled import ROOT
from scripts._net.deployment import TaskTerms
from scripts._net.localnet import LocalnetSettings, build_localnet
from scripts._net.processes import ProcessError, Supervisor
from scripts._net.rpc_node import RpcNode
from scripts._report.amounts import zoo
from scripts._report.task_history import TaskHistory
from scripts._report.task_live import render
from scripts._report.task_verdict import check_final, check_money, check_results, check_slashes
from scripts._report.verdict import Check
from scripts._shared.economics import parameters, read

WORK = ROOT / ".menagerie" / "demo-redundant"
TERMS = TaskTerms(max_run_s=60, reveal_s=30, draw_s=600, appeal_s=20, verdict_s=60, dispute_s=120)
CHEATS = ("forger", "quitter")
# What a cheat's deeds come under: outvoted, silent, or agreed with another cheat and found out.
ALLOWED = {
    "forger": (Violation.REDUNDANCY_MISMATCH, Violation.COLLUSION),
    "quitter": (Violation.ABORT, Violation.COLLUSION),
}
AUDIT_RATE = 0.5
_READY_S = 300.0
_LOOK_S = 0.4
_TEXT_BYTES = 512 * 1024
_MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    executors: int
    tasks: int
    data: tuple[Path, ...]
    time_limit_s: float
    report: Path
    chain: Callable[[], RpcNode | None] = lambda: None  # asked for once the screen is there


def run(options: Options) -> int:
    """Run the demo; 0 when everything that must hold held."""
    logs = WORK.parent / "demo-redundant-logs"
    return stage(logs, lambda supervisor, console: Demo(options, supervisor, console).run())


class Demo:
    """One run of the demo."""

    def __init__(self, options: Options, supervisor: Supervisor, console: Console) -> None:
        self.options = options
        self.supervisor = supervisor
        self.console = console
        self.began = time.monotonic()
        names = [f"executor-{number}" for number in range(1, options.executors + 1)]
        self.cheats = dict(zip(CHEATS, names[-len(CHEATS) :], strict=True))

    def run(self) -> int:
        """Start everything, watch it to the end, judge it."""
        settings = LocalnetSettings(
            trainers=0,
            aggregators=0,
            verifiers=3,
            executors=self.options.executors,
            members=3,
            threshold=2,
            tasks=TERMS,
            agent={"device": "cpu", "verifier": {"task_audit_rate": AUDIT_RATE}},
        )
        self.say("strangers run deterministic tasks, the chain compares; two of them cheat")
        self.net = build_localnet(self.supervisor, WORK, settings, self.say, self.options.chain())
        self.start_agents()
        log = open_log("demo", path=self.net.directory / "demo.log")
        chain = ChainClient(self.net.chain.url, log)
        self.network = Network(chain, load_deployment(self.net.deployment_file))
        self.store = open_store(str(self.net.store))
        self.history = TaskHistory(self.network, self.store, self.names())
        self.say("packing the text and training the first checkpoint")
        given = self.options.data
        documents = list(read_documents(given) if given else stdlib_corpus(_TEXT_BYTES))
        machine = Machine(self.net)
        plan = Wishes(self.store, documents, self.options.tasks, Size(), machine.compute)
        self.wait_for_seats()
        nodes = {kind: self.net.seats[name].node_id for kind, name in self.cheats.items()}
        self.tasks = TaskRun(
            self.net, self.network, self.store, plan, self.history, machine, nodes.values()
        )
        try:
            self.watch()
            self.say("claiming, and comparing every result with a re-execution")
            claim = self.claim()
            self.history.update()
            return self.conclude(nodes, claim)
        finally:
            self.tasks.close()

    def paced(self, seconds: float) -> float:
        """How long to wait for what takes `seconds` where a block takes one."""
        return stretched(seconds, self.net.chain.block_s)

    def say(self, text: str) -> None:
        """One line of progress."""
        spent = f"[dim]{time.monotonic() - self.began:6.1f} s[/dim]"
        self.console.print(f"{spent}  {text}", soft_wrap=True)

    # -- starting ------------------------------------------------------------------------------

    def start_agents(self) -> None:
        """Start every agent as its own process."""
        net, cheats = self.net, {name: kind for kind, name in self.cheats.items()}
        executors = [seat.name for seat in net.of_role("executor")]
        self.say(f"starting {len(executors)} executors, {len(cheats)} of them cheats")
        for name in executors:
            program = ("scripts._demo.cheats", cheats[name]) if name in cheats else None
            net.start_agent(name, program)
        self.say("starting three verifiers")
        for seat in net.of_role("verifier"):
            net.start_agent(seat.name)

    def wait_for_seats(self) -> None:
        """Wait until every executor has its seat and every verifier runs. Raises ProcessError."""
        self.say("waiting for the executors to take their seats")
        self.net.wait_ready([seat.name for seat in self.net.of_role("verifier")], _READY_S)
        until = time.monotonic() + self.paced(_READY_S)
        waiting = {seat.node_id: seat.name for seat in self.net.of_role("executor")}
        while waiting:
            self.check_processes()
            if time.monotonic() > until:
                raise ProcessError(f"no seat after {_READY_S:g} s: {', '.join(waiting.values())}")
            tasks = self.network.tasks
            seats = {
                node: self.network.chain.call(tasks, "executor", node).seated for node in waiting
            }
            waiting = {node: name for node, name in waiting.items() if not seats[node]}
            time.sleep(_LOOK_S)

    def names(self) -> dict[str, str]:
        """Every node's name by its operator's address, and its owner's; a cheat's says what."""
        kinds = {name: f"{name} ({kind})" for kind, name in self.cheats.items()}
        found = {"0x": "", self.net.sponsor.address: "the sponsor"}
        for seat in self.net.seats.values():
            shown = kinds.get(seat.name, seat.name)
            found[seat.owner.address] = f"{shown}'s owner"
            found[seat.operator.address] = shown
        return found

    # -- running -------------------------------------------------------------------------------

    def watch(self) -> None:
        """Show the run until every task is final."""
        wanted = self.options.tasks
        self.say(f"creating {wanted} tasks, each when what it starts from is there")
        until = time.monotonic() + self.paced(self.options.time_limit_s)
        shown = len(self.history.happenings)
        with Live(console=self.console, auto_refresh=False) as live:
            while time.monotonic() < until:
                done = self.tasks.step()
                if self.console.is_terminal:
                    live.update(render(self.history, wanted), refresh=True)
                else:
                    for item in self.history.happenings[shown:]:
                        self.console.print(
                            f"  {item.text}", markup=False, highlight=False, soft_wrap=True
                        )
                    shown = len(self.history.happenings)
                self.check_processes()
                if done and all(t.settled(self.history.now) for t in self.tasks.tasks()):
                    self.history.update()
                    return
                time.sleep(_LOOK_S)
        limit = self.paced(self.options.time_limit_s)
        raise ProcessError(f"the tasks were not final after {limit:g} s; logs: {WORK.parent}")

    def check_processes(self) -> None:
        """Raise ProcessError if an agent has ended by itself."""
        for process in self.supervisor.fallen():
            raise ProcessError(f"{process.name} ended. Its last lines:\n{process.tail()}")

    # -- ending --------------------------------------------------------------------------------

    def claim(self) -> Check:
        """Let the best-paid executor's owner claim, by `ape run claim` from its own wallet."""
        earned = self.history.nodes
        best = max(self.net.of_role("executor"), key=lambda seat: earned[seat.node_id].earned)
        found = typed.claim(self.net, self.network, best)
        return Check(
            found.arrived,
            f"{found.owner} claimed {zoo(found.received)} ZOO of {zoo(found.owed)} owed",
            f"received {found.received}, owed {found.owed}",
        )

    def conclude(self, nodes: dict[str, int], claim: Check) -> int:
        """Check everything that must hold, write the report, say both."""
        history, tasks = self.history, self.tasks.tasks()
        history.count_gas()
        truth = self.tasks.truth()
        seats = self.net.seats.values()
        wallets = [str(key.address) for seat in seats for key in (seat.owner, seat.operator)]
        wallets += [self.net.sponsor.address, self.net.faucet.address]
        checks = [
            check_final(tasks, history),
            *check_results(tasks, history, truth, nodes.values()),
            *check_slashes(
                tasks, history, self.tasks.reader, nodes, ALLOWED, self.network.penalties()
            ),
            claim,
            *check_money(self.network, history, tasks, wallets),
            check_gas(self.supervisor),
        ]
        shutil.rmtree(self.options.report, ignore_errors=True)
        live = read(self.net.chain.url, self.net.deployment_file, 0)
        given: dict[str, int | None] = {"fee": max(FEES.values()), "nodes": self.options.executors}
        facts = self.facts()
        page = write_report(
            self.options.report,
            history,
            self.tasks.orders,
            self.payloads(),
            checks,
            facts,
            deterrence(parameters(live, given, AUDIT_RATE)),
        )
        show(self.console, checks, facts, page)
        return 0 if all(check.holds for check in checks) else 1

    def payloads(self) -> dict[int, bytes]:
        """What came out, by task, as the store has it."""
        found = {}
        for number, story in self.history.tasks.items():
            if story.stands is not None:
                try:
                    found[number] = self.store.get_digest(story.stands, _MAX_BYTES)
                except StoreError:
                    continue  # a fake that nobody publishes
        return found

    def facts(self) -> dict[str, str]:
        """Figures of the run."""
        stories = self.history.tasks.values()
        settled = [story for story in stories if story.settled_at]
        span = max(story.settled_at for story in settled) - self.history.began
        two = [story for story in settled if len(story.drawn) == 2 and not story.appellants]
        more = [s for s in settled if len(s.drawn) > 2 and not s.appellants]
        appealed = [story for story in settled if story.appellants]
        again = f", {self.tasks.again} of them once more" if self.tasks.again else ""
        return {
            "tasks": f"{len(settled)} in {span} s of chain time{again}",
            "throughput": f"{60 * len(settled) / max(1, span):.1f} tasks a minute",
            "latency, two agree": _spread([story.latency for story in two], "s"),
            "latency, more drawn": _spread([story.latency for story in more], "s"),
            "gas, two agree": _spread([story.gas for story in two], "gas"),
            "gas, more drawn": _spread([story.gas for story in more], "gas"),
            "gas, appealed": _spread([story.gas for story in appealed], "gas"),
            "executors drawn": f"{sum(len(s.drawn) for s in settled) / len(settled):.2f} a task",
            "appeals": f"{len(appealed)}; verifiers re-execute {AUDIT_RATE:.0%} each",
            "determinism class": CPU,
            "blocks": str(self.network.chain.head().number),
            "in all": f"{time.monotonic() - self.began:.0f} s",
        }


def _spread(figures: Iterable[float], unit: str) -> str:
    values = sorted(figures)
    if not values:
        return "-"
    middle = statistics.median(values)
    return f"{middle:,.0f} {unit} (median), {values[0]:,.0f} to {values[-1]:,.0f}"
