# SPDX-License-Identifier: Apache-2.0
"""Labels are what the chain can hold; the class of this process is read, not believed.

Whether a pinned process holds `cpu-fp32` is tested in fresh processes, in `test_run.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tasks.compute import classes
from agents.tasks.compute.errors import ClassNotHeld
from agents.training.determinism import determinism_class


def test_a_label_is_ascii_with_zeros_on_the_right() -> None:
    assert classes.class_bytes("cpu-fp32") == b"cpu-fp32" + bytes(24)
    assert classes.class_bytes("cuda:sm_90/132/13.0") == b"cuda:sm_90/132/13.0" + bytes(13)
    assert classes.class_label(b"cpu-fp32" + bytes(24)) == "cpu-fp32"
    assert classes.class_label(b"x" * 32) == "x" * 32


@pytest.mark.parametrize("label", ["", "x" * 33, "CPU", "cpu fp32", "cpü", "-x", "x\n"])
def test_other_texts_are_no_labels(label: str) -> None:
    with pytest.raises(ValueError, match="cannot be the label"):
        classes.class_bytes(label)


@pytest.mark.parametrize(
    "raw", [bytes(32), b"cpu", b"cpu\0fp32" + bytes(24), b"\xff" * 32, bytes(24) + b"cpu-fp32"]
)
def test_other_bytes_hold_no_label(raw: bytes) -> None:
    with pytest.raises(ValueError, match="no label"):
        classes.class_label(raw)


@given(st.from_regex(classes.LABEL[:-1] + r"\Z"))
def test_labels_survive_the_chain(label: str) -> None:
    assert classes.class_label(classes.class_bytes(label)) == label
    assert len(classes.class_bytes(label)) == 32


@given(st.binary(min_size=32, max_size=32))
def test_two_byte_strings_never_hold_one_label(raw: bytes) -> None:
    try:
        label = classes.class_label(raw)
    except ValueError:
        return
    assert classes.class_bytes(label) == raw


def test_limits_are_those_of_the_label() -> None:
    assert classes.limits_of("cuda:sm_75/40/13.0").flops > classes.limits_of(classes.CPU).flops
    strange = "cuda:sm_9/1/1.1x", "cuda:sm_\uff190/132/13.0"  # a digit, but not one of ASCII
    for label in ("cuda:sm_90", "cuda:sm_90/132", "cuda", "cpu", "cpu-fp64", *strange):
        with pytest.raises(ValueError, match="no determinism class"):
            classes.limits_of(label)


def test_the_cpu_class_is_a_text_of_the_same_form_as_the_one_that_is_read() -> None:
    read = determinism_class("cpu")
    assert [p.split("=")[0] for p in classes.CPU_CLASS.split(";")] == [
        p.split("=")[0] for p in read.split(";") if not p.startswith("cpu=")
    ]
    assert f"torch={classes.TORCH};" in read, "a new release of torch needs new labels: see TORCH"


H200 = (
    f"torch={classes.TORCH};device=NVIDIA H200;chip=sm_90/132;cuda=13.0;matmul=highest;"
    "deterministic=yes;compiled=no"
)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (classes.CPU_CLASS, "cpu-fp32"),
        (classes.CPU_CLASS.replace("threads=1", "threads=2"), None),
        (classes.CPU_CLASS + ";cpu=one model", None),
        (H200, "cuda:sm_90/132/13.0"),
        (H200.replace("compiled=no", "compiled=yes"), None),
        (H200.replace(classes.TORCH, "2.0.0"), None),
        (H200.replace("sm_90/132", "sm_90"), None),
        (H200.replace("chip=sm_90/132;", ""), None),
        ("abacus", None),
        ("", None),
    ],
)
def test_a_class_that_training_states_has_at_most_one_label(text: str, label: str | None) -> None:
    assert classes.label_of(text) == label


def test_a_node_takes_tasks_of_its_own_class_only() -> None:
    with pytest.raises(ClassNotHeld):
        classes.require_class("cuda:sm_90/132/13.0", "cpu")
