# SPDX-License-Identifier: Apache-2.0
"""All that the page of a training run shows, as plain data. It is written beside the page as JSON,
so that the page can be made again, and other programs can read the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from scripts._report.spent import Spent
from scripts._report.stages import StageLine
from scripts._report.standing import Standing
from scripts._report.story import Story
from scripts._report.verdict import Books, Check

FILE = "run.json"


@dataclass(frozen=True)
class Claim:
    """An owner's claim: what it was owed and what its balance grew by, in 1e-18 ZOO."""

    owner: str
    owed: int
    received: int
    tx: str

    @property
    def arrived(self) -> bool:
        """Whether all of it did."""
        return self.owed > 0 and self.received == self.owed


@dataclass(frozen=True)
class Replay:
    """What a stranger found who replayed the job from chain and store, as of a block."""

    compared: int
    differences: list[str]
    block: int
    block_hash: str


@dataclass(frozen=True)
class Model:
    """The model that came of it. `digest`: its hash in the ledger. `cid`: of the checkpoint, which
    is an index of files if there are several `stages`. `attested`: the rounds whose checkpoints the
    committee attests."""

    cid: str
    digest: str
    parameters: int
    stages: int = 1
    attested: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Sample:
    """What the model wrote after a prompt, before the first round and after the last.

    `how`: the way in which tokens were chosen.
    """

    prompt: str
    before: str
    after: str
    how: str


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        title: what it is about, one line.
        story: what happened, from the chain.
        checks: what must hold.
        cheats: by name, what the demo told it to do.
        limits: what a stranger can't repeat, a sentence; empty if the training can be repeated too.
        facts: figures for a table, by name.
        spent: what the job cost in privacy, None if it promised none.
        standing: what validators measured, None if they don't score this job.
        stages: of a pipeline, what its miners did.
        commands: lines to type that replay the run from the files beside the page.
    """

    title: str
    story: Story
    checks: list[Check]
    cheats: dict[str, str] = field(default_factory=dict)
    limits: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    claim: Claim | None = None
    replay: Replay | None = None
    books: Books | None = None
    model: Model | None = None
    samples: list[Sample] = field(default_factory=list)
    spent: Spent | None = None
    standing: Standing | None = None
    stages: list[StageLine] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def write(self, directory: Path) -> Path:
        """Write it into a folder; returns the file."""
        path = directory / FILE
        path.write_bytes(_JSON.dump_json(self, indent=1))
        return path

    @classmethod
    def read(cls, path: Path) -> Run:
        """Read it back. Raises ValueError if the file holds no run."""
        return _JSON.validate_json(path.read_bytes())


_JSON = TypeAdapter(Run)
