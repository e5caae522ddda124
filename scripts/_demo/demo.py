# SPDX-License-Identifier: Apache-2.0
"""The demo: a whole network on this machine trains a model, pays, punishes and is audited.

A chain, the contracts, five committee members, three verifiers, two aggregators and the trainers,
each agent its own process. What is trained on what, and who cheats, is the scenario's. The exit
code says whether everything that must hold at the end held.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests
from rich.console import Console
from rich.live import Live
from rich.markup import escape

from agents.audit.replay import audit_job
from agents.audit.show import print_audit
from agents.audit.sources.findings import Audit
from agents.jobs.outer_step import weights_of
from agents.jobs.publish import Published, publish_job
from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, Phase, ReportStatus, Role, Violation
from agents.rounds.models import Models
from agents.rounds.plan import Plans
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from agents.runtime.pace import stretched
from agents.runtime.printable import printable
from agents.storage.content_store import ContentStore, open_store
from agents.storage.sealed import new_key
from agents.training.state import numbers_in, save_state
from scripts._demo import typed
from scripts._demo.killing import Killing
from scripts._demo.over_ipfs import AUDITOR, SPONSOR, check_stores
from scripts._demo.replayable import commands, keep
from scripts._demo.run_folder import check_gas, stage
from scripts._demo.scenario import Scenario, documents_of
from scripts._demo.secret import DemoKeyServer, Sight
from scripts._net.compiled import ROOT
from scripts._net.ipfs_nodes import Ipfs
from scripts._net.localnet import LocalnetSettings, build_localnet, relative
from scripts._net.pace import paced
from scripts._net.processes import ProcessError, Supervisor
from scripts._net.rpc_node import RpcNode
from scripts._report.amounts import zoo
from scripts._report.history import History
from scripts._report.live import render
from scripts._report.page.report import write_report
from scripts._report.run import Claim, Model, Replay, Run, Sample
from scripts._report.sampling import samples_of, tokens_of
from scripts._report.spent import spent_of
from scripts._report.stages import Seats, StageLine, stages_of
from scripts._report.standing import standing_of
from scripts._report.story import losses
from scripts._report.verdict import (
    Check,
    attested_rounds,
    check_attested,
    check_books,
    check_cheats,
    check_explained,
    check_held,
    check_ledger,
    check_loss,
    read_books,
)

WORK = ROOT / ".menagerie" / "demo"
_READY_S = 300.0
_ATTESTED_S = 60.0  # for the committee's last attestation
# Registered and started by the commands that a person types; the others directly, which is quicker.
_BY_HAND = ("trainer-1", "verifier-1", "aggregator-1")
# That every agent gets ether for, on a chain of somebody else's.
_AGENT_GAS = 40_000_000
_ROUND_GAS = 10_000_000
# Some eighty times what a trainer is paid for a round, so that few have to be drawn.
_TRAINER_STAKE = 1_000 * ZOO
_LOOK_S = 0.5
_RECORD_BYTES = 1 << 24  # of a round's shards, which hold a few hundred bytes for each two miners
# What a stranger can't repeat, where it is not everything.
_LOCAL = "The training can't be repeated by a stranger: its data never left the nodes."
_FREE = (
    "Nodes trained as they liked, so what a stranger repeats is how their updates were measured, "
    "not the training."
)


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    scenario: Scenario
    trainers: int
    rounds: int
    data: tuple[Path, ...]
    time_limit_s: float
    report: Path
    chain: Callable[[], RpcNode | None] = lambda: None  # asked for once the screen is there
    ipfs: Callable[[], Ipfs | None] = lambda: None  # also; None: all agents share a folder


def run(options: Options) -> int:
    """Run the demo; 0 when everything that must hold held."""
    logs = WORK.parent / "demo-logs"
    return stage(logs, lambda supervisor, console: Demo(options, supervisor, console).run())


class Demo:
    """One run of the demo."""

    def __init__(self, options: Options, supervisor: Supervisor, console: Console) -> None:
        self.options = options
        self.supervisor = supervisor
        self.console = console
        self.began = time.monotonic()
        seats = [f"trainer-{number}" for number in range(1, options.trainers + 1)]
        cheats, peers = options.scenario.cheats, options.scenario.peers
        first = len(seats) - len(cheats)
        self.cheats = dict(zip(cheats, seats[first:], strict=True))  # by what they do: the seat
        self.peers = dict(zip(peers, seats[first - len(peers) : first], strict=True))
        self.audited: Audit  # once `audit` has run
        # The sponsor's secret, where the data is encrypted, and who gives keys out.
        self.key = None if options.scenario.shard_bytes is None else new_key()
        self.key_server: DemoKeyServer | None = None

    def run(self) -> int:
        """Start everything, watch it to the end, judge it."""
        self.say(self.options.scenario.title)
        self.ipfs = self.options.ipfs()
        settings = LocalnetSettings(
            trainers=self.options.trainers,
            approve_roles=False,
            by_hand=_BY_HAND,
            trainer_stake=_TRAINER_STAKE,
            store_of=None if self.ipfs is None else self.ipfs.address,
            operator_gas=_AGENT_GAS + self.options.rounds * _ROUND_GAS,
            agent={"portable": False},  # one machine: the faster arithmetic gives the same bits
            owned_with={
                self.cheats[kind]: f"trainer-{cheat.partner}"
                for kind, cheat in self.options.scenario.cheats.items()
                if cheat.same_owner
            },
        )
        self.net = build_localnet(self.supervisor, WORK, settings, self.say, self.options.chain())
        if self.ipfs is not None:
            self.say(f"no folder is shared: bytes travel over {self.ipfs.said}")
            self.ipfs.start(self.supervisor, (SPONSOR, AUDITOR))
        self.say("registering one node of each role as its owner does, with `ape run`")
        typed.register(self.net, [self.net.seats[name] for name in _BY_HAND])
        self.say("packing the corpus and the genesis model")
        documents = documents_of(self.options.data)
        self.prompt = documents[0].decode("utf-8", "replace")
        folder = self.net.directory / "data"
        self.data = self.options.scenario.data(documents, folder, self.options.trainers)
        published = self.publish()
        self.start_agents()
        log = open_log("demo", path=self.net.directory / "demo.log")
        chain = ChainClient(self.net.chain.url, log)
        self.network = Network(chain, load_deployment(self.net.deployment_file))
        self.store = self.open_store(SPONSOR)
        self.wait_for_benchmarks()
        terms = paced(self.options.scenario.terms, self.net.chain.block_s)
        self.job_id = self.net.create_job(published, terms, self.options.rounds)
        started = time.monotonic()
        size = f"{published.parameters:,} parameters, {published.tokens:,} bytes of text"
        self.say(f"job {self.job_id}: {size}")
        self.parameters = published.parameters
        self.models = Models(self.network, self.store, lambda _: self.key)
        if self.key is not None:
            place = self.network, self.store, self.job_id, self.key
            self.key_server = DemoKeyServer(self.net, *place)
        self.history = History(self.network, self.store, self.job_id, self.names())
        self.killing = Killing(self.net, self.supervisor, self.options.scenario.killed)
        self.watch()
        trained_s = time.monotonic() - started
        self.await_attestations()
        utilisation = self.utilisation()
        self.held = self.metric("model_numbers")
        claim = self.claim()
        self.history.update()
        return self.conclude(claim, trained_s, utilisation)

    def paced(self, seconds: float) -> float:
        """How long to wait for what takes `seconds` where a block takes one."""
        return stretched(seconds, self.net.chain.block_s)

    def open_store(self, whose: str) -> ContentStore:
        """The store of the sponsor or the auditor: of its own over IPFS, else the shared folder."""
        return open_store(str(self.net.store) if self.ipfs is None else self.ipfs.address(whose))

    def say(self, text: str) -> None:
        """One line of progress."""
        self.console.print(f"[dim]{time.monotonic() - self.began:6.1f} s[/dim]  {text}")

    # -- starting ------------------------------------------------------------------------------

    def start_agents(self) -> None:
        """Start every agent as its own process."""
        net = self.net
        self.say("starting the committee, verifiers and aggregators")
        for role in ("coordinator", "verifier", "aggregator"):
            for seat in net.of_role(role):
                net.start_agent(seat.name)
        scenario = self.options.scenario
        trainers = [seat.name for seat in net.of_role("trainer")]
        own = {name: dict(of) for name, of in zip(trainers, self.data.settings, strict=False)}
        for kind, name in self.peers.items():
            own[name] = {**own.get(name, {}), **scenario.peers[kind]}
        self.say(f"starting {len(trainers)} trainers, {len(self.cheats)} of them cheats")
        for name in trainers:
            if name not in self.cheats.values():
                net.start_agent(name, env=own.get(name))
        for kind, name in self.cheats.items():
            cheat = scenario.cheats[kind]
            folder = net.directory / "agents" / f"trainer-{cheat.partner}"
            env = {**own.get(name, {}), "CHEAT_PARTNER_DIR": str(folder), **cheat.env}
            net.start_agent(name, ("scripts._demo.cheats", cheat.program), env=env)

    def publish(self) -> Published:
        """Put public data, spec and genesis model into the store."""
        options = self.options
        spec = {"rounds": options.rounds, **options.scenario.spec(options.trainers)}
        store, shards = self.open_store(SPONSOR), options.scenario.shard_bytes
        return publish_job(store, self.data.public, spec, data_key=self.key, shard_bytes=shards)

    def wait_for_benchmarks(self) -> None:
        """Wait until every node may take part. Raises ProcessError."""
        chain, registry = self.network.chain, self.network.registry
        waiting = {
            seat.name: (seat.node_id, int(Role[seat.role.upper()]))
            for seat in self.net.seats.values()
            if seat.node_id
        }
        until = time.monotonic() + self.paced(_READY_S)
        self.say("waiting for the committee's approvals and the verified benchmarks")
        while waiting:
            self.check_processes()
            if time.monotonic() > until:
                raise ProcessError(f"not ready after {_READY_S:g} s: {', '.join(sorted(waiting))}")
            waiting = {
                name: place
                for name, place in waiting.items()
                if not chain.call(registry, "is_eligible", *place)
            }
            time.sleep(_LOOK_S)

    def names(self) -> dict[str, str]:
        """Every node's name by its operator's address; a cheat's or peer's says what it does."""
        shown = {name.split(" ")[0]: name for name in self.shown().values()}
        return {
            seat.operator.address: shown.get(seat.name, seat.name)
            for seat in self.net.seats.values()
        }

    def shown(self) -> dict[str, str]:
        """How reports name the cheats and peers, by what they do."""
        return {kind: f"{seat} ({kind})" for kind, seat in {**self.cheats, **self.peers}.items()}

    # -- running -------------------------------------------------------------------------------

    def watch(self) -> None:
        """Show the run until the job is complete and every slash is executed."""
        until = time.monotonic() + self.paced(self.options.time_limit_s)
        shown = 0
        with Live(console=self.console, auto_refresh=False) as live:
            while time.monotonic() < until:
                self.history.update()
                if self.console.is_terminal:
                    live.update(render(self.history, self.options.rounds), refresh=True)
                else:
                    for item in self.history.happenings[shown:]:
                        self.console.print(f"  {item.text}", markup=False, highlight=False)
                    shown = len(self.history.happenings)
                for sentence in self.killing.look(self.job_id, self.history):
                    self.say(sentence)
                if self.key_server is not None:
                    self.key_server.look()
                self.check_processes()
                if self.history.job_ended and not self.slashes_pending():
                    return
                time.sleep(_LOOK_S)
        limit = self.paced(self.options.time_limit_s)
        raise ProcessError(f"the job was not complete after {limit:g} s; logs: {WORK.parent}")

    def await_attestations(self) -> None:
        """Wait for the committee's word on the last checkpoint; the verdict says whether it came.

        Its members recompute a round at a time, while the nodes train the next ones.
        """
        self.say("waiting for the committee to attest the last model")
        until = time.monotonic() + self.paced(_ATTESTED_S)
        while time.monotonic() < until:
            self.check_processes()
            if check_attested(self.network, self.models, self.job_id).holds:
                break
            time.sleep(_LOOK_S)
        self.history.update()

    def check_processes(self) -> None:
        """Raise ProcessError if an agent has ended by itself."""
        for process in self.supervisor.fallen():
            raise ProcessError(f"{process.name} ended. Its last lines:\n{process.tail()}")

    def slashes_pending(self) -> bool:
        """Whether a silent node is not yet slashed, or a report waits for its appeal window."""
        slashed = {s.node_id for s in self.history.slashes if s.violation == Violation.NO_REVEAL}
        for story in self.history.rounds.values():
            if story.phase == Phase.FINALIZED and story.committed - story.revealed - slashed:
                return True
        head = self.network.chain.head().number
        waiting = (ReportStatus.OPEN, ReportStatus.CONFIRMED, ReportStatus.APPEALED)
        reports = self.network.reported(self.job_id, self.network.deployment.block, head)
        return any(self.network.report(report).status in waiting for report in reports)

    def utilisation(self) -> float:
        """Share of wall time that the trainers spent computing, mean over trainers."""
        shares = self.metric("utilisation_ratio").values()
        return sum(shares) / len(shares) if shares else 0.0

    def metric(self, name: str) -> dict[str, float]:
        """What the trainers' own metrics say, by trainer."""
        found = {}
        for seat in self.net.of_role("trainer"):
            reply = requests.get(f"http://127.0.0.1:{seat.metrics_port}/metrics", timeout=5)
            for line in reply.text.splitlines():
                if line.startswith(f"menagerie_{name} "):
                    found[seat.name] = float(line.split()[1])
        return found

    # -- ending --------------------------------------------------------------------------------

    def claim(self) -> Claim:
        """Let the best-paid trainer's owner claim, by `ape run claim` from its own wallet."""
        earned = self.history.nodes
        best = max(self.net.of_role("trainer"), key=lambda seat: earned[seat.node_id].earned)
        return typed.claim(self.net, self.network, best)

    def conclude(self, claim: Claim, trained_s: float, utilisation: float) -> int:
        """Check everything that must hold, write the report, say both."""
        checks = self.checks(claim)
        last = [story.report for story in self.history.rounds.values() if story.report][-1:]
        cid = last[0].checkpoint if last else None
        checks.append(Check(cid is not None, f"final checkpoint {cid}"))
        job = self.models.job(self.job_id)
        newest = self.models.current(self.job_id)
        checkpoint = None if cid is None else save_state(weights_of(newest, job.shapes))
        slices = job.slices
        stages = 1 if slices is None else slices.last + 1
        per_round = trained_s / self.options.rounds
        facts = {
            "validation loss": " → ".join(f"{loss:.3f}" for loss in losses(self.history)),
            "training": f"{trained_s:.0f} s, {per_round:.1f} s a round",
            "in all": f"{time.monotonic() - self.began:.0f} s",
            "trainers' utilisation": f"{utilisation:.1%} of wall time spent computing",
            "blocks": str(self.network.chain.head().number),
            "claim": claim.tx,
        }
        if self.ipfs is not None:
            facts["bytes travelled over"] = self.ipfs.said
        spent = spent_of(self.audited, self.history.label)
        if spent is not None:
            facts["privacy spent"] = str(spent)
        directory = self.options.report
        shutil.rmtree(directory, ignore_errors=True)
        keep(self.net, directory, self.ipfs)
        shown = self.shown()
        ledger = self.network.job(self.job_id).model
        words = attested_rounds(self.network, self.models, self.job_id)
        good = [number for number, attested in words.items() if attested]
        spec = self.models.spec(self.job_id)
        run = Run(
            title=f"Menagerie: {self.options.scenario.title}",
            story=self.history.copy(),
            checks=checks,
            cheats={shown[kind]: self.options.scenario.cheats[kind].does for kind in self.cheats},
            limits=_LOCAL if spec.access == "local" else _FREE if spec.verify == "gauntlet" else "",
            facts=facts,
            claim=claim,
            replay=Replay(
                self.audited.compared,
                [str(difference) for difference in self.audited.differences],
                self.audited.block,
                self.audited.block_hash,
            ),
            books=read_books(self.network),
            model=None if cid is None else Model(cid, ledger.hex(), self.parameters, stages, good),
            samples=self.samples(),
            spent=spent,
            standing=standing_of(self.history),
            stages=self.stages(),
            commands=commands(self.net, self.job_id, directory, self.ipfs),
        )
        page = write_report(directory, run, checkpoint)
        show(self.console, checks, facts, page)
        return 0 if all(check.holds for check in checks) else 1

    def stages(self) -> list[StageLine]:
        """What the miners of a pipeline did; nothing of another job."""
        if self.models.spec(self.job_id).pipeline is None:
            return []
        plans = Plans(self.network, self.models)

        def seats_of(number: int) -> Seats:
            epoch = plans.past(self.job_id, number).epoch
            assert epoch is not None
            return epoch.stages

        return stages_of(self.history, seats_of, lambda cid: self.store.get(cid, _RECORD_BYTES))

    def samples(self) -> list[Sample]:
        """What the model wrote before the first round and after the last."""
        job = self.models.job(self.job_id)
        terms = self.network.job(self.job_id).terms
        before = weights_of(self.models.at(self.job_id, terms.genesis_model), job.shapes)
        after = weights_of(self.models.current(self.job_id), job.shapes)
        return samples_of(job, tokens_of(job, self.store), before, after, self.prompt)

    def checks(self, claim: Claim) -> list[Check]:
        """What must hold."""
        seats = self.net.seats.values()
        wallets = [str(key.address) for seat in seats for key in (seat.owner, seat.operator)]
        wallets += [self.net.sponsor.address, self.net.faucet.address]
        scenario, names = self.options.scenario, self.shown()
        blame = {
            names[kind]: cheat.violation
            for kind, cheat in scenario.cheats.items()
            if cheat.violation is not None
        }
        return [
            check_loss(self.history, scenario.loss_goal),
            *check_cheats(self.history, blame, self.network.penalties()),
            Check(
                claim.arrived,
                f"{claim.owner} claimed {zoo(claim.received)} ZOO of {zoo(claim.owed)} owed",
                f"received {claim.received}, owed {claim.owed}",
            ),
            *check_books(self.network, self.history, wallets),
            check_explained(self.network),
            check_ledger(self.network, self.models, self.history, self.job_id),
            check_attested(self.network, self.models, self.job_id),
            *scenario.checks(self.history, names),
            *self.killing.checks(self.history),
            *self.one_stage(),
            *self.sight(),
            check_gas(self.supervisor),
            *self.audit(),
            *([] if self.ipfs is None else [check_stores(self.net, self.ipfs)]),
        ]

    def one_stage(self) -> list[Check]:
        """What must hold of who holds what of a model that is split."""
        slices = self.models.job(self.job_id).slices
        if slices is None:
            return []
        model = self.network.job(self.job_id).model
        parts = (self.models.at(self.job_id, model, stage) for stage in range(slices.last + 1))
        # Who is reported reads all of the round, to judge whether it should appeal.
        reported = set(self.cheats.values())
        held = {name: int(n) for name, n in self.held.items() if name not in reported}
        return [check_held(held, [numbers_in(part) for part in parts])]

    def sight(self) -> list[Check]:
        """What must hold of encrypted data."""
        if self.key is None:
            return []
        seats = self.net.seats.values()
        folders = {s.name: self.net.directory / "agents" / s.name for s in seats}
        nodes = {s.name: s.node_id for s in seats if s.node_id}
        run = self.net.directory
        sight = Sight(self.network, self.store, self.job_id, self.key, folders, nodes, run)
        return self.options.scenario.sight(sight, self.cheats)

    def audit(self) -> list[Check]:
        """What a stranger finds who replays the run from the chain and the store alone."""
        self.say("auditing the run from the chain and the store alone")
        log = open_log("audit", path=self.net.directory / "audit.log")
        chain = ChainClient(self.net.chain.url, log)
        network = Network(chain, load_deployment(self.net.deployment_file))
        store = self.open_store(AUDITOR)
        found = audit_job(network, store, self.job_id, data_key=self.key)
        print_audit(found, self.console)
        self.audited = found
        first = f": {found.differences[0]}" if found.differences else ""
        checks = [Check(found.holds, f"the audit compared {found.compared:,} facts{first}")]
        if again := self.options.scenario.again:
            self.say(f"doing all work of round {again} again")
            done = audit_job(
                network, store, self.job_id, round_id=again, deep=True, data_key=self.key
            )
            first = f": {done.differences[0]}" if done.differences else ""
            said = f"a stranger did all work of round {again} again: {done.compared:,} facts{first}"
            checks.append(Check(done.holds, said))
        return checks


def show(console: Console, checks: list[Check], facts: dict[str, str], page: Path) -> None:
    """Print the summary."""
    console.print()
    for name, value in facts.items():
        console.print(f"{name:>22}  {value}", highlight=False, soft_wrap=True)
    console.print()
    for check in checks:
        mark = "[green]holds[/green]" if check.holds else "[bold red]FAILS[/bold red]"
        exact = f" ({check.exact})" if check.exact and not check.holds else ""
        console.print(
            f"{mark}  {escape(printable(check.sentence + exact))}", highlight=False, soft_wrap=True
        )
    console.print(f"\nreport: {relative(page)}", highlight=False)
