# SPDX-License-Identifier: Apache-2.0
"""What TrainingJobs, TrainingRounds and TrainingResults refuse, to whom and when. Every row begins
with job 1 and no round; round 1 is the one that `after` opens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.stage.contracts.refusals import (
    CONTRACTS,
    Act,
    Refusal,
    address,
    by,
    by_each,
    first,
    node,
)
from tests.stage.contracts.refusals import refused as row
from tests.stage.contracts.rounds import EVIDENCE, MODEL, REPORT, UPDATE, RoundStage
from tests.stage.contracts.system import (
    AGGREGATOR,
    EMPTY,
    REWARD,
    STAKE,
    TRAINER,
    VERIFIER,
    Player,
    terms_tuple,
)

WORD, HUGE = b"\x01" * 32, 2**256 - 1
ROUND_TERMS = (1, WORD, 128, 600, 500, 400, 300, 800, REWARD, 2**40 - 1)
PEOPLE = ("sponsor", "stranger", "trainer 0", "verifier 0", "aggregator 0", "deployer")
TRAINER_0 = node("trainer 0")
# Who may be taken for trainer 0's operator and is not.
NOT_TRAINER_0 = [
    *("trainer 0 owner", "trainer 0 payout", "trainer 1", "verifier 0", "aggregator 0"),
    *("sponsor", "coordinator", "reports", "stranger"),
]
NOT_SPONSORS = [
    *("trainer 0 owner", "trainer 0 payout", "trainer 0", "verifier 0", "aggregator 0"),
    *("challenger", "reports", "pool", "stranger"),
]
REPORTS_CALLS = {"report_opened": (1, 1), "report_closed": (1, 1), "invalidate": (1, 1, TRAINER_0)}


def all_but(*contracts: str) -> list[str]:
    """People of every role and every contract that handles rounds, these excepted."""
    return [*PEOPLE, *sorted(CONTRACTS - {"token", "keys", *contracts})]


def result(stage: RoundStage) -> bytes:
    return bytes(stage.system.rounds.round(1, 1).result_hash)


def late(name: str, role: int, stake: int = STAKE) -> Act:
    """A node that joins now."""
    return lambda stage: stage.system.join(name, role, stake)


def wait_out(stage: RoundStage) -> None:
    stage.system.wait_out(1, 1)


def time_out(stage: RoundStage) -> None:
    stage.system.time_out(1, 1)


VOID = first("to_commit", time_out)


# What trainers do


def commit(who: str, player: str = "trainer 0", digest: bytes = WORD, at: Any = (1, 1)) -> Act:
    return by(who, "rounds.commit", *at, node(player), digest)


def work_of(stage: RoundStage, player: Player, parts: dict[str, bytes]) -> Any:
    return replace(stage.work(player), **parts)


def all_commit(**parts: bytes) -> Act:
    """Every trainer, to its work with some parts replaced."""

    def send(stage: RoundStage) -> None:
        stage.to_commit()
        for player in stage.trainers:
            stage.system.commit(1, 1, player, work_of(stage, player, parts))

    return send


def reveal(sender: str = "trainer 0", **parts: bytes) -> Act:
    """Of trainer 0's work, with some parts replaced."""

    def send(stage: RoundStage) -> None:
        player = stage.trainers[0]
        claimed = replace(player, operator=address(stage.system, sender))
        stage.system.reveal(1, 1, claimed, work_of(stage, player, parts))

    send.__name__ = f"reveal by {sender}"
    return send


def commit_alone(stage: RoundStage) -> None:
    stage.to_commit()
    stage.commit_all(1, stage.trainers[0])


def third_withholds(stage: RoundStage) -> None:
    stage.to_aggregate(stage.trainers[:2])


def slash(*players: Any) -> list[Act]:
    """slash_unrevealed of these nodes."""
    return [by("stranger", "rounds.slash_unrevealed", 1, 1, player) for player in players]


def at_the_deadline(stage: RoundStage) -> None:
    boa.env.evm.patch.timestamp = stage.system.rounds.round(1, 1).deadline


# What aggregators, verifiers, challengers and the owner do


def propose(
    who: str | None = None,
    sender: str | None = None,
    digests: Sequence[bytes] = (MODEL, UPDATE, REPORT),
    nodes: Sequence[Any] = (),
    shares: Sequence[int] = (),
) -> Act:
    """By the aggregator on duty and its operator unless told."""

    def send(stage: RoundStage) -> None:
        system = stage.system
        player = system.players[who] if who else system.on_duty(1, 1)
        ids = [value(stage) if callable(value) else value for value in nodes]
        operator = address(system, sender) if sender else player.operator
        given = (*digests, ids, list(shares))
        system.results.propose_result(1, 1, player.node_id, *given, sender=operator)

    send.__name__ = f"propose_result by {sender or who or 'the one on duty'}"
    return send


def attest(who: str, verifier: str = "verifier 0", of: Any = result) -> Act:
    return by(who, "results.attest", 1, 1, node(verifier), of)


def challenge(who: str = "challenger", of: Any = result) -> Act:
    return by(who, "results.challenge", 1, 1, of, EVIDENCE)


def resolve(who: str = "coordinator", of: Any = result, upheld: bool = True) -> Act:
    return by(who, "results.resolve_challenge", 1, 1, of, upheld)


def poor_job(stage: RoundStage) -> None:
    """Job 2, whose escrow is one unit short of a reward."""
    stage.system.job(stage.sponsor, escrow=REWARD - 1)


def paused(contract: str) -> Act:
    return by("coordinator", f"{contract}.set_paused", 1)


def calls_of_rounds(job: int = 1, number: int = 1) -> list[Act]:
    """What TrainingRounds tells TrainingResults about a round that is open."""
    return [
        by("rounds", "results.begin", job, number, WORD),
        by("rounds", "results.void", job, number, "no commits"),
    ]


REFUSED = [
    # Jobs
    row("pausing: paused", by("sponsor", "jobs.create_job", terms_tuple()), after=paused("jobs")),
    row("jobs: not sponsor", *by_each(NOT_SPONSORS, "jobs.cancel_job", 1)),
    row("jobs: job not active", by("coordinator", "jobs.cancel_job", 5)),
    # Attack: numbers are used up, so that a job runs out of rounds that nobody opened.
    row("jobs: not rounds", *by_each(all_but("rounds"), "jobs.begin_round", 1)),
    row("jobs: round open", by("rounds", "jobs.begin_round", 1), after="to_commit"),
    # Attack: a sponsor that ends the open round could refund the escrow and pay nobody; a trainer
    # that writes the head would make its own model the job's.
    *(
        row(
            "jobs: not results",
            *by_each(all_but("results"), "jobs.end_round", 1, model),
            after="to_commit",
        )
        for model in (EMPTY, WORD)
    ),
    row("jobs: no round open", by("results", "jobs.end_round", 1, WORD)),
    row("jobs: no round open", by("results", "jobs.end_round", 1, WORD), after="to_finalized"),
    # Opening
    row("jobs: round open", by("stranger", "rounds.open_round", 1), after="to_commit"),
    row("jobs: job not active", by("stranger", "rounds.open_round", 9)),
    row("pool: escrow too low", by("stranger", "rounds.open_round", 2), after=poor_job),
    # Attack: a verifier of one's own weight, an aggregator of one's own choice, or a round that
    # disappears because somebody doesn't like what it will say.
    row(
        "results: not rounds",
        *by_each(all_but("rounds"), "results.open", 1, (2, *ROUND_TERMS[1:]), [1], [10**30], [1]),
        *by_each(all_but("rounds"), "results.begin", 1, 1, WORD),
        *by_each(all_but("rounds"), "results.void", 1, 1, "no commits"),
        after="to_commit",
    ),
    # A second opening would replace the weights of verifiers that have voted already.
    *(
        row(
            "results: already open",
            by("rounds", "results.open", 1, ROUND_TERMS, [1], [1], [1]),
            after=way,
        )
        for way in ("to_commit", "to_aggregate", "to_challenge", "to_finalized", VOID)
    ),
    # A second `begin` would draw the audit again, a late `void` would take back a result.
    *(
        row("results: not waiting", *calls_of_rounds(), after=way)
        for way in ("to_aggregate", "to_challenge", "to_disputed", "to_finalized", VOID)
    ),
    *(
        row("results: not waiting", *calls_of_rounds(*place))
        for place in ((1, 1), (1, 0), (9, 1), (HUGE, HUGE))
    ),
    # Commitments
    row("rounds: not in commit", *(commit("trainer 0", at=at) for at in ((1, 1), (1, 0), (7, 7)))),
    row("rounds: not in commit", commit("trainer 0", at=(2**255, 1))),
    row("rounds: not in commit", commit("trainer 0"), after="to_reveal"),
    row("rounds: not operator", *(commit(who) for who in NOT_TRAINER_0), after="to_commit"),
    row(
        "rounds: not expected",
        *(commit(who, who) for who in ("late", "verifier 0", "aggregator 0")),
        by("trainer 0", "rounds.commit", 1, 1, 2**255, WORD),
        after=first(late("late", TRAINER), "to_commit"),
    ),
    row("rounds: empty commitment", commit("trainer 0", digest=EMPTY), after="to_commit"),
    row(
        "rounds: already committed",
        *(commit("trainer 0", digest=digest) for digest in (WORD, EVIDENCE)),
        after=commit_alone,
    ),
    # Seeds: nothing was asked for, there is no round yet, or its reveals are not over.
    *(
        row("randomness: not requested", by("stranger", call, job, 1))
        for call in ("rounds.capture_seed", "results.capture_audit_seed")
        for job in (0, 1, HUGE)
    ),
    *(
        row(
            "randomness: not requested", by("stranger", "results.capture_audit_seed", 1, 1), after=w
        )
        for w in ("to_commit", "to_reveal")
    ),
    row(
        "rounds: no seed due",
        by("stranger", "rounds.capture_seed", 1, 1),
        after=first("to_commit", by("stranger", "rounds.capture_seed", 1, 1)),
    ),
    # Reveals
    row("rounds: not in reveal", reveal(), after=commit_alone),
    row(
        "rounds: bad opening",
        *(
            reveal(**{part: keccak(text="other")})
            for part in ("input_root", "content", "trace_root", "salt")
        ),
        *(reveal(thief) for thief in ("trainer 1", "trainer 0 owner")),
        after="to_reveal",
    ),
    row("rounds: bad opening", reveal(), after=first("to_reveal", reveal())),
    *(
        row("rounds: empty artefact", reveal(**{part: EMPTY}), after=all_commit(**{part: EMPTY}))
        for part in ("content", "trace_root")
    ),
    # Silence
    row("rounds: reveal not over", *slash(TRAINER_0)),
    *(
        row("rounds: reveal not over", *slash(TRAINER_0), after=first(way, at_the_deadline))
        for way in ("to_commit", "to_reveal")
    ),
    row(
        "rounds: already slashed",
        *slash(node("trainer 2")),
        after=first(third_withholds, *slash(node("trainer 2"))),
    ),
    row("rounds: revealed", *slash(TRAINER_0), after=third_withholds),
    row(
        "rounds: not committed",
        *slash(node("trainer 1"), node("verifier 0"), 0, HUGE),
        after=first(lambda stage: stage.to_reveal(stage.trainers[:1]), wait_out),
    ),
    # Results
    *(
        row("results: not in aggregate", propose("aggregator 0"), after=way)
        for way in ("to_commit", "to_reveal", "to_challenge", "to_disputed")
    ),
    row(
        "results: not in aggregate",
        propose("aggregator 0"),
        after=first("to_aggregate", time_out, wait_out),
    ),
    row(
        "results: not in snapshot",
        propose("late"),
        after=first("to_aggregate", late("late", AGGREGATOR), wait_out),
    ),
    row(
        "results: not operator",
        *(
            propose(f"aggregator {i}", sender)
            for i in range(2)
            for sender in (f"aggregator {i} owner", f"aggregator {i} payout", "stranger")
        ),
        propose("aggregator 0", "aggregator 1"),
        # Whose turn it is comes first, and here it is everybody's.
        after=first("to_aggregate", time_out),
    ),
    row(
        "results: not on duty",
        by("stranger", "results.propose_result", 1, 1, 0, MODEL, UPDATE, REPORT, [], []),
        after="to_aggregate",
    ),
    *(
        row(f"results: {reason}", propose(nodes=nodes, shares=shares), after=third_withholds)
        for reason, nodes, shares in (
            ("length mismatch", [TRAINER_0], []),
            ("length mismatch", [], [1]),
            ("nodes not ascending", [node("trainer 1"), TRAINER_0], [1, 1]),
            ("nodes not ascending", [TRAINER_0, TRAINER_0], [1, 1]),
            ("nodes not ascending", [TRAINER_0, 0], [1, 1]),
            ("nodes not ascending", [0, 0], [1, 1]),
            ("node not payable", [0, node("trainer 2")], [1, 1]),
            ("bad amount", [0], [2**128]),
            ("node not payable", [TRAINER_0, node("trainer 2")], [1, 1]),
            ("node not payable", [node("verifier 0")], [1]),
            ("node not payable", [TRAINER_0, HUGE], [1, 1]),
            ("bad amount", [TRAINER_0], [2**128]),
        )
    ),
    row(
        "results: empty artefact",
        propose(digests=(EMPTY, UPDATE, REPORT)),
        propose(digests=(MODEL, EMPTY, REPORT)),
        propose(digests=(MODEL, UPDATE, EMPTY)),
        after="to_aggregate",
    ),
    # Attestations
    *(
        row("results: not in challenge", attest("verifier 0"), after=way)
        for way in ("to_commit", "to_aggregate", "to_finalized")
    ),
    row("results: wrong result", attest("verifier 0", of=EMPTY), after="to_challenge"),
    row(
        "results: not operator",
        *(attest(who) for who in ("verifier 0 owner", "verifier 1", "stranger", "sponsor")),
        after="to_challenge",
    ),
    row(
        "results: not a verifier",
        *(attest(who, who) for who in ("late", "trainer 0", "aggregator 0")),
        after=first("to_challenge", late("late", VERIFIER, 50 * STAKE)),
    ),
    row(
        "results: already attested",
        attest("verifier 0"),
        after=first("to_challenge", attest("verifier 0")),
    ),
    # Challenges
    row("results: wrong result", challenge(of=EVIDENCE), after="to_challenge"),
    row("results: already challenged", challenge(), after="to_disputed"),
    row(
        "erc20: transfer amount exceeds balance",
        challenge("poor"),
        by("poor", "results.announce_challenge", EVIDENCE),
        after=first(lambda stage: stage.system.person("poor"), "to_challenge"),
    ),
    row("results: not disputed", resolve(), after="to_challenge"),
    row("results: wrong result", resolve(of=EVIDENCE), after="to_disputed"),
    row("results: too late", resolve(), after=first("to_disputed", wait_out)),
    row(
        "ownable: caller is not the owner",
        *(
            resolve(who, upheld=upheld)
            for who in (*PEOPLE, "challenger", "trainer 0 owner", "reports", "registry")
            for upheld in (True, False)
        ),
        after="to_disputed",
    ),
    # Reports: what only ViolationReports may say, and when
    row(
        "results: not reports",
        *(
            call
            for name, arguments in REPORTS_CALLS.items()
            for call in by_each(all_but("reports"), f"results.{name}", *arguments)
        ),
        after="to_challenge",
    ),
    *(
        row(reason, *(by("reports", f"results.{n}", *a) for n, a in REPORTS_CALLS.items()), after=w)
        for reason, w in (
            ("results: not in challenge", "to_commit"),
            ("results: not in challenge", "to_aggregate"),
            ("results: not in challenge", "to_finalized"),
            ("results: too late", first("to_challenge", wait_out)),
        )
    ),
    # Payment
    *(
        row("results: nothing to settle", by("stranger", "results.settle", 1, 1, [], []), after=way)
        for way in (None, VOID)
    ),
]


@pytest.mark.parametrize("refusal", REFUSED)
def test_call__is_refused_with_its_reason(stage: RoundStage, refusal: Refusal) -> None:
    refusal.check(stage)
