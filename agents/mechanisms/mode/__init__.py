# SPDX-License-Identifier: Apache-2.0
"""Modes: how a job's training is split among nodes; each file here is one, named as in `mode`.

The rest of the code never compares the name of a mode. It asks the question below. A new mode is
one new file that decorates its class with `register("<file name>")` and answers it; it takes no
options: a spec has none for it.
"""

from __future__ import annotations

from typing import ClassVar

from agents.mechanisms.registry import MechanismRegistry


class Mode:
    """How training is split among nodes.

    Attributes:
        splits_model: whether a node holds one stage of the model instead of the whole. The spec's
            block `pipeline` then says where the model is cut, and a node's payload has the tensors
            of its stage only.
    """

    splits_model: ClassVar[bool]


_registry = MechanismRegistry(__name__, "mode")
register = _registry.register
get = _registry.get
names = _registry.names


def splitting() -> list[str]:
    """Names of the modes that split the model, sorted."""
    return [name for name in names() if get(name).splits_model]


__all__ = ["Mode", "get", "names", "register", "splitting"]
