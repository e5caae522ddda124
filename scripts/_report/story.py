# SPDX-License-Identifier: Apache-2.0
"""What happened in a job, as plain data: `History` fills it from the chain, a JSON file holds it.

Amounts are in 1e-18 ZOO, times are chain time in seconds, digests and hashes are hex.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from agents.gauntlet.record import ScoreRecord
from agents.protocol.numbers import Phase, Violation
from agents.rounds.report import RoundReport


@dataclass
class NodeStory:
    """One node's life. `stakes` and `payouts` are (chain time, amount).

    `standing`: what the newest consensus of validators says of it, empty where there is none.
    """

    node_id: int
    name: str = ""
    payout: str = ""
    operator: str = ""
    roles: int = 0
    stake: int = 0
    state: str = "registered"
    verdict: str = ""
    standing: str = ""
    earned: int = 0
    stakes: list[tuple[int, int]] = field(default_factory=list)
    payouts: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class RoundStory:
    """One round.

    `paid`: credited to trainers, by node, whenever that was. `attested`: the verifiers who did.
    Of a job that validators score: `records` by verifier, of those who revealed, `consensus` by
    node, out of 65,535, empty until it is closed, and `trusts` by verifier, from 0 to 1.
    """

    round_id: int
    opened_at: int
    phase: Phase = Phase.COMMIT
    deadline: int = 0
    nodes: tuple[int, ...] = ()
    committed: set[int] = field(default_factory=set)
    revealed: set[int] = field(default_factory=set)
    proposers: list[int] = field(default_factory=list)
    attested: set[int] = field(default_factory=set)
    ended_at: int = 0
    report: RoundReport | None = None
    paid: dict[int, int] = field(default_factory=dict)
    records: dict[int, ScoreRecord] = field(default_factory=dict)
    consensus: dict[int, int] = field(default_factory=dict)
    trusts: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Slash:
    """One slash as NodeRegistry logged it, with the stake before it.

    `round_id`: of the offence, 0 if the chain names none. `reporter`: whom the chain pays for it.
    """

    node_id: int
    violation: Violation
    amount: int
    stake_before: int
    time: int
    banned: bool
    round_id: int = 0
    reporter: str = ""
    reporter_share: int = 0
    treasury_share: int = 0
    suspended_until: int = 0
    tx: str = ""
    block: int = 0


@dataclass(frozen=True)
class Voice:
    """A verifier that reported a node. `reason`: what its evidence says, as anybody may read it."""

    verifier: int
    evidence: str  # CID
    reason: str
    tx: str
    block: int


@dataclass
class Accusation:
    """A report on a node, with everyone who made it. `outcome`: empty while it is open."""

    node_id: int
    round_id: int
    violation: Violation
    voices: list[Voice] = field(default_factory=list)
    confirmed_block: int = 0
    appealed: bool = False
    outcome: str = ""


@dataclass(frozen=True)
class Duplicate:
    """Two nodes revealed the same content."""

    round_id: int
    first: int
    second: int


@dataclass(frozen=True)
class Credit:
    """What a node was credited. `what`: work, or a verifier's or proposer's cut."""

    node_id: int
    round_id: int
    amount: int
    what: str


@dataclass(frozen=True)
class Forfeit:
    """A share of a round that a convicted node did not get."""

    node_id: int
    round_id: int
    amount: int


@dataclass(frozen=True)
class Happening:
    """One line of the log. `tone`: plain, good or bad."""

    time: int
    text: str
    tone: str = "plain"


@dataclass
class Story:
    """All of it. `accusations` by report; `claimed` by account.

    `unclaimed`: what the treasury was credited, for work that counts for nobody, retained pay of
    convicted nodes, and shares that an ended job carried.
    """

    job_id: int
    nodes: dict[int, NodeStory] = field(default_factory=dict)
    rounds: dict[int, RoundStory] = field(default_factory=dict)
    slashes: list[Slash] = field(default_factory=list)
    accusations: dict[str, Accusation] = field(default_factory=dict)
    duplicates: list[Duplicate] = field(default_factory=list)
    credits: list[Credit] = field(default_factory=list)
    forfeits: list[Forfeit] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    claimed: dict[str, int] = field(default_factory=dict)
    funded: int = 0
    refunded: int = 0
    unclaimed: int = 0
    job_ended: bool = False
    now: int = 0

    def label(self, node_id: int) -> str:
        """How a node is shown."""
        return self.nodes[node_id].name if node_id in self.nodes else f"node {node_id}"

    def who(self, address: str) -> str:
        """How the holder of an address is shown: a node's owner, its operator, or the address."""
        for node in self.nodes.values():
            if address == node.payout:
                return f"{node.name}'s owner"
            if address == node.operator:
                return node.name
        return address

    @property
    def start(self) -> int:
        """When the first round opened; now if none did."""
        return min((round_.opened_at for round_ in self.rounds.values()), default=self.now)

    def copy(self) -> Story:
        """Only what is told, of a story that also follows a chain."""
        return Story(**{item.name: getattr(self, item.name) for item in fields(Story)})


def losses(story: Story) -> list[float]:
    """Validation loss before the first round, then after each finalized one."""
    done = [r for r in story.rounds.values() if r.phase == Phase.FINALIZED and r.report]
    if not done:
        return []
    reports = [r.report for r in done if r.report is not None]
    return [reports[0].val_loss_before, *(report.val_loss for report in reports)]
