# SPDX-License-Identifier: Apache-2.0
"""Ways of verifying a job's work: each file here is one, named as in the spec's `verify`.

This folder is the sponsor's choice, and only says what the choice means: what nodes commit to, what
others may find wrong, and what a round is paid by. Other packages do the verifying: `agents.verify`
does work again, `agents.gauntlet` measures losses. Both ask the job's choice here.

The rest of the code never compares the name of the choice. It asks one of the questions below. A
new way is one new file that decorates its class with `register("<file name>")` and answers them
all. It takes no options: a spec has none for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agents.mechanisms.registry import MechanismRegistry


@dataclass(frozen=True)
class Companions:
    """What a spec names beside its verification, as far as a verification may object to it.

    Attributes:
        access: who may read the training data.
        codec: its name.
        memory_rounds: after how many rounds the codec's memory starts empty again.
        has_memory: whether the codec keeps a memory at all.
        linear: whether it is a linear map (`agents.mechanisms.codec.LinearCodec`).
        names_numbers: whether a payload names the numbers that it sends (`SupportCodec`).
        privacy: its name.
        privacy_unit: "none", "node" or "example".
        privacy_place: who adds the noise: "none", "node" or "aggregate".
    """

    access: str
    codec: str
    memory_rounds: int
    has_memory: bool
    linear: bool
    names_numbers: bool
    privacy: str
    privacy_unit: str
    privacy_place: str


class Verification:
    """What a way of verifying answers. A subclass answers every question.

    Attributes:
        partner: a spec's field and the value of it that goes with this choice only, and without
            which this choice does not go. None if it goes with several.
        redone: whether others can do a node's work again and compare. Then verifiers draw nodes,
            a wrong payload is INVALID, and a node's codec memory is found again from public facts.
        copies_judged: whether payloads that are alike are asked whose data they come from, and a
            copy counts as a violation. Then nobody is drawn.
        shows_trace: whether nodes publish a hash of the state after each step. The job shows none
            all the same where its privacy adds noise.
        own_start: whether a node may start from other parameters than the round's model. Its
            commitment then binds, as trace root, the root over the parameters it started from.
        extra_batches: whether a node may train on batches that nobody was assigned beside its own.
        input_enforced: whether a payload is refused if its commitment does not bind the node's
            assignment. Where work is redone this is not needed: other input gives another payload.
        equal_shares: whether all nodes are assigned equally many batches, whatever their weights.
        validators_score: whether validators' scores pay for a round. The sponsor must then adopt
            ScoreConsensus for the job.
        asks_standing: whether a merge needs the scores of the newest round scored before it.
        scored_unmerged: whether payloads are still scored if the merge rule refuses to merge them.
        own_memory_rounds: how many finalized rounds back a node looks for its own copy of its codec
            memory. None: to where the memory last started empty.
    """

    partner: ClassVar[tuple[str, str] | None]
    redone: ClassVar[bool]
    copies_judged: ClassVar[bool]
    shows_trace: ClassVar[bool]
    own_start: ClassVar[bool]
    extra_batches: ClassVar[bool]
    input_enforced: ClassVar[bool]
    equal_shares: ClassVar[bool]
    validators_score: ClassVar[bool]
    asks_standing: ClassVar[bool]
    scored_unmerged: ClassVar[bool]
    own_memory_rounds: ClassVar[int | None]

    def objections(self, companions: Companions) -> list[str]:
        """What in the rest of a spec would keep this from working, as sentences for its author."""
        raise NotImplementedError


_registry = MechanismRegistry(__name__, "way of verifying")
register = _registry.register
get = _registry.get
names = _registry.names


def partners() -> list[tuple[str, str, str]]:
    """Field, value and name for every way of verifying that has a `partner`, sorted."""
    found = ((get(name).partner, name) for name in names())
    return sorted((*partner, name) for partner, name in found if partner is not None)


__all__ = ["Companions", "Verification", "get", "names", "partners", "register"]
