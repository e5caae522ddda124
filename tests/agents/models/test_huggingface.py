# SPDX-License-Identifier: Apache-2.0
"""What is exported is the same model: the real library loads it and computes our logits."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from agents.jobs.publish import publish_job
from agents.models.folder import DATASET, SPEC, Files, FolderError, ModelFolder
from agents.models.huggingface import ExportError, export
from agents.models.provenance import Contributor, Provenance
from agents.models.text import Reader
from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.training.documents import DataError
from agents.training.state import State
from tests.agents.training.conftest import word_tokenizer
from tests.stage.memory.tiny_specs import tiny_model

ADDRESS = "0x" + "1b" * 20
TEXT = [b"line %d of the text, cubed %d\n" % (i, i**3) for i in range(600)]
SPEC_FIELDS: dict[str, Any] = {
    "model": tiny_model(16, 24, 12, layers=3) | {"rope_theta": 500.0},
    "optimizer": {"batch_size": 2, "seq_len": 12},
    "data_licence": "CC-BY-4.0 `with` a |pipe",
}
PIPELINE: dict[str, Any] = {
    "mode": "pipeline",
    "score": "backward_passes",
    "batches_per_round": 8,
    "codec": "dense",
    "model": SPEC_FIELDS["model"] | {"tie_embeddings": False},
}


def trained(state: State) -> State:
    """Weights as unlike the first ones as training makes them: no norm is 1, no matrix small."""
    draws = torch.Generator().manual_seed(5)
    return {
        name: tensor + 0.15 * torch.randn(tensor.shape, generator=draws)
        for name, tensor in state.items()
    }


def folder_of(path: Path, fields: dict[str, Any], **more: Any) -> ModelFolder:
    """A folder with a trained model of a published job, as a pull leaves it."""
    from agents.jobs.model_files import hash_of

    store = EmbeddedStore(path / "store")
    published = publish_job(store, TEXT, fields, **more)
    raw, manifest = published.spec.to_bytes(), store.get(published.spec.data, 1 << 20)
    files = {SPEC: raw, DATASET: manifest}
    for name in ("config", "tokenizer"):
        given = more.get({"config": "model_config", "tokenizer": "tokenizer"}[name])
        files |= {f"{name}.json": given} if given else {}
    found = Provenance(
        chain_id=31_337,
        jobs_contract=ADDRESS,
        ledger_contract=ADDRESS,
        job=3,
        round=2,
        model="00" * 32,
        head="ab" * 32,
        genesis=published.model.hex(),
        finalized_at=1_700_000_000,
        spec=cid_of_bytes(raw),
        sponsor=ADDRESS,
        parameters=published.parameters,
        rounds=2,
        val_loss=1.25,
        separator=more.get("separator", 0),
        data=published.spec.data,
        data_access=published.spec.access,
        data_licence=published.spec.data_licence,
        contributors=(Contributor(node=7, owner=ADDRESS, rounds=2, batches=96),),
    )
    folder = ModelFolder(path / "model", found, Files(files))
    state = trained(folder.job.genesis())
    changed = found.model_copy(update={"model": hash_of(folder.job, state).hex()})
    ModelFolder(path / "model", changed, folder.files).save(state)
    return ModelFolder.open(path / "model")


@torch.no_grad()
def ours(folder: ModelFolder, tokens: Tensor) -> Tensor:
    net = folder.job.net("cpu")
    net.load(folder.state())
    output = net.model(tokens)
    return output if isinstance(output, Tensor) else output.logits


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"model": SPEC_FIELDS["model"] | {"tie_embeddings": False, "n_kv_heads": 2}},
        {"model": SPEC_FIELDS["model"] | {"d_model": 32, "n_heads": 8, "n_kv_heads": 2}},
        PIPELINE | {"pipeline": {"layers": [1, 2], "boundary": "none"}},
        PIPELINE | {"pipeline": {"layers": [3]}, "model": SPEC_FIELDS["model"]},
    ],
    ids=["tied", "head", "groups", "stages", "one stage"],
)
def test_the_library_computes_our_logits(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = folder_of(tmp_path, SPEC_FIELDS | change)
    assert export(folder, tmp_path / "hf") == "LlamaForCausalLM"
    library: Any = LlamaForCausalLM
    model, loading = library.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys"))
    tokens = torch.arange(5 * 12).reshape(5, 12) * 37 % 256
    with torch.no_grad():
        theirs = model(tokens).logits
    mine = ours(folder, tokens)
    assert float(mine.std()) > 0.1  # else equal logits would say nothing
    assert float((theirs - mine).abs().max()) <= 1e-5


def test_bytes_are_the_tokens_of_the_exported_tokenizer(tmp_path: Path) -> None:
    export(folder_of(tmp_path, SPEC_FIELDS), tmp_path / "hf")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    for text in ("def f(x):\n\treturn  x", "zażółć 日本 🎉 \x00\x7f", "a  b   c", "'s don't I'LL"):
        tokens = tokenizer(text)["input_ids"]
        assert tokens == list(text.encode())
        assert tokenizer.decode(tokens) == text
    assert len(tokenizer) == 256


def test_the_library_writes_what_we_write(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, SPEC_FIELDS)
    export(folder, tmp_path / "hf")
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    given = tokenizer("line", return_tensors="pt")
    theirs = model.generate(**given, max_new_tokens=8, do_sample=False)[0, 4:]
    mine = "".join(Reader(folder, "cpu").write("line", 8))
    kept = list(itertools.takewhile(lambda token: token != 0, theirs.tolist()))
    assert bytes(kept).decode("utf-8", "replace").startswith(mine.rstrip("�"))
    assert model.generation_config.eos_token_id == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "gpt2", "vocab_size": 300, "n_embd": 16, "n_layer": 2, "n_head": 2,
         "n_positions": 32},
        {"model_type": "llama", "vocab_size": 300, "hidden_size": 16, "intermediate_size": 24,
         "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 32,
         "tie_word_embeddings": True},
        {"model_type": "qwen3", "vocab_size": 300, "hidden_size": 16, "intermediate_size": 24,
         "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 8, "max_position_embeddings": 32},
    ],
    ids=["gpt2", "llama", "qwen3"],
)  # fmt: skip
def test_a_job_of_a_config_and_a_tokenizer_is_exported(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    """A real tokenizer, trained here; the library reads both back and computes our logits."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = __import__("tokenizers").decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        (text.decode() for text in TEXT),
        trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False),
    )
    folder = folder_of(
        tmp_path,
        {"model": {"vocab_size": 300, "max_seq_len": 32}, "optimizer": SPEC_FIELDS["optimizer"]},
        model_config=json.dumps(fields).encode(),
        tokenizer=made.to_str().encode(),
        separator=3,
    )
    name = export(folder, tmp_path / "hf")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "hf", attn_implementation="eager")
    assert type(model).__name__ == name
    tokens = torch.arange(4 * 12).reshape(4, 12) * 37 % 300
    with torch.no_grad():
        theirs = model(tokens).logits
    mine = ours(folder, tokens)
    assert float(mine.std()) > 0.1
    assert float((theirs - mine).abs().max()) <= 1e-5
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    text = "line 41 of the text, zażółć"
    reader = Reader(folder, "cpu")
    assert tokenizer(text, add_special_tokens=False)["input_ids"] == reader.encode(text.encode())
    decode = reader.decoder()
    assert "".join(decode(token) for token in reader.encode(text.encode())) == text
    assert reader.judge([text.encode()]).bytes == len(text.encode()) + 1


def test_a_strangers_tokenizer_ends_no_reader(tmp_path: Path) -> None:
    """It panics at the text that the model writes, or at a prompt; that is no Exception here."""
    words = json.loads(word_tokenizer(40))
    broken = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated",
              "invert": False}  # fmt: skip
    words["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [words["pre_tokenizer"], broken]}
    words["decoder"] = {"type": "Replace", "pattern": {"Regex": "(w+w+)+y"}, "content": ""}
    words["model"]["vocab"]["w" * 60] = 41
    raw = json.dumps(words).encode()
    fields = {"model": SPEC_FIELDS["model"] | {"vocab_size": 42}}
    folder = folder_of(tmp_path, SPEC_FIELDS | fields, tokenizer=raw, separator=3)
    reader = Reader(folder, "cpu")
    assert reader.decoder()(5) == "w5"
    said = "the dataset's tokenizer bafk[a-z2-7]* cannot be used: "
    with pytest.raises(DataError, match=said):
        list(reader.write("x" * 60, 4))
    decode = Reader(folder, "cpu").decoder()
    with pytest.raises(DataError, match=said):
        decode(41)


def test_a_token_that_the_model_does_not_know_is_a_sentence(tmp_path: Path) -> None:
    words = json.loads(word_tokenizer(40))
    words["model"]["vocab"]["far"] = 50
    fields = {"model": SPEC_FIELDS["model"] | {"vocab_size": 42}}
    raw = json.dumps(words).encode()
    reader = Reader(folder_of(tmp_path, SPEC_FIELDS | fields, tokenizer=raw, separator=3), "cpu")
    assert reader.encode(b"w1") == [1]
    for use in (lambda: list(reader.write("w1 far", 4)), lambda: reader.judge([b"w1 far"])):
        with pytest.raises(DataError, match="token 50 of the text is outside the model's vocab"):
            use()


def test_a_model_of_encrypted_data_is_used_without_the_key(tmp_path: Path) -> None:
    """Its separator can't be read, so documents are judged without one."""
    sealed = {"data_key": bytes(range(32)), "separator": None, "shard_bytes": 4_096}
    folder = folder_of(tmp_path, SPEC_FIELDS, **sealed)
    export(folder, tmp_path / "hf")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "hf").config.eos_token_id is None
    card = (tmp_path / "hf" / "README.md").read_text()
    assert "The data is encrypted" in card
    reader = Reader(folder, "cpu")
    assert reader.judge([b"line 7", b"line 8"]).tokens == 11
    assert len("".join(reader.write("", 3))) > 0


def test_a_boundary_that_is_part_of_the_network_is_refused(tmp_path: Path) -> None:
    block = {"layers": [1, 2], "boundary": "residual", "boundary_options": {"width": 4}}
    folder = folder_of(tmp_path, SPEC_FIELDS | PIPELINE | {"pipeline": block})
    with pytest.raises(ExportError, match="boundary residual is part of the network"):
        export(folder, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
    assert len("".join(Reader(folder, "cpu").write("line", 4, 1.0, 3))) > 0


def test_the_card_says_where_the_model_comes_from(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, SPEC_FIELDS)
    export(folder, tmp_path / "hf")
    card = (tmp_path / "hf" / "README.md").read_text()
    found = folder.provenance
    for fact in (found.model, found.head, found.spec, ADDRESS, "Job 3", "round 2", "| 7 |"):
        assert fact in card
    assert "as the sponsor states it: `CC-BY-4.0 ′with′ a |pipe`" in card
    assert Provenance.from_bytes((tmp_path / "hf" / "provenance.json").read_bytes()) == found


def test_a_folder_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, SPEC_FIELDS)
    with pytest.raises(ExportError, match="exists already"):
        export(folder, folder.path)


@pytest.mark.parametrize("name", ["model.safetensors", "spec.json", "dataset.json"])
def test_a_file_that_was_changed_is_refused(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path, SPEC_FIELDS)
    raw = bytearray((folder.path / name).read_bytes())
    raw[-2] ^= 1
    (folder.path / name).write_bytes(bytes(raw))
    with pytest.raises(FolderError, match="Fetch it again"):
        Reader(ModelFolder.open(folder.path), "cpu")
