# SPDX-License-Identifier: Apache-2.0
"""What the index answers: the same objects for the API's JSON and for the pages.

Rule: an amount is whole units of 1e-18 ZOO, an `int` here and text in JSON, because JSON's readers
lose digits. A digest is text of 0x and 64 hexadecimal digits, a time is seconds of the chain, and
everything in one answer is of one block, which `at` names.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

Zoo = Annotated[
    int,
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": "^-?[0-9]+$", "title": "1e-18 ZOO"}),
]
Count = Annotated[
    int,
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]+$", "title": "whole number of any size"}),
]
"""A number of the chain that may be larger than JSON's readers can hold."""

Phase = Literal[
    "none", "commit", "reveal", "aggregate", "challenge", "disputed", "finalized", "void"
]
JobStatus = Literal["none", "active", "completed", "cancelled"]
Item = TypeVar("Item")


class Model(BaseModel):
    """Frozen, and nothing beside its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class At(Model):
    """The block that an answer is of. `time`: its time, chain seconds."""

    block: int
    hash: str
    time: int


class Page(Model, Generic[Item]):
    """A part of a list. `next`: the cursor of the next part, None at the end."""

    at: At
    items: list[Item]
    next: str | None


# -- jobs --------------------------------------------------------------------------------------


class Terms(Model):
    """What a sponsor fixed when it created a job; see `agents.protocol.structs.Terms`."""

    spec: str
    spec_cid: str
    genesis_model: str
    genesis_checkpoint: str
    genesis_checkpoint_cid: str
    rounds: Count
    reward_per_round: Zoo
    verifier_bps: Count
    aggregator_bps: Count
    max_nodes: Count
    commit_s: Count
    reveal_s: Count
    aggregate_s: Count
    challenge_s: Count
    appeal_s: Count
    dispute_s: Count
    challenge_bond: Zoo
    retain_rounds: Count


class Clock(Model):
    """The clock of a job's newest round. `acted` of `expected`: who has done the phase's deed.

    `since`, `deadline`: of the phase, chain seconds; `deadline` 0 when there is none.
    """

    round_id: int
    phase: Phase
    since: int
    deadline: int
    acted: int
    expected: int


class LossPoint(Model):
    """The validation loss after a round, as its report says it."""

    round_id: int
    time: int
    before: float
    after: float


class JobSummary(Model):
    """A job in a list. `paid`: what its rounds have given to nodes or keep for them.

    `paid_today`: the part of it in the 24 hours before `at`. `nodes`: trainers of the newest round.
    """

    job_id: int
    sponsor: str
    status: JobStatus
    cancel_requested: bool
    rounds: int
    rounds_opened: int
    rounds_done: int
    clock: Clock | None
    nodes: list[int]
    loss: list[LossPoint] = []
    escrow: Zoo
    carried: Zoo
    reward_per_round: Zoo
    rounds_left_in_escrow: int
    paid: Zoo
    paid_today: Zoo
    created_at: int
    ended_at: int | None


class RoundSummary(Model):
    """A round in a job's list: a link of the ledger's chain when it is finalized."""

    round_id: int
    phase: Phase
    opened_at: int
    ended_at: int | None
    prev_model: str
    model: str | None
    n_eligible: int
    n_committed: int
    n_revealed: int
    n_invalid: int
    pool: Zoo
    paid: Zoo
    void_reason: str | None
    ledger_index: int | None
    ledger_head: str | None
    loss: LossPoint | None = None


class JobPage(Model):
    """A job. `rounds`: the newest ones first, up to the page's size."""

    at: At
    job: JobSummary
    terms: Terms
    model: str
    funded: Zoo
    refunded: Zoo
    scored: bool
    absent: list[int]
    rounds: list[RoundSummary]


# -- rounds ------------------------------------------------------------------------------------


class Seat(Model):
    """A trainer of a round, and what it did. `content_cid`: its update in the store.

    `weight`: its benchmark score times its reliability. `slashed`: for not revealing.
    """

    node_id: int
    weight: Count
    committed_at: int | None
    commit_tx: str | None
    revealed_at: int | None
    reveal_tx: str | None
    content: str | None
    content_cid: str | None
    proof_cid: str | None
    trace_root: str | None
    duplicate: bool
    invalid: bool
    contribution: Count
    slashed: Zoo
    paid: Zoo
    consensus: int | None


class Voice(Model):
    """A verifier of a round. `attested`: it confirmed the result that stands.

    Where validators' scores pay the trainers: `record_cid` is its evaluations, `agreement` with the
    consensus and its `trust` from then on are in 1/10,000.
    """

    node_id: int
    stake: Zoo
    attested: bool
    attested_at: int | None
    attest_tx: str | None
    score_committed_at: int | None
    score_revealed_at: int | None
    record_cid: str | None
    agreement: int | None
    trust: int | None


class Accuser(Model):
    """What one verifier says in a report."""

    node_id: int
    weight: Zoo
    evidence_cid: str | None
    time: int
    tx: str


class Finder(Model):
    """Who found a node first, and what ViolationReports credited for it: `paid` to its payout, at
    most its deposit, and the `rest` of the bounty to the treasury."""

    node_id: int
    paid: Zoo
    rest: Zoo
    tx: str


class Report(Model):
    """A report on a node's work in a round. `weight`: of the verifiers behind it.

    `appeal_until`: while the node may appeal. `decide_until`: while the committee may decide.
    """

    report_id: str
    job_id: int
    round_id: int
    node_id: int
    violation: str
    status: Literal["none", "open", "confirmed", "appealed", "executed", "dismissed", "lapsed"]
    weight: Zoo
    reported_at: int
    confirmed_at: int | None
    confirmed_tx: str | None
    appeal_until: int | None
    appealed_at: int | None
    appealed_tx: str | None
    appellant: str | None
    statement_cid: str | None
    bond: Zoo
    decide_until: int | None
    ended_at: int | None
    ended_tx: str | None
    slashed: Zoo
    finder: Finder | None
    voices: list[Accuser]


class Payment(Model):
    """A movement of the reward pool's money. `credited`: `account` can claim it, or could.

    `kind`: cut, share, held, released, retained, retained released, forfeited, set aside, share
    settled, carried on, carried forfeited, unclaimed, claimed.
    """

    block: int
    log_index: int
    place: int
    time: int
    tx: str
    kind: str
    credited: bool
    job_id: int | None
    round_id: int | None
    node_id: int | None
    account: str | None
    amount: Zoo


class RoundPage(Model):
    """A round. `pool`: what it pays; `paid` to nodes or kept for them; `returned` to the escrow;
    `carried_on` to the job's next round."""

    at: At
    job_id: int
    summary: RoundSummary
    clock: Clock
    opened_block: int
    opened_tx: str
    seed_block: int
    seats: list[Seat]
    voices: list[Voice]
    aggregators: list[int]
    verifier_stake: Zoo
    attested_stake: Zoo
    open_reports: int
    proposer: int | None
    result_hash: str | None
    update_cid: str | None
    report_cid: str | None
    proposed_tx: str | None
    finalized_tx: str | None
    challenger: str | None
    challenge_evidence_cid: str | None
    settled: bool
    returned: Zoo
    carried_on: Zoo
    reports: list[Report]
    payments: list[Payment]


class Account(Model):
    """An account. `pending`: rewards that it can claim, `bounty_pending`: bounties.

    `owns`: nodes that are its own. `paid_by`: nodes whose payout address it is.
    """

    at: At
    account: str
    credited: Zoo
    claimed: Zoo
    pending: Zoo
    bounties: Zoo
    bounty_pending: Zoo
    owns: list[int]
    paid_by: list[int]


# -- nodes -------------------------------------------------------------------------------------


class NodeSummary(Model):
    """A node in a list. `score`: of its benchmark, 0 once it has expired.

    `class_id`: of the redundant tasks that it runs, None for none.
    """

    node_id: int
    owner: str
    operator: str | None
    payout: str
    roles: list[Literal["trainer", "verifier", "aggregator"]]
    approved: list[Literal["trainer", "verifier", "aggregator"]]
    state: Literal["ready", "paused", "suspended", "locked", "exiting", "closed", "banned"]
    stake: Zoo
    unbonding: Zoo
    unlock_at: int | None
    suspended_until: int | None
    strikes: int
    locks: int
    score: Count
    scored_at: int | None
    score_until: int | None
    earned: Zoo
    slashed: Zoo
    held: Zoo
    retained: Zoo
    registered_at: int
    class_id: int | None


class Deed(Model):
    """A node's part in one round. `due`: what the round gave it or keeps for it as a trainer."""

    job_id: int
    round_id: int
    opened_at: int
    phase: Phase
    role: Literal["trainer", "verifier"]
    did: Literal["done", "missed", "silent", "invalid", "waiting"]
    due: Zoo


class Earned(Model):
    """What was credited to a node on one day. `day`: its first second, UTC."""

    day: int
    amount: Zoo


class StakePoint(Model):
    """A node's stake after an event."""

    time: int
    tx: str
    event: str
    stake: Zoo


class Slash(Model):
    """A slash of a node."""

    time: int
    tx: str
    violation: str
    amount: Zoo


class Attempt(Model):
    """An attempt at a node's benchmark. `units`: what it says it computed, in `elapsed` seconds.

    `passes`, `fails`: verdicts. `overruled`: the committee found the verdict false. `condemned`: it
    found the work invented, and the node was slashed.
    """

    attempt: int
    requested_at: int
    submitted_at: int | None
    units: Count
    elapsed: int
    artefact_cid: str | None
    passes: int
    fails: int
    settled: bool
    passed: bool
    overruled: bool
    condemned: bool
    score: Count


class NodePage(Model):
    """A node. `pending`: what its payout address can claim now, of every node that pays there.

    `done`, `missed`: rounds of every job that it was seated in.
    """

    at: At
    node: NodeSummary
    encryption_key: str | None
    pending: Zoo
    done: int
    missed: int
    deeds: list[Deed]
    earned: list[Earned]
    stakes: list[StakePoint]
    slashes: list[Slash]
    attempts: list[Attempt]
    reports: list[Report]
    payments: list[Payment]


# -- tasks and the committee -------------------------------------------------------------------


class Lane(Model):
    """An executor of a task. `answer`: its commitment, then the tag, or the result it showed."""

    lane: int
    node_id: int
    state: Literal["none", "running", "committed", "revealed", "aborted", "agreed", "opened"]
    answer: str | None
    drawn_at: int
    committed_at: int | None
    revealed_at: int | None
    slashed: Zoo


class Task(Model):
    """A redundant task. `time`: when the draw was requested while drawing, else the deadline.

    `result`: what two executors agreed on. `verdict`: what verifiers, or the committee, found.
    """

    task_id: int
    creator: str
    class_id: int
    class_name: str | None
    spec_cid: str
    fee: Zoo
    run_s: int
    seed_block: int
    status: Literal[
        "none",
        "drawing",
        "running",
        "revealing",
        "agreed",
        "decided",
        "undecided",
        "appealed",
        "closed",
    ]
    time: int | None
    created_at: int
    created_tx: str
    ended_at: int | None
    lanes: list[Lane]
    result: str | None
    contested: bool
    refund: Zoo
    appealable: bool
    appellant: str | None
    appeal_bond: Zoo
    appeal_until: int | None
    verdict: str | None
    objector: str | None
    overturned: bool
    seized: Zoo


class TaskPage(Model):
    """One task."""

    at: At
    task: Task


class Operation(Model):
    """A call that the committee may make: from `eta` until `until`, chain seconds.

    `approved`, `against`: members who said so; `lapsed`: approvals of former members.
    """

    op_id: str
    target: str
    data: str
    salt: str
    proposer: str
    proposed_at: int
    state: Literal["proposed", "queued", "ready", "executed", "cancelled", "expired"]
    eta: int | None
    until: int | None
    approved: list[str]
    lapsed: list[str]
    against: list[str]
    threshold: int
    executed_at: int | None
    executed_block: int | None
    executed_tx: str | None


class Penalty(Model):
    """A row of the slashing table; see `agents.protocol.slashing.Row`."""

    violation: str
    number: int
    bps: int
    escalation_bps: int
    suspension: int
    strike: bool
    ban: bool
    reporter_bps: int


class Parameters(Model):
    """NodeRegistry's parameters: times in seconds, least stakes by role."""

    unbonding_period: Count
    trainer_stake: Zoo
    verifier_stake: Zoo
    aggregator_stake: Zoo
    benchmark_window: Count
    benchmark_quorum: Count
    treasury: str


class BoundsNow(Model):
    """What the terms of a new job may hold; see `agents.protocol.structs.Bounds`."""

    least_bond: Zoo
    most_bond: Zoo
    least_reward: Zoo
    least_retained: Count


class Committee(Model):
    """Who decides, how many it takes, and how long their operations wait, in seconds."""

    members: list[str]
    threshold: int
    routine_delay: int
    governance_delay: int


class NetworkFacts(Model):
    """What the committee has fixed. `paused`: contracts of which some function is paused.

    `classes`: determinism classes of redundant tasks, by id.
    """

    at: At
    parameters: Parameters | None
    bounds: BoundsNow | None
    penalties: list[Penalty]
    classes: dict[int, str]
    committee: Committee | None
    paused: list[str]


# -- the network -------------------------------------------------------------------------------


class Home(Model):
    """The network at a glance."""

    at: At
    jobs: list[JobSummary]
    jobs_total: int
    nodes: int
    nodes_ready: int
    staked: Zoo
    paid: Zoo
    paid_today: Zoo
    tasks: int
    events: int


class Happening(Model):
    """An event of the chain as it is in the index. `args`: its fields, numbers as text."""

    block: int
    log_index: int
    time: int
    tx: str
    contract: str
    name: str
    job_id: int | None
    round_id: int | None
    node_id: int | None
    actor_id: int | None
    task_id: int | None
    args: dict[str, Any]


class Problem(Model):
    """What an answer with an error's status says."""

    detail: str = Field(examples=["There is no job 7."])
