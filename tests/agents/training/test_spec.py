# SPDX-License-Identifier: Apache-2.0
"""A spec is canonical, bounded, closed; its errors name field and range."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.storage.canonical import dumps
from agents.training.spec import (
    MAX_DRAWS,
    MAX_ERRORS,
    MAX_SPEC_BYTES,
    Hyperparameters,
    JobSpec,
    SpecError,
    demo_spec,
    update_tolerances,
)

DATA = "b" + "a" * 58


def test_round_trip_is_canonical() -> None:
    spec = demo_spec(DATA, rounds=4)
    raw = spec.to_bytes()
    assert JobSpec.from_bytes(raw) == spec
    assert JobSpec.from_bytes(raw).to_bytes() == raw
    assert json.loads(raw)["optimizer"]["betas"] == [0.9, 0.95]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("rounds", 0, "rounds: must be between 1 and 1000000, got 0"),
        ("rounds", "3", "rounds: Input should be a valid integer"),
        ("rounds", True, "rounds: Input should be a valid integer"),
        ("optimizer.lr", -1.0, "optimizer.lr: must be between 1e-08 and 1.0, got -1.0"),
        ("optimizer.lr", "x", "optimizer.lr: Input should be a valid number"),
        ("optimizer.betas", [0.9], "optimizer.betas.1: Field required"),
        ("optimizer.betas", [1.0, 0.9], "optimizer.betas.0: must be between 0.0 and 0.9999"),
        ("optimizer.seq_len", 65, "optimizer.seq_len 65 must not exceed model.max_seq_len 64"),
        ("model.n_layers", 10**9, "model.n_layers: must be between 1 and 256"),
        ("model.d_model", 66, "model: d_model 66 must be a multiple of n_heads 4"),
        ("model.d_model", 20, "model: d_model / n_heads must be even"),
        ("model.n_kv_heads", 3, "model: n_heads 4 must be a multiple of n_kv_heads 3"),
        ("model.kind", "pickle", "model.kind: Input should be 'llama' or 'transformers'"),
        ("model.kind", "transformers", "config_cid belongs to"),
        ("model.code", "import os", "model.code: is not a known key"),
        ("merge", "os.system", "merge: String should match pattern"),
        ("data", "../../etc", "data: String should match pattern"),
        ("precision", "fp8", "precision: Input should be 'fp32' or 'bf16'"),
        ("optimizer.inner", "os.system", "optimizer.inner: String should match pattern"),
        ("optimizer.inner_options", {"a": []}, "optimizer.inner_options.a"),
        ("optimizer.outer_decay", 1, "optimizer.outer_decay: Input should be a valid boolean"),
        ("score", "gauntlet", 'score "gauntlet" and verify "gauntlet" belong together'),
        ("verify", "gauntlet", 'score "gauntlet" and verify "gauntlet" belong together'),
        ("mode", "pipeline", 'mode "pipeline" and the block pipeline belong together'),
        ("pipeline", {"layers": [2]}, 'mode "pipeline" and the block pipeline belong together'),
        ("pipeline", {"layers": []}, "pipeline.layers: Tuple should have at least 1 item"),
        (
            "pipeline",
            {"layers": [2], "local_batch": 65},
            "pipeline.local_batch: must be between 1 and 64, got 65",
        ),
        ("classes", ["x"] * 2, "classes: a class is listed once"),
        ("classes", [str(i) for i in range(9)], "classes: Tuple should have at most 8 items"),
        ("classes", ["x" * 401], "classes.0: String should match pattern"),
        ("classes", ["x\n"], "classes.0: String should match pattern"),
        ("classes", "x", "classes: Input should be a valid tuple"),
        ("surprise", 1, "surprise: is not a known key; remove it"),
        ("tolerances.cosine_min", 1.5, "tolerances.cosine_min: must be between 0.0 and 1.0"),
    ],
)
def test_wrong_fields_are_named(path: str, value: object, message: str) -> None:
    fields = json.loads(demo_spec(DATA).to_bytes())
    inner = fields
    *parents, last = path.split(".")
    for key in parents:
        inner = inner[key]
    inner[last] = value
    with pytest.raises(SpecError) as caught:
        JobSpec.from_dict(fields)
    assert message in str(caught.value)


def test_more_wrong_fields_than_anybody_reads_are_counted() -> None:
    for count, found in ((MAX_ERRORS, "is not a known key"), (MAX_ERRORS + 1, "101 fields")):
        with pytest.raises(SpecError, match=found):
            JobSpec.from_dict({"data": DATA} | {f"key{n}": 0 for n in range(count)})


def test_all_wrong_fields_are_listed() -> None:
    with pytest.raises(SpecError, match=r"rounds: .*; precision: "):
        JobSpec.from_dict({"data": DATA, "rounds": -1, "precision": "x"})


@given(st.binary(max_size=100))
def test_arbitrary_bytes_raise_only_spec_errors(raw: bytes) -> None:
    with pytest.raises(SpecError):
        JobSpec.from_bytes(raw)


@pytest.mark.parametrize(
    "raw", [b"[]", b'{"data": 1}', b'{"data":NaN}', b"[" * 5000, b" " * (MAX_SPEC_BYTES + 1)]
)
def test_bytes_that_are_no_spec_are_refused(raw: bytes) -> None:
    with pytest.raises(SpecError):
        JobSpec.from_bytes(raw)


def test_unknown_mechanism_is_named() -> None:
    spec = demo_spec(DATA, merge="krum")
    with pytest.raises(SpecError, match="no mechanism for merge: 'krum'"):
        spec.check_mechanisms(lambda field, name: field != "merge" or name == "median")
    spec.check_mechanisms(lambda field, name: True)


def test_learning_rate_by_hand() -> None:
    fields = {"lr": 0.5, "warmup_rounds": 1, "min_lr_ratio": 0.25}
    inner = JobSpec.from_dict({"data": DATA, "optimizer": fields}).optimizer
    # Warm-up 1/2, then 1 -> 0.25 in three equal steps, then constant.
    rates = [inner.lr_at(r, 5) for r in range(7)]
    assert rates == [0.25, 0.5, 0.375, 0.25, 0.125, 0.125, 0.125]


@given(st.integers(0, 50), st.integers(1, 50), st.integers(0, 60))
def test_learning_rate_stays_within_bounds(warmup: int, rounds: int, at: int) -> None:
    fields = {"lr": 0.1, "warmup_rounds": warmup, "min_lr_ratio": 0.1}
    spec = JobSpec.from_dict({"data": DATA, "optimizer": fields, "rounds": rounds})
    assert 0 < Hyperparameters.of(spec, at).lr <= 0.1


def test_a_spec_from_before_these_fields_means_what_it_did() -> None:
    fields = json.loads(demo_spec(DATA).to_bytes())
    del fields["optimizer"]["inner"], fields["optimizer"]["outer_decay"]
    old = JobSpec.from_bytes(dumps(fields))
    assert old == demo_spec(DATA)
    assert Hyperparameters.of(old, 0).inner == "adamw"
    assert [old.outer_lr_at(step) for step in (0, 5, 99)] == [1.0, 1.0, 1.0]


def test_a_spec_without_inner_options_has_the_bytes_from_before_there_were_any() -> None:
    assert "inner_options" not in json.loads(demo_spec(DATA).to_bytes())["optimizer"]
    spec = demo_spec(DATA, optimizer={"inner_options": {"momentum": 0.9}})
    assert JobSpec.from_bytes(spec.to_bytes()) == spec
    assert Hyperparameters.of(spec, 0).inner_options == {"momentum": 0.9}


def test_the_outer_rate_decays_by_hand() -> None:
    inner = {"outer_lr": 0.5, "outer_decay": True, "warmup_rounds": 1, "min_lr_ratio": 0.25}
    spec = JobSpec.from_dict({"data": DATA, "optimizer": inner, "rounds": 5})
    assert [spec.outer_lr_at(r) for r in range(7)] == [0.25, 0.5, 0.375, 0.25, 0.125, 0.125, 0.125]


def test_a_gauntlet_spec_is_read_back_as_it_was_written() -> None:
    spec = demo_spec(DATA, score="gauntlet", verify="gauntlet", optimizer={"inner": "gradient"})
    assert JobSpec.from_bytes(spec.to_bytes()) == spec
    assert Hyperparameters.of(spec, 3).inner == "gradient"


def test_a_spec_without_a_pipeline_has_the_bytes_from_before_there_was_one() -> None:
    assert "pipeline" not in json.loads(demo_spec(DATA).to_bytes())
    spec = demo_spec(DATA, mode="pipeline", pipeline={"layers": [1, 1], "least_passes": 96})
    assert JobSpec.from_bytes(spec.to_bytes()) == spec


def test_a_spec_without_a_licence_has_the_bytes_from_before_there_was_one() -> None:
    assert "data_licence" not in json.loads(demo_spec(DATA).to_bytes())
    spec = demo_spec(DATA, data_licence="CC-BY-4.0")
    assert JobSpec.from_bytes(spec.to_bytes()) == spec
    for wrong in ("", " ", "two\nlines", "x" * 201, "ends in a space ", 4):
        with pytest.raises(SpecError, match="data_licence"):
            demo_spec(DATA, data_licence=wrong)


def test_a_spec_without_classes_has_the_bytes_from_before_there_were_any() -> None:
    assert "classes" not in json.loads(demo_spec(DATA).to_bytes())
    spec = demo_spec(DATA, classes=["torch=0;device=abacus"])
    assert JobSpec.from_bytes(spec.to_bytes()) == spec
    assert spec.classes == ("torch=0;device=abacus",)


def test_a_pipeline_without_segments_has_the_bytes_from_before_there_were_any() -> None:
    block: dict[str, Any] = {"layers": [1, 1]}
    assert b"segment" not in demo_spec(DATA, mode="pipeline", pipeline=block).to_bytes()
    spec = demo_spec(DATA, mode="pipeline", pipeline={**block, "segment": 4})
    assert JobSpec.from_bytes(spec.to_bytes()) == spec and spec.segment == 4
    assert demo_spec(DATA).segment == 0
    for wrong in (-1, 65_537, 1.5, True):
        with pytest.raises(SpecError, match=r"pipeline\.segment"):
            demo_spec(DATA, mode="pipeline", pipeline={**block, "segment": wrong})


@pytest.mark.parametrize("batches", [96, 65_537])
def test_a_pipelines_round_has_neither_too_few_nor_too_many_samples(batches: int) -> None:
    block = {"layers": [1, 1], "least_passes": 97}
    with pytest.raises(SpecError, match=f"least_passes 97 and 65536, got {batches}"):
        demo_spec(DATA, mode="pipeline", pipeline=block, batches_per_round=batches)


def test_a_pipeline_with_more_draws_than_anybody_makes_is_refused() -> None:
    """Attack: 65,536 samples in sixteen stages had each agent draw a million miners, some 30 s a
    round, in its loop; the job itself is as small as its sponsor likes."""
    most = MAX_DRAWS // 4
    block = {"layers": [1] * 4, "least_passes": 1}
    model = {"n_layers": 4}
    demo_spec(DATA, mode="pipeline", pipeline=block, model=model, batches_per_round=most)
    with pytest.raises(SpecError, match=f"is {4 * most + 4}, and at most {MAX_DRAWS} are allowed"):
        demo_spec(DATA, mode="pipeline", pipeline=block, model=model, batches_per_round=most + 1)


@pytest.mark.parametrize(
    ("fields", "cosine_min", "rel_l2_max"),
    [
        ({}, 0.999987, 0.005),
        ({"codec": "polytope"}, 0.994987, 0.1),
        ({"precision": "bf16"}, 0.994987, 0.1),
        ({"precision": "bf16", "codec": "sparse"}, 0.953939, 0.3),
        ({"tolerances": {"rel_l2_max": 0.03}}, 0.999549, 0.03),
        ({"tolerances": {"rel_l2_max": 1}}, 0.0, 1.0),
        ({"tolerances": {"cosine_min": 0.9}}, 0.9, 0.005),
        ({"tolerances": {"cosine_min": 0.99, "rel_l2_max": 0.1}, "codec": "demo"}, 0.99, 0.1),
    ],
)
def test_tolerances_that_are_left_out_follow_precision_and_codec(
    fields: dict[str, object], cosine_min: float, rel_l2_max: float
) -> None:
    """What is given stays. The canonical bytes name both, so a later default changes no job."""
    given = json.dumps(fields)
    spec = JobSpec.from_dict({"data": DATA, **fields})
    assert (spec.tolerances.cosine_min, spec.tolerances.rel_l2_max) == (cosine_min, rel_l2_max)
    assert json.loads(spec.to_bytes())["tolerances"] == {
        "cosine_min": cosine_min, "rel_l2_max": rel_l2_max,
    }  # fmt: skip
    assert JobSpec.from_bytes(spec.to_bytes()) == spec
    assert json.dumps(fields) == given, "the caller's fields are left alone"


@pytest.mark.parametrize(
    ("fields", "cosine_min", "rel_l2_max"),
    [
        ({"codec": "sparse"}, 0.999987, 0.005),
        ({"precision": "bf16", "codec": "sparse"}, 0.994987, 0.1),
        ({"tolerances": {"cosine_min": 0.9, "rel_l2_max": 0.03}, "codec": "sparse"}, 0.9, 0.03),
    ],
)
def test_before_a_codec_an_update_is_judged_as_without_it_unless_the_spec_says_how(
    fields: dict[str, object], cosine_min: float, rel_l2_max: float
) -> None:
    limits = update_tolerances(JobSpec.from_dict({"data": DATA, **fields}))
    assert (limits.cosine_min, limits.rel_l2_max) == (cosine_min, rel_l2_max)


def test_a_spec_of_before_with_wider_tolerances_keeps_its_bytes() -> None:
    fields = json.loads(demo_spec(DATA).to_bytes())
    fields["tolerances"] = {"cosine_min": 0.99, "rel_l2_max": 0.1}
    assert JobSpec.from_bytes(dumps(fields)).to_bytes() == dumps(fields)


@pytest.mark.parametrize("wrong", [3, {"rel_l2_max": "a"}, {"rel_l2_max": True}, {"loose": 1.0}])
def test_wrong_tolerances_are_refused(wrong: object) -> None:
    with pytest.raises(SpecError, match="tolerances"):
        JobSpec.from_dict({"data": DATA, "tolerances": wrong})
