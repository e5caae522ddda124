# SPDX-License-Identifier: Apache-2.0
"""Two verifiers frame a trainer. Its owner types the command that the documents name, or its agent
appeals by itself: it is made whole, and they pay. What can't be appealed is refused before anything
is signed; a guilty trainer's agent throws no bond away."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agents.protocol.numbers import ZOO, ReportStatus
from agents.protocol.view import observe
from agents.runtime.chain import ChainClient
from agents.runtime.logs import open_log
from agents.storage.cid import parse_cid
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from agents.training.state import State
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import COMMIT, INVALID, REVEAL, Node, People
from tests.stage.memory.honest_round import TinyJob
from tests.stage.terminal import Terminal, until

STATEMENT = b"My work can be done again: see the trace.\n"


class Owner:
    """A node's owner at a terminal."""

    def __init__(self, people: People, node: Node, folder: Path) -> None:
        self.people, self.node = people, node
        with ExitStack() as stack:
            deployment = RunningAgents(people, folder, stack).deployment
        self.terminal = Terminal(folder)
        self.terminal.has("owner", bytes(node.owner.key))
        self.line = (
            f"ape run appeal {node.node_id} --job {people.job} --network {people.chain._url} "
            f"--account owner --deployment {deployment}"
        )

    def appeal(self, round_id: int, more: str = "", fails: bool = False) -> str:
        """The command with `ape run`; one that fails is run in this process."""
        line = f"{self.line} --round {round_id} {more}"
        run = self.terminal.here if fails else self.terminal.type
        return run(line, answers="y\n", fails=fails)


def _framed(people: People) -> tuple[Node, bytes]:
    ann, bob = people.nodes["ann"], people.nodes["bob"]
    report = people.convict(bob, ann)
    return bob, report


def test_a_framed_trainer_appeals_and_is_whole(people: People, tmp_path: Path) -> None:
    bob, report = _framed(people)
    before = people.bonded(bob)
    owner, store = Owner(people, bob, tmp_path), tmp_path / "store"
    (tmp_path / "say.txt").write_bytes(STATEMENT)
    number = people.round
    told = owner.appeal(number, f"--statement {tmp_path / 'say.txt'} --store {store}")
    assert "is appealed with a bond of" in told and told.count("Go on?") == 1
    client = ChainClient(people.chain._url, open_log("test", path=tmp_path / "test.log"))
    (event,) = client.events(people.reports, "ReportAppealed", 0, client.head().number)
    kept = EmbeddedStore(store).get_digest(event.args["statement"], 1_000)
    assert kept == STATEMENT
    again = owner.appeal(number, fails=True)
    assert "the report of INVALID is appealed" in again
    people.decide((people.reports, "resolve_appeal", (report, True)))
    assert people.chain.call(people.reports, "report_of", report).status == ReportStatus.DISMISSED
    assert people.bonded(bob) == before
    assert people.bonded(people.nodes["vic"]) < people.bonded(people.nodes["vito"])


def test_what_cannot_be_appealed_is_refused_in_a_sentence(people: People, tmp_path: Path) -> None:
    bob, _ = _framed(people)
    owner = Owner(people, bob, tmp_path)
    assert "there is none" in owner.appeal(people.round + 1, fails=True)
    people.chain.warp(int(people.chain.call(people.jobs, "job", people.job).terms.appeal_s) + 1)
    assert "The time to appeal ended" in owner.appeal(people.round, fails=True)


# -- without a human ---------------------------------------------------------------------------

BOND = 100 * ZOO


class Altered(Trainer):
    """Reveals another update than its training gave."""

    def outgoing(self, update: State, memory: State | None) -> State:
        return {name: tensor + 0.5 for name, tensor in update.items()}


class Killed(BaseException):
    """Not an error that anything handles."""


class Deadly:
    """Sends requests of a process that is killed before, or right after, its n-th transaction."""

    def __init__(self, ask: Callable[..., Any], left: int) -> None:
        self._ask, self._left = ask, left

    @classmethod
    def arm(cls, patch: pytest.MonkeyPatch, chain: ChainClient, left: int) -> None:
        patch.setattr(chain, "request", cls(chain.request, left).request)

    def _count(self) -> None:
        self._left -= 1
        if self._left == -1:
            raise Killed

    def request(self, method: str, *params: Any) -> Any:
        if method != "eth_sendRawTransaction":
            return self._ask(method, *params)
        self._count()
        answer = self._ask(method, *params)
        self._count()
        return answer


class Court(RunningAgents):
    """A job in which ann and bob train with their own agents, and verifiers report what they
    like."""

    def __init__(self, people: People, tiny: TinyJob, folder: Path, stack: ExitStack) -> None:
        super().__init__(people, folder, stack)
        self.store = EmbeddedStore(folder / "store")
        shutil.copytree(tiny.store.root, self.store.root, dirs_exist_ok=True)
        self.kinds: dict[str, type[Trainer]] = {}

    def trainer(self, node: Node, **options: Any) -> Trainer:
        """Start, or restart, a node's agent."""
        store, job = str(self.folder / "store"), self.people.job
        context = self.begin(node, "trainer", store=store, job_id=job, device="cpu", **options)
        return self.kinds.get(node.name, Trainer)(context, self.store)

    def report(self, node: Node, *others: Node) -> bytes:
        """A round in which these train, and two verifiers have `node` declared invalid."""
        people = self.people
        people.open()
        people.chain.mine()
        agents = [(self.trainer(one), one) for one in (node, *others)]
        for duty, phase in (("commit", COMMIT), ("reveal", REVEAL)):
            for trainer, one in agents:
                view = observe(trainer.network, people.job, trainer.context.chain.head())
                assert getattr(trainer, duty)(view, one.node_id)
            people.pass_phase(phase)
        for trainer, _ in agents:
            until(lambda t=trainer: self._published(t), "the artefacts are published")
        people.chain.mine()
        arrays = people.offer(dict.fromkeys((node, *others), 1))
        report = people.report(node, INVALID, "vic", "vera")
        people.confirm(arrays)
        return report

    def _published(self, trainer: Trainer) -> bool:
        trainer.publication.step()
        return not trainer.publication._wanted

    def steps(self, trainer: Trainer, count: int = 3) -> list[str]:
        """What an agent does about reports within a few steps."""
        did = []
        for _ in range(count):
            trainer.publication.step()
            node = trainer.network.node_of(trainer.context.wallet.address)
            said = trainer.appeals.step(trainer.context.chain.head(), node, True)
            did += [said] if said else []
        return did

    def status(self, report: bytes) -> int:
        return int(self.people.chain.call(self.people.reports, "report_of", report).status)

    def errors(self, node: Node) -> str:
        lines = (self.folder / f"{node.name}.log").read_text().splitlines()
        return "\n".join(line for line in lines if "cannot_appeal" in line)


@pytest.fixture
def court(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Court]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield Court(people, tiny, tmp_path, stack)


def test_a_framed_trainers_agent_appeals_by_itself_and_once(
    court: Court, ann: Node, bob: Node
) -> None:
    """It is made whole and paid its share, its bond is back in its wallet, and the liars pay."""
    people = court.people
    before = people.chain.call(people.token, "balanceOf", bob.operator.address)
    stakes = {name: people.bonded(people.nodes[name]) for name in ("vic", "vera", "vito")}
    report = court.report(bob, ann)
    agent = court.trainer(bob)
    said = court.steps(agent)
    assert [s.split(":")[0] for s in said] == ["judged", "appealed"]
    assert court.status(report) == ReportStatus.APPEALED
    assert people.chain.call(people.token, "balanceOf", bob.operator.address) == before - BOND
    assert court.steps(court.trainer(bob)) == [], "nor after a restart"
    people.decide((people.reports, "resolve_appeal", (report, True)))
    assert court.status(report) == ReportStatus.DISMISSED
    assert court.steps(court.trainer(bob)) == ["withdrawn: the bond of 100 ZOO"]
    assert people.chain.call(people.token, "balanceOf", bob.operator.address) == before
    assert people.bonded(bob) == bob.stake
    lost = {name: stakes[name] - people.bonded(people.nodes[name]) for name in stakes}
    assert lost == {"vic": stakes["vic"] // 5, "vera": stakes["vera"] // 5, "vito": 0}
    assert court.errors(bob) == ""


def test_a_guilty_trainers_agent_keeps_its_bond(court: Court, ann: Node, bob: Node) -> None:
    people, court.kinds["bob"] = court.people, Altered
    report = court.report(bob, ann)
    before = people.chain.call(people.token, "balanceOf", bob.operator.address)
    assert [s.split(":")[0] for s in court.steps(court.trainer(bob))] == ["judged"]
    assert court.status(report) == ReportStatus.CONFIRMED
    assert people.chain.call(people.token, "balanceOf", bob.operator.address) == before
    assert court.errors(bob).count("is not what it revealed") == 1


def test_who_can_not_appeal_says_so_and_appeals_once_it_can(
    court: Court, ann: Node, bob: Node
) -> None:
    """Without the bond, and without its payload in the store: both are repaired in the window."""
    people = court.people
    report = court.report(bob, ann)
    wallet = bob.operator.address
    money = people.chain.call(people.token, "balanceOf", wallet)
    people.chain._nonces.pop(wallet, None)
    people.chain.send(bob.operator, people.token, "transfer", ann.owner.address, money)
    agent = court.trainer(bob)
    reveal = agent.network.reveals(*people.place, people.state.opened_block)[bob.node_id]
    court.store._path(parse_cid(court.store.resolve(reveal.content))).unlink()
    court.steps(agent)
    until(lambda: court.steps(agent) == [] and agent.appeals._findings != {}, "it is judged", 20)
    assert "lacks the bond of 100 ZOO" in court.errors(bob)
    assert court.status(report) == ReportStatus.CONFIRMED
    people.chain._nonces.pop(wallet, None)
    people.chain.send(ann.owner, people.token, "transfer", wallet, BOND)
    assert [s.split(":")[0] for s in court.steps(agent)] == ["appealed"]
    assert court.status(report) == ReportStatus.APPEALED


def test_a_window_that_is_over_is_said(court: Court, ann: Node, bob: Node) -> None:
    people = court.people
    report = court.report(bob, ann)
    people.chain.warp(int(people.chain.call(people.jobs, "job", people.job).terms.appeal_s) + 1)
    assert court.steps(court.trainer(bob)) == []
    assert "the time to appeal is over" in court.errors(bob)
    assert court.status(report) == ReportStatus.CONFIRMED


def test_an_operator_may_leave_appeals_to_its_owner(court: Court, ann: Node, bob: Node) -> None:
    court.report(bob, ann)
    assert court.steps(court.trainer(bob, trainer={"appeal": False})) == []


def test_a_trainer_killed_at_any_line_appeals_once(
    court: Court, ann: Node, bob: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and right after each transaction, one after the other, and started anew each time."""
    people = court.people
    report = court.report(bob, ann)
    before = people.chain.call(people.token, "balanceOf", bob.operator.address)

    people.chain._nonces.pop(bob.operator.address, None)
    people.chain.send(bob.operator, people.token, "approve", people.reports.address, 0)
    for left in (0, 1, 0, 1):  # before and after approving, before and after appealing
        agent = court.trainer(bob)
        with monkeypatch.context() as patch, pytest.raises(Killed):
            Deadly.arm(patch, agent.context.chain, left)
            court.steps(agent, 4)
    agent = court.trainer(bob)
    assert court.steps(agent, 4) == []
    assert court.status(report) == ReportStatus.APPEALED
    events = agent.context.chain.events(
        people.reports, "ReportAppealed", 0, agent.context.chain.head().number
    )
    assert len(events) == 1
    assert people.chain.call(people.token, "balanceOf", bob.operator.address) == before - BOND
