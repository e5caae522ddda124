# SPDX-License-Identifier: Apache-2.0
"""Two verifiers frame a trainer, and its owner types the command that the documents name: it is
made whole, and they pay. What can't be appealed is refused before anything is signed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from agents.protocol.numbers import ReportStatus
from agents.runtime.chain import ChainClient
from agents.runtime.logs import open_log
from agents.storage.embedded import EmbeddedStore
from tests.stage.chain.agents import RunningAgents
from tests.stage.chain.people import Node, People
from tests.stage.terminal import Terminal

STATEMENT = b"My work can be done again: see the trace.\n"


class Desk:
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
        line = f"{self.line} --round {round_id} {more}"
        return self.terminal.type(line, answers="y\n", fails=fails)


def _framed(people: People) -> tuple[Node, bytes]:
    ann, bob = people.nodes["ann"], people.nodes["bob"]
    report = people.convict(bob, ann)
    return bob, report


def test_a_framed_trainer_appeals_and_is_whole(people: People, tmp_path: Path) -> None:
    bob, report = _framed(people)
    before = people.bonded(bob)
    desk, store = Desk(people, bob, tmp_path), tmp_path / "store"
    (tmp_path / "say.txt").write_bytes(STATEMENT)
    number = people.round
    told = desk.appeal(number, f"--statement {tmp_path / 'say.txt'} --store {store}")
    assert "is appealed with a bond of" in told and told.count("Go on?") == 1
    client = ChainClient(people.chain._url, open_log("test", path=tmp_path / "test.log"))
    (event,) = client.events(people.reports, "ReportAppealed", 0, client.head().number)
    kept = EmbeddedStore(store).get_digest(event.args["statement"], 1_000)
    assert kept == STATEMENT
    again = desk.appeal(number, fails=True)
    assert "the report of INVALID is appealed" in again
    people.decide((people.reports, "resolve_appeal", (report, True)))
    assert people.chain.call(people.reports, "report_of", report).status == ReportStatus.DISMISSED
    assert people.bonded(bob) == before
    assert people.bonded(people.nodes["vic"]) < people.bonded(people.nodes["vito"])


def test_what_cannot_be_appealed_is_refused_in_a_sentence(people: People, tmp_path: Path) -> None:
    bob, _ = _framed(people)
    desk = Desk(people, bob, tmp_path)
    assert "there is none" in desk.appeal(people.round + 1, fails=True)
    people.chain.warp(int(people.chain.call(people.jobs, "job", people.job).terms.appeal_s) + 1)
    assert "The time to appeal ended" in desk.appeal(people.round, fails=True)
