# SPDX-License-Identifier: Apache-2.0
"""A verifier's announcements: one evidence from the announcement to the report, whatever dies."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.protocol import formulas
from agents.protocol.numbers import Phase, ReportStatus
from agents.runtime.errors import JournalFull
from agents.runtime.journal import Journal
from agents.runtime.transaction import Order
from agents.storage.canonical import dumps, loads
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.verify import announcing
from agents.verify.announcing import Announcements

VERIFIER, NODE, DEPOSIT = 5, 9, 10
WRONG = {"version": 1, "wrong": ["model"]}
FOUND = dumps({"version": 1, "node": NODE})
VIEW: Any = SimpleNamespace(
    job_id=1,
    round_id=2,
    job=SimpleNamespace(terms=SimpleNamespace(challenge_bond=100)),
    round=SimpleNamespace(result_hash=b"\3" * 32),
    snapshot=SimpleNamespace(nodes=[NODE, 10 * NODE]),
)


class Chain:
    """What both contracts say of announcements, and what was sent to them."""

    def __init__(self) -> None:
        self.announced: set[tuple[bytes, bytes]] = set()
        self.sent: list[tuple[str, tuple[Any, ...]]] = []
        self.status = ReportStatus.NONE
        self.phase, self.attested = Phase.AGGREGATE, 2

    def call(self, contract: Any, function: str, *args: Any) -> Any:
        if function == "is_pending":
            return self.status in (ReportStatus.CONFIRMED, ReportStatus.APPEALED)
        return int(args in self.announced)

    def round(self, *place: int) -> Any:
        stakes = {"attested_stake": self.attested, "verifier_stake": 3}
        return SimpleNamespace(phase=self.phase, **stakes)

    def send(self, contract: Any, function: str, *args: Any) -> None:
        self.sent.append((function, args))
        if function == "announce_report":
            self.announced.add((formulas.announcement_key(*args[:3]), args[3]))
        elif function in ("open_announcement", "expire_announcement"):
            self.announced.clear()
        elif function == "announce_challenge":
            self.announced.add(((7).to_bytes(32, "big"), args[0]))

    def send_all(self, orders: list[Order]) -> list[None]:
        return [self.send(order.contract, order.function, *order.args) for order in orders]  # type: ignore[func-returns-value]


@pytest.fixture
def chain() -> Chain:
    return Chain()


class Agent:
    """An agent that can be killed: everything but chain, journal and files is made anew."""

    def __init__(self, folder: Path, chain: Chain) -> None:
        self.folder, self.chain, self.deposit = folder, chain, DEPOSIT
        self.store = EmbeddedStore(folder / "store")
        (folder / "artefacts").mkdir()
        self.journal = Journal(folder / "journal")

    def start(self) -> Announcements:
        self.journal.close()
        self.journal = Journal(self.folder / "journal")
        context = SimpleNamespace(
            journal=self.journal,
            artefacts=self.folder / "artefacts",
            chain=self.chain,
            sender=self.chain,
            wallet=SimpleNamespace(address="0x" + "00" * 19 + "07"),
            deployment=SimpleNamespace(chain_id=1),
            log=SimpleNamespace(info=lambda *_, **__: None),
        )
        contract = SimpleNamespace(address="0x" + "11" * 20)
        network = SimpleNamespace(
            reports=contract,
            results=contract,
            report=lambda _: SimpleNamespace(status=self.chain.status),
            round=self.chain.round,
            bounds=lambda: SimpleNamespace(least_bond=10),
        )

        def deposit(trainers: list[int], findings: int, kept: int) -> int:
            assert kept == 110, "a challenge of the round's result, and its deposit"
            return self.deposit

        purse = SimpleNamespace(deposit=deposit)
        return Announcements(cast(Any, network), cast(Any, context), self.store, cast(Any, purse))

    def digest(self, what: int, finder: int, evidence: bytes) -> bytes:
        return formulas.announcement(1, "0x" + "11" * 20, (1, 2), what, finder, evidence)


@pytest.fixture
def agent(tmp_path: Path, chain: Chain) -> Agent:
    return Agent(tmp_path, chain)


@pytest.mark.parametrize("dies", ["verifier-before-journal", "send", "verifier-announced", ""])
def test_node__one_evidence_is_announced_and_published_whatever_dies(
    agent: Agent, chain: Chain, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    def die(point: str) -> None:
        if point == dies:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("agents.runtime.commitments.crashpoint", die)
        patch.setattr(announcing, "crashpoint", die)
        if dies == "send":
            patch.setattr(chain, "send_all", lambda _: die("send"))
        with suppress(KeyboardInterrupt):
            agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    again = agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    assert again == (dies in ("verifier-before-journal", "send"))
    assert not agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    evidence = agent.start().publish_node(VIEW, NODE, FOUND)
    ((name, args),) = chain.sent
    digest = agent.digest(NODE, VERIFIER, evidence)
    assert (name, args[3:]) == ("announce_report", (digest, DEPOSIT))
    fields = loads(agent.store.get_digest(evidence, 1 << 20))
    assert len(fields.pop("salt")) == 64
    assert dumps(fields) == FOUND


def test_node__that_is_reported_already__is_not_announced(agent: Agent, chain: Chain) -> None:
    chain.status = ReportStatus.OPEN
    announcements = agent.start()
    assert not announcements.announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    evidence = announcements.publish_node(VIEW, NODE, FOUND)
    assert agent.store.get_digest(evidence, 1 << 20) == FOUND


LATER: Any = SimpleNamespace(job_id=1, round_id=3, snapshot=VIEW.snapshot)


def test_node__without_money_for_a_deposit__is_not_announced(agent: Agent, chain: Chain) -> None:
    agent.deposit = 0
    assert not agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    assert chain.sent == []
    assert agent.start().publish_node(VIEW, NODE, FOUND)


@pytest.mark.parametrize("status", [ReportStatus.CONFIRMED, ReportStatus.EXECUTED])
def test_node__convicted_by_others__is_opened_late_and_forgotten_in_the_end(
    agent: Agent, chain: Chain, status: ReportStatus
) -> None:
    agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    assert agent.start().settle(VIEW, VERIFIER) is None
    chain.status, chain.phase = status, Phase.CHALLENGE
    assert agent.start().settle(LATER, VERIFIER) is not None
    name, args = chain.sent[-1]
    assert (name, args[:4]) == ("open_announcement", (1, 2, VERIFIER, NODE))
    assert chain.sent[0][1][3] == agent.digest(NODE, VERIFIER, args[4])
    assert agent.start().settle(LATER, VERIFIER) is None
    assert agent.journal.keys("finding-") != []
    chain.status, chain.phase = ReportStatus.EXECUTED, Phase.FINALIZED
    agent.start().settle(LATER, VERIFIER)
    assert agent.journal.keys("finding-") == []


@pytest.mark.parametrize(("phase", "attested"), [(Phase.VOID, 2), (Phase.FINALIZED, 1)])
def test_node__that_nobody_judged__its_deposit_is_taken_back_once(
    agent: Agent, chain: Chain, phase: Phase, attested: int
) -> None:
    agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    assert agent.start().settle(LATER, VERIFIER) is None
    chain.phase, chain.attested = phase, attested
    assert agent.start().settle(LATER, VERIFIER) is not None
    name, args = chain.sent[-1]
    assert (name, args) == ("expire_announcement", (1, 2, VERIFIER, chain.sent[0][1][3]))
    assert agent.start().settle(LATER, VERIFIER) is None
    assert len(chain.sent) == 2
    assert agent.journal.keys("finding-") == []


def test_node__that_nobody_convicted__is_forgotten(agent: Agent, chain: Chain) -> None:
    """Its deposit is the treasury's; anybody may send it there."""
    agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    chain.phase = Phase.FINALIZED
    assert agent.start().settle(LATER, VERIFIER) is None
    assert agent.journal.keys("finding-") == []


@pytest.mark.parametrize("over", [False, True])
def test_node__whose_evidence_is_gone__is_forgotten_and_can_be_found_anew(
    agent: Agent, chain: Chain, over: bool
) -> None:
    """Such as after a version that removed the file first, and was killed before the entry."""
    agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    for file in (agent.folder / "artefacts").iterdir():
        file.unlink()
    if over:
        chain.phase = Phase.FINALIZED
    assert agent.start().settle(LATER, VERIFIER) is None
    assert agent.journal.keys("finding-") == []
    assert len(chain.sent) == 1


def test_node__whose_evidence_is_gone__has_it_on_disk_before_it_is_announced_again(
    agent: Agent, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    [file] = (agent.folder / "artefacts").iterdir()
    file.unlink()
    announcements = agent.start()

    def refuses(*_: object, **__: object) -> None:
        raise JournalFull("no room")

    with monkeypatch.context() as full:
        full.setattr(Journal, "put", refuses)
        with pytest.raises(JournalFull):
            announcements.announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    assert len(chain.sent) == 1 and not file.exists()
    assert announcements.announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    digest = chain.sent[-1][1][3]
    assert digest == agent.digest(NODE, VERIFIER, digest_of(cid_of_bytes(file.read_bytes())))


def test_node__that_a_full_disk_does_not_forget__holds_up_nothing(
    agent: Agent, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.start().announce_nodes(VIEW, VERIFIER, {NODE: FOUND})
    chain.phase = Phase.FINALIZED
    announcements = agent.start()

    def refuses(*_: object, **__: object) -> None:
        raise JournalFull("no room")

    with monkeypatch.context() as full:
        full.setattr(Journal, "put", refuses)
        for _ in range(2):
            assert announcements.settle(LATER, VERIFIER) is None
    assert agent.journal.keys("finding-") != []
    assert announcements.settle(LATER, VERIFIER) is None
    assert agent.journal.keys("finding-") == []


def test_result__announced_once_and_forgotten_after_its_round(agent: Agent, chain: Chain) -> None:
    assert not agent.start().has_announced_result(VIEW)
    assert agent.start().announce_result(VIEW, DEPOSIT, WRONG)
    assert agent.start().has_announced_result(VIEW)
    assert not agent.start().announce_result(VIEW, DEPOSIT, WRONG)
    evidence = agent.start().publish_result(VIEW, WRONG)
    result = int.from_bytes(b"\3" * 32, "big")
    assert chain.sent == [("announce_challenge", (agent.digest(result, 7, evidence),))]
    agent.start().forget_before(cast(Any, SimpleNamespace(job_id=1, round_id=3)))
    assert agent.journal.keys("challenge-") == []
