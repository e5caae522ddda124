# SPDX-License-Identifier: Apache-2.0
"""A model is pulled from a real chain and a store. Killed, it goes on; lies are caught."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.models.folder import FolderError, ModelFolder
from agents.models.pull import FETCHED, PullError, pull
from agents.models.text import Reader
from agents.rounds.models import Models
from agents.storage.cid import cid_from_digest, parse_cid
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent
from agents.training.evaluate import validation_loss
from scripts._net.compiled import ROOT
from scripts._net.processes import Supervisor
from tests.stage.chain.finished_job import JOB, ROUNDS, SPEC, FinishedJob, make_job
from tests.stage.chain.finished_scored_job import FinishedScoredJob
from tests.stage.chain.lying_sources import LyingStore, lying_network
from tests.stage.forked import forked
from tests.stage.memory.tiny_specs import tiny_model


class Counting:
    """A store that counts what is read of it, and may end the process at one of the reads."""

    def __init__(self, store: EmbeddedStore, last: int = 1 << 30) -> None:
        self.location, self._store, self._last = store.location, store, last
        self.read: list[str] = []

    def get(self, cid: str, max_bytes: int) -> bytes:
        if len(self.read) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.read.append(cid)
        return self._store.get(cid, max_bytes)

    def resolve(self, digest: bytes) -> str:
        return self._store.resolve(digest)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """`ape run model ...`, as the program that it is."""
    return subprocess.run(
        [sys.executable, "-c", "from scripts.model import cli; cli()", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )


def asked(finished: FinishedJob, *more: str) -> list[str]:
    """The options of a pull of the job."""
    where = ["--network", finished.url, "--deployment", str(finished.deployment)]
    return ["pull", *where, "--store", str(finished.store.root), "--job", str(JOB), *more]


@pytest.mark.parametrize("round_id", [None, 0, 1, 2, 3])
def test_the_model_of_a_round_is_the_ledgers(
    finished: FinishedJob, tmp_path: Path, round_id: int | None
) -> None:
    out = tmp_path / "model"
    done = pull(finished.network, finished.store, JOB, out, round_id)
    found = ModelFolder.open(out)
    models = Models(finished.network, finished.store)
    entries = {entry.round_id: entry for entry in models.ledger(JOB)}
    number = max(entries) if round_id is None else round_id
    wanted = entries[number].new_model if number else models.genesis(JOB)
    assert found.provenance.round == number
    assert found.provenance.model == wanted.hex()
    expected = models.at(JOB, wanted)
    assert all(tensor.equal(expected[name]) for name, tensor in found.state().items())
    assert found.provenance.head == (entries[number].head.hex() if number else "00" * 32)
    assert done.fetched > 0 and not (out / FETCHED).exists()
    assert sorted(p.name for p in out.iterdir()) == [
        *("dataset.json", "model.safetensors", "provenance.json", "spec.json")
    ]


def test_provenance_names_who_did_the_work(finished: FinishedJob, tmp_path: Path) -> None:
    """Eve, whose only merged work was that of round 1, is behind those who worked on."""
    found = pull(finished.network, finished.store, JOB, tmp_path / "m").folder.provenance
    assert found.rounds == ROUNDS
    assert [each.node for each in found.contributors][-1] == finished.node("eve")
    assert found.contributors[0].rounds == ROUNDS
    for each in found.contributors:
        assert each.owner == finished.network.node(each.node).owner
    assert found.sponsor == finished.network.job(JOB).sponsor
    assert found.val_loss == finished.outcomes[JOB, 5].report.val_loss
    assert found.separator == 0


def test_a_job_that_scores_pay_is_rebuilt_from_updates_alone(
    scored: FinishedScoredJob, tmp_path: Path
) -> None:
    found = pull(scored.network, scored.store, JOB, tmp_path / "m").folder
    assert found.provenance.model == scored.network.job(JOB).model.hex()
    assert found.state()


def test_a_killed_pull_goes_on_where_it_stopped(finished: FinishedJob, tmp_path: Path) -> None:
    """SIGKILL at the sixth read; nothing that was read before it is read again."""
    out, last = tmp_path / "model", 5
    program = (
        "import sys; from pathlib import Path; from tests.agents.models.test_pull import *; "
        "from scripts._shared.operator import reading; url, path, store, out, last = sys.argv[1:];"
        "source = Counting(EmbeddedStore(store), int(last));"
        "pull(reading(url, Path(path)), source, JOB, Path(out))"
    )
    arguments = [finished.url, str(finished.deployment), str(finished.store.root), str(out)]
    killed = subprocess.run(
        [sys.executable, "-c", program, *arguments, str(last)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with pytest.raises(FolderError, match="no model of a job"):
        ModelFolder.open(out)
    whole, rest = Counting(finished.store), Counting(finished.store)
    pull(finished.network, whole, JOB, tmp_path / "other")  # type: ignore[arg-type]
    pull(finished.network, rest, JOB, out)  # type: ignore[arg-type]
    assert rest.read == whole.read[last:]
    assert ModelFolder.open(out).provenance == ModelFolder.open(tmp_path / "other").provenance


def test_a_copy_that_was_damaged_is_fetched_again(finished: FinishedJob, tmp_path: Path) -> None:
    out = tmp_path / "model"
    report = finished.network.ledger_entry(JOB, 0).report
    copies = EmbeddedStore(out / FETCHED)
    cid = copies.put_bytes(finished.store.get_digest(report, 1 << 20))
    (path,) = (copies.root / "objects").glob(f"*/{parse_cid(cid).digest.hex()}.*")
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    source = Counting(finished.store)
    pull(finished.network, source, JOB, out)  # type: ignore[arg-type]
    assert cid in source.read


def test_a_model_that_is_there_is_not_fetched_again(finished: FinishedJob, tmp_path: Path) -> None:
    out = tmp_path / "model"
    pull(finished.network, finished.store, JOB, out)
    before = (out / "model.safetensors").stat().st_ino
    pull(finished.network, finished.store, JOB, out)
    assert (out / "model.safetensors").stat().st_ino == before
    (out / "model.safetensors").write_bytes(b"damaged")
    pull(finished.network, finished.store, JOB, out)
    assert ModelFolder.open(out).state()
    pull(finished.network, finished.store, JOB, out, 1)  # an older one takes its place
    assert ModelFolder.open(out).provenance.round == 1


def test_a_store_that_gives_another_update_is_refused(
    finished: FinishedJob, tmp_path: Path
) -> None:
    true, other = (finished.outcomes[JOB, number].report.update for number in (1, 2))
    store = LyingStore(finished.store, true, finished.store.get(other, 1 << 20))
    with pytest.raises(CorruptContent):
        pull(finished.network, store, JOB, tmp_path / "m", 1)
    with pytest.raises(FolderError):
        ModelFolder.open(tmp_path / "m")


def test_a_ledger_that_does_not_hash_to_its_head_is_refused(
    finished: FinishedJob, tmp_path: Path
) -> None:
    reward = finished.network.ledger_entry(JOB, 1).reward
    asked_for = finished.network.ledger.function("entry", 2).encode((JOB, 1)).hex()

    def lie(method: str, params: list[Any], result: Any) -> Any:
        if method == "eth_call" and params[0]["data"] == f"0x{asked_for}":
            return result.replace(f"{reward:064x}", f"{reward + 1:064x}")
        return result

    network = lying_network(finished.provider, finished.network.deployment, lie)
    with pytest.raises(CorruptContent, match="does not hash to the head"):
        pull(network, finished.store, JOB, tmp_path / "m")


@pytest.mark.parametrize(
    ("job", "round_id", "words"),
    [
        (99, None, "There is no job 99"),
        (JOB, 4, "Round 4 of job 1 is not in the ledger"),
        (JOB, 99, "Round 99 of job 1 is not in the ledger"),
    ],
)
def test_what_is_not_there_is_said(
    finished: FinishedJob, tmp_path: Path, job: int, round_id: int | None, words: str
) -> None:
    with pytest.raises(PullError, match=words):
        pull(finished.network, finished.store, job, tmp_path / "m", round_id)


def test_a_folder_of_other_things_is_left_alone(finished: FinishedJob, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(PullError, match="holds other things"):
        pull(finished.network, finished.store, JOB, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedJob]:
    """A job in pipeline mode on a real chain, before its first round."""
    directory = tmp_path_factory.mktemp("split")
    spec = {
        **SPEC,
        "mode": "pipeline",
        "score": "backward_passes",
        "model": tiny_model(8, 12, 12, layers=2) | {"tie_embeddings": False},
        "pipeline": {"layers": [1, 1], "boundary_options": {"width": 4}},
    }
    with Supervisor(directory / "logs") as supervisor:
        yield make_job(FinishedJob, directory, supervisor, spec)


def test_a_model_in_stages_is_put_together(split: FinishedJob, tmp_path: Path) -> None:
    found = pull(split.network, split.store, JOB, tmp_path / "m").folder
    assert found.provenance.model == split.network.job(JOB).model.hex()
    assert "boundaries.0.sender.encoder.weight" in found.state()
    assert "".join(Reader(found, "cpu").write("line", 5, 1.0)) != ""


def test_the_loss_on_a_file_is_the_networks(finished: FinishedJob, tmp_path: Path) -> None:
    """By the project's own function on the same tokens, cut as the command says."""
    import torch

    folder = pull(finished.network, finished.store, JOB, tmp_path / "m").folder
    text = b"line 5 of the audited corpus, and more of it\n" * 9
    found = Reader(folder, "cpu").judge([text])
    tokens = torch.tensor([*text, 0])
    length = folder.job.spec.model.max_seq_len
    cuts = range(0, len(tokens) - 1, length)
    rows = [tokens[at : at + length + 1][None] for at in cuts]
    expected = validation_loss(folder.job.net("cpu"), folder.state(), rows)
    assert found.loss == pytest.approx(expected, rel=1e-6)
    assert (found.tokens, found.bytes) == (len(tokens) - 1, len(tokens))


def test_the_commands_one_after_the_other(finished: FinishedJob, tmp_path: Path) -> None:
    """Pull, generate, evaluate, export, as typed; each says what comes next."""
    model, text = tmp_path / "model", tmp_path / "text.txt"
    text.write_text("line 3 of the audited corpus\n" * 20)
    done = command(*asked(finished, "--out", str(model)))
    assert done.returncode == 0, done.stderr
    entry = finished.network.ledger_entry(JOB, ROUNDS - 1)
    assert f"0x{entry.new_model.hex()} is the one that the ledger records" in done.stdout
    assert "Next: `ape run model generate" in done.stdout
    assert "rebuilding the model" in done.stderr
    wrote = command("generate", str(model), "line", "--tokens", "12")
    again = forked("model", "generate", str(model), "line", "--tokens", "12")
    assert wrote.returncode == 0 and wrote.stdout.startswith("line"), wrote.stderr
    assert wrote.stdout == again.stdout
    judged = forked("model", "evaluate", str(model), "--data", str(text))
    assert judged.returncode == 0 and "nats a token over 580 tokens" in judged.stdout, judged
    exported = forked("model", "export", str(model))
    assert exported.returncode == 0, exported.stderr
    assert (
        cid_from_digest(finished.network.job(JOB).terms.spec)
        in (tmp_path / "model-hf" / "README.md").read_text()
    )
    taken = forked("model", "export", str(model))
    assert taken.returncode == 1 and "exists already" in taken.stderr
    assert "Traceback" not in taken.stderr


def test_what_a_model_writes_does_not_steer_the_terminal() -> None:
    from scripts.model import harmless

    assert harmless("a\x1b[2Jb\x9bc\x00\n\td\u202e") == "a\ufffd[2Jb\ufffdc\ufffd\n\td\ufffd"
