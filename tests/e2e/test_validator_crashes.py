# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the validators' duty, then a restart: every vector is revealed all the same.

The crash points lie around each effect of a round: before the journal entry, between it and the
commitment, after the commitment, before and after the reveal. All of it is `-m chaos`:
`test_validators` kills two in every run, `tests/attacks/test_validators.py` each line on a chain.
"""

from __future__ import annotations

import pytest

from agents.protocol.numbers import ScorePhase
from agents.protocol.scores import Consensus
from tests.e2e.test_validators import FREE_JOB
from tests.stage.network import LocalNetwork

POINTS = (
    "validator-evaluating",
    "validator-before-journal",
    "validator-before-commit",
    "validator-after-commit",
    "validator-before-reveal",
    "validator-after-reveal",
)


def _survives(local: LocalNetwork, arms: dict[str, tuple[str, ...]]) -> None:
    local.arm(arms)
    job = local.job(rounds=1, **FREE_JOB)
    local.finish(job)
    local.until(
        lambda: all(set(names) <= set(local.crashed) for names in arms.values()),
        f"all died at {', '.join(arms)}",
    )
    scoring = Consensus(local.network).scoring(job, 1)
    assert scoring.phase == ScorePhase.CLOSED
    assert scoring.committed == scoring.revealed == len(local.names("verifier"))
    local.assert_whole(job)


@pytest.mark.chaos
def test_each_validator_dies_elsewhere_in_one_round(local: LocalNetwork) -> None:
    _survives(
        local,
        {
            "validator-before-journal": ("verifier-1",),
            "validator-after-commit": ("verifier-2",),
            "validator-after-reveal": ("verifier-3",),
        },
    )


@pytest.mark.chaos
@pytest.mark.parametrize("point", POINTS)
def test_all_validators_die_at(local: LocalNetwork, point: str) -> None:
    _survives(local, {point: tuple(local.names("verifier"))})
