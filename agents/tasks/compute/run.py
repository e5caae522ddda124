# SPDX-License-Identifier: Apache-2.0
"""Runs a task: bytes in, one payload and its digest out, equal on all honest nodes of a class.

Refusals are results. Whatever is wrong with a task, each honest node finds the same thing wrong, in
the same order of checks, and answers with the same payload `{"refused":"<reason>"}`: a bad spec
costs its creator the fee and nobody else anything. Only two things are no result: an input that the
store does not give (`StoreError`: wait and try again), and a node that is not what it says it is
(`ClassNotHeld`, memory, disk).
"""

from __future__ import annotations

from agents.storage.canonical import dumps
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, TooLarge
from agents.tasks.compute.budget import Budget
from agents.tasks.compute.classes import limits_of, require_class
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.execution import Execution
from agents.tasks.compute.result import TaskResult
from agents.tasks.compute.spec import MAX_SPEC_BYTES, parse_spec


def run_task(
    raw_spec: bytes, run_s: int, store: ContentStore, label: str, device: str
) -> TaskResult:
    """Carry a task out, or refuse it.

    Args:
        raw_spec: what the chain's digest names.
        run_s: seconds that a node has for it, from the chain.
        store: where its inputs are.
        label: the task's determinism class, from the chain.
        device: torch device to compute on.

    Raises:
        StoreError: an input cannot be had now; wait and try again.
        ClassNotHeld: this process does not compute in that class.
        ValueError: the label is no class.
    """
    limits = limits_of(label)
    try:
        spec = parse_spec(raw_spec)
        if spec.determinism != label:
            raise TaskError(
                "other_class",
                f"the spec is for the class {spec.determinism!r}, the task is in {label!r}",
            )
        require_class(label, device)
        budget = Budget(limits, run_s)
        spec_digest = digest_of(cid_of_bytes(raw_spec)).hex()
        payload = spec.options.run(Execution(spec, spec_digest, store, budget, device))
    except TaskError as refusal:
        return refuse(refusal)
    except StoreError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Neither memory nor disk nor device: these come from the numbers, so every node has them.
        return refuse(TaskError("failed", f"{type(error).__name__}: {error}"))
    return TaskResult(digest_of(cid_of_bytes(payload)), payload)


def run_published(
    spec_digest: bytes, run_s: int, store: ContentStore, label: str, device: str
) -> TaskResult:
    """`run_task` on the spec that the chain names by its 32-byte digest. Raises as `run_task`."""
    try:
        raw_spec = store.get_digest(spec_digest, MAX_SPEC_BYTES)
    except TooLarge as error:
        return refuse(TaskError("bad_spec", str(error)))
    return run_task(raw_spec, run_s, store, label, device)


def refuse(refusal: TaskError) -> TaskResult:
    """The result of a refused task: it depends on the reason code alone."""
    payload = dumps({"refused": refusal.reason})
    return TaskResult(digest_of(cid_of_bytes(payload)), payload, refusal.reason, str(refusal))
