# SPDX-License-Identifier: Apache-2.0
"""The numbers that the contracts use for phases, roles, violations and states, and their limits.

Rule: a number that a contract declares stands here once, under the contract's own name. Nothing
here is read from a chain.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

ZERO_DIGEST = bytes(32)
"""What the contracts store where there is no digest."""

NOBODY = "0x" + "00" * 20
"""The zero address."""

UNCLAIMED = 0
"""The node that nobody is. A result gives it what was handed out and counts for nobody; the
treasury is paid its share."""

ZOO = 10**18
"""Units of one ZOO."""

BPS = 10_000
"""A share of 1, in 1/10,000."""

SCALE = 65_535
"""A score of 1.0 in ScoreConsensus."""

HISTORY = 8
"""Rounds that count towards a trainer's reliability (TrainingRounds)."""

MIN_VOICES = 2
"""Verifiers that confirm a report, or a result before its window has passed, at least."""

RING = 16
"""Stake additions that NodeRegistry remembers of a node."""

SCORE_PERIODS = 4
"""Unbonding periods after which a benchmark's score expires (NodeRegistry)."""

MAX_NODES = 128
"""Trainers in a round, and nodes that NodeRegistry lists in one call, at most."""

MAX_OPEN = 2
"""Lanes that an executor may have open at a time (the contracts' module `executors`)."""

COVER = 2
"""Stake that a draw asks of an executor, in multiples of its pay at risk (the same module)."""

MAX_VIOLATION = 16
"""Rows of the slashing table; those without a default may be filled later."""

PAUSES = {
    "NodeBenchmarks": ("benchmarks",),
    "NodeRegistry": ("register_node",),
    "RedundantTasks": ("create_task",),
    "ScoreConsensus": ("adopt", "open_scoring"),
    "TrainingJobs": ("create_job",),
    "TrainingRounds": ("open_round",),
}
"""What each pause bit of a contract stops, from the lowest bit on."""


class Phase(IntEnum):
    """Phases of a round."""

    NONE = 0
    COMMIT = 1
    REVEAL = 2
    AGGREGATE = 3
    CHALLENGE = 4
    DISPUTED = 5
    FINALIZED = 6
    VOID = 7


class Role(IntFlag):
    """Role bits of NodeRegistry."""

    TRAINER = 1
    VERIFIER = 2
    AGGREGATOR = 4


class Violation(IntEnum):
    """Rows of the slashing table."""

    NO_REVEAL = 1
    INVALID = 2
    COPIED = 3
    REPEATED = 4
    BAD_RESULT = 5
    FALSE_REPORT = 6
    REDUNDANCY_MISMATCH = 7
    ABORT = 8
    COLLUSION = 9


class ReportStatus(IntEnum):
    """States of a violation report."""

    NONE = 0
    OPEN = 1
    CONFIRMED = 2
    APPEALED = 3
    EXECUTED = 4
    DISMISSED = 5
    LAPSED = 6


class JobStatus(IntEnum):
    """States of a job."""

    NONE = 0
    ACTIVE = 1
    COMPLETED = 2
    CANCELLED = 3


class OperationState(IntEnum):
    """States of an operation of the Coordinator. A queued one may still have to wait."""

    NONE = 0
    PROPOSED = 1
    QUEUED = 2
    EXECUTED = 3
    CANCELLED = 4
    EXPIRED = 5


class ScorePhase(IntEnum):
    """Phases of a round's scoring in ScoreConsensus."""

    NONE = 0
    COMMIT = 1
    REVEAL = 2
    CLOSED = 3


class TaskStatus(IntEnum):
    """Status of a redundant task; NONE: there is no such task."""

    NONE = 0
    DRAWING = 1
    RUNNING = 2
    REVEALING = 3
    AGREED = 4
    DECIDED = 5
    UNDECIDED = 6
    APPEALED = 7
    CLOSED = 8


class LaneState(IntEnum):
    """State of an executor's lane. AGREED and OPENED: it found the agreed result; OPENED showed
    it."""

    NONE = 0
    RUNNING = 1
    COMMITTED = 2
    REVEALED = 3
    ABORTED = 4
    AGREED = 5
    OPENED = 6
