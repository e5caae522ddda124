# SPDX-License-Identifier: Apache-2.0
"""A spec has one spelling; whatever else comes, `parse_spec` says so in a TaskError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.storage.canonical import dumps, loads
from agents.storage.embedded import EmbeddedStore
from agents.tasks.compute import options as kinds
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.make import publish
from agents.tasks.compute.spec import MAX_SPEC_BYTES, build_spec, parse_spec
from tests.stage.memory.task_inputs import TaskInputs

CID = "b" + "a" * 58
MODEL = {"d_model": 16, "n_heads": 2, "n_kv_heads": 1, "d_ff": 24, "max_seq_len": 16}
GOOD: dict[str, dict[str, Any]] = {
    "evaluate": {"sequences": 3, "seq_len": 16},
    "train_steps": {"steps": 3, "seq_len": 16},
    "generate": {"max_new_tokens": 5},
}


def fields(kind: str, **options: Any) -> dict[str, Any]:
    return {
        "kind": kind, "determinism": "cpu-fp32", "model": MODEL, "checkpoint": CID, "data": CID,
        "options": GOOD[kind] | options,
    }  # fmt: skip


def test_the_kinds_are_the_files() -> None:
    assert kinds.names() == sorted(GOOD)


@pytest.mark.parametrize("kind", GOOD)
def test_a_spec_is_read_back_as_it_was_written(kind: str) -> None:
    spec = build_spec(fields(kind))
    raw = spec.canonical()
    assert parse_spec(raw) == spec
    assert parse_spec(raw).canonical() == raw
    assert loads(raw)["options"].keys() == type(spec.options).model_fields.keys()
    assert loads(raw)["version"] == 1


def test_the_canonical_bytes_of_one_spec_are_these() -> None:
    assert build_spec(fields("generate")).canonical() == (
        b'{"checkpoint":"' + CID.encode() + b'","data":"' + CID.encode() + b'",'
        b'"determinism":"cpu-fp32","kind":"generate","model":{"config_cid":null,"d_ff":24,'
        b'"d_model":16,"init_seed":0,"kind":"llama","max_seq_len":16,"n_heads":2,"n_kv_heads":1,'
        b'"n_layers":2,"rope_theta":10000.0,"tie_embeddings":true,"vocab_size":256},'
        b'"options":{"max_new_tokens":5,"stop_token":null},"version":1}'
    )


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("evaluate", {"sequences": 0}),
        ("evaluate", {"sequences": 1_000_001}),
        ("evaluate", {"sequences": True}),
        ("evaluate", {"sequences": 3.0}),
        ("evaluate", {"first": -1}),
        ("evaluate", {"first": 2**40 + 1}),
        ("evaluate", {"seq_len": 17}),
        ("evaluate", {"batch_size": 4_097}),
        ("evaluate", {"steps": 1}),
        ("train_steps", {"steps": 10_001}),
        ("train_steps", {"seq_len": 0}),
        ("train_steps", {"seq_len": 17}),
        ("train_steps", {"seed": 2**63}),
        ("train_steps", {"val_fraction": 0.0}),
        ("train_steps", {"lr": 1.5}),
        ("train_steps", {"lr": 0.0}),
        ("train_steps", {"lr": "0.1"}),
        ("train_steps", {"lr": float("nan")}),
        ("train_steps", {"lr": 10**400}),
        ("train_steps", {"beta1": 1.0}),
        ("train_steps", {"beta2": 1.0}),
        ("train_steps", {"eps": 0.0}),
        ("train_steps", {"weight_decay": -0.1}),
        ("train_steps", {"grad_clip": 0.0}),
        ("generate", {"max_new_tokens": 16}),
        ("generate", {"max_new_tokens": 0}),
        ("generate", {"stop_token": 256}),
        ("generate", {"stop_token": -1}),
        ("generate", {"temperature": 0.5}),
    ],
)
def test_options_out_of_range_are_refused(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(TaskError) as caught:
        build_spec(fields(kind, **options))
    assert caught.value.reason == "bad_spec"
    assert next(iter(options)) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "bad_spec"),
        ({"extra": 1}, "bad_spec"),
        ({"determinism": ""}, "bad_spec"),
        ({"determinism": "CPU"}, "bad_spec"),
        ({"determinism": "x" * 33}, "bad_spec"),
        ({"checkpoint": "Qm" + "a" * 44}, "bad_spec"),
        ({"data": None}, "bad_spec"),
        ({"options": [1]}, "bad_spec"),
        ({"options": None}, "bad_spec"),
        ({"model": {"d_model": 15}}, "bad_spec"),
        ({"kind": "train"}, "unknown_kind"),
        ({"kind": None}, "unknown_kind"),
        ({"model": {"kind": "transformers", "config_cid": CID}}, "bad_model"),
        ({"model": MODEL | {"n_heads": 8}}, "bad_model"),
    ],
)
def test_other_fields_are_refused_with_their_reason(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(TaskError) as caught:
        build_spec(fields("evaluate") | change)
    assert caught.value.reason == reason


def test_other_spellings_of_a_spec_are_refused() -> None:
    raw = build_spec(fields("train_steps")).canonical()
    value = json.loads(raw)
    value["options"]["weight_decay"] = 1  # the number of 1.0, in another spelling
    for other in (
        raw + b"\n",
        b" " + raw,
        json.dumps(json.loads(raw)).encode(),
        raw.replace(b"0.001", b"1e-3"),
        dumps(value),
        dumps(fields("train_steps")),
        raw[:-1] + b',"version":1}',
    ):
        with pytest.raises(TaskError) as caught:
            parse_spec(other)
        assert caught.value.reason == "bad_spec"


def test_length_is_looked_at_first() -> None:
    with pytest.raises(TaskError, match=f"at most {MAX_SPEC_BYTES} are allowed"):
        parse_spec(b"[" * (MAX_SPEC_BYTES + 1))
    with pytest.raises(TaskError, match="nests deeper"):
        parse_spec(b"[" * MAX_SPEC_BYTES)


def test_a_published_spec_is_found_by_its_digest(inputs: TaskInputs) -> None:
    spec = inputs.evaluate()
    digest = publish(spec, inputs.store)
    assert isinstance(inputs.store, EmbeddedStore)
    assert parse_spec(inputs.store.get_digest(digest, MAX_SPEC_BYTES)) == spec


def only_task_errors(raw: bytes) -> None:
    try:
        spec = parse_spec(raw)
    except TaskError:
        return
    assert spec.canonical() == raw


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_noise_gives_a_task_error(raw: bytes) -> None:
    only_task_errors(raw)


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
keys = st.sampled_from(
    ["kind", "determinism", "model", "checkpoint", "data", "options", "version", "x"]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(GOOD)), keys, values, st.sampled_from(["", "options", "model"]))
def test_any_value_anywhere_gives_a_task_error(kind: str, key: str, value: Any, part: str) -> None:
    document = loads(build_spec(fields(kind)).canonical())
    place = document[part] if part else document
    names = sorted(place)
    place[names[len(key) % len(names)] if part else key] = value
    try:
        raw = dumps(document)
    except ValueError:
        return  # a lone surrogate or an infinity: no document at all
    only_task_errors(raw)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_one_byte_changed_is_another_spec_or_none(kind: str, data: st.DataObject) -> None:
    raw = bytearray(build_spec(fields(kind)).canonical())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    only_task_errors(bytes(raw))
