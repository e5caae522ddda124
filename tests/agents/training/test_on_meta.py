# SPDX-License-Identifier: Apache-2.0
"""A network's shapes are known without filling it, and without torch's compiler; nor does it take
the compiler to compute in a determinism class."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

from agents.training.on_meta import shapes_only
from scripts._net.compiled import ROOT

# What an agent or a command does first with a model: it builds it, and takes a step. Then the
# compiler is loaded, as by a trainer that compiles its steps.
PROGRAM = """
import sys
from agents.training.determinism import pin_environment, pin_torch

pin_environment()
import torch
pin_torch()
from agents.training.model import build_model, template
from agents.training.spec import ModelSpec

spec = ModelSpec(**{fields})
print(len(template(spec)))
model = build_model(spec)
model(torch.zeros(1, 4, dtype=torch.int64)).sum().backward()
print("torch._dynamo" in sys.modules)
print(torch.are_deterministic_algorithms_enabled())
import torch._inductor.config as compiler
print(compiler.deterministic)
"""
FIELDS = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 32, "max_seq_len": 16}


def test_layers_have_their_shapes_and_no_values() -> None:
    with shapes_only():
        found = [nn.Linear(3, 4), nn.Embedding(5, 6), nn.LayerNorm(7)]
    assert [type(layer) for layer in found] == [nn.Linear, nn.Embedding, nn.LayerNorm]
    assert [tuple(layer.weight.shape) for layer in found] == [(4, 3), (5, 6), (7,)]
    assert all(parameter.is_meta for layer in found for parameter in layer.parameters())


def test_layers_built_afterwards_are_filled() -> None:
    with shapes_only():
        nn.Linear(3, 4)
    weight = nn.Embedding(50, 60).weight
    assert not weight.is_meta and weight.isfinite().all() and torch.unique(weight).numel() > 1_000


def test_a_model_is_built_in_a_class_without_torchs_compiler() -> None:
    """Which is as deterministic as all else where it is loaded later."""
    program = PROGRAM.replace("{fields}", repr(FIELDS))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    parameters, loaded, eager, compiler = done.stdout.split()
    assert int(parameters) > 5
    assert loaded == "False", "building a model should not import torch._dynamo"
    assert (eager, compiler) == ("True", "True"), "both should be deterministic"
