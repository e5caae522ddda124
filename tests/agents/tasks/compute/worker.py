# SPDX-License-Identifier: Apache-2.0
"""A node in a process of its own, pinned as `python -m agents` pins it.

`python -m tests.agents.tasks.compute.worker STORE CASES [pinned|unpinned]` runs the cases of a JSON
file in its order and prints, for each, the digest, the refusal and the payload's own sha2-256; then
what faults in the middle of a task come to.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from agents.storage.cid import cid_from_digest
from agents.storage.embedded import EmbeddedStore
from agents.training.determinism import pin_environment, pin_torch


def main(folder: str, file: str, how: str) -> None:
    if how == "pinned":
        pin_environment()
        pin_torch()
    import torch

    from agents.tasks.compute.classes import class_here
    from agents.tasks.compute.errors import ClassNotHeld
    from agents.tasks.compute.run import run_published

    answer: dict[str, Any] = {"results": {}}
    try:
        answer["class"] = class_here("cpu")
    except ClassNotHeld as error:
        answer["class"] = str(error)
    store = EmbeddedStore(Path(folder))
    for name, case in json.loads(Path(file).read_text()).items():
        digest = bytes.fromhex(case["spec"])
        try:
            result = run_published(digest, case["run_s"], store, case["label"], "cpu")
        except ClassNotHeld:
            answer["results"][name] = ["ClassNotHeld"]
            continue
        payload = hashlib.sha256(result.payload).hexdigest()
        answer["results"][name] = [result.digest.hex(), result.refusal, payload]
        # A task leaves nothing behind that the next one could see.
        torch.manual_seed(len(name))
    if how == "pinned":
        answer["faults"] = faults(store)
        torch.set_default_dtype(torch.float64)
        answer["float64"] = _why_not()
        torch.set_default_dtype(torch.float32)
        if torch.set_flush_denormal(True):
            answer["denormals"] = _why_not()
    print(json.dumps(answer))


def _why_not() -> str:
    from agents.tasks.compute.classes import class_here
    from agents.tasks.compute.errors import ClassNotHeld

    try:
        return class_here("cpu")
    except ClassNotHeld as error:
        return str(error)


def faults(store: EmbeddedStore) -> dict[str, str | None]:
    """What `run_task` makes of an error that a kind should never raise."""
    from agents.tasks.compute.kinds.evaluate import Evaluate
    from agents.tasks.compute.run import run_task
    from tests.stage.memory.task_inputs import TaskInputs

    raw = TaskInputs(store, *[cid_from_digest(bytes(32))] * 3).evaluate().canonical()
    found: dict[str, str | None] = {}
    for kind in (IndexError, OverflowError, RuntimeError, MemoryError, OSError):

        def broken(self: Any, execution: Any, kind: type[Exception] = kind) -> bytes:
            raise kind("a fault")

        Evaluate.run = broken  # type: ignore[method-assign]
        try:
            found[kind.__name__] = run_task(raw, 60, store, "cpu-fp32", "cpu").refusal
        except Exception as error:
            found[kind.__name__] = f"raised {type(error).__name__}"
    return found


if __name__ == "__main__":
    main(*sys.argv[1:4])
