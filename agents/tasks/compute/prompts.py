# SPDX-License-Identifier: Apache-2.0
"""Prompts as one content-addressed document: lists of token ids, in canonical JSON.

Tokens and not text, because what a tokenizer makes of a text depends on the version of a library
that no determinism class names. A byte-level model's tokens are the text's UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from agents.storage.canonical import dumps, loads
from agents.tasks.compute.errors import TaskError
from agents.training.spec import describe

MAX_PROMPT_BYTES: Final = 1024 * 1024
BYTE_VOCABULARY: Final = 256

_Token = Annotated[int, Strict(), Field(ge=0, lt=1_000_000)]
_Prompt = Annotated[tuple[_Token, ...], Field(min_length=1, max_length=131_072)]


class Prompts(BaseModel):
    """At least one prompt of at least one token."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    prompts: Annotated[tuple[_Prompt, ...], Field(min_length=1, max_length=4_096)]

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, raw: bytes) -> Prompts:
        """Read a document; TaskError if it is not canonical JSON or a field is wrong."""
        try:
            return cls.model_validate(loads(raw, MAX_PROMPT_BYTES))
        except ValidationError as error:
            raise TaskError("bad_prompts", f"the prompts are wrong: {describe(error)}") from error
        except (ValueError, OverflowError) as error:
            raise TaskError("bad_prompts", f"the prompts cannot be read: {error}") from error

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> Prompts:
        """Prompts for a byte-level model."""
        return cls(prompts=tuple(tuple(text.encode()) for text in texts))


def text_of(tokens: Iterable[int], vocab_size: int) -> str | None:
    """The text of a byte-level model's tokens, malformed UTF-8 replaced; None for other models."""
    if vocab_size != BYTE_VOCABULARY:
        return None
    return bytes(tokens).decode("utf-8", "replace")
