# SPDX-License-Identifier: Apache-2.0
"""A job whose nodes' inner optimizers go on from round to round, with Muon and a codec with memory.

One trainer keeps its state, one loses what it kept with its disk and does its round again, and one
starts every round from zero. Only the last is found, and a stranger's audit agrees with the chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from agents.audit.replay import audit_job
from agents.protocol.numbers import Phase, Violation
from agents.storage.content_store import open_store
from scripts._net.localnet import LocalnetSettings
from tests.e2e.conftest import AGENTS
from tests.stage.network import SPEC, TERMS, LocalNetwork

KEEPER, LOSER, REWINDER = "trainer-1", "trainer-2", "trainer-3"
ROUNDS = 3
KEPT = {
    "codec": "sparse",
    "merge": "norm_clip",
    "optimizer": {
        **SPEC["optimizer"],
        "inner": "muon",
        "inner_state": "kept",
        "inner_state_rounds": 4,
    },
}


@dataclass(frozen=True)
class Story:
    """The network and the job, which is complete. `lost`: files that went with a disk."""

    local: LocalNetwork
    job: int
    lost: int


@pytest.fixture(scope="module")
def story(build: Callable[[LocalnetSettings], LocalNetwork]) -> Story:
    """While no verifier is there the first round can't end, and a disk is lost."""
    local = build(LocalnetSettings(trainers=3, verifiers=3, aggregators=1, agent=AGENTS))
    for name in (*local.names("verifier", "aggregator"), KEEPER, LOSER):
        local.net.start_agent(name)
    local.net.start_agent(REWINDER, ("tests.e2e.dishonest", "trainer", "tests.e2e.rewinder"))
    local.wait_eligible(local.names("trainer", "verifier", "aggregator"))
    local.stop(*local.names("verifier"))
    job = local.job(rounds=ROUNDS, **KEPT)
    local.until_phase(job, Phase.CHALLENGE)
    local.stop(LOSER)
    folder = local.net.directory / "agents" / LOSER
    lost = [path for kind in ("inner", "memory") for path in folder.rglob(f"submission-*.{kind}")]
    for path in lost:
        path.unlink()
    local.start(LOSER, *local.names("verifier"))
    local.finish(job)
    local.skip(TERMS.appeal_s)
    local.until(lambda: bool(local.history(job).slashes), "the rewinder is slashed")
    return Story(local, job, len(lost))


def test_only_who_began_from_another_state_is_slashed(story: Story) -> None:
    """In the second round: in the first everybody's state is zero."""
    local, history = story.local, story.local.history(story.job)
    assert [(s.node_id, s.violation, s.round_id) for s in history.slashes] == [
        (local.node_id(REWINDER), Violation.INVALID, 2)
    ]
    assert [check.sentence for check in local.books(story.job) if not check.holds] == []


def test_who_lost_its_disk_is_paid_in_every_round(story: Story) -> None:
    """It finds its state again by doing its first round again, as a verifier does."""
    local, history = story.local, story.local.history(story.job)
    assert story.lost == 2  # the state and the codec's memory
    honest = {local.node_id(name) for name in (KEEPER, LOSER)}
    final = [one for one in history.rounds.values() if one.phase == Phase.FINALIZED]
    assert len(final) == ROUNDS
    for one in final:
        assert one.report is not None and one.report.accepted() >= honest
    for node in honest:
        assert history.nodes[node].earned > 0


def test_a_strangers_audit_agrees(story: Story) -> None:
    """It does every round again, and the rounds before where a node's state comes from them."""
    store = open_store(str(story.local.net.store))
    found = audit_job(story.local.network, store, story.job, deep=True)
    assert [str(difference) for difference in found.differences] == []
