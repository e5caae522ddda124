# SPDX-License-Identifier: Apache-2.0
"""A finished run of three rounds, made by hand: what the pages of reports are tested with.

Two honest trainers, three cheats, two verifiers and an aggregator. Names, reasons and texts are
those of hostile strangers: they hold markup, and signs that turn the direction of writing.
"""

from __future__ import annotations

from typing import Any

from agents.protocol.numbers import ZOO, Phase, Violation
from agents.rounds.report import NodeLine, RoundReport
from scripts._report.run import Claim, Model, Replay, Run, Sample
from scripts._report.story import (
    Accusation,
    Credit,
    Duplicate,
    Forfeit,
    Happening,
    NodeStory,
    RoundStory,
    Slash,
    Story,
    Voice,
)
from scripts._report.verdict import Books, Check

HOSTILE = "<script>alert('x')</script>\u202e&\x07"
CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
TX = "0x" + "5a" * 32
LOSSES = (5.34, 3.59, 2.76, 2.68)
NAMES = {
    1: ("trainer-1", 1),
    2: (f"trainer-2 {HOSTILE}", 1),
    3: ("trainer-3 (noise)", 1),
    4: ("trainer-4 (copier)", 1),
    5: ("trainer-5 (silent)", 1),
    6: ("verifier-1", 2),
    7: ("verifier-2", 2),
    8: ("aggregator-1", 4),
}
PAID = 30 * ZOO + 7


def a_story() -> Story:
    """Round 1: the copier copies, the noise is found, the silent one is slashed at once."""
    nodes = {
        number: NodeStory(number, name, f"0xpay{number}", f"0xop{number}", roles, 100 * ZOO)
        for number, (name, roles) in NAMES.items()
    }
    for node in nodes.values():
        node.stakes = [(90, 100 * ZOO)]
    story = Story(1, nodes, funded=300 * ZOO, refunded=0, now=190, job_ended=True)
    for number in (1, 2, 3):
        everyone = number == 1
        seated = (1, 2, 3, 4, 5) if everyone else (1, 2)
        revealed = {1, 2, 3, 4} if everyone else {1, 2}
        story.rounds[number] = RoundStory(
            number,
            opened_at=70 + 30 * number,
            phase=Phase.FINALIZED,
            nodes=seated,
            committed=set(seated),
            revealed=revealed,
            proposers=[8],
            attested={6, 7} if number < 3 else {6},
            ended_at=99 + 30 * number,
            report=a_report(number, revealed),
            paid={1: PAID, 2: PAID},
        )
        story.credits += [Credit(node, number, PAID, "work") for node in (1, 2)]
        story.credits += [Credit(6, number, ZOO, "cut"), Credit(8, number, ZOO // 3, "cut")]
    for credit in story.credits:
        nodes[credit.node_id].earned += credit.amount
        nodes[credit.node_id].payouts.append((150, nodes[credit.node_id].earned))
    slash(story, 5, Violation.NO_REVEAL, 5, time=120, reporter="0xop1")
    slash(
        story, 3, Violation.INVALID, 20, time=140, reporter="0xpay6", suspended_until=140 + 604_800
    )
    slash(
        story, 4, Violation.COPIED, 50, time=150, reporter="0xpay7", suspended_until=150 + 2_592_000
    )
    reason = f"its step 3 differs {HOSTILE}"
    story.accusations = {
        "aa": Accusation(
            3, 1, Violation.INVALID, [Voice(6, CID, reason, TX, 41), Voice(7, CID, "", TX, 42)], 42
        ),
        "bb": Accusation(4, 1, Violation.COPIED, [Voice(7, CID, "", TX, 43)], 43),
    }
    story.duplicates = [Duplicate(1, 1, 4)]
    story.forfeits = [Forfeit(3, 1, 17 * ZOO)]
    story.claimed = {"0xpay2": 3 * PAID}
    story.happenings = [Happening(100, f"round 1 opened by {HOSTILE}"), Happening(120, "x", "bad")]
    return story


def slash(story: Story, node_id: int, row: Violation, share: int, **more: Any) -> None:
    """Slash that many of 100 ZOO, for round 1; half of it, rounded down, is the finder's."""
    amount = share * ZOO
    story.slashes.append(
        Slash(
            node_id,
            row,
            amount,
            100 * ZOO,
            banned=False,
            round_id=1,
            reporter_share=amount // 2,
            treasury_share=amount - amount // 2,
            tx=TX,
            block=50 + node_id,
            **more,
        )
    )
    node = story.nodes[node_id]
    node.stake -= amount
    node.verdict, node.state = row.name, "suspended"
    node.stakes.append((more["time"], node.stake))


def a_report(number: int, revealed: set[int]) -> RoundReport:
    """What the aggregator published; node 3 was left out."""
    return RoundReport(
        job=1,
        round=number,
        step=number - 1,
        prev_model="00" * 32,
        model="11" * 32,
        update=CID,
        checkpoint=CID,
        codec="dense",
        merge="mean",
        score="shares",
        carry_in=[],
        cursor_in=0,
        nodes=[
            NodeLine(
                node=node,
                content="22" * 32,
                accepted=True,
                merged=node != 3,
                reason="" if node != 3 else HOSTILE.replace("\x07", ""),
                batches=12,
                quality_ppm=1_000_000,
                gain_ppm=0,
                contribution=12,
            )
            for node in sorted(revealed)
        ],
        val_loss_before=LOSSES[number - 1],
        val_loss=LOSSES[number],
    )


def a_run() -> Run:
    """The run: everything holds."""
    story = a_story()
    credited = sum(credit.amount for credit in story.credits)
    claimed = sum(story.claimed.values())
    return Run(
        title="Menagerie: strangers train on public data",
        story=story,
        checks=[
            Check(True, "validation loss 5.3400 -> 2.6800"),
            Check(True, f"holds {HOSTILE}", "holds 5500000000000000000000"),
        ],
        cheats={NAMES[node][0]: "Cheat." for node in (3, 4, 5)},
        facts={"blocks": "129", "by": HOSTILE},
        claim=Claim(f"{NAMES[2][0]}'s owner", 3 * PAID, 3 * PAID, TX),
        replay=Replay(1432, [], 124, "0x" + "43" * 32),
        books=Books(story.funded - credited - 5 * ZOO, 0, credited - claimed, 5 * ZOO),
        model=Model(CID, "11" * 32, 108_864, attested=[2, 3]),
        samples=[Sample("def ", "\x00\x01\xa0", f"main(self):\n    {HOSTILE}", "Greedy")],
        commands=[
            "anvil --load-state report/chain.json --port 8545 &",
            "ape run audit --job 1 --rpc http://127.0.0.1:8545 --store report/store",
        ],
    )
