# SPDX-License-Identifier: Apache-2.0
"""Modes: how a job's training is split among nodes; each file here is one, named as in `mode`.

With one mode there is no question yet that two of them would answer differently, so a mode is a
class without attributes. Whoever adds the second puts the questions here, as
`agents.mechanisms.verify` does. A new mode is one new file that decorates its class with
`register("<file name>")`; it takes no options: a spec has none for it.
"""

from __future__ import annotations

from agents.mechanisms.registry import MechanismRegistry


class Mode:
    """How training is split among nodes."""


_registry = MechanismRegistry(__name__, "mode")
register = _registry.register
get = _registry.get
names = _registry.names

__all__ = ["Mode", "get", "names", "register"]
