# SPDX-License-Identifier: Apache-2.0
"""One epoch of a pipeline: who holds which stage, and in which order a sample asks for miners.

Rule: for each sample and stage all miners of the stage have an order that follows from the epoch's
seed. The first is drawn to do the sample. Whoever sends a sample on tries them in that order, and
passes by one that does not answer. So nobody chooses its neighbours, and nobody has to be asked
which way a sample goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from agents.pipeline.miner_log import Kind
from agents.pipeline.routes import first, in_order, order, route


@dataclass(frozen=True)
class Epoch:
    """The fixed facts of an epoch.

    Attributes:
        job, number: the job and its round.
        seed: of the round, 32 bytes, drawn after the snapshot.
        stages: miners of each stage, ascending by node id; each miner at one stage.
        samples: numbers of the batches that the epoch hands out.
        weights: of each miner in the draw, ascending by node id; empty where all count alike.
    """

    job: int
    number: int
    seed: bytes
    stages: tuple[tuple[int, ...], ...]
    samples: range
    weights: tuple[tuple[int, int], ...] = ()
    _seats: dict[int, int] = field(init=False, repr=False, compare=False)
    _weights: dict[int, int] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """ValueError for a stage without a miner, a miner at two stages, or weights of others."""
        seats = {m: stage for stage, miners in enumerate(self.stages) for m in miners}
        if not self.stages or not all(self.stages):
            raise ValueError("Every stage of an epoch has a miner.")
        if len(seats) != sum(map(len, self.stages)):
            raise ValueError("A miner holds one stage, and is named once.")
        if self.weights and [miner for miner, _ in self.weights] != sorted(seats):
            raise ValueError("Either each miner of an epoch has a weight, or none has.")
        object.__setattr__(self, "_seats", seats)
        object.__setattr__(self, "_weights", dict(self.weights) or None)

    @property
    def key(self) -> tuple[int, int, bytes]:
        """Job, number and seed: after a reorg of the chain an epoch begins again with another."""
        return self.job, self.number, self.seed

    @property
    def last(self) -> int:
        """Index of the last stage; the first is 0."""
        return len(self.stages) - 1

    def stage_of(self, miner: int) -> int | None:
        """The stage that a miner holds; None if it holds none."""
        return self._seats.get(miner)

    def source_of(self, stage: int, kind: Kind) -> int | None:
        """The stage that a FORWARD or a BACKWARD comes to `stage` from; None if from nobody."""
        source = stage - 1 if kind is Kind.FORWARD else stage + 1
        return source if 0 <= source <= self.last else None

    def candidates(self, sample: int, stage: int) -> tuple[int, ...]:
        """The miners of a stage in the order in which they are to do a sample."""
        return order(self.seed, sample, stage, self.stages[stage], self._weights)

    def asked(self, sample: int, stage: int) -> Iterator[int]:
        """`candidates`, drawn one by one."""
        return in_order(self.seed, sample, stage, self.stages[stage], self._weights)

    def first(self, sample: int, stage: int) -> int:
        """The first of the `candidates`."""
        return first(self.seed, sample, stage, self.stages[stage], self._weights)

    def route(self, sample: int, absent: Collection[int] = ()) -> tuple[int, ...]:
        """The first candidate of each stage that is not absent; ValueError if there is none."""
        return route(self.seed, sample, self.stages, absent, self._weights)

    def may_send(self, sample: int, kind: Kind, sender: int, stage: int) -> bool:
        """Whether a miner may hand a sample to one of `stage`.

        It must hold the stage beside. A sample begins at one miner of the first stage alone, the
        first of its candidates: another one could begin everybody's samples in their place, and
        their own would be refused.
        """
        source = self.source_of(stage, kind)
        if source is None or self.stage_of(sender) != source:
            return False
        return source > 0 or kind is not Kind.FORWARD or self.begins(sample, sender)

    def begins(self, sample: int, miner: int) -> bool:
        """Whether a sample begins at this miner."""
        return self.first(sample, 0) == miner

    def due(self, miner: int) -> list[int]:
        """The samples that a miner is the first to do, ascending."""
        stage = self.stage_of(miner)
        if stage is None:
            return []
        return [s for s in self.samples if self.first(s, stage) == miner]
