# SPDX-License-Identifier: Apache-2.0
"""The rule: nothing a node says about its work is believed; here is each thing that can be checked.

A verification named in a spec is one file here that decorates its function with
`register("<file name>")`: `compare(own, revealed, same_class, ...) -> Verdict` decides whether a
re-executed pseudo-gradient is the one that was revealed. The other files are what verifiers need
around it: the seeded benchmark, the audit draw, public screening, bisection of a trace,
plausibility.
"""

from agents.registry import Registry

_registry = Registry(__name__, "verification")
register = _registry.register
get = _registry.get
names = _registry.names
