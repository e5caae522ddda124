# SPDX-License-Identifier: Apache-2.0
"""The rule: one merge rule is one file here, a pure function on tensors, named in the spec.

A merge rule is `merge(payloads) -> update`: `payloads` is a sequence of one dict per node, in
ascending node id, each mapping the same tensor names to finite fp32 tensors of the same shapes
(checked by `agents.training.payload` before); `update` is one such dict. It must have the same bits
on every machine and must not depend on the order of arrival. It raises ValueError for an empty or
mixed input. A new rule is one new file that decorates its function with `register("<file name>")`.
"""

from agents.registry import Registry

_registry = Registry(__name__, "merge rule")
register = _registry.register
get = _registry.get
names = _registry.names
