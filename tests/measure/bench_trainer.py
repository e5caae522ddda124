# SPDX-License-Identifier: Apache-2.0
"""How fast a trainer's inner loop is beside a plain optimised PyTorch loop.

Both take the same batches through the same network from the same state, in a fresh process of the
determinism class that nodes have by default. The plain loop is what one writes without a chain:
fused `torch.optim.AdamW`, `clip_grad_norm_`, no hash, no exact norm. Ours is `train_local`, which
hashes the state after each step, in a thread beside the next. Runs alternate, and the least of
several counts. The goal is for the time that the training thread itself computes: where another
core is free the hash costs nothing more. Wall time is shown beside it; on a machine whose cores are
all busy it says how busy they were.

    python -m tests.measure --only trainer
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from agents.training.determinism import pin_torch, pinned_environment
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import build_model, init_state, next_token_loss
from agents.training.spec import Hyperparameters, JobSpec, ModelSpec, demo_spec
from agents.training.state import State
from tests.measure.rows import Row

GOAL = 0.97
_DATA = "b" + "a" * 58
_STEPS = 12
_QUALITY = {
    "d_model": 128,
    "n_layers": 4,
    "n_heads": 4,
    "n_kv_heads": 4,
    "d_ff": 352,
    "max_seq_len": 128,
}
# Name, changes of the demo's model, batch and length, rounds that are compared.
_CASES: tuple[tuple[str, dict[str, Any], tuple[int, int], int], ...] = (
    ("the demo's model", {}, (8, 64), 9),
    ("4 layers of 128", _QUALITY, (8, 128), 4),
)
# Models whose utilisation is measured where a GPU is at hand.
_LARGE: dict[str, dict[str, int]] = {
    "125M": {"d_model": 768, "n_layers": 12, "n_heads": 12, "n_kv_heads": 12, "d_ff": 2048,
             "vocab_size": 32_000, "max_seq_len": 1024},
    "1B": {"d_model": 2048, "n_layers": 20, "n_heads": 16, "n_kv_heads": 16, "d_ff": 5504,
           "vocab_size": 32_000, "max_seq_len": 1024},
}  # fmt: skip
# Dense bf16 operations a second, by the makers' data sheets.
_PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L4": 121e12, "4090": 165e12}


def plain_loop(model: torch.nn.Module, batches: Sequence[Tensor], hyper: Hyperparameters) -> None:
    """The loop that one writes without a chain."""
    groups: list[dict[str, Any]] = [
        {"params": [p for p in model.parameters() if p.dim() > 1]},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        groups, lr=hyper.lr, betas=hyper.betas, eps=hyper.eps, weight_decay=hyper.weight_decay,
        fused=True,
    )  # fmt: skip
    for batch in batches:
        loss = next_token_loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), hyper.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()


def milliseconds() -> dict[str, dict[str, list[float]]]:
    """By model and loop, of a step: wall time, and time of the training thread."""
    pin_torch()
    return {name: _measured(changes, size, rounds) for name, changes, size, rounds in _CASES}


def _measured(
    changes: dict[str, Any], size: tuple[int, int], rounds: int
) -> dict[str, list[float]]:
    spec = demo_spec(_DATA, model=changes)
    net, plain, state = FlatModel(spec.model), build_model(spec.model), init_state(spec.model)
    hyper = Hyperparameters.of(spec, 5)
    batches = [torch.randint(0, spec.model.vocab_size, (size[0], size[1] + 1))] * _STEPS

    def ours() -> None:
        train_local(net, state, batches, hyper, bytes(32))

    def without() -> None:
        _load(plain, state)
        plain_loop(plain, batches, hyper)

    calls = {"ours": ours, "plain": without}
    least = {name: [float("inf")] * 2 for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            wall, thread = time.perf_counter(), time.thread_time()
            call()
            spent = time.perf_counter() - wall, time.thread_time() - thread
            least[name] = [
                min(old, 1000 * new / _STEPS) for old, new in zip(least[name], spent, strict=True)
            ]
    return least


def _load(model: torch.nn.Module, state: State) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(state[name])


def rows() -> list[Row]:
    """Two lines a model, then the utilisation of a GPU or why there is none."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.measure.bench_trainer", "--here"],
        env=os.environ | pinned_environment(), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found = []
    for name, measured in json.loads(done.stdout).items():
        for place, clock in enumerate(("the training thread's time", "wall time")[::-1]):
            ours, plain = measured["ours"][place], measured["plain"][place]
            ratio = plain / ours
            found.append(
                Row(
                    f"inner loop, {name}, {clock}",
                    f"{ratio:.2f} of a plain loop's speed, {ours:.2f} ms a step",
                    f">= {GOAL}" if clock != "wall time" else "",
                    ratio >= GOAL if clock != "wall time" else None,
                    f"fused AdamW, no hashes: {plain:.2f} ms",
                )
            )
    return found + utilisation()


def utilisation() -> list[Row]:
    """Model operations a second over what the GPU could do, of `train_local` in bf16."""
    name = "model FLOPs utilisation, bf16"
    if not torch.cuda.is_available():
        return [Row(name, "not measured: no GPU is at hand")]
    gpu = torch.cuda.get_device_name()
    peak = next((rate for part, rate in _PEAK.items() if part in gpu), None)
    return [_utilised(f"{name}, {size}, {gpu}", spec, peak) for size, spec in specs().items()]


def specs() -> dict[str, JobSpec]:
    """Jobs of the large models, by size."""
    return {
        size: demo_spec(_DATA, model=fields, precision="bf16") for size, fields in _LARGE.items()
    }


def _utilised(name: str, spec: JobSpec, peak: float | None) -> Row:
    length, rows_, steps = spec.model.max_seq_len, 8, 6
    net, state = FlatModel(spec.model, device="cuda"), init_state(spec.model)
    batches = [torch.randint(0, spec.model.vocab_size, (rows_, length + 1))] * steps
    result = train_local(net, state, batches, Hyperparameters.of(spec, 5), bytes(32))
    seconds = min(result.seconds)
    rate = operations(spec.model, length) * rows_ * length / seconds
    shown = f"{rate / 1e12:.0f} TFLOP/s" + ("" if peak is None else f", {rate / peak:.1%}")
    return Row(name, shown)


def operations(model: ModelSpec, length: int) -> int:
    """Multiplications and additions that a token takes forward and backward (PaLM, appendix B):
    six a parameter of a matrix product, and 12 layers x width x length of attention."""
    kv = model.n_kv_heads * (model.d_model // model.n_heads)
    layer = model.d_model * (2 * model.d_model + 2 * kv + 3 * model.d_ff)
    matrices = model.n_layers * layer + model.vocab_size * model.d_model
    return 6 * matrices + 12 * model.n_layers * model.d_model * length


def main() -> None:
    if sys.argv[1:] == ["--here"]:
        print(json.dumps(milliseconds()))
        return
    for row in rows():
        print(f"{row.figure:<60} {row.measured:<50} {row.goal:<8} {row.peer}")


if __name__ == "__main__":
    main()
