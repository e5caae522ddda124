# SPDX-License-Identifier: Apache-2.0
"""A sponsor's rate or tolerances make honest work on another machine look false, and nobody is
found wrong for it; work that was not done is found as ever.

`python -m tests.agents.verify.test_unsettled FOLDER SPEC` does the work on the other machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.protocol.numbers import Violation
from agents.rounds.submissions import Submission, fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.state import State
from agents.verify.spot_checks import Finding, reexecute
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    HonestRound,
    make_honest_round,
    noise,
    scaled,
)
from tests.stage.memory.other_machine import SLOW, asked, class_there, on_another_machine

MODULE = "tests.agents.verify.test_unsettled"
NODE = 9
_STEEP: dict[str, Any] = {
    "optimizer": {"batch_size": 2, "seq_len": 16, "lr": 0.3},
    "batches_per_round": 24,  # half of them are the node's
}
SPECS: dict[str, dict[str, Any]] = {
    "steep": _STEEP,
    "steep, sparse": _STEEP | {"codec": "sparse", "merge": "mean"},
    "narrow": {"tolerances": {"rel_l2_max": 0.0, "cosine_min": 1.0}},
}


class Played:
    """One round of a job, worked on here and on another machine."""

    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self.here: HonestRound = make_honest_round(EmbeddedStore(folder), **spec)
        self.there = on_another_machine(folder, spec, SLOW, MODULE)

    def finding(self, submission: Submission) -> Finding:
        others = [one for one in self.here.honest() if one.reveal.node != NODE]
        return reexecute(self.here.inputs([*others, submission]), NODE, DEVICE, self.here.store)

    def foreign(self) -> Finding:
        """Of the honest work of the other machine."""
        job, seed = self.here.job, self.here.plan.codec_seed(self.here.job.codec, NODE)
        return self.finding(fetch(self.there[NODE], job, self.here.store, seed))

    def lying(self, update: State) -> Finding:
        """Of another update, under the other machine's class."""
        job, seed = self.here.job, self.here.plan.codec_seed(self.here.job.codec, NODE)
        payload = job.codec.encode(update, None, seed)
        reveal = self.here.reveal(NODE, payload, determinism_class=class_there(SLOW))
        return self.finding(fetch(reveal, job, self.here.store, seed))


@pytest.fixture(scope="module", params=list(SPECS))
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("store"), SPECS[request.param])


def test_honest_work_of_another_machine_is_not_found_wrong(played: Played) -> None:
    found = played.foreign()
    assert found.violation is None, found.reason
    assert "rounding alone decides" in found.unsure and "disagrees" in found.reason


def test_what_was_not_trained_is_found(played: Played) -> None:
    own = played.here.works[NODE].gradient
    for update in (scaled(own, 0.0), scaled(own, -1.0), noise(own)):
        assert played.lying(update).violation == Violation.INVALID


def test_the_nodes_own_class_compares_to_the_bit(played: Played) -> None:
    """Who states this machine's class has no rounding to speak of."""
    own = played.here.works[NODE].gradient
    assert played.finding(played.here.submit(NODE)).violation is None
    cheat = played.here.submit(NODE, scaled(own, 1.001))
    assert played.finding(cheat).violation == Violation.INVALID


if __name__ == "__main__":
    store, fields = asked()
    work = make_honest_round(store, **fields)
    told = {}
    for node in NODES:
        reveal = work.reveal(node)
        names = ("content", "trace_root", "proof")
        told[node] = {name: getattr(reveal, name).hex() for name in names}
    print(json.dumps(told))
