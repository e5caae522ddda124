# SPDX-License-Identifier: Apache-2.0
"""Results of tasks that nobody ran.

A fake is computed from the spec alone, so that two cheats agree on it without sending each other
anything.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from agents.storage.canonical import dumps, loads
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore
from agents.tasks.compute.result import TaskResult

_MAX_BYTES = 1 << 30


def fake(raw_spec: bytes, store: ContentStore) -> TaskResult:
    """What looks like a result: the checkpoint as it came, an invented loss, a prompt's last token
    again and again."""
    spec: Any = loads(raw_spec)
    digest, options = sha256(raw_spec).digest(), spec["options"]
    if spec["kind"] == "train_steps":
        payload = store.get(spec["checkpoint"], _MAX_BYTES)
    elif spec["kind"] == "evaluate":
        tokens = options["sequences"] * options["seq_len"]
        payload = _answer(spec, raw_spec, loss=(1 + digest[0] / 256).hex(), tokens=tokens)
    else:
        prompts = loads(store.get(spec["data"], _MAX_BYTES))["prompts"]
        written = [[prompt[-1]] * options["max_new_tokens"] for prompt in prompts]
        outputs = [{"tokens": w, "text": bytes(w).decode("utf-8", "replace")} for w in written]
        payload = _answer(spec, raw_spec, outputs=outputs)
    return TaskResult(digest_of(cid_of_bytes(payload)), payload)


def _answer(spec: Any, raw_spec: bytes, **content: Any) -> bytes:
    named = digest_of(cid_of_bytes(raw_spec)).hex()
    return dumps({"kind": spec["kind"], "spec": named, **content})
