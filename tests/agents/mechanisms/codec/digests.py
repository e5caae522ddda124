# SPDX-License-Identifier: Apache-2.0
"""Digests of every lossy codec's bits, printed by a process of its own with other settings."""

import hashlib
import json

import torch

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec.parts.vector import split, words

SEED = bytes(range(32))
LOSSY = {
    "cells": {"cell": 64, "share": 0.9, "fine": "a", "fine_share": 0.02, "decay": 1.0},
    "directions": {"cell": 256, "share": 0.9, "fine": "a", "fine_share": 0.02, "decay": 1.0},
    "demo": {"per_chunk": 64, "value_bits": 4, "decay": 1.0},
    "polytope": {},
    "semantic": {"ratio": 100, "clip": 6.0},
    "semantic with memory": {
        "ratio": 100,
        "clip": 6.0,
        "decoder": "shrunk",
        "error_feedback": True,
        "memory_rounds": 5,
    },
    "sparse": {},
    "sparse in blocks": {"per_chunk": 128, "block": 64, "value_bits": 1},
}


def digests() -> dict[str, str]:
    """sha256 of payload and decoded numbers of each; the gradient's bits are the same anywhere."""
    found = {}
    shapes = {"b": (400, 70), "a": (5000,)}
    gradient = split(words(SEED, "gradient", 33_000).astype("<i8") * 2.0**-70, shapes)
    for text, options in LOSSY.items():
        codec = codecs.get(text.partition(" ")[0])(**options)
        data = codec.encode(gradient, None, SEED)
        out = codec.decode(data, shapes, SEED)
        raw = b"".join(out[name].numpy().tobytes() for name in sorted(out))
        found[text] = hashlib.sha256(data + raw).hexdigest()
    return found


if __name__ == "__main__":
    torch.set_num_threads(2)
    print(json.dumps(digests()))
