# SPDX-License-Identifier: Apache-2.0
"""A round of a job that starts from a Hugging Face config and tokenizer, and from parquet files.

The libraries are the real ones. Config, tokenizer and table are made on the spot.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from agents.jobs.job import JobContext
from agents.jobs.model_files import read_model
from agents.jobs.publish import publish_job
from agents.rounds.models import Models
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.training.documents import read_documents
from agents.training.evaluate import validation_loss
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    NODES,
    SEED,
    WEIGHTS,
    ChainFacts,
    HonestRound,
    TinyJob,
    make_work,
)

VOCABULARY = 320
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16,
          "intermediate_size": 24}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 24},
    "llama": {"model_type": "llama", **LAYERS, "tie_word_embeddings": True},
    "gpt_neox": {"model_type": "gpt_neox", **LAYERS},
    "qwen3": {"model_type": "qwen3", **LAYERS, "num_key_value_heads": 1, "head_dim": 8},
}
ROWS = [f"row {i} of the table, and its square {i * i}, and its cube {i**3}" for i in range(500)]


def tokenizer() -> bytes:
    """A byte-level BPE, trained on the rows; its first token ends a document."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(ROWS, trainer)
    return made.to_str().encode()


@pytest.fixture(params=sorted(CONFIGS))
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> HonestRound:
    """The job, and the honest work of all its nodes in the first round."""
    table = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"body": ROWS}), table, row_group_size=64)
    store = EmbeddedStore(tmp_path / "store")
    published = publish_job(
        store,
        read_documents([table], "body"),
        {
            "model": {"vocab_size": VOCABULARY, "max_seq_len": 24, "n_layers": 2},
            "optimizer": {"batch_size": 2, "seq_len": 16, "lr": 0.01},
            "batches_per_round": 24,
            "eval_batches": 2,
            "rounds": 2,
            "checkpoint_every": 5,
        },
        model_config=json.dumps({**CONFIGS[request.param], "vocab_size": VOCABULARY}).encode(),
        tokenizer=tokenizer(),
        separator=0,
    )
    job = JobContext(published.spec, store)
    before = read_model(job, store, digest_of(published.checkpoint_cid), published.model)
    plain = TinyJob(store, published, job, before)
    plan = plain.plan_of(SEED, NODES, WEIGHTS)
    works = {node: make_work(job, plan, before, node) for node in NODES}
    return HonestRound(store, published, job, before, plan, works)


def test_a_round_trains_the_model_and_is_rebuilt(tiny: HonestRound) -> None:
    """Work done again has the same bits, the merge learns, and the ledger leads to the model."""
    node = NODES[0]
    again = make_work(tiny.job, tiny.plan, tiny.before, node)
    assert again.trace_root == tiny.works[node].trace_root
    assert again.payload == tiny.works[node].payload
    outcome = tiny.compute(tiny.honest())
    assert outcome.report.merged() == set(NODES)
    batches = tiny.job.data.val_batches(4)
    net = tiny.job.net(DEVICE)
    learnt = validation_loss(net, tiny.before, batches) - validation_loss(
        net, outcome.state, batches
    )
    assert learnt > 0.05
    facts = ChainFacts(tiny.published)
    facts.record(1, outcome, tiny.store)
    rebuilt = Models(facts, tiny.store).current(JOB)  # type: ignore[arg-type]
    assert all(tensor.equal(rebuilt[name]) for name, tensor in outcome.state.items())


def test_the_data_is_the_tables_rows(tiny: HonestRound) -> None:
    source = tiny.job.data
    read = Tokenizer.from_str(tokenizer().decode())
    first = [*read.encode(ROWS[0]).ids, 0, *read.encode(ROWS[1]).ids, 0]
    tokens = [int(token) for row in range(4) for token in source.sequences(np.array([row]))[0][:-1]]
    assert tokens[: len(first)] == first[: len(tokens)]
    assert source.dataset.vocab_size == VOCABULARY
    assert source.separator == 0


def test_an_artefact_that_is_missing_is_named(tiny: HonestRound, tmp_path: Path) -> None:
    """A node whose store lacks the config can't begin, and says which file it lacks."""
    other = EmbeddedStore(tmp_path / "other")
    cid = tiny.published.spec.model.config_cid
    assert cid is not None
    with pytest.raises(NotFound, match=cid):
        JobContext(tiny.published.spec, other)
