# SPDX-License-Identifier: Apache-2.0
"""What a round asks of each role, counted by hand for a model of 220 numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.jobs.budget import needs
from agents.jobs.job import JobContext
from agents.jobs.role_memory import ROLES, role_needs, training_needs
from agents.mechanisms import codec as codecs
from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import JobSpec, SpecError
from tests.stage.memory.honest_round import make_tiny_job

SHAPES = {"a": (10, 20), "b": (20,)}
P = 220
DENSE, SPARSE = codecs.get("dense")(), codecs.get("sparse")()
ROWS = 2**16 * (4 + 16)  # that merge and score read of four payloads


def spec_of(**changes: Any) -> JobSpec:
    return JobSpec.from_dict({"data": cid_of_bytes(b"data"), **changes})


def numbers(role: str, codec: codecs.Codec = DENSE, **changes: Any) -> int:
    found = role_needs(role, spec_of(**changes), SHAPES, codec, 4).weights
    assert found % 4 == 0
    return found // 4


def wire(codec: codecs.Codec, shapes: Mapping[str, tuple[int, ...]] = SHAPES) -> int:
    return -(-codec.wire_size(shapes) // 4)


def test_a_trainer_by_hand() -> None:
    # Held: the round's model, weights and gradients. Read out: theta_0, both moments, theta_H, the
    # update and its copy.
    assert numbers("trainer") == 3 * P + 6 * P
    # The sum and the mean take as much as moments.
    assert numbers("trainer", optimizer={"inner": "gradient"}) == 9 * P
    # Newton-Schulz works on five copies of the matrix, more than reading out takes.
    assert numbers("trainer", optimizer={"inner": "muon"}) == 3 * P + (P + 2 * P + 5 * 200)
    # The velocity lies in the round's model.
    assert numbers("trainer", outer={"rate": 1.0, "momentum": 0.5}) == 10 * P
    # Moments before and after, the update, the payload, what it says, the moments' file being
    # joined.
    sending = 2 * P + P + wire(DENSE) + P + 4 * P
    assert numbers("trainer", optimizer={"inner_state": "kept"}) == (3 + 2) * P + sending


def test_a_trainer_with_a_memory_by_hand() -> None:
    # What is owed lasts; reading out takes more than sending: update, payload, what it says, what
    # is owed after, and that as a file.
    assert numbers("trainer", SPARSE) == (3 + 1) * P + 6 * P
    # With kept moments sending takes most: these, the update, the payload, what it says, what is
    # owed, its file, and the moments' file being joined.
    sending = 2 * P + P + wire(SPARSE) + P + P + (P + 4 * P)
    kept = {"inner_state": "kept"}
    assert numbers("trainer", SPARSE, optimizer=kept) == (4 + 2) * P + sending


def test_training_is_a_trainers_round_or_the_gradients_of_examples() -> None:
    plain = training_needs(spec_of(), SHAPES, DENSE, per_example=False)
    assert plain == role_needs("trainer", spec_of(), SHAPES, DENSE, 0)
    private = training_needs(spec_of(), SHAPES, DENSE, per_example=True)
    assert private == needs(spec_of(), SHAPES, per_example=True)
    assert private.memory > plain.memory


@pytest.mark.parametrize(
    "changes",
    [{}, {"optimizer": {"batch_size": 2, "seq_len": 16, "inner_state": "kept"}}, {"outer": {}}],
    ids=["plain", "kept inner state", "velocity"],
)
def test_a_job_is_refused_where_a_whole_round_does_not_fit(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    tiny = make_tiny_job(EmbeddedStore(tmp_path), **changes)
    spec, job = tiny.job.spec, tiny.job
    asked = training_needs(spec, job.shapes, job.codec, per_example=False).memory
    JobContext(spec, tiny.store, memory=asked)
    with pytest.raises(SpecError, match="training takes about"):
        JobContext(spec, tiny.store, memory=asked - 1)


def test_an_aggregator_by_hand() -> None:
    # The round's model, four payloads, the merged update, the next model, the network, the update
    # as a file and the checkpoint being joined.
    assert numbers("aggregator") == ROWS + P * (1 + 4 + 1 + 1 + 2 + 1 + 2)
    # A lossy codec's payloads are kept beside what they decode to.
    assert numbers("aggregator", SPARSE) == numbers("aggregator") + 4 * wire(SPARSE)
    # A velocity beside both models and in the checkpoint.
    momentum = {"rate": 1.0, "momentum": 0.5}
    assert numbers("aggregator", outer=momentum) == ROWS + P * (2 + 4 + 1 + 2 + 2 + 1 + 4)
    # Nobody's inner state is the aggregator's.
    assert numbers("aggregator", optimizer={"inner_state": "kept"}) == numbers("aggregator")
    more = role_needs("aggregator", spec_of(), SHAPES, DENSE, 9).weights // 4
    assert more == numbers("aggregator") + 5 * (P + 2**16)


def test_a_verifier_by_hand() -> None:
    # The small model is not what takes most here: rows of payloads are.
    assert numbers("verifier") == numbers("aggregator")
    large = {"a": (2048, 2048)}
    p = 2048 * 2048
    found = role_needs("verifier", spec_of(), large, DENSE, 4).weights // 4
    # An aggregator's with both files. Then theta_H and the update, the payload and its parts, what
    # it says, and room for one more.
    held = p * (1 + 4 + 1 + 1 + 2 + 1 + 1)
    assert found == held + 2 * p + (wire(DENSE, large) + p) + 2 * p
    kept = spec_of(optimizer={"inner_state": "kept"})
    found = role_needs("verifier", kept, large, SPARSE, 4).weights // 4
    # What is owed and gathered besides, what is gathered after, and four payloads.
    held += 4 * wire(SPARSE, large)
    assert found == held + (1 + 2) * p + 4 * p + (wire(SPARSE, large) + p) + 2 * p


def test_activations_and_batches_are_a_step_s() -> None:
    step = needs(spec_of(), SHAPES)
    for role in ROLES:
        found = role_needs(role, spec_of(), SHAPES, DENSE, 4)
        assert (found.activations, found.batches) == (step.activations, step.batches)


def test_a_role_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no role 'sponsor'; there are trainer, aggregator"):
        role_needs("sponsor", spec_of(), SHAPES, DENSE, 4)
