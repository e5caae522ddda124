# SPDX-License-Identifier: Apache-2.0
"""What a node computes on, in a line: a benchmark's score holds for that machine only."""

from __future__ import annotations

import os

import torch

from agents.training.determinism import cpu_model


def machine(device: str) -> str:
    """The processor, or the GPU, that `device` stands for, and how many there are."""
    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name(device)} ({torch.cuda.device_count()})"
    return f"{cpu_model()} ({os.cpu_count()})"
