# SPDX-License-Identifier: Apache-2.0
"""What the chain's events tell of an offence: its round, its reporters, their words, its price."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, Violation
from agents.runtime.contracts import Event
from agents.storage.canonical import dumps
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore, open_store
from scripts._demo.demo import show
from scripts._net.compiled import ROOT
from scripts._report.history import History
from scripts._report.live import render
from scripts._report.story import losses
from scripts._report.verdict import Check
from tests.stage.memory.demo_run import a_report

REPORT = b"\xaa" * 32


class Chain:
    """A history that is told its events by hand."""

    def __init__(self, folder: Path) -> None:
        self.store: ContentStore = open_store(str(folder))
        deployment = SimpleNamespace(block=1, contracts={})
        network = cast(Network, SimpleNamespace(deployment=deployment))
        self.history = History(network, self.store, 1, {"0xop3": "trainer-3"})

    def tell(self, name: str, tx: int = 1, **args: Any) -> None:
        event = Event(name, args, "0xc", block=40 + tx, block_hash=b"", tx_hash=bytes([tx] * 32),
                      log_index=0)  # fmt: skip
        self.history._event = event
        getattr(self.history, f"_on_{name}")(args, 100 + tx)

    def slash(self, tx: int, row: Violation, amount: int) -> None:
        self.tell(
            "NodeSlashed",
            tx,
            node_id=3,
            violation=int(row),
            amount=amount,
            reporter="0xpay6",
            reporter_share=amount // 2,
            treasury_share=amount - amount // 2,
            suspended_until=0,
            strikes=1,
            banned=False,
        )

    def report(self, verifier: int, evidence: bytes) -> None:
        self.tell(
            "ViolationReported",
            report_id=REPORT,
            node_id=3,
            verifier_id=verifier,
            job_id=1,
            round_id=2,
            violation=int(Violation.INVALID),
            evidence=digest_of(self.store.put_bytes(evidence)),
            weight=1,
        )


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    told = Chain(tmp_path)
    for node, roles in ((3, 1), (6, 2), (7, 2)):
        told.tell(
            "NodeRegistered",
            node_id=node,
            operator=f"0xop{node}",
            payout=f"0xpay{node}",
            roles=roles,
            stake=100 * ZOO,
        )
    told.tell("RoundOpened", round_id=2, nodes=[3])
    return told


def test_a_report_from_its_first_word_to_its_slash(chain: Chain) -> None:
    chain.report(6, json.dumps({"reason": "step 3 differs"}).encode())
    chain.report(7, b'{"reason":"it does"}')
    chain.tell("ReportConfirmed", 2, report_id=REPORT, node_id=3, appeal_deadline=0)
    chain.slash(3, Violation.INVALID, 20 * ZOO)
    chain.tell("ReportExecuted", 3, report_id=REPORT, node_id=3, amount=20 * ZOO)
    (accusation,) = chain.history.accusations.values()
    assert [voice.verifier for voice in accusation.voices] == [6, 7]
    assert accusation.voices[1].reason == "it does"
    assert accusation.confirmed_block == 42 and accusation.outcome == "executed"
    (slash,) = chain.history.slashes
    assert (slash.round_id, slash.block, slash.tx) == (2, 43, "0x" + "03" * 32)
    assert slash.reporter_share == 10 * ZOO
    assert chain.history.who(slash.reporter) == "node 6's owner"
    assert chain.history.nodes[3].stake == 80 * ZOO


@pytest.mark.parametrize("name", ["ReportDismissed", "ReportLapsed"])
def test_a_report_that_ends_without_a_slash__leaves_no_verdict(chain: Chain, name: str) -> None:
    chain.report(6, b"{}")
    assert chain.history.nodes[3].verdict == "reported INVALID"
    chain.tell(name, 4, report_id=REPORT, node_id=3)
    assert chain.history.nodes[3].verdict == ""
    assert "it is not slashed for it" in chain.history.happenings[-1].text


def test_a_slash_before_it_stays_the_verdict(chain: Chain) -> None:
    chain.slash(1, Violation.NO_REVEAL, 5 * ZOO)
    chain.report(6, b"{}")
    chain.tell("ReportDismissed", 4, report_id=REPORT, node_id=3)
    assert chain.history.nodes[3].verdict == "NO_REVEAL"


def propose(chain: Chain, tx: int, report: bytes) -> None:
    chain.tell("ResultProposed", tx, round_id=2, proposer=6, report=report)


@pytest.mark.parametrize("next_one", [None, b"\0" * 32], ids=["none", "one without a report"])
def test_a_result_that_a_challenge_threw_out__lends_its_loss_to_nothing(
    chain: Chain, next_one: bytes | None
) -> None:
    """A liar's loss of 0.001 stood for the round whose next report the store did not have."""
    lie = a_report(2, {3}).model_copy(update={"val_loss": 0.001})
    propose(chain, 2, digest_of(chain.store.put_bytes(lie.to_bytes())))
    chain.tell("Attested", 3, round_id=2, verifier_id=7)
    chain.tell("Challenged", 3, round_id=2, challenger="0xop6")
    chain.tell("ChallengeResolved", 4, round_id=2, upheld=True)
    if next_one is not None:
        propose(chain, 5, next_one)
        chain.tell("RoundFinalized", 6, round_id=2)
    assert chain.history.rounds[2].report is None and losses(chain.history) == []
    assert chain.history.rounds[2].attested == set()


def test_a_report_that_cannot_be_read__moves_no_terminal(chain: Chain) -> None:
    """What is wrong with it is said in its own words."""
    fields = {**a_report(2, {3}).model_dump(mode="json"), "[/x]\x1b]0;t\x07\u202e": 1}
    propose(chain, 2, digest_of(chain.store.put_bytes(dumps(fields))))
    out = StringIO()
    console = Console(width=500, file=out, force_terminal=True, color_system=None)
    console.print(render(chain.history, 3))
    assert r"[/x]\x1b]0;t\x07\u202e: is not a known key" in out.getvalue()
    assert not {"\x1b", "\x07", "\u202e"} & set(out.getvalue())
    story = chain.history.happenings[-1]
    show(console, [Check(False, story.text)], {}, ROOT / "x")
    assert out.getvalue().count("is not a known key") == 2


def test_a_result_that_withstood_a_challenge__stays(chain: Chain) -> None:
    propose(chain, 2, digest_of(chain.store.put_bytes(a_report(2, {3}).to_bytes())))
    chain.tell("Attested", 3, round_id=2, verifier_id=7)
    chain.tell("ChallengeResolved", 4, round_id=2, upheld=False)
    chain.tell("RoundFinalized", 6, round_id=2)
    assert len(losses(chain.history)) == 2 and chain.history.rounds[2].attested == {7}


@pytest.mark.parametrize("slash_first", [True, False])
def test_silence_belongs_to_its_round__whichever_event_comes_first(
    chain: Chain, slash_first: bool
) -> None:
    def unrevealed() -> None:
        chain.tell("UnrevealedSlashed", 5, job_id=1, round_id=2, node_id=3, amount=5 * ZOO)

    if not slash_first:
        unrevealed()
    chain.slash(5, Violation.NO_REVEAL, 5 * ZOO)
    if slash_first:
        unrevealed()
    assert [slash.round_id for slash in chain.history.slashes] == [2]


@pytest.mark.parametrize(
    "evidence",
    [b"\xff\x00", b"[1]", b'{"reason":3}', b'{"reason":' + b"[" * 5_000, b"{}", b'"reason"'],
)
def test_evidence_that_cannot_be_read__has_no_words(chain: Chain, evidence: bytes) -> None:
    chain.report(6, evidence)
    (accusation,) = chain.history.accusations.values()
    assert accusation.voices[0].reason == ""


def test_long_words_are_cut(chain: Chain) -> None:
    chain.report(6, b'{"reason":"' + b"x" * 100_000 + b'"}')
    (accusation,) = chain.history.accusations.values()
    assert len(accusation.voices[0].reason) == 400


def test_what_counts_for_nobody__is_no_nodes(chain: Chain) -> None:
    chain.tell("RewardsDistributed", round_id=2, nodes=[0, 3], payouts=["", ""], amounts=[4, 6])
    history = chain.history
    assert (history.unclaimed, history.rounds[2].paid) == (4, {3: 6})
    assert [(credit.node_id, credit.amount) for credit in history.credits] == [(3, 6)]


def test_a_share__of_the_guilty_is_lost_and_of_others_paid(chain: Chain) -> None:
    chain.tell("ShareSettled", round_id=2, node_id=3, guilty=True, amount=7)
    chain.tell("ShareSettled", round_id=2, node_id=3, guilty=False, amount=9)
    chain.tell("CutCredited", round_id=2, node_id=6, amount=2)
    history = chain.history
    assert [lost.amount for lost in history.forfeits] == [7]
    assert history.rounds[2].paid == {3: 9}
    assert {node: history.nodes[node].earned for node in (3, 6)} == {3: 9, 6: 2}
    assert [credit.what for credit in history.credits] == ["work", "cut"]


def test_another_jobs_report_is_nobodys(chain: Chain) -> None:
    for name in ("ReportExecuted", "ReportDismissed", "ReportLapsed"):
        chain.tell(name, report_id=b"\xbb" * 32, node_id=3)
    assert chain.history.accusations == {}


def test_a_copy_holds_what_is_told_and_no_more(chain: Chain) -> None:
    copy = chain.history.copy()
    assert copy.nodes == chain.history.nodes and not hasattr(copy, "_store")
