# SPDX-License-Identifier: Apache-2.0
"""Who holds which stage: a pure function of the seed, the snapshot of miners and the stages' needs.

Every miner whose memory is enough for some stage gets one stage. The numbers of miners per stage
are as even as memory allows: no other seating has a smaller largest number, among those none has a
smaller second largest, and so on. The stages that a miner can hold are those of the least needs, so
the sets of two miners are nested. Where sets are nested it is enough to seat the least flexible
miners first, each at the least staffed stage that it can hold. A test compares this with all
seatings of small cases.

A miner that declares less memory than it has is seated among the smaller stages only. So it has
some choice of its stage wherever the needs differ. Stages of equal need leave it none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agents.pipeline.lots import word
from agents.training.spec import MAX_STAGES

MAX_MINERS = 65_536


class Unseated(ValueError):
    """A stage can be held by nobody; the message says which, and what it needs."""


@dataclass(frozen=True)
class Miner:
    """A miner of the snapshot. `memory`: bytes that it declares to be free."""

    id: int
    memory: int


def seat(seed: bytes, miners: Sequence[Miner], needs: Sequence[int]) -> dict[int, int]:
    """The stage of every miner that can hold one, by ascending id.

    Args:
        seed: 32 bytes, unknown while miners could still declare their memory.
        miners: in any order, each once.
        needs: bytes of memory that each stage needs, from the first stage to the last.

    Raises:
        Unseated: there are too few miners with enough memory to give each stage one.
        ValueError: no stage, a miner twice, a negative number, or too many of either.
    """
    _check(miners, needs)
    fitting = {miner.id: _fitting(miner.memory, needs) for miner in miners}
    order = sorted(
        (miner.id for miner in miners if fitting[miner.id]),
        key=lambda one: (len(fitting[one]), word(seed, "seat order", one), one),
    )
    staff = [0] * len(needs)
    seats: dict[int, int] = {}
    for one in order:
        fewest = min(staff[stage] for stage in fitting[one])
        least = [stage for stage in fitting[one] if staff[stage] == fewest]
        stage = least[word(seed, "seat", one) % len(least)]
        staff[stage] += 1
        seats[one] = stage
    _refuse_empty(staff, miners, needs)
    return dict(sorted(seats.items()))


def refill(
    seed: bytes,
    seats: Mapping[int, int],
    lost: Collection[int],
    miners: Sequence[Miner],
    needs: Sequence[int],
) -> dict[int, int]:
    """The seats after the miners of `lost` are gone, each stage again held by one at least.

    A stage that still has a miner is left alone. An empty stage gets a miner of the best-staffed
    stage; where none of its miners has the memory, a chain of moves passes through other stages.
    Stages of the greatest need are filled first, each by the shortest chain.

    Args:
        seed: 32 bytes.
        seats: as `seat` returned them.
        lost: miners that left. Ids without a seat are ignored.
        miners: the snapshot of `seats`.
        needs: as for `seat`.

    Raises:
        Unseated: the miners that are left can't hold all stages.
        ValueError: as for `seat`, or a miner of `seats` that is not in the snapshot or too small.
    """
    _check(miners, needs)
    memory = {miner.id: miner.memory for miner in miners}
    for one, stage in seats.items():
        if one not in memory or not 0 <= stage < len(needs) or memory[one] < needs[stage]:
            raise ValueError(f"Miner {one} can't hold stage {stage} by this snapshot.")
    gone = set(lost)
    now = {one: stage for one, stage in sorted(seats.items()) if one not in gone}
    left = [Miner(one, memory[one]) for one in now]
    empty = set(range(len(needs))) - set(now.values())
    for stage in sorted(empty, key=lambda s: (-needs[s], s)):
        chain = _chain(seed, stage, now, memory, needs)
        if chain is None:
            _refuse_empty(_staff(now, len(needs)), left, needs)
            raise Unseated(f"Stage {stage} can't be refilled.")  # pragma: no cover
        now.update(chain)
    return now


def _chain(
    seed: bytes,
    stage: int,
    seats: Mapping[int, int],
    memory: Mapping[int, int],
    needs: Sequence[int],
) -> dict[int, int] | None:
    """The fewest moves (miner -> its new stage) that fill `stage` and empty no other."""
    staff = _staff(seats, len(needs))
    moves: dict[int, dict[int, int]] = {stage: {}}  # what frees a miner of this stage to leave
    frontier = [stage]
    while frontier:
        found: dict[int, dict[int, int]] = {}
        for goal in frontier:
            able = [one for one, here in seats.items() if memory[one] >= needs[goal]]
            for one in sorted(able, key=lambda m: (word(seed, "refill", m, goal), m)):
                if seats[one] not in moves and seats[one] not in found:
                    found[seats[one]] = {**moves[goal], one: goal}
        rich = [here for here in found if staff[here] > 1]
        if rich:
            best = min(rich, key=lambda s: (-staff[s], word(seed, "refill stage", s), s))
            return found[best]
        moves.update(found)
        frontier = sorted(found)
    return None


def _fitting(memory: int, needs: Sequence[int]) -> list[int]:
    return [stage for stage, need in enumerate(needs) if need <= memory]


def _staff(seats: Mapping[int, int], stages: int) -> list[int]:
    staff = [0] * stages
    for stage in seats.values():
        staff[stage] += 1
    return staff


def _check(miners: Sequence[Miner], needs: Sequence[int]) -> None:
    if not 1 <= len(needs) <= MAX_STAGES:
        raise ValueError(f"A model has 1 to {MAX_STAGES} stages, not {len(needs)}.")
    if len(miners) > MAX_MINERS:
        raise ValueError(f"At most {MAX_MINERS} miners are seated, not {len(miners)}.")
    if len({miner.id for miner in miners}) != len(miners):
        raise ValueError("A miner of the snapshot is given twice.")
    if any(number < 0 for number in (*needs, *(miner.memory for miner in miners))):
        raise ValueError("Memory and needs are counted in bytes and can't be negative.")


def _refuse_empty(staff: Sequence[int], miners: Sequence[Miner], needs: Sequence[int]) -> None:
    for stage in sorted(range(len(needs)), key=lambda s: -needs[s]):
        if staff[stage]:
            continue
        able = sum(miner.memory >= needs[stage] for miner in miners)
        if not able:
            raise Unseated(
                f"No miner can hold stage {stage}: it needs {needs[stage]} bytes of free memory "
                f"and the most that one declares is {max((m.memory for m in miners), default=0)}."
            )
        others = sum(need >= needs[stage] for need in needs)
        raise Unseated(
            f"Too few miners can hold stage {stage}: {able} have the {needs[stage]} bytes of free "
            f"memory that it needs, for {others} stages that need as much or more."
        )
