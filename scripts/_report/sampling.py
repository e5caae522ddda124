# SPDX-License-Identifier: Apache-2.0
"""Text from a job's model, before the first round and after the last.

Rule: nothing is chosen by hand. The prompt, the seed and the ways of choosing are fixed, so the
same model always writes the same, unless it is so large that the time runs out first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from agents.jobs.job import JobContext
from agents.storage.content_store import ContentStore
from agents.training.data import (
    MAX_MANIFEST_BYTES,
    MAX_TOKENIZER_BYTES,
    Dataset,
    tokenizing,
)
from agents.training.decode import Choose, NotFinite, drawn, likeliest, written
from agents.training.rng import derive_key
from agents.training.state import State
from scripts._report.run import Sample

TOKENS = 200
SECONDS = 20.0
"""Of one text, at most."""
TEMPERATURE = 0.8
PROMPT_CHARACTERS = 40
PROMPT_TOKENS = 48
_KEY = derive_key("report", "sample")


@dataclass(frozen=True)
class Tokens:
    """How a job turns text into tokens and back."""

    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]


def tokens_of(job: JobContext, store: ContentStore) -> Tokens:
    """The job's tokenizer: bytes, unless its data names another."""
    manifest = Dataset.from_bytes(store.get(job.spec.data, MAX_MANIFEST_BYTES))
    if manifest.tokenizer is None:
        return Tokens(
            lambda words: list(words.encode()),
            lambda tokens: bytes(token & 0xFF for token in tokens).decode("utf-8", "replace"),
        )
    found = tokenizing(manifest, store.get(manifest.tokenizer, MAX_TOKENIZER_BYTES))
    return Tokens(lambda words: found.encode(words.encode()).tolist(), found.decode)


def samples_of(
    job: JobContext, tokens: Tokens, before: State, after: State, words: str
) -> list[Sample]:
    """What two states of a job's model write after the first whole words of `words`."""
    start = words[:PROMPT_CHARACTERS]
    if start != words and " " in start.strip():
        start = start[: start.rindex(" ")].rstrip()
    prompt = tokens.encode(start)[:PROMPT_TOKENS] or [0]
    found = []
    for how, ways in (
        ("The likeliest token every time", lambda: likeliest),
        (
            f"Drawn by probability, temperature {TEMPERATURE:g}, fixed seed",
            lambda: drawn(_KEY, TEMPERATURE),
        ),
    ):
        one, two = (
            tokens.decode(list(write(job, state, prompt, ways()))) for state in (before, after)
        )
        found.append(Sample(tokens.decode(prompt), one, two, how))
    return found


def write(job: JobContext, state: State, prompt: Sequence[int], choose: Choose) -> Iterator[int]:
    """New tokens one by one; fewer than `TOKENS` if a logit is not finite or the time is over."""
    net = job.net("cpu")
    net.load(state)
    until = time.monotonic() + SECONDS
    try:
        for token in islice(
            written(net.model, prompt, job.spec.model.max_seq_len, "cpu", choose), TOKENS
        ):
            if time.monotonic() > until:
                return
            yield token
    except NotFinite:
        return
