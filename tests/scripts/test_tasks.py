# SPDX-License-Identifier: Apache-2.0
"""What a creator is told before it pays: the time a task needs, and what is wrong with its spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import TooLarge
from agents.tasks.compute.budget import Budget
from agents.tasks.compute.classes import CPU, limits_of
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.execution import MAX_DATA_BYTES, Execution
from agents.tasks.compute.prompts import MAX_PROMPT_BYTES, Prompts
from agents.tasks.compute.spec import TaskSpec
from agents.training.data import Dataset
from agents.training.documents import DataError
from agents.training.model import init_state
from agents.training.spec import ModelSpec
from agents.training.state import save_state
from scripts._task.specs import build, put_data, seconds_needed

MODEL = ModelSpec(
    d_model=16, n_layers=1, n_heads=2, n_kv_heads=1, d_ff=32, max_seq_len=64, vocab_size=256
)
TEXT = "a line of text, and another one\n" * 200


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path / "store")


def a_spec(store: EmbeddedStore, data: str, kind: str, *options: str, **model: Any) -> TaskSpec:
    """A spec of a small model."""
    fields = {
        "kind": kind,
        "determinism": CPU,
        "model": MODEL.model_copy(update=model).model_dump(),
        "checkpoint": store.put_bytes(save_state(init_state(MODEL))),
        "data": data,
    }
    return build(fields, options)


def a_text(store: EmbeddedStore, folder: Path) -> str:
    """The CID of a dataset of some text."""
    path = folder / "text.txt"
    path.write_text(TEXT)
    return put_data(store, "evaluate", [str(path)], [])


@pytest.mark.parametrize(
    ("kind", "size"),
    [("evaluate", "sequences=50"), ("train_steps", "steps=200"), ("generate", "max_new_tokens=8")],
)
def test_seconds_needed__is_enough_for_a_node_to_accept(
    store: EmbeddedStore, tmp_path: Path, kind: str, size: str
) -> None:
    """A real budget of that time lets the task's inputs and its work through."""
    if kind == "generate":
        spec = a_spec(store, put_data(store, kind, [], ["one", "two"]), kind, size)
    else:
        spec = a_spec(store, a_text(store, tmp_path), kind, size, "seq_len=64")
    seconds = seconds_needed(spec, store)
    assert seconds >= 60
    execution = Execution(spec, "00" * 32, store, Budget(limits_of(CPU), seconds), "cpu")
    assert spec.options.run(execution)


def test_seconds_needed__grows_with_the_work(store: EmbeddedStore, tmp_path: Path) -> None:
    data = a_text(store, tmp_path)
    few, many = (
        seconds_needed(a_spec(store, data, "train_steps", f"steps={n}", "seq_len=64"), store)
        for n in (100, 10_000)
    )
    assert few == 60 < many


def test_seconds_needed__too_much_memory_is_refused(store: EmbeddedStore, tmp_path: Path) -> None:
    sizes = ("sequences=4096", "batch_size=4096", "seq_len=16384")
    spec = a_spec(store, a_text(store, tmp_path), "evaluate", *sizes, max_seq_len=131_072)
    with pytest.raises(TaskError, match="memory"):
        seconds_needed(spec, store)


def test_seconds_needed__data_that_every_node_refuses_is_refused_before_it_is_paid_for(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    plain = Dataset.from_bytes(store.get(a_text(store, tmp_path), MAX_DATA_BYTES))
    salted = plain.model_copy(update={"key_salt": "00" * 32})
    size = ("sequences=1", "seq_len=64")
    with pytest.raises(TaskError, match="key_salt"):
        seconds_needed(a_spec(store, store.put_bytes(salted.to_bytes()), "evaluate", *size), store)
    long = store.put_bytes(bytes(MAX_DATA_BYTES + 1))
    with pytest.raises(TooLarge):
        seconds_needed(a_spec(store, long, "evaluate", *size), store)


def test_put_data__prompts_and_files_become_prompts(store: EmbeddedStore, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("c")
    cid = put_data(store, "generate", [str(tmp_path / "more.txt")], ["a", "bé"])
    texts = Prompts.from_bytes(store.get(cid, MAX_PROMPT_BYTES))
    assert texts == Prompts.of_texts(["a", "bé", "c"])


@pytest.mark.parametrize(
    ("kind", "given", "prompts"),
    [
        ("evaluate", [], []),
        ("generate", [], []),
        ("evaluate", ["bafkreione", "bafkreitwo"], []),
        ("evaluate", ["bafkreione"], ["a prompt"]),
        ("generate", ["bafkreione"], ["a prompt"]),
    ],
)
def test_put_data__what_does_not_go_together_is_refused(
    store: EmbeddedStore, kind: str, given: list[str], prompts: list[str]
) -> None:
    with pytest.raises(DataError, match="name the data"):
        put_data(store, kind, given, prompts)


def test_put_data__a_cid_stays_as_it_is(store: EmbeddedStore) -> None:
    assert put_data(store, "generate", ["bafkreione"], []) == "bafkreione"


def test_build__options_are_numbers_and_what_is_wrong_is_named(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    data = a_text(store, tmp_path)
    spec = a_spec(store, data, "train_steps", "steps=5", "lr=0.002", "seq_len=16")
    assert spec.options.model_dump()["lr"] == 0.002
    with pytest.raises(TaskError, match="'steps' is not NAME=VALUE"):
        a_spec(store, data, "train_steps", "steps")
    with pytest.raises(TaskError, match="stpes"):
        a_spec(store, data, "train_steps", "stpes=5", "seq_len=16")
