# SPDX-License-Identifier: Apache-2.0
"""The determinism class of this machine's GPU, so that a network on it has a pool for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from agents.tasks.compute.classes import LABEL
from agents.training.determinism import pinned_environment
from scripts._net.compiled import ROOT

_ASK = """
from agents.training.determinism import pin_torch
import torch
if torch.cuda.is_available():
    pin_torch()
    from agents.tasks.compute.classes import class_here
    print(class_here("cuda"))
"""
_PATIENCE_S = 120.0


def own_pools() -> tuple[str, ...]:
    """The class that executors compute in on this machine's first GPU; nothing without one.

    Asked in a process of its own, because torch takes its settings from the environment; and only
    where there is a driver, because loading torch takes seconds.
    """
    if shutil.which("nvidia-smi") is None:
        return ()
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        cwd=ROOT,
        env={**os.environ, **pinned_environment()},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    found = done.stdout.strip()
    return (found,) if re.fullmatch(LABEL, found) else ()
