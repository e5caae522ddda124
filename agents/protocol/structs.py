# SPDX-License-Identifier: Apache-2.0
"""The structs of the contracts as frozen, typed Python objects.

Rule: an answer of a call is turned into its struct once, where it is read; everything behind that
works with known types. Digests are `bytes` of length 32, amounts are `int` in 1e-18 ZOO, points in
time are `int` in seconds of the chain, addresses are checksummed `str`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum, IntFlag
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from agents.protocol.numbers import NOBODY, ZERO_DIGEST, JobStatus, Phase, ReportStatus
from agents.runtime.errors import ConfigError

T = TypeVar("T")
_MISSING = object()


def read(kind: type[T], *answers: Any, **given: Any) -> T:
    """The value of type `kind` in what a call answered.

    Args:
        kind: int, bytes, str, bool, an enumeration, or a dataclass of such fields, of tuples of
            them and of further dataclasses.
        answers: what the call returned. A dataclass may be put together from several answers: each
            field comes from the first answer that has it. An answer may hold more fields than the
            dataclass names; those are left out.
        given: fields of the dataclass that no answer holds.

    Raises:
        ConfigError: a field is missing or of another type, so that the deployment file does not
            belong to this version of the agents.
    """
    if is_dataclass(kind):
        return cast(T, _struct(kind, answers, kind.__name__, given))
    [answer] = answers
    return cast(T, _reader(cast(Any, kind))(answer, kind.__name__))


def _struct(
    kind: Any, answers: tuple[Any, ...], label: str, given: Mapping[str, Any] = MappingProxyType({})
) -> Any:
    made = {
        name: value(_field(answers, name, label), f"{label}.{name}")
        for name, value in _readers(kind).items()
        if name not in given
    }
    return kind(**made, **given)


Reader = Callable[[Any, str], Any]
"""What turns an answer into a value, or raises for the label."""


@cache
def _readers(kind: Any) -> dict[str, Reader]:
    """Of each field. An agent reads structs at each look, so what a type asks for is found once."""
    hints = get_type_hints(kind)
    return {field.name: _reader(hints[field.name]) for field in fields(kind)}


@cache
def _reader(kind: Any) -> Reader:
    if is_dataclass(kind):
        return lambda answer, label: _struct(kind, (answer,), label)
    if get_origin(kind) is tuple:
        return partial(_tuple, kind, _reader(get_args(kind)[0]))
    if issubclass(kind, IntEnum | IntFlag):
        return partial(_enumerated, kind)
    return partial(_plain, kind)


def _tuple(kind: Any, element: Reader, answer: Any, label: str) -> tuple[Any, ...]:
    if not isinstance(answer, list | tuple):
        raise _misfit(label, kind, answer)
    return tuple(element(part, label) for part in answer)


def _enumerated(kind: Any, answer: Any, label: str) -> Any:
    try:
        return kind(answer)
    except ValueError:
        raise _misfit(label, kind, answer) from None


def _plain(kind: Any, answer: Any, label: str) -> Any:
    if type(answer) is not kind:
        raise _misfit(label, kind, answer)
    return answer


def _field(answers: tuple[Any, ...], name: str, label: str) -> Any:
    for answer in answers:
        value = getattr(answer, name, _MISSING)
        if value is not _MISSING:
            return value
    raise ConfigError(
        f"The chain's {label} has no field {name!r}. The deployment file belongs to another "
        "version of the contracts; use the file of the current deployment."
    )


def _misfit(label: str, kind: Any, answer: Any) -> ConfigError:
    return ConfigError(
        f"The chain's {label} is {answer!r}, which is no {getattr(kind, '__name__', kind)}. The "
        "deployment file does not belong to the contract at this address."
    )


# -- jobs and rounds ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Terms:
    """What a sponsor fixed when it created a job.

    Attributes:
        spec: digest of the job spec.
        genesis_model: hash of the model that the first round starts from.
        genesis_checkpoint: digest of that model's checkpoint.
        rounds: finalized rounds until the job is complete.
        reward_per_round: in 1e-18 ZOO.
        verifier_bps, aggregator_bps: cuts of the reward, in 1/10,000.
        max_nodes: trainers in a round.
        commit_s, reveal_s, aggregate_s, challenge_s, appeal_s, dispute_s: windows, in seconds.
        challenge_bond: in 1e-18 ZOO.
        retain_rounds: rounds' pay of a trainer that the pool retains.
    """

    spec: bytes
    genesis_model: bytes
    genesis_checkpoint: bytes
    rounds: int
    reward_per_round: int
    verifier_bps: int
    aggregator_bps: int
    max_nodes: int
    commit_s: int
    reveal_s: int
    aggregate_s: int
    challenge_s: int
    appeal_s: int
    dispute_s: int
    challenge_bond: int
    retain_rounds: int


@dataclass(frozen=True)
class Bounds:
    """What the network allows in the terms of new jobs, in 1e-18 ZOO.

    A job that is older keeps its terms. In one whose bond is too high nobody can challenge, in one
    whose bond is too low anybody can stop a round, one that pays too little keeps agents busy for
    nothing, and one that retains too little makes verifiers do too much again: agents don't work
    there. `least_retained`: rounds' pay of a trainer.
    """

    least_bond: int
    most_bond: int
    least_reward: int
    least_retained: int

    def broken_by(self, terms: Terms) -> str | None:
        """What of a job's terms lies outside of the bounds, as a sentence; None if nothing does."""
        if not self.least_bond <= terms.challenge_bond <= self.most_bond:
            return (
                f"a challenge takes a bond of {terms.challenge_bond}, the network allows "
                f"{self.least_bond} to {self.most_bond}"
            )
        if terms.reward_per_round < self.least_reward:
            return (
                f"a round pays {terms.reward_per_round}, the network asks for "
                f"{self.least_reward} at least"
            )
        if terms.retain_rounds < self.least_retained:
            return (
                f"it retains {terms.retain_rounds} rounds' pay, the network asks for "
                f"{self.least_retained} at least"
            )
        return None


@dataclass(frozen=True)
class Job:
    """A job. `rounds_opened`: id of the newest round, ids start at 1. `rounds_done`: finalized.

    `model`: hash of the model after the newest finalized round.
    """

    sponsor: str
    terms: Terms
    status: JobStatus
    cancel_requested: bool
    rounds_opened: int
    rounds_done: int
    model: bytes


@dataclass(frozen=True)
class Round:
    """A round. A seed that nobody has captured yet is 32 zero bytes.

    Attributes:
        deadline: of the phase.
        opened_block, opened_at: when it was opened: block number, and seconds.
        seed_block, audit_block: blocks that the seeds are taken from.
        prev_model: hash of the model that the round starts from.
        n_eligible: how many trainers it has; 0 while its seats are to be drawn.
        snapshot_hash: of the node ids and weights in its RoundOpened or RoundSeated event.
        verifier_stake, attested_stake: of all its verifiers, and of those that attested.
        proposer: node id of the aggregator whose result stands, 0 if none does.
        result_hash, model, update, report, contributions_hash: of that result.
        settled: nothing can happen in the round any more.
    """

    phase: Phase
    deadline: int
    opened_block: int
    opened_at: int
    n_eligible: int
    n_committed: int
    n_revealed: int
    n_invalid: int
    open_reports: int
    seed_block: int
    seed: bytes
    audit_block: int
    audit_seed: bytes
    prev_model: bytes
    snapshot_hash: bytes
    verifier_stake: int
    attested_stake: int
    proposer: int
    result_hash: bytes
    model: bytes
    update: bytes
    report: bytes
    contributions_hash: bytes
    challenger: str
    settled: bool


NO_ROUND = Round(
    phase=Phase.NONE,
    deadline=0,
    opened_block=0,
    opened_at=0,
    n_eligible=0,
    n_committed=0,
    n_revealed=0,
    n_invalid=0,
    open_reports=0,
    seed_block=0,
    seed=ZERO_DIGEST,
    audit_block=0,
    audit_seed=ZERO_DIGEST,
    prev_model=ZERO_DIGEST,
    snapshot_hash=ZERO_DIGEST,
    verifier_stake=0,
    attested_stake=0,
    proposer=0,
    result_hash=ZERO_DIGEST,
    model=ZERO_DIGEST,
    update=ZERO_DIGEST,
    report=ZERO_DIGEST,
    contributions_hash=ZERO_DIGEST,
    challenger=NOBODY,
    settled=False,
)
"""The round of a job that has opened none: what the contract answers for a round that is not."""


@dataclass(frozen=True)
class Snapshot:
    """Who may take part in a round: fixed, with weights, when it was opened; the trainers when the
    seats were drawn, where they were more than seats."""

    nodes: tuple[int, ...]
    weights: tuple[int, ...]
    verifiers: dict[int, int]  # node id -> stake
    aggregators: tuple[int, ...]


@dataclass(frozen=True)
class Reveal:
    """What a node revealed, and nothing that may change later: artefacts are kept by it."""

    node: int
    input_root: bytes
    content: bytes
    trace_root: bytes
    proof: bytes


@dataclass(frozen=True)
class Proposal:
    """A proposed result as its event carries it."""

    proposer: int
    model: bytes
    update: bytes
    report: bytes
    result_hash: bytes
    nodes: tuple[int, ...]
    contributions: tuple[int, ...]


# -- the ledger --------------------------------------------------------------------------------


@dataclass(frozen=True)
class LedgerEntry:
    """What TrainingLedger keeps of a finalized round. `index`: its place, from 0.

    `reward`: what the pool set aside for the round, in 1e-18 ZOO.
    """

    round_id: int
    prev_model: bytes
    new_model: bytes
    contributors_root: bytes
    scores_root: bytes
    report: bytes
    head: bytes
    timestamp: int
    reward: int
    index: int


# -- nodes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A node in NodeRegistry.

    Attributes:
        owner: the cold key: stake and settings.
        operator: the hot key that the agent holds.
        payout: where its rewards are credited.
        roles, approved_roles: bits of `Role` that the owner asked for, and that the Coordinator
            approved.
        stake, unbonding: in 1e-18 ZOO; both can be slashed.
        unlock_at: when the unbonding part may be withdrawn, 0 before the exit.
        locks: open reports; no withdrawal while there is one.
        encryption_key: X25519 key, zero where there is none.
    """

    owner: str
    operator: str
    payout: str
    roles: int
    approved_roles: int
    stake: int
    unbonding: int
    unlock_at: int
    suspended_until: int
    banned: bool
    active: bool
    strikes: int
    locks: int
    benchmark_score: int
    registered_at: int
    encryption_key: bytes


@dataclass(frozen=True)
class Benchmark:
    """A node's newest attempt at a benchmark. `attempt` counts from 1; 0: it never asked for one.

    `root`: over the digests of its `units`; `artefact`: digest of the file that holds them.
    `passes`, `fails`: verdicts so far.
    """

    attempt: int
    requested_at: int
    seed_block: int
    seed: bytes
    submitted_at: int
    units: int
    root: bytes
    artefact: bytes
    check_block: int
    check_seed: bytes
    passes: int
    fails: int
    settled: bool


@dataclass(frozen=True)
class Report:
    """A violation report.

    Attributes:
        violation: a row of the slashing table.
        weight: stake of the verifiers behind it, in 1e-18 ZOO.
        deadline: of the current status.
        evidence: digest of the first reporter's evidence.
    """

    status: ReportStatus
    job_id: int
    round_id: int
    node_id: int
    violation: int
    weight: int
    offence_time: int
    deadline: int
    evidence: bytes
    appellant: str
    bond: int


# -- data keys ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyRequest:
    """A node's newest request for a job's data key. `role`: a bit of `Role`, why it needs the key.

    `key_id`, `encryption_key`: the data key and the node's public key then. `at`: 0 without one.
    """

    role: int
    key_id: bytes
    encryption_key: bytes
    at: int


@dataclass(frozen=True)
class KeyRelease:
    """The newest release to a node. `encryption_key`: what the key was sealed to."""

    key_id: bytes
    encryption_key: bytes
    at: int


# -- the committee -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """An operation of the Coordinator. `eta`: when it may be executed, 0 until it is queued."""

    target: str
    data: bytes
    salt: bytes
    proposer: str
    proposed_at: int
    eta: int
    executed: bool
    cancelled: bool
