# SPDX-License-Identifier: Apache-2.0
"""`generate`: greedy decoding of prompts; of equal logits the lowest token wins.

Each prompt is decoded alone and every new token is one forward pass over all that precedes it: no
cache and no padding, so nothing but the prompt and the weights decides a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated

from pydantic import Field, Strict
from torch import nn

from agents.storage.canonical import dumps
from agents.tasks.compute.budget import forward_work
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.execution import Execution
from agents.tasks.compute.options import KindOptions, register
from agents.tasks.compute.prompts import MAX_PROMPT_BYTES, Prompts, text_of
from agents.tasks.compute.witness import witnessed
from agents.training.decode import NotFinite, written
from agents.training.spec import ModelSpec

MAX_NEW_TOKENS = 65_536
"""Of one task."""


@register("generate")
class Generate(KindOptions):
    """Up to `max_new_tokens` after each prompt, fewer where `stop_token` comes (it is kept)."""

    max_new_tokens: Annotated[int, Strict(), Field(ge=1, le=16_384)]
    stop_token: Annotated[int, Strict(), Field(ge=0, lt=1_000_000)] | None = None

    def fits(self, model: ModelSpec) -> None:
        """Raise ValueError if not even one prompt token has a place, or the stop is no token."""
        if self.max_new_tokens >= model.max_seq_len:
            raise ValueError(
                f"max_new_tokens {self.max_new_tokens} must be below model.max_seq_len "
                f"{model.max_seq_len}"
            )
        if self.stop_token is not None and self.stop_token >= model.vocab_size:
            raise ValueError(
                f"stop_token {self.stop_token} must be below model.vocab_size {model.vocab_size}"
            )

    def run(self, execution: Execution) -> bytes:
        """Canonical JSON: `kind`, `spec` (digest, hex), `witness` (`agents.tasks.compute.witness`)
        and `outputs`, one per prompt: `tokens` (the new ones) and `text` (of a byte-level model,
        else null)."""
        model = execution.spec.model
        prompts = Prompts.from_bytes(execution.get(execution.spec.data, MAX_PROMPT_BYTES)).prompts
        self._check(prompts, model)
        lengths = [len(prompt) for prompt in prompts]
        new = self.max_new_tokens
        execution.allow(
            forward_work(
                model,
                execution.parameters,
                batches=new * len(prompts),
                rows=1,
                length=max(lengths) + new,
                tokens=sum(new * length + new * (new - 1) // 2 for length in lengths),
            )
        )
        net = execution.network()
        net.load(execution.state())
        outputs = []
        with witnessed(net.model) as witness:
            for prompt in prompts:
                tokens = greedy(net.model, prompt, new, self.stop_token, execution.device)
                outputs.append({"tokens": tokens, "text": text_of(tokens, model.vocab_size)})
        return dumps(
            {
                "kind": "generate",
                "spec": execution.spec_digest,
                "outputs": outputs,
                "witness": witness.hexdigest(),
            }
        )

    def _check(self, prompts: Sequence[Sequence[int]], model: ModelSpec) -> None:
        if len(prompts) * self.max_new_tokens > MAX_NEW_TOKENS:
            raise TaskError(
                "too_large",
                f"{len(prompts)} prompts with {self.max_new_tokens} new tokens each are more than "
                f"{MAX_NEW_TOKENS} tokens",
            )
        for number, prompt in enumerate(prompts):
            if len(prompt) + self.max_new_tokens > model.max_seq_len:
                raise TaskError(
                    "bad_prompts",
                    f"prompt {number} has {len(prompt)} tokens; with {self.max_new_tokens} more "
                    f"that is beyond the model's {model.max_seq_len} positions",
                )
            if max(prompt) >= model.vocab_size:
                raise TaskError(
                    "bad_prompts",
                    f"prompt {number} holds the token {max(prompt)}; the model has "
                    f"{model.vocab_size}",
                )


def greedy(
    model: nn.Module, prompt: Sequence[int], count: int, stop: int | None, device: str
) -> list[int]:
    """Up to `count` tokens after the prompt, each the first of the greatest logits.

    Args:
        model: token ids int64 [1, seq] -> logits [1, seq, vocab].
        prompt: at least one token.
        stop: decoding ends after this token.

    Raises:
        TaskError: a logit is not finite.
    """
    tokens: list[int] = []
    try:
        for token in islice(written(model, prompt, len(prompt) + count, device), count):
            tokens.append(token)
            if token == stop:
                break
    except NotFinite as error:
        raise TaskError("not_finite", str(error)) from error
    return tokens
