# SPDX-License-Identifier: Apache-2.0
"""Text from the model: the same every time, within its bounds, and shown as text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
import torch

from agents.jobs.job import JobContext
from agents.storage.content_store import ContentStore, open_store
from agents.training.data import Dataset, pack
from agents.training.documents import DataError
from agents.training.model import init_state
from agents.training.spec import JobSpec
from scripts._report import sampling
from scripts._report.page.samples import samples
from scripts._report.run import Sample
from tests.agents.training.conftest import word_tokenizer
from tests.stage.memory.demo_run import HOSTILE
from tests.stage.memory.page_reader import Page

TEXT = b"def main():\n    return 1\n" * 200


@pytest.fixture(autouse=True)
def few(monkeypatch) -> None:
    """Just enough to slide the model's window."""
    monkeypatch.setattr(sampling, "TOKENS", 70)


@pytest.fixture
def job(tmp_path) -> Iterator[tuple[JobContext, ContentStore]]:
    store = open_store(str(tmp_path))
    model = {"d_model": 8, "n_heads": 2, "n_kv_heads": 1, "n_layers": 1, "d_ff": 8}
    spec = JobSpec.from_dict({"data": pack([TEXT], store), "model": model})
    yield JobContext(spec, store), store


def test_the_same_model_writes_the_same(job) -> None:
    context, store = job
    tokens = sampling.tokens_of(context, store)
    before = init_state(context.spec.model)
    after = {name: tensor * 2 for name, tensor in before.items()}
    one = sampling.samples_of(context, tokens, before, after, TEXT.decode())
    assert one == sampling.samples_of(context, tokens, before, after, TEXT.decode())
    assert len(one) == 2 and one[0].how != one[1].how
    for sample in one:
        assert sample.prompt == "def main():\n    return 1\ndef main():"  # whole words
        assert len(sample.before.encode()) > 0 and sample.after


def test_the_jobs_tokenizer_speaks_as_in_training(tmp_path) -> None:
    """Its text is neither cut nor padded, and gets no special tokens; a failure is a sentence."""
    store = open_store(str(tmp_path))
    fields = json.loads(word_tokenizer(40))
    fields["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
                            "stride": 0}  # fmt: skip
    text = b" ".join(b"w%d" % (i % 40) for i in range(2000))
    raw = json.dumps(fields).encode()
    spec = JobSpec.from_dict({"data": pack([text], store, tokenizer=raw, separator=3)})
    tokens = sampling.tokens_of(JobContext(spec, store), store)
    assert tokens.encode("w5 w39 what w1") == [5, 39, 40, 1]
    assert tokens.decode([5, 39]) == "w5 w39"
    fields["pre_tokenizer"] = {"type": "FixedLength", "length": 0}
    manifest = Dataset.from_bytes(store.get(spec.data, 1 << 20))
    panics = {"tokenizer": store.put_bytes(json.dumps(fields).encode())}
    data = store.put_bytes(manifest.model_copy(update=panics).to_bytes())
    job = JobContext(spec.model_copy(update={"data": data}), store)
    with pytest.raises(DataError, match="cannot be used: PanicException"):
        sampling.tokens_of(job, store).encode("w5")


def test_it_writes_no_more_than_it_may__also_beyond_the_models_window(job) -> None:
    context, _ = job
    state = init_state(context.spec.model)
    written = list(sampling.write(context, state, [1, 2], lambda logits: 7))
    assert written == [7] * sampling.TOKENS
    assert context.spec.model.max_seq_len < sampling.TOKENS


def test_it_stops_when_the_time_is_over(job, monkeypatch) -> None:
    monkeypatch.setattr(sampling, "SECONDS", -1.0)
    context, _ = job
    state = init_state(context.spec.model)
    assert list(sampling.write(context, state, [1], lambda logits: 7)) == []


def test_a_broken_model_writes_nothing(job) -> None:
    context, _ = job
    state = {
        name: torch.full_like(t, math.nan) for name, t in init_state(context.spec.model).items()
    }
    assert list(sampling.write(context, state, [1], lambda logits: 7)) == []


def test_what_it_writes_is_shown_as_text() -> None:
    page = Page("\n".join(samples([Sample("def ", "\x00\x01", f"{HOSTILE}\n    x", "Greedy")])))
    assert page.faults == []
    before, after = (block.text for block in page.find("pre"))
    assert before == "def \u2400\u2401"
    assert "<script>alert('x')</script>" in after and after.endswith("\n    x")
    assert not page.find("script")


def test_blanks_are_told() -> None:
    page = Page("\n".join(samples([Sample("def ", " " * 200, "", "Greedy")])))
    assert "200 characters, 1 different, all blank" in page.text("p")
    assert "0 characters, 0 different" in page.text("p")


def test_no_samples__no_heading() -> None:
    assert samples([]) == []
