# SPDX-License-Identifier: Apache-2.0
"""What `job create` says where validators look at few of a job's trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from agents.jobs.publish import Terms
from scripts._job import packing
from scripts._shared import job_queue
from tests.stage.memory.tiny_specs import tiny_model

SPEC: dict[str, Any] = {
    "model": tiny_model(16, 32, 16),
    "optimizer": {"batch_size": 2, "seq_len": 16, "inner": "gradient"},
    "codec": "demo",
    "codec_options": {"per_chunk": 512, "decay": 0.5},
    "merge": "demo_sign",
    "score": "gauntlet",
    "verify": "gauntlet",
    "rounds": 10,
}


def created(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    trainers: int,
    **options: Any,
) -> Any:
    """What is published of such a job in a network of so many trainers. Its attacks are not
    played."""
    chain = type("Chain", (), {"call": staticmethod(lambda *_: trainers)})
    network = type("Network", (), {"chain": chain, "registry": None})
    contracts: Any = type("Contracts", (), {"network": staticmethod(lambda: network)})
    monkeypatch.setattr(job_queue, "offers", lambda _: [])
    monkeypatch.setattr(packing, "refuse_attacked", lambda *_: None)
    text = folder / "text.txt"
    text.write_text("".join(f"crane {n} nests in sector {n * 7 % 90}\n" for n in range(2_000)))
    given = dict.fromkeys(("data_key", "model", "model_config", "tokenizer", "separator"))
    given |= {"files": [text], "field": "text", "one_key": False, "shard_bytes": None}
    given |= {"though_attacks_pay": False, "few_verifiers": False}
    spec = {**SPEC, "score_options": options}
    published, _ = packing.publish(contracts, Terms(), spec, str(folder / "store"), given)
    return published


def test_a_job_in_which_less_than_half_is_evaluated_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    created(monkeypatch, tmp_path, 17)
    said = capsys.readouterr().err
    assert "Warning: validators evaluate 8 of 17 trainers" in said
    assert "score_options.evaluated to 9 or more" in said


def test_a_job_in_which_half_is_evaluated_is_told_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    created(monkeypatch, tmp_path, 16)
    assert "evaluate" not in capsys.readouterr().err


def test_a_sponsor_is_told_how_many_batches_a_round_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default 6 of 32 are handed out to each of three; 16 trainers have 6 each."""
    created(monkeypatch, tmp_path, 3)
    said = capsys.readouterr().err
    assert "Warning: each of 3 trainers is handed out 6 batches in a round and not 32" in said
    assert "Warning: each of 3 trainers has 12 sequences in a round." in said
    created(monkeypatch, tmp_path, 16)
    said = capsys.readouterr().err
    assert "handed out 6" not in said
    assert "Warning: each of 16 trainers has 12 sequences" in said


@pytest.mark.parametrize("wrong", [{"eval_batches": "many"}, {"eval_batches": 0}, {"crane": 1}])
def test_options_that_are_none_are_refused_with_their_own_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(click.ClickException, match="score_options: gauntlet refuses"):
        created(monkeypatch, tmp_path, 3, **wrong)
