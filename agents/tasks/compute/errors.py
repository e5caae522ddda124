# SPDX-License-Identifier: Apache-2.0
"""Refusals: what is wrong with a task is a result that every honest node reaches alike.

A spec is written by a stranger, who must not be able to make honest nodes differ or stay silent. So
each thing that can be wrong with a spec has a reason in a closed list, and a node answers with that
reason. A fault of the node itself (its class, its memory, its disk) is no such reason.
"""

from __future__ import annotations

from typing import Final

REASONS: Final = {
    "bad_spec": "not canonical JSON, a wrong key, or a value out of range",
    "unknown_kind": "no such kind of task",
    "other_class": "written for another determinism class than the one it was created in",
    "bad_model": "a network whose results or costs a determinism class does not fix",
    "bad_input": "a CID that names no file of this network",
    "bad_checkpoint": "a checkpoint that is not a finite state of the spec's model",
    "bad_data": "a dataset that is malformed, does not fit the model, or is too short",
    "bad_prompts": "prompts that are malformed or do not fit the model",
    "too_large": "more bytes to read or more memory than the class allows for",
    "too_long": "more work than the paid time allows for",
    "not_finite": "a loss, a gradient, a weight or a logit that is not a finite number",
    "failed": "a computation that cannot be carried out",
}
"""Reason codes and what they mean. A code is part of a result's digest: never reuse one."""


class TaskError(ValueError):
    """A task that no honest node carries out. `reason` is a key of `REASONS`; the message, a
    sentence for people, is no part of the result."""

    def __init__(self, reason: str, message: str) -> None:
        if reason not in REASONS:
            raise KeyError(f"{reason!r} is no reason to refuse a task")
        super().__init__(message)
        self.reason = reason


class ClassNotHeld(Exception):
    """This process does not compute in the determinism class it was asked for."""
