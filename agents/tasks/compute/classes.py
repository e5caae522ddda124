# SPDX-License-Identifier: Apache-2.0
"""Determinism classes: results of one class are compared bit for bit, those of two classes never.

A label is what the chain calls a class, in at most 32 bytes of ASCII. It stands for one exact
`agents.training.determinism.determinism_class`:

- `cpu-fp32` is what `pin_environment` and `pin_torch` give on x86-64, on any CPU model.
- `cuda:sm_90/132/13.0` is compute capability 9.0 with 132 multiprocessors and CUDA 13.0. The
  architecture alone is not enough: cuBLAS promises equal bits only on GPUs "with the same
  architecture and the same number of SMs" (cuBLAS manual, section Results Reproducibility), and
  within one version.

Each class also fixes how much work a node of it can be asked for. The figures are lower bounds: the
slowest machine that may join must still do in time whatever they let through.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agents.tasks.compute.errors import ClassNotHeld
from agents.training.determinism import PINNED_ENVIRONMENT, determinism_class

CPU: Final = "cpu-fp32"
TORCH: Final = "2.13.0"
"""The release all classes are defined on (`pyproject.toml` pins it). Another one rounds otherwise,
so with it the network needs new labels."""

CPU_CLASS: Final = (
    f"torch={TORCH};device=cpu-x86_64;isa=AVX2;threads=1;blas=mkl-COMPATIBLE;onednn=off;"
    "deterministic=yes;compiled=no"
)
LABEL: Final = r"^[a-z0-9][a-z0-9:._/-]{0,31}$"
CUDA: Final = "13.0"
"""The CUDA version that the release is built for."""

GPUS: Final[Mapping[str, str]] = {
    "sm_75/40": "T4",
    "sm_80/108": "A100",
    "sm_86/72": "A10",
    "sm_86/82": "GeForce RTX 3090",
    "sm_86/84": "A40, RTX A6000",
    "sm_89/58": "L4",
    "sm_89/128": "GeForce RTX 4090",
    "sm_89/142": "L40, L40S, RTX 6000 Ada",
    "sm_90/114": "H100 PCIe",
    "sm_90/132": "H100 SXM, H200, GH200",
    "sm_100/148": "B200",
    "sm_120/170": "GeForce RTX 5090",
}
"""Chips (architecture and multiprocessors) that a new network has pools for, and whose they are.
For any other the committee opens one: `ape run committee propose pool`."""

POOLS: Final = ("cpu-fp32", *(f"cuda:{chip}/{CUDA}" for chip in GPUS))
"""The classes whose pools a deployment opens."""

_CUDA: Final = re.compile(r"cuda:sm_\d{2,3}/\d{1,4}/\d{1,2}\.\d{1,2}", re.ASCII)
_LABEL_BYTES: Final = 32


@dataclass(frozen=True)
class Limits:
    """What a node of a class must be able to do.

    Attributes:
        flops: fp32 operations in a second.
        copied: bytes in a second of copying, hashing and elementwise work on weights.
        fetched: bytes in a second out of the store.
        layer_us: microseconds that one layer takes for one batch, however small.
        row_us: microseconds that cutting one sequence out of a dataset takes.
        memory: bytes for one task, besides its inputs.
        keeps_scores: whether the class's attention keeps a matrix of length x length per head.
        inputs: bytes that one task may read.
    """

    flops: int
    copied: int
    fetched: int
    layer_us: int
    row_us: int
    memory: int
    keeps_scores: bool
    inputs: int


# One thread in this class trains at 20 to 35 GFLOP/s on a server CPU of 2023 (0.1 to 3 million
# parameters): an eighth of that, since machines are older, and are shared. A layer of 4 numbers
# takes a quarter of a millisecond forward and one with the backward pass, where two others share
# the core: a step of one layer 3.4 ms, of 12 that are counted.
_CPU_LIMITS: Final = Limits(
    flops=3 * 10**9,
    copied=3 * 10**8,
    fetched=2**20,
    layer_us=2_000,
    row_us=100,
    memory=4 * 2**30,
    keeps_scores=False,
    inputs=512 * 2**20,
)
# fp32 without TF32: the slowest GPU with a current driver does 2 to 4 TFLOP/s at its best.
_CUDA_LIMITS: Final = Limits(
    flops=5 * 10**11,
    copied=3 * 10**8,
    fetched=4 * 2**20,
    layer_us=2_000,
    row_us=100,
    memory=8 * 2**30,
    keeps_scores=True,
    inputs=2 * 2**30,
)


def limits_of(label: str) -> Limits:
    """What may be asked of a node of a class; ValueError for a label that is no class."""
    if label == CPU:
        return _CPU_LIMITS
    if _CUDA.fullmatch(label):
        return _CUDA_LIMITS
    raise ValueError(
        f"{label!r} is no determinism class; they are {CPU!r} and, for example, "
        "'cuda:sm_90/132/13.0' (compute capability, multiprocessors, CUDA version)"
    )


def class_here(device: str) -> str:
    """The label of the class in which this process computes on `device` ("cpu", "cuda", "cuda:1").

    Read from the running libraries, never from what was asked for.

    Raises:
        ClassNotHeld: a setting that decides bits is not that of the class.
    """
    import torch

    _check_numbers(device)
    found = determinism_class(device)
    if torch.device(device).type != "cuda":
        _check_settings(found, CPU_CLASS)
        return CPU
    variable = "CUBLAS_WORKSPACE_CONFIG"
    if os.environ.get(variable) != PINNED_ENVIRONMENT[variable]:
        raise ClassNotHeld(
            f"{variable} must be {PINNED_ENVIRONMENT[variable]!r} before torch is loaded; "
            "call pin_environment() first"
        )
    here = _parts(found)
    _check_settings(found, _cuda_class(here["device"], here["chip"], here["cuda"]))
    return f"cuda:{here['chip']}/{here['cuda']}"


def label_of(text: str) -> str | None:
    """The label of the class that a `determinism_class` describes; None if it is of none.

    On a CPU a label stands for one text. On a GPU it stands for several, of GPUs that have the same
    chip and not the same name.
    """
    if text == CPU_CLASS:
        return CPU
    here = _parts(text)
    try:
        wanted = _cuda_class(here["device"], here["chip"], here["cuda"])
    except KeyError:
        return None
    label = f"cuda:{here['chip']}/{here['cuda']}"
    return label if text == wanted and _CUDA.fullmatch(label) else None


def require_class(label: str, device: str) -> None:
    """Raise ClassNotHeld, in a sentence, unless this process computes in class `label`."""
    found = class_here(device)
    if found != label:
        raise ClassNotHeld(
            f"this process computes in the determinism class {found!r} on {device}, "
            f"not in {label!r}; take tasks of its own class only"
        )


def class_bytes(label: str) -> bytes:
    """The label as the chain keeps it: ASCII, zero padded on the right, 32 bytes.

    Raises ValueError for a text that cannot be a label.
    """
    if not re.fullmatch(LABEL, label):
        raise ValueError(
            f"{label[:80]!r} cannot be the label of a class; use 1 to {_LABEL_BYTES} of "
            "a-z, 0-9 and : . _ / -"
        )
    return label.encode("ascii").ljust(_LABEL_BYTES, b"\0")


def class_label(raw: bytes) -> str:
    """The label in 32 bytes from the chain; ValueError for bytes that `class_bytes` never gives."""
    try:
        label = raw.rstrip(b"\0").decode("ascii")
        if class_bytes(label) == raw:
            return label
    except ValueError:
        pass
    raise ValueError(f"{raw[:64].hex()} holds no label of a determinism class")


def _cuda_class(name: str, chip: str, version: str) -> str:
    return (
        f"torch={TORCH};device={name};chip={chip};cuda={version};"
        "matmul=highest;deterministic=yes;compiled=no"
    )


def _parts(text: str) -> dict[str, str]:
    """What a `determinism_class` says, by key. Nothing of a text that is none."""
    return dict(part.split("=", 1) for part in text.split(";") if "=" in part)


def _check_settings(found: str, wanted: str) -> None:
    here, there = _parts(found), _parts(wanted)
    wrong = [
        f"{key} is {here.get(key, 'not set')}, must be {there.get(key, 'not set')}"
        for key in sorted(here.keys() | there.keys())
        if here.get(key) != there.get(key)
    ]
    if wrong:
        raise ClassNotHeld(
            f"this process does not compute in its determinism class: {'; '.join(wrong)}. "
            f"Install torch {TORCH}, and call pin_environment() before torch is loaded and "
            "pin_torch() after"
        )


def _check_numbers(device: str) -> None:
    """What decides bits and has no place in `determinism_class`."""
    import torch

    wrong = []
    if torch.get_default_dtype() != torch.float32:
        wrong.append(f"the default dtype is {torch.get_default_dtype()}, must be torch.float32")
    if torch.is_autocast_enabled(torch.device(device).type):
        wrong.append("autocast is on, must be off")
    tiny = torch.full((8,), 1e-40, dtype=torch.float32)  # denormal
    if not bool((tiny + tiny > 0).all()):
        wrong.append("denormal numbers are flushed to zero, must be kept")
    if wrong:
        raise ClassNotHeld(f"this process holds no determinism class: {'; '.join(wrong)}")
