# SPDX-License-Identifier: Apache-2.0
"""What the machine calls itself: shown to people, believed by nobody."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

_MAX_LENGTH = 128


def hardware_name(device: str) -> str:
    """At most 128 printable ASCII characters naming the device that trains."""
    if device.startswith("cuda"):
        import torch

        name = f"{torch.cuda.get_device_name(torch.device(device))} cuda"
    else:
        name = f"{_cpu_name()} x{os.cpu_count() or 1}"
    return re.sub(r"[^ -~]", "?", name)[:_MAX_LENGTH]


def _cpu_name() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "cpu"
