# SPDX-License-Identifier: Apache-2.0
"""`job create` refuses a job whose results can't be recomputed while they are disputed, also where
the data is encrypted: the sponsor has the key. It refuses one that takes a payload of any size."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from agents.jobs import judgeable
from agents.jobs.publish import Terms
from agents.runtime import wallet
from scripts._job import packing
from scripts._shared import job_classes, job_queue
from tests.stage.memory.tiny_specs import tiny_model

FIELDS = {
    "model": tiny_model(16, 24, 16),
    "optimizer": {"batch_size": 2, "seq_len": 16},
    "batches_per_round": 12,
    "eval_batches": 2,
    "rounds": 2,
}


def create(folder: Path, more: dict[str, Any] | None = None, **given: Any) -> Any:
    """Pack and publish as the command does, on a network without trainers. `more`: of the spec."""
    document = folder / "one.txt"
    document.write_text(" ".join(map(str, range(2_000))))
    chosen: dict[str, Any] = dict.fromkeys(
        ("data_key", "model_config", "tokenizer", "model", "separator", "shard_bytes")
    )
    chosen |= {"files": (document,), "field": "text", "passphrase_env": "PASSPHRASE"}
    chosen |= dict.fromkeys(("one_key", "few_verifiers", "though_attacks_pay"), False) | given
    chain = SimpleNamespace(call=lambda *_: 0)
    network = SimpleNamespace(chain=chain, registry=None)
    contracts: Any = SimpleNamespace(network=lambda: network)
    return packing.publish(
        contracts, Terms(), FIELDS | (more or {}), str(folder / "store"), chosen
    )[0]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is asked of the network, and no attack is played."""
    monkeypatch.setattr(job_queue, "offers", lambda network: [])
    monkeypatch.setattr(job_queue, "expected", lambda *_: None)
    monkeypatch.setattr(job_classes, "check_classes", lambda *_: None)
    monkeypatch.setattr(packing, "refuse_attacked", lambda *_: None)
    monkeypatch.setattr(packing, "checking", lambda *_: [])
    monkeypatch.setattr(wallet, "read_passphrase", lambda *_: "")
    monkeypatch.setattr(wallet, "read_keystore", lambda *_: b"\1" * 32)


@pytest.mark.parametrize(
    "key", [{}, {"data_key": Path("key")}, {"data_key": Path("key"), "one_key": True}]
)
def test_a_job_that_nobody_can_judge_in_time_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: dict[str, Any]
) -> None:
    assert create(tmp_path, **key).parameters > 0
    monkeypatch.setattr(judgeable, "USUAL_SPEED", 1.0)
    with pytest.raises(click.ClickException) as refused:
        create(tmp_path, **key)
    assert refused.value.message.startswith("The job is refused: a result with max_nodes 64 takes")


def test_a_mean_of_payloads_of_any_size_that_nobody_redoes_is_refused(tmp_path: Path) -> None:
    """Where work is done again it is a warning, and with the remedy it is neither."""
    undone = {"access": "local", "verify": "screening", "merge": "mean", "codec": "sparse"}
    with pytest.raises(click.ClickException) as refused:
        create(tmp_path, undone)
    assert 'merge "mean": nothing bounds a payload below 2^64' in refused.value.message
    assert refused.value.message.endswith("--though-attacks-pay creates it nevertheless.")
    for fine in ({**undone, "merge": "norm_clip"}, {**undone, "codec": "dense"}):
        assert not any("nothing bounds" in one for one in create(tmp_path, fine).warnings)
    for told in ({"merge": "mean", "codec": "sparse"}, undone):
        found = create(tmp_path, told, though_attacks_pay=True).warnings
        assert any("nothing bounds a payload" in one for one in found)


def test_a_sponsor_is_told_that_trainers_keep_their_own_data_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trainers that choose their job leave it, and its escrow would wait for nobody."""
    own = {"access": "local", "verify": "screening", "merge": "norm_clip"}
    create(tmp_path, own)
    said = capsys.readouterr().err
    assert "Warning: trainers leave this job: its nodes bring their own data, and it hides" in said
    create(tmp_path, {})
    assert "trainers leave this job" not in capsys.readouterr().err
