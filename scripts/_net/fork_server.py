# SPDX-License-Identifier: Apache-2.0
"""What the fork server imports before it forks agents; nothing else imports this file.

What is loaded is frozen: a collection in a fork would copy the memory that all share.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
from collections.abc import Iterator

from agents.runtime.roles import PACKAGE, ROLES
from scripts._net.preloaded import end_with_parent

# What an agent imports once it has a key, a settings file or a job, and what a library does then.
_LATER = (
    "click",
    "coincurve",
    "Crypto.Cipher._mode_ctr",
    "cryptography.hazmat.backends.openssl.backend",
    "safetensors.torch",
    "torch.utils._device",
    "yaml",
)
_MECHANISMS = ("agents.mechanisms", "agents.training.inner")


def _below(package: str) -> Iterator[str]:
    """The modules of a package and of those in it."""
    folder = importlib.import_module(package).__path__
    return (found.name for found in pkgutil.walk_packages(folder, f"{package}."))


end_with_parent()
for role in ROLES:
    importlib.import_module(f"{PACKAGE}.{role}")
for name in (*_LATER, *(name for package in _MECHANISMS for name in _below(package))):
    importlib.import_module(name)
gc.freeze()
