# SPDX-License-Identifier: Apache-2.0
"""A stranger's tokenizer.json ends a process of its own and no other; an honest one's ids stay.

The bombs are real files. In the caller's process the first asks for 8 GiB at once and, where there
are not so many, ends it by SIGABRT; the second panics, which is no Exception; the others take its
memory or its time without end.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from agents.storage.embedded import EmbeddedStore
from agents.training.data import DataSource, pack
from agents.training.documents import DataError, stdlib_corpus
from agents.training.local_data import LocalData
from agents.training.spec import JobSpec
from agents.training.tokenizing import IDS_BESIDES, Limits, Tokenizing, _Taken
from tests.agents.training.conftest import word_tokenizer

SpecBuilder = Callable[..., JobSpec]
SMALL = Limits(memory=1 << 29)
SHORT = Limits(seconds=2, bytes_per_second=1 << 20)
TEXT = b"w1 w2 what " * 3_000


def file(**parts: Any) -> bytes:
    return json.dumps(json.loads(word_tokenizer(40)) | parts).encode()


def replaced(pattern: dict[str, str], content: str, times: int = 1) -> dict[str, Any]:
    one = {"type": "Replace", "pattern": pattern, "content": content}
    return {"type": "Sequence", "normalizers": [one] * times}


ABORTS = file(normalizer={"type": "Precompiled", "precompiled_charsmap": "/////w=="})
PANICS = file(
    pre_tokenizer={
        "type": "Split",
        "pattern": {"Regex": "(w+w+)+y"},
        "behavior": "Isolated",
        "invert": False,
    }
)
GROWS = file(normalizer=replaced({"String": "w"}, "w w ", 16))
WITHOUT_END = file(normalizer=replaced({"Regex": r"(?=[\s\S]*\x00)w"}, "x"))
MANY_IDS = file(normalizer={"type": "Prepend", "prepend": "w " * (IDS_BESIDES + 1000)})


@pytest.mark.parametrize(
    ("bomb", "text", "limits", "words"),
    [
        (ABORTS, b"w1", SMALL, r"ended the process that reads it \(SIGABRT\): the library fails"),
        (PANICS, b"w" * 60, SMALL, "cannot be used: PanicException: Onig: Regex search error"),
        (GROWS, TEXT, SMALL, r"ended the process that .*or needs more than 544 MiB for it"),
        # A machine with much to do gives it few seconds of computing in many.
        (WITHOUT_END, 9 * TEXT, SHORT,
         "took more than (3 s of computing|24 s by the wall's clock) for 297000 bytes of text"),
        (MANY_IDS, b"w1", None, "makes 1049577 tokens of a text of 2 bytes, beyond 4 for each"),
    ],
    ids=["aborts", "panics", "grows", "without-end", "many-ids"],
)  # fmt: skip
def test_a_bomb_is_a_sentence(bomb: bytes, text: bytes, limits: Limits | None, words: str) -> None:
    with pytest.raises(DataError, match=words) as said:
        Tokenizing(bomb, "the dataset's tokenizer bafk", limits).encode(text)
    assert str(said.value).startswith("the dataset's tokenizer bafk ")
    assert str(said.value).endswith("; take another one, or leave the job that names it")
    assert len(str(said.value)) < 500
    assert len(bomb) < 2_000 or bomb is MANY_IDS


def test_in_the_callers_process_it_is_the_end() -> None:
    """Why there is another process: what the library does with the first two, nobody catches."""
    words = (
        "import resource, sys, tokenizers\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # a small machine\n"
        "try: tokenizers.Tokenizer.from_str(sys.argv[1]).encode('w' * 60)\n"
        "except {}: print('caught')\n"
    )

    def end(bomb: bytes, caught: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", words.format(caught), bomb.decode()]
        return subprocess.run(command, capture_output=True)

    assert end(ABORTS, "BaseException").returncode == -signal.SIGABRT
    assert end(PANICS, "Exception").returncode == 1
    assert end(PANICS, "BaseException").stdout == b"caught\n"


def test_many_small_texts_share_the_limits() -> None:
    """A text of few bytes takes its part of the ids that all may have, and of the time."""
    found = Tokenizing(file(normalizer={"type": "Prepend", "prepend": "w " * 200_000}))
    with pytest.raises(DataError, match="beyond 4 for each byte of all texts"):
        for _ in range(6):
            assert len(found.encode(b"w1")) == 200_001
    assert IDS_BESIDES // 200_001 == 5, "which of them it was"


def test_text_that_grows_on_the_way_back_is_refused() -> None:
    bomb = file(decoder={"type": "Replace", "pattern": {"String": "w"}, "content": "w" * 2**20})
    found = Tokenizing(bomb)
    assert found.decode([40]) == "[UNK]"
    with pytest.raises(DataError, match="answers with 20971540 bytes, at most 16777216"):
        found.decode([1] * 20)


def trained() -> dict[str, Tokenizer]:
    """Small ones of all four kinds of model, with what files of the hub have around them."""
    text = [raw.decode() for raw in stdlib_corpus(100_000)]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=1000, initial_alphabet=alphabet, show_progress=False)
    )
    bpe.enable_truncation(8)
    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.NFKC()
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    unknown = {"special_tokens": ["<unk>"], "show_progress": False}
    unigram.train_from_iterator(
        text, trainers.UnigramTrainer(vocab_size=1000, unk_token="<unk>", **unknown)
    )
    pieces = Tokenizer(models.WordPiece(unk_token="<unk>"))
    pieces.normalizer = normalizers.BertNormalizer()
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.decoder = decoders.WordPiece()
    pieces.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=1000, **unknown))
    words = Tokenizer.from_str(word_tokenizer(40).decode())
    return {"bpe": bpe, "unigram": unigram, "wordpiece": pieces, "wordlevel": words}


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "wordlevel"])
def test_honest_ids_are_those_of_the_library(kind: str) -> None:
    """Of texts that are short, empty, of rare letters, and longer than a pipe takes at once."""
    raw = trained()[kind].to_str().encode()
    here = Tokenizer.from_str(raw.decode())
    here.no_truncation()
    found = Tokenizing(raw)
    assert found.size == here.get_vocab_size(with_added_tokens=True)
    draws = random.Random(1)
    rare = "".join(
        chr(draws.choice((0x41, 0x20, 0xE9, 0xFDFA, 0x4E00, 0x1F600))) for _ in range(99)
    )
    for text in ("", "w1", rare, "\0\n", b"".join(stdlib_corpus(300_000)).decode()):
        expected = here.encode(text, add_special_tokens=False).ids
        ids = found.encode(text.encode())
        assert ids.dtype == np.uint32 and ids.tolist() == expected
        assert found.decode(expected[:50]) == here.decode(expected[:50])


def test_the_limits_leave_room_for_letters_that_become_many() -> None:
    """The letter that Unicode writes out the longest: 3 bytes become 33."""
    found = Tokenizing(file(normalizer={"type": "NFKC"}, pre_tokenizer={"type": "Split",
        "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}))  # fmt: skip
    assert len(found.encode("ﷺ".encode() * 20_000)) == 18 * 20_000


def test_it_may_be_killed_at_any_time() -> None:
    found = Tokenizing(word_tokenizer(40), limits=SMALL)
    process = found._process
    process.kill()
    with pytest.raises(DataError, match=r"ended the process that reads it \(SIGKILL\)"):
        found.encode(b"w1" * 10**6)
    with pytest.raises(DataError, match="has failed before"):
        found.encode(b"w1")
    assert process.returncode == -signal.SIGKILL, "nobody is left behind"


def test_it_may_stop_to_answer() -> None:
    """By the wall's clock: a process that waits takes no time of the processor's."""
    found = Tokenizing(word_tokenizer(40))
    found._taken = _Taken(Limits(seconds=0))
    os.kill(found._process.pid, signal.SIGSTOP)
    with pytest.raises(DataError, match="took more than 8 s by the wall's clock for 2 bytes"):
        found.encode(b"w1")
    assert found._process.returncode == -signal.SIGKILL


def test_it_ends_with_its_handle() -> None:
    found = Tokenizing(word_tokenizer(40))
    process, encode = found._process, found.encode
    del found
    assert encode(b"w1 w2").tolist() == [1, 2], "who encodes holds it"
    del encode
    assert process.returncode == -signal.SIGKILL


def test_it_ends_with_its_caller() -> None:
    """However that ends: its end of the pipe is closed, and that is the end of the input."""
    words = (
        "import os, sys, signal\n"
        "from agents.training.tokenizing import Tokenizing\n"
        "from tests.agents.training.conftest import word_tokenizer\n"
        "found = Tokenizing(word_tokenizer(40))\n"
        "print(found._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    done = subprocess.run([sys.executable, "-c", words], stdout=subprocess.PIPE, env=env)
    assert done.returncode == -signal.SIGKILL
    status = Path(f"/proc/{int(done.stdout)}/status")
    while status.exists() and "State:\tZ" not in status.read_text():
        time.sleep(0.05)


def test_it_has_none_of_the_callers_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", "secret")
    monkeypatch.setenv("OTHER_SECRET", "secret")
    found = Tokenizing(word_tokenizer(40))
    environment = Path(f"/proc/{found._process.pid}/environ").read_bytes()
    assert b"secret" not in environment and b"PATH=" in environment


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's choice is Linux's")
def test_where_memory_runs_out_the_kernel_ends_it_first() -> None:
    """A long text leaves a file more memory than a machine may have."""
    found = Tokenizing(word_tokenizer(40))
    assert Path(f"/proc/{found._process.pid}/oom_score_adj").read_text() == "1000\n"


def test_it_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert Tokenizing(word_tokenizer(40)).encode(b"w3").tolist() == [3]


def test_jobs_name_the_file_that_fails(
    tmp_path: Path, store: EmbeddedStore, tiny_spec: SpecBuilder
) -> None:
    """As a trainer meets it: in a job's dataset, at its own folder of text."""
    with pytest.raises(DataError, match=r"the tokenizer file ended .*\(SIGABRT\)"):
        pack([b"w1"], store, tokenizer=ABORTS, separator=0)
    words = b" ".join(b"w%d" % (i % 40) for i in range(500))
    spec = tiny_spec(data=pack([words], store, tokenizer=word_tokenizer(40), separator=3))
    public = DataSource(store, spec)
    cid = store.put_bytes(ABORTS)
    public.dataset = public.dataset.model_copy(update={"tokenizer": cid})
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.txt").write_bytes(words)
    with pytest.raises(DataError, match=rf"the dataset's tokenizer {cid} ended"):
        LocalData(tmp_path / "own", spec, public)


def test_a_file_that_writes_a_text_many_times_gives_it_once(
    tmp_path: Path, store: EmbeddedStore, tiny_spec: SpecBuilder
) -> None:
    """Each sequence costs privacy on its own: one of 64 copies showed what was counted once."""
    once = {"Sequence": {"id": "A", "type_id": 0}}
    pair = [once, {"Sequence": {"id": "B", "type_id": 0}}]
    parts = {"type": "TemplateProcessing", "single": [once] * 64, "pair": pair}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.txt").write_text("w1 w2 w3 w4 w5 " * 100)
    held = []
    for template in (None, parts | {"special_tokens": {}}):
        raw = file(post_processor=template)
        spec = tiny_spec(data=pack([b"w1 " * 4_000], store, tokenizer=raw, separator=40))
        data = LocalData(tmp_path / "own", spec, DataSource(store, spec))
        held.append(data.sequences(np.arange(data.examples)).tolist())
    assert held[0] == held[1] and len(held[0]) == 501 // 17
