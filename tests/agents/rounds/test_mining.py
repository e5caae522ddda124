# SPDX-License-Identifier: Apache-2.0
"""A miner that starts again on another machine: what it signed can't be made again there, so it
commits to nothing. The file of entries is real, the epoch is not run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agents.rounds.mining as mining_module
from agents.pipeline.entries_file import EntriesFile
from agents.pipeline.epoch import Epoch
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Kind
from agents.rounds.mining import Mining

NODE = 11
GPU, CPU = "torch=2.9;device=a GPU", "torch=2.9;device=cpu"


def epoch(number: int = 7, seed: int = 5) -> Epoch:
    return Epoch(3, number, bytes([seed]) * 32, ((NODE,), (21,)), range(40, 48))


class Stage:
    """A miner whose epochs are stopped after an entry. `ran`: in which class each was begun."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.label = folder, GPU
        self.ran: list[str] = []
        self.said: list[tuple[str, dict[str, Any]]] = []
        patch.setattr(mining_module, "determinism_class", lambda device, compiled: self.label)
        patch.setattr(mining_module, "stage_of", lambda job, model, stage: {})
        context: Any = SimpleNamespace(artefacts=folder, log=SimpleNamespace(warning=self._say))
        network: Any = SimpleNamespace(
            deployment=SimpleNamespace(chain_id=1), rounds=SimpleNamespace(address="0x" + "22" * 20)
        )
        unused: Any = SimpleNamespace(at=lambda *_: None)
        self._place = context, network, unused, unused, "cpu", lambda own, owed: own
        self._nothing: Any = SimpleNamespace()

    def run(self, of: Epoch) -> None:
        """Begin the epoch, or go on with it, as after a restart."""
        one: Any = Mining(*self._place)
        one._context.metrics = SimpleNamespace(busy=lambda what: self)
        one._has_room = lambda job, view, stage: True
        one._meet = lambda *_: None
        one._mine = lambda job, of, *_: self._mine(one._entries_of(of))
        round_ = SimpleNamespace(deadline=100, prev_model=b"", opened_block=1)
        view = SimpleNamespace(
            job_id=of.job, round_id=of.number, now=0, round=round_, network=self._nothing
        )
        plan = SimpleNamespace(epoch=of, step=0)
        kept: Any = None
        assert one.produce(self._nothing, view, plan, NODE, kept, kept) is None

    def _mine(self, path: Path) -> None:
        self.ran.append(self.label)
        file = EntriesFile(path, 1_000)
        file.append(Entry(Kind.FORWARD, 40))
        file.close()

    def _say(self, event: str, **fields: Any) -> None:
        self.said.append((event, fields))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def test_entries_made_in_another_class_are_not_executed(stage: Stage) -> None:
    stage.run(epoch())
    stage.label = CPU
    stage.run(epoch())
    assert stage.ran == [GPU]
    ((event, fields),) = stage.said
    assert event == "no_stage" and GPU in fields["why"] and CPU in fields["why"]


def test_in_its_own_class_the_miner_goes_on(stage: Stage) -> None:
    stage.run(epoch())
    stage.label = CPU
    stage.run(epoch())
    stage.label = GPU
    stage.run(epoch())
    assert stage.ran == [GPU, GPU]


def test_another_round_and_another_seed_are_begun_in_the_class_of_now(stage: Stage) -> None:
    stage.run(epoch())
    stage.label = CPU
    stage.run(epoch(seed=6))  # after a reorg: nothing was signed under this one
    stage.run(epoch(number=8))
    assert stage.ran == [GPU, CPU, CPU]
    left = {path.name.split("-")[2] for path in stage.folder.iterdir()}
    assert left == {"8"}, "of an older round nothing is left"


def test_a_file_without_an_entry_binds_to_nothing(stage: Stage) -> None:
    stage.run(epoch())
    (file,) = stage.folder.glob("epoch-3-7-*.entries")
    file.write_bytes(b"menage")  # the crash came before the first entry
    stage.label = CPU
    stage.run(epoch())
    stage.label = GPU
    stage.run(epoch())
    assert stage.ran == [GPU, CPU]


def test_a_file_of_an_older_version_counts_as_made_here(stage: Stage) -> None:
    """It doesn't say its class. Whoever upgrades in mid-epoch goes on, as that version would."""
    stage._mine(stage.folder / f"epoch-3-7-{'05' * 8}.entries")
    stage.run(epoch())
    assert stage.ran == [GPU, GPU] and not stage.said
    stage.label = CPU
    stage.run(epoch())
    assert stage.ran == [GPU, GPU]
