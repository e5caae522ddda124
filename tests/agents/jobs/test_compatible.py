# SPDX-License-Identifier: Apache-2.0
"""Combinations of mechanisms that a job may not have, each with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from agents.jobs.job import JobContext, mechanism
from agents.mechanisms import mode, verify
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import JobSpec, SpecError
from tests.stage.memory.honest_round import HonestRound
from tests.stage.memory.tiny_specs import tiny_model

LOCAL = {"access": "local", "verify": "screening"}
NOISE = {"privacy": "gaussian", "privacy_options": {"clip": 1.0, "noise_multiplier": 2.0}}
ACCEPTED = {**NOISE, "privacy_options": {**NOISE["privacy_options"], "accept_blinding": True}}
FREE = {"codec": "sparse", "merge": "norm_clip", "score": "gauntlet", "verify": "gauntlet"}
GRADIENT = {"optimizer": {"inner": "gradient", "batch_size": 2, "seq_len": 16}}
MUON = {"optimizer": {"inner": "muon", "batch_size": 2, "seq_len": 16}}
UNTIED = {**tiny_model(16, 24, 16, layers=2), "tie_embeddings": False}
PIPELINE = {
    "mode": "pipeline",
    "score": "backward_passes",
    "model": UNTIED,
    "pipeline": {"layers": [1, 1], "boundary_options": {"width": 4}},
}
AGGREGATE = {**NOISE, "privacy": "aggregate"}


def context(tiny: HonestRound, **changes: Any) -> JobContext:
    fields = {**tiny.job.spec.model_dump(mode="json"), **changes}
    return JobContext(JobSpec.from_dict(fields), tiny.store)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"privacy": "dp_sgd"}, 'needs access "local"'),
        ({"access": "local"}, "belong together"),
        ({"verify": "screening"}, "belong together"),
        ({"codec": "sparse", "merge": "median"}, "leaves most coordinates of a payload zero"),
        ({"codec": "sparse", "merge": "geometric_mean"}, "leaves most coordinates of a payload"),
        ({"codec": "sparse", "merge": "mean", **NOISE}, "cannot be checked under the noise"),
        ({"codec": "polytope", "merge": "mean", **NOISE}, "cannot be checked under the noise"),
        ({"merge": "multi_krum", **NOISE}, "poisoners .* chance is 25 %"),
        ({"codec": "dense", "codec_options": {"cell": 3}}, "codec_options: dense refuses"),
        ({"merge": "multi_krum", "merge_options": {"byzantine_fraction": 0.9}}, "merge_options"),
        ({"score": "alignment", "score_options": {"band": "wide"}}, "score_options"),
        ({"privacy": "gaussian"}, "privacy_options: gaussian refuses"),
        (
            {"codec": "sparse", "merge": "mean", "score": "batches", **AGGREGATE},
            "keeps a memory between rounds",
        ),
        (
            {**NOISE, "privacy_options": {"clip": 10**400, "noise_multiplier": 2.0}},
            "privacy_options: gaussian refuses",
        ),
        (
            {"codec": "semantic", "codec_options": {"ratio": 1e6}, "merge": "mean"},
            "can't encode this job's model",
        ),
        ({**FREE, "codec": "dense"}, "names every number"),
        ({**FREE, "codec": "semantic", "merge": "mean"}, "names every number"),
        ({**FREE, "access": "encrypted"}, 'needs access "public"'),
        ({**FREE, **NOISE}, 'goes with privacy "none"'),
        ({**FREE, "merge": "median"}, "leaves most coordinates of a payload zero"),
        ({**FREE, "verify": "reexecution"}, "belong together"),
        ({**FREE, "score": "shares"}, "belong together"),
        ({**FREE, "score_options": {"top": 0}}, "score_options: gauntlet refuses"),
        ({"codec": "demo", "merge": "mean"}, "memory for 65536 rounds"),
        (
            {"privacy": "dp_sgd", "codec": "polytope", "merge": "mean", **LOCAL, **GRADIENT},
            "makes noisy steps",
        ),
        (
            {"optimizer": {"inner": "sgd", "seq_len": 16}},
            "optimizer.inner: There is no inner optimizer 'sgd'",
        ),
        ({**PIPELINE, "score": "shares"}, 'mode "pipeline" belong together'),
        ({"score": "backward_passes"}, 'mode "pipeline" belong together'),
        ({"score": "clasp"}, '"backward_passes" or "clasp" and mode "pipeline" belong together'),
        ({**PIPELINE, **LOCAL}, 'mode "pipeline" needs verify "reexecution", not "screening"'),
        ({**PIPELINE, "access": "encrypted"}, 'mode "pipeline" needs access "public"'),
        ({**PIPELINE, "merge": "mean", **NOISE}, 'mode "pipeline" needs privacy "none"'),
        ({**PIPELINE, "codec": "polytope"}, 'mode "pipeline" needs codec "dense"'),
        ({**PIPELINE, **GRADIENT}, "makes steps within a round"),
        ({**PIPELINE, "pipeline": {"layers": [1, 2]}}, "pipeline: layers .* are 3 blocks"),
        ({**PIPELINE, "pipeline": {"layers": [1, 1], "boundary": "wall"}}, "no boundary 'wall'"),
        ({**PIPELINE, "model": {**UNTIED, "tie_embeddings": True}}, "tie_embeddings must be"),
        (
            {**PIPELINE, "model": {**UNTIED, "kind": "transformers", "config_cid": "b" + "a" * 58}},
            'only models of kind "llama" are cut',
        ),
    ],
)
def test_a_bad_combination_is_refused_with_the_reason(
    tiny: HonestRound, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SpecError, match=reason):
        context(tiny, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"privacy": "dp_sgd", "codec": "polytope", "merge": "multi_krum", **LOCAL},
        {"codec": "sparse", "merge": "multi_krum", **LOCAL, **ACCEPTED},
        {"codec": "semantic", "merge": "mean", **NOISE},
        {"codec": "sparse", "merge": "geometric_median", "score": "alignment"},
        {"codec": "polytope", "merge": "mean", "score": "batches", **AGGREGATE},
        {"privacy": "dp_sgd", "codec": "polytope", "merge": "multi_krum", **LOCAL, **MUON},
        PIPELINE,
        {**PIPELINE, "score": "clasp", "score_options": {"threshold": 6.0}},
        FREE,
        {**FREE, "codec": "demo", "merge": "demo_sign", **GRADIENT},
        {"codec": "demo", "codec_options": {"memory_rounds": 64}, "merge": "mean", **GRADIENT},
    ],
)
def test_these_combinations_are_accepted(tiny: HonestRound, changes: dict[str, Any]) -> None:
    assert context(tiny, **changes).spec.codec == changes.get("codec", "dense")


def test_an_accepted_blinded_merge_is_a_warning_with_the_figure(tiny: HonestRound) -> None:
    (warning,) = context(tiny, merge="multi_krum", **ACCEPTED).warnings
    assert "weakens the robust merge" in warning and "chance is 25 %" in warning
    assert context(tiny).warnings == []


def test_options_reach_the_mechanism(tiny: HonestRound, tmp_path: object) -> None:
    job = context(tiny, codec="polytope", codec_options={"cell": 32}, merge="mean")
    assert job.codec == mechanism(job.spec, "codec")
    assert job.codec.cell == 32
    assert isinstance(tiny.store, EmbeddedStore)


def test_semantics_range_follows_the_jobs_noise(tiny: HonestRound) -> None:
    """A range that is too small would cut honest payloads off and make them look dishonest."""
    job = context(tiny, codec="semantic", merge="mean", **NOISE)
    assert (job.codec.clip, job.codec.noise_std) == (1.0, 4.0)
    with pytest.raises(SpecError, match=r"privacy fixes it at 4\.0"):
        context(tiny, codec="semantic", codec_options={"noise_std": 1.0}, merge="mean", **NOISE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"codec": "sparse", "merge": "multi_krum"}, "set merge_options.mixing"),
        (
            {"codec": "semantic", "codec_options": {"own_seed": True}, "merge": "multi_krum"},
            "leave own_seed out",
        ),
    ],
)
def test_weak_choices_are_warned_of(tiny: HonestRound, changes: dict[str, Any], words: str) -> None:
    (warning,) = context(tiny, **changes).warnings
    assert words in warning
    assert context(tiny, **{**changes, "merge": "mean"}).warnings == []


def test_nodes_with_their_own_seeds_encode_differently(tiny: HonestRound) -> None:
    job = context(tiny, codec="semantic", codec_options={"own_seed": True}, merge="mean")
    seeds = [tiny.plan.codec_seed(job.codec, node) for node in (3, 5)]
    shared = [tiny.plan.codec_seed(tiny.job.codec, node) for node in (3, 5)]
    assert seeds[0] != seeds[1] and shared == [tiny.plan.manifest.seed] * 2


def test_signs_are_warned_of_where_they_are_too_large_or_never_settle(tiny: HonestRound) -> None:
    """And the figure is in the warning."""
    inner = {"batch_size": 2, "seq_len": 16, "inner": "gradient"}
    signs = {**FREE, "codec": "demo", "merge": "demo_sign"}
    calm = {"optimizer": {**inner, "outer_lr": 0.002, "outer_decay": True}}
    assert context(tiny, **signs, **calm).warnings == []
    large, restless = context(tiny, **signs, optimizer=inner).warnings
    assert "in each round, and 1 is large" in large
    assert "without optimizer.outer_decay" in restless
    (sparse,) = context(tiny, **{**signs, "codec": "sparse"}, **calm).warnings
    assert "one node alone" in sparse


def test_only_free_jobs_leave_training_to_the_nodes(tiny: HonestRound) -> None:
    free = context(tiny, **FREE)
    assert free.verification.own_start and not free.traced and free.trace_steps(7) == 0
    assert not tiny.job.verification.own_start
    assert not context(tiny, **LOCAL).verification.own_start


@pytest.mark.parametrize("field", ["mode", "verify"])
def test_a_spec_with_an_unknown_way_is_refused_by_name(tiny: HonestRound, field: str) -> None:
    with pytest.raises(SpecError, match=f"no mechanism for {field}: 'telepathy'; install it"):
        context(tiny, **{field: "telepathy"})


def test_a_job_carries_what_its_spec_names(tiny: HonestRound) -> None:
    assert isinstance(tiny.job.verification, verify.get(tiny.job.spec.verify))
    assert isinstance(tiny.job.mode, mode.get(tiny.job.spec.mode))
