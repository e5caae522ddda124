# SPDX-License-Identifier: Apache-2.0
"""Combinations of mechanisms that a job may not have, each with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from agents.jobs.combinations.figures import RIDERS_EARN
from agents.jobs.combinations.pay import riding
from agents.jobs.combinations.payloads import small_shapes
from agents.jobs.job import JobContext, mechanism
from agents.mechanisms import codec as codecs
from agents.mechanisms import mode, verify
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import JobSpec, SpecError, demo_spec
from tests.stage.memory.honest_round import HonestRound
from tests.stage.memory.tiny_specs import EIGHTH, tiny_model

LOCAL = {"access": "local", "verify": "screening"}
REDONE = {"access": "public", "verify": "reexecution"}
NOISE = {"privacy": "gaussian", "privacy_options": {"clip": 1.0, "noise_multiplier": 2.0}}
ACCEPTED = {**NOISE, "privacy_options": {**NOISE["privacy_options"], "accept_blinding": True}}
GRADIENT = {"optimizer": {"inner": "gradient", "batch_size": 2, "seq_len": 16}}
STEPS = {"optimizer": {"batch_size": 2, "seq_len": 16}}
FREE = {
    "codec": "sparse",
    "merge": "norm_clip",
    "score": "gauntlet",
    "verify": "gauntlet",
    **GRADIENT,
}
ABACUS = {"classes": ["torch=0;device=abacus"]}
MANY = {"codec": "demo", "codec_options": {"per_chunk": 512, "decay": 0.5}}
DEMO = {"codec": "demo", "codec_options": {"memory_rounds": 64}, "merge": "mean", **GRADIENT}
MUON = {"optimizer": {"inner": "muon", "batch_size": 2, "seq_len": 16}}
ROUGH = {"inner": "muon", "inner_options": {"newton_schulz": "bf16"}}
PRODUCTS = {"optimizer": {**ROUGH, "batch_size": 2, "seq_len": 16}}
KEPT = {"batch_size": 2, "seq_len": 16, "inner_state": "kept"}
UNTIED = {**tiny_model(16, 24, 16, layers=2), "tie_embeddings": False}
PIPELINE: dict[str, Any] = {
    "mode": "pipeline",
    "score": "backward_passes",
    "model": UNTIED,
    "pipeline": {"layers": [1, 1], "boundary_options": {"width": 4}},
}


def pipelined(**block: Any) -> dict[str, Any]:
    return {**PIPELINE, "pipeline": {**PIPELINE["pipeline"], **block}}


AGGREGATE = {**NOISE, "privacy": "aggregate"}


def context(tiny: HonestRound, **changes: Any) -> JobContext:
    fields = {**tiny.job.spec.model_dump(mode="json"), **changes}
    if "tolerances" not in changes:
        del fields["tolerances"]  # they follow precision and codec
    return JobContext(JobSpec.from_dict(fields), tiny.store)


def unlike_shapes(job: JobContext) -> list[str]:
    """The warnings but the one of shapes: the tiny job's model is small for every codec."""
    return [warning for warning in job.warnings if "times shorter" not in warning]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"privacy": "dp_sgd"}, 'needs access "local"'),
        ({"privacy": "dp_sgd", "access": "encrypted"}, "sealing the data changes nothing of that"),
        ({"optimizer": KEPT, **LOCAL}, "nobody does a node's earlier rounds again"),
        ({**FREE, "optimizer": {**KEPT, "inner": "gradient"}}, "has no state"),
        ({**PIPELINE, "optimizer": KEPT}, "starts from zero with every miner and round"),
        (
            {
                "optimizer": {**KEPT, "inner_state_rounds": 6},
                "codec": "sparse",
                "codec_options": {"memory_rounds": 4},
            },
            "one must divide the other",
        ),
        ({"optimizer": KEPT, "precision": "bf16"}, "would be found INVALID"),
        (
            {"optimizer": {**KEPT, **ROUGH}},
            "needs exactly one determinism class in classes, and there are 0",
        ),
        (PRODUCTS, 'newton_schulz "bf16" needs exactly one determinism class .* are 0'),
        ({**PRODUCTS, "classes": ["abacus", "slide rule"]}, "in classes, and there are 2"),
        ({**PRODUCTS, "codec": "sparse", "merge": "mean"}, "or use newton_schulz .fp32."),
        ({**PRODUCTS, "codec": "cells", "merge": "mean"}, "or use newton_schulz .fp32."),
        ({**PIPELINE, **PRODUCTS}, 'newton_schulz "bf16" needs exactly one determinism class'),
        (
            {"optimizer": KEPT, "precision": "bf16", "classes": ["abacus", "slide rule"]},
            "in classes, and there are 2",
        ),
        ({**FREE, "access": "encrypted"}, "every validator would need every key"),
        ({"classes": ["abacus"], **LOCAL}, 'classes need verify "reexecution"'),
        ({"classes": ["abacus"], **NOISE, "merge": "mean"}, 'don.t go with privacy "gaussian"'),
        ({"access": "local"}, "belong together"),
        ({"verify": "screening"}, "belong together"),
        ({"codec": "sparse", "merge": "median"}, "leaves most coordinates of a payload zero"),
        ({"codec": "directions", "merge": "median"}, "leaves most coordinates of a payload zero"),
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
        ({"score": "alignment", **GRADIENT}, "pass for copies of each other"),
        ({"score": "alignment", **GRADIENT, **LOCAL}, "1/32 of the work earned 0.93"),
        ({**FREE, **STEPS}, "a payload says little about its round's data"),
        ({**FREE, **MANY, **STEPS}, "did a quarter of the work earned up to 0.39 of an honest"),
        ({**FREE, **MANY, "score_options": {"pays": "rank"}}, "by 87 % with history 8"),
        ({**FREE, **MANY, "score_options": {"history": 0}}, "earned 0.44 of an honest"),
        ({**FREE, "codec": "demo"}, "codec_options.per_chunk to 512 or more"),
        ({**FREE, **MANY, "codec_options": {"per_chunk": 511}}, "sends 511 of a chunk.s 4096"),
        (
            {**FREE, **MANY, "codec_options": {**EIGHTH, "per_chunk": 31}},
            "codec_options.per_chunk to 32 or more",
        ),
        ({**FREE, **MUON}, 'with the local steps of optimizer.inner "muon"'),
        ({**FREE, "codec": "dense"}, "names every number"),
        ({**FREE, "codec": "semantic", "merge": "mean"}, "names every number"),
        ({**FREE, "codec": "directions", "merge": "mean"}, "names every number"),
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
        ({"merge": "weighted_mean"}, 'merge "weighted_mean" needs mode "pipeline"'),
        (
            {**pipelined(all_reduce="butterfly"), "merge": "weighted_mean"},
            '"butterfly" does not go with merge "weighted_mean": an owner that',
        ),
        ({**PIPELINE, "pipeline": {"layers": [1, 2]}}, "pipeline: layers .* are 3 blocks"),
        ({**PIPELINE, "pipeline": {"layers": [1, 1], "boundary": "wall"}}, "no boundary 'wall'"),
        ({**PIPELINE, "model": {**UNTIED, "tie_embeddings": True}}, "tie_embeddings must be"),
        (
            pipelined(segment=2, sharing={"full_every": 2, "codec": "polytope"}),
            'segment does not go with pipeline.sharing by codec "polytope"',
        ),
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
        {"optimizer": KEPT},
        {"optimizer": KEPT, "precision": "bf16", "classes": ["abacus"]},
        {"optimizer": {**KEPT, **ROUGH}, "classes": ["abacus"]},
        {**PRODUCTS, "classes": ["abacus"]},
        {**PRODUCTS, **PIPELINE, "classes": ["abacus"]},
        {**PRODUCTS, **LOCAL},
        {**PRODUCTS, "codec": "semantic", "merge": "mean", **NOISE},
        PIPELINE,
        {**PIPELINE, "score": "clasp", "score_options": {"threshold": 6.0}},
        {**pipelined(segment=2), **ABACUS},
        {**pipelined(segment=2, sharing={"full_every": 1, "codec": "polytope"}), **ABACUS},
        {**pipelined(segment=2, sharing={"full_every": 2}), **ABACUS},
        pipelined(sharing={"full_every": 2}),
        {**pipelined(sharing={"full_every": 1, "codec": "sparse"}), "merge": "mean"},
        pipelined(sharing={"full_every": 2, "codec": "polytope"}),
        {**pipelined(sharing={"full_every": 2, "codec": "sparse"}), "merge": "mean", **ABACUS},
        FREE,
        {**FREE, **MANY, "merge": "demo_sign"},
        {**FREE, "codec": "demo", "codec_options": EIGHTH},
        {**FREE, **MANY, "score_options": {"pays": "work", "history": 1}},
        {"score": "alignment", "score_options": {"history": 0}},
        DEMO,
        GRADIENT,
        {"score": "alignment", **MUON},
    ],
)
def test_these_combinations_are_accepted(tiny: HonestRound, changes: dict[str, Any]) -> None:
    assert context(tiny, **changes).spec.codec == changes.get("codec", "dense")


def test_a_segment_says_what_it_lets_by_and_where_it_saves_nothing(tiny: HonestRound) -> None:
    assert not [w for w in context(tiny, **PIPELINE).warnings if "segment" in w]
    for segment, words in ((2, "one false step is found once in n draws"), (500, "no shorter")):
        (found,) = (
            warning
            for warning in context(tiny, **pipelined(segment=segment), **ABACUS).warnings
            if "segment" in warning
        )
        assert words in found


def test_an_accepted_blinded_merge_is_a_warning_with_the_figure(tiny: HonestRound) -> None:
    (warning,) = context(tiny, merge="multi_krum", **ACCEPTED).warnings
    assert "weakens the robust merge" in warning and "chance is 25 %" in warning
    assert context(tiny).warnings == []


def test_a_direction_in_noise_without_its_chance_is_warned_of(tiny: HonestRound) -> None:
    private = {"privacy": "dp_sgd", "codec": "polytope", "merge": "multi_krum", **LOCAL}
    asked = {**private, "score": "alignment", "score_options": {"chance": 0.01}}
    left_out = set(context(tiny, **{**asked, "score_options": {}}).warnings)
    (warning,) = left_out - set(context(tiny, **asked).warnings)
    assert "left to luck" in warning and "3 / sqrt(m)" in warning


@pytest.mark.parametrize("codec", ["sparse", "cells", "directions"])
def test_taking_the_past_out_of_little_that_is_said_is_warned_of_with_the_figures(
    tiny: HonestRound, codec: str
) -> None:
    sparse = {"codec": codec, "merge": "norm_clip", "score": "alignment"}
    (warning,) = unlike_shapes(context(tiny, **sparse))
    assert (
        'history 8: with codec "sparse" a node with twice the data earned 0.89 to 1.47' in warning
    )
    for cure in ({"score_options": {"history": 0}}, {"score": "shares"}, {"codec": "dense"}):
        assert unlike_shapes(context(tiny, **{**sparse, **cure})) == []


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
    assert context(tiny, **{**changes, "merge": "norm_clip"}).warnings == []


@pytest.mark.parametrize(
    ("changes", "cure", "words"),
    [
        (LOCAL, REDONE, "pays a node that resends past merged updates"),
        ({**LOCAL, "score": "alignment"}, REDONE, f"adapts their form earns {RIDERS_EARN};"),
    ],
)
def test_scores_that_riders_like_are_warned_of(
    tiny: HonestRound, changes: dict[str, Any], cure: dict[str, Any], words: str
) -> None:
    (warning,) = context(tiny, **changes).warnings
    assert words in warning
    assert context(tiny, **{**changes, **cure}).warnings == []


def test_cells_goes_with_rules_that_average_and_names_tensors_of_the_model(
    tiny: HonestRound,
) -> None:
    def told(merge: str, fine: str) -> list[str]:
        options = {"fine": fine} if fine else {}
        found = context(tiny, codec="cells", codec_options=options, merge=merge).warnings
        return [warning for warning in found if "times shorter" not in warning]

    assert told("norm_clip", "") == told("norm_clip", "embedding.weight") == []
    apart, *_ = told("geometric_median", "")
    assert "use mean or norm_clip" in apart
    (missing,) = told("norm_clip", "embedding.weight,head")
    assert "fine names 'head', and the model has no such tensor" in missing
    assert "embedding.weight" in missing
    with pytest.raises(SpecError, match=r"nearly everywhere; use mean or norm_clip$"):
        context(tiny, codec="cells", merge="median")
    assert "weighted_mean" not in apart


def test_draws_of_each_node_are_warned_of_in_compressed_rounds_too(tiny: HonestRound) -> None:
    def told(merge: str, **sharing: Any) -> list[str]:
        job = context(tiny, **{**pipelined(sharing=sharing), "merge": merge, **ABACUS})
        return [warning for warning in job.warnings if "seed for each node" in warning]

    (apart,) = told("multi_krum", full_every=2, codec="cells")
    assert apart.startswith('pipeline.sharing.codec "cells" with a seed for each node')
    assert "use mean or norm_clip or weighted_mean," in apart
    own = {"codec": "semantic", "codec_options": {"own_seed": True}}
    assert len(told("geometric_median", full_every=2, **own)) == 1
    assert told("geometric_median", full_every=2, codec="semantic") == []
    assert told("mean", full_every=2, codec="cells") == []
    assert told("multi_krum", full_every=1, codec="cells") == []  # all rounds are full


def test_a_butterfly_is_told_of_rules_that_it_can_have(tiny: HonestRound) -> None:
    own = {"full_every": 2, "codec": "semantic", "codec_options": {"own_seed": True}}
    block = {"all_reduce": "butterfly", "sharing": own}
    job = context(tiny, **{**pipelined(**block), "merge": "trimmed_mean"})
    (apart,) = (warning for warning in job.warnings if "seed for each node" in warning)
    assert "use mean, or leave own_seed out" in apart


def test_nodes_with_their_own_seeds_encode_differently(tiny: HonestRound) -> None:
    job = context(tiny, codec="semantic", codec_options={"own_seed": True}, merge="mean")
    seeds = [tiny.plan.codec_seed(job.codec, node) for node in (3, 5)]
    shared = [tiny.plan.codec_seed(tiny.job.codec, node) for node in (3, 5)]
    assert seeds[0] != seeds[1] and shared == [tiny.plan.manifest.seed] * 2


def test_nodes_that_share_their_rows_round_by_draws_of_their_own(tiny: HonestRound) -> None:
    job = context(tiny, codec="semantic", merge="multi_krum")
    seeds = [tiny.plan.codec_seed(job.codec, node) for node in (3, 5)]
    assert seeds[0] != seeds[1]
    assert [seed[:32] for seed in seeds] == [tiny.plan.manifest.seed] * 2


def test_signs_are_warned_of_where_they_are_too_large_or_never_settle(tiny: HonestRound) -> None:
    """And the figure is in the warning."""
    inner = {"batch_size": 2, "seq_len": 16, "inner": "gradient"}
    signs = {**FREE, **MANY, "merge": "demo_sign"}
    calm = {"optimizer": {**inner, "outer_lr": 0.002, "outer_decay": True}}
    assert unlike_shapes(context(tiny, **{**signs, **calm})) == []
    large, restless = unlike_shapes(context(tiny, **{**signs, "optimizer": inner}))
    assert "in each round, and 1 is large" in large
    assert "without optimizer.outer_decay" in restless
    sparse, _ = unlike_shapes(context(tiny, **{**FREE, "merge": "demo_sign", **calm}))
    assert "one node alone" in sparse


def test_what_the_gauntlet_measures_badly_is_warned_of_with_the_figures(
    tiny: HonestRound,
) -> None:
    (sparse,) = unlike_shapes(context(tiny, **FREE))
    assert "18 to 36 % of its mean" in sparse
    assert unlike_shapes(context(tiny, **{**FREE, **MANY})) == []
    assert unlike_shapes(context(tiny)) == []


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


LARGER = {**tiny_model(64, 64, 176, layers=2), "vocab_size": 256}


@pytest.mark.parametrize(
    ("codec", "model", "figures"),
    [
        ("demo", None, "37.2 times shorter, and 234.5 times"),
        ("demo", LARGER, None),
        ("sparse", LARGER, None),
        ("polytope", None, None),
    ],
)
def test_a_model_whose_shapes_a_codec_does_not_fit_is_warned_of(
    tiny: HonestRound, codec: str, model: dict[str, Any] | None, figures: str | None
) -> None:
    """With both figures, below half of what the codec reaches on large matrices."""
    changes = {"model": model} if model else {}
    spec = {"sparse": {**FREE, "merge": "norm_clip"}, "demo": DEMO}.get(codec, {"merge": "mean"})
    found = context(tiny, **{**spec, "codec": codec}, **changes).warnings
    told = [warning for warning in found if "times shorter" in warning]
    assert len(told) == (figures is not None)
    assert all(figures in warning for warning in told if figures)


def test_many_tiny_tensors_are_warned_of_with_every_codec_of_a_fixed_rate() -> None:
    tiny_tensors = {f"t{i}": (4,) for i in range(300)}
    figures = {"dense": "0.2", "polytope": "41.7", "sparse": "3.3", "demo": "2.6", "cells": "3.8"}
    for name, figure in figures.items():
        spec = demo_spec("b" + "a" * 58, codec=name)
        (told,) = small_shapes(spec, tiny_tensors, codecs.get(name)())
        assert f"this model {figure} times shorter" in told
    semantic = codecs.get("semantic")(dimension=8)
    assert small_shapes(demo_spec("b" + "a" * 58, codec="semantic"), tiny_tensors, semantic) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"codec": "polytope", "merge": "mean"}, None),
        ({"tolerances": {"cosine_min": 0.9, "rel_l2_max": 0.005}}, None),
        ({"tolerances": {"cosine_min": 0.99999, "rel_l2_max": 1.0}}, None),
        ({"tolerances": {"rel_l2_max": 1e-5}}, "4.9e-05 apart"),
        ({"tolerances": {"rel_l2_max": 1e-3}, "batches_per_round": 193}, "0.16 apart"),
        ({"batches_per_round": 192}, None),
        ({"batches_per_round": 193}, "0.16 apart"),
        ({"tolerances": {"rel_l2_max": 1e-3}, "batches_per_round": 193, **GRADIENT}, None),
        ({"tolerances": {"rel_l2_max": 1e-3}}, None),
        ({"tolerances": {"rel_l2_max": 1.0}, **LOCAL}, None),
        ({"precision": "bf16", "classes": ["torch=0;device=abacus"]}, None),
    ],
)
def test_tolerances_that_honest_work_exceeds_are_warned_of(
    tiny: HonestRound, changes: dict[str, Any], words: str | None
) -> None:
    told = [w for w in context(tiny, **changes).warnings if w.startswith("tolerances: ")]
    assert len(told) == (words is not None)
    assert all(words in warning for warning in told if words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tolerances": {"cosine_min": 0.99, "rel_l2_max": 0.1}}, "skip 4 of 12 steps or more, 22"),
        ({"tolerances": {"rel_l2_max": 0.03}}, "skip 1 of 12 steps or more, 7 of 96"),
        ({"precision": "bf16"}, "skip 4 of 12"),
        ({"precision": "bf16", "codec": "polytope", "merge": "mean"}, "skip 6 of 12"),
    ],
)
def test_tolerances_that_pay_for_skipped_steps_are_refused_without_a_list_of_classes(
    tiny: HonestRound, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        context(tiny, **changes)
    context(tiny, **changes, **ABACUS)
    if "codec" not in changes:
        context(tiny, **changes, **LOCAL)  # nobody's work is done again


SPARSE = {"sharing": {"full_every": 2, "codec": "sparse"}}


@pytest.mark.parametrize(
    "changes",
    [
        {**PIPELINE, "precision": "bf16"},
        {**pipelined(**SPARSE), "precision": "bf16", "merge": "mean"},
        {**PIPELINE, "tolerances": {"rel_l2_max": 0.03}},
    ],
    ids=["bf16", "bf16 and compressed rounds", "wide"],
)
def test_a_pipeline_whose_tolerances_pay_for_passes_left_out_is_refused_without_such_a_list(
    tiny: HonestRound, changes: dict[str, Any]
) -> None:
    with pytest.raises(SpecError, match=r"leave backward passes of the first stage out .* classes"):
        context(tiny, **changes)
    told = context(tiny, **changes, **ABACUS).warnings
    assert not any("classes" in warning for warning in told)


def test_compressed_rounds_of_a_pipeline_are_not_refused_for_their_tolerances(
    tiny: HonestRound,
) -> None:
    """The spec has a lossy codec's tolerances then, and miners are judged before the codec."""
    job = context(tiny, **pipelined(**SPARSE), merge="mean", **ABACUS)
    assert job.spec.tolerances.rel_l2_max == 0.1
    assert not any("classes" in warning for warning in job.warnings)


@pytest.mark.parametrize(
    ("block", "what"),
    [({"segment": 2}, "a segment of an epoch"), (SPARSE, "what a miner owes of earlier rounds")],
)
def test_what_a_miners_own_class_alone_can_judge_is_refused_without_such_a_list(
    tiny: HonestRound, block: dict[str, Any], what: str
) -> None:
    with pytest.raises(SpecError, match=f"{what} .* needs classes: a neighbour may send"):
        context(tiny, **pipelined(**block), merge="mean")


@pytest.mark.parametrize("score", ["shares", "alignment", "batches"])
def test_a_score_that_nobody_checks_is_warned_of(score: str) -> None:
    """Where work is redone, what rides is found, and there is nothing to say."""
    for fields, count in ((LOCAL, 1), ({}, 0)):
        spec = demo_spec("b" + "a" * 58, score=score, **fields)
        assert len(riding(spec, verify.get(spec.verify))) == count
