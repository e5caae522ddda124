# SPDX-License-Identifier: Apache-2.0
"""Proofs of computation and traces of one round, as one verifier found them.

Rule: they are looked for side by side, and each is looked for once in a round. A proof that could
not be had counts as missing, whatever comes later: missing is no violation, it has the node's work
done again. Else nodes that publish a payload and no proof would hold every verifier up, one search
after the other, at each of its steps, until the challenge window is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from agents.protocol.structs import Reveal
from agents.rounds.inputs import RoundInputs
from agents.rounds.proof import ProofOfComputation
from agents.rounds.searches import side_by_side
from agents.rounds.submissions import fetch_proof
from agents.storage.content_store import ContentStore
from agents.training.trace import Trace

# A proof and its trace, or a sentence that says why they can't be used.
Told = tuple[ProofOfComputation, Trace] | str


class Proofs:
    """Proofs and traces of the round that was asked about last, by reveal."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store
        self._round: tuple[int, int, bytes] | None = None
        self._told: dict[Reveal, Told] = {}

    def of(self, inputs: RoundInputs, nodes: Iterable[int]) -> dict[int, Told]:
        """By node what it told, of those of `nodes` that revealed something. Raises
        StoreUnavailable when the store itself is down; what was found until then is kept."""
        round_ = inputs.job_id, inputs.round_id, inputs.draw_seed
        if round_ != self._round:
            self._told, self._round = {}, round_
        wanted = {*nodes}
        reveals = [s.reveal for s in inputs.submissions if s.reveal.node in wanted]
        side_by_side(
            [
                partial(self._look, reveal, inputs.steps(reveal.node))
                for reveal in reveals
                if reveal not in self._told
            ],
            "proofs",
        )
        return {reveal.node: self._told[reveal] for reveal in reveals}

    def _look(self, reveal: Reveal, steps: int) -> None:
        self._told[reveal] = fetch_proof(reveal, steps, self._store)
