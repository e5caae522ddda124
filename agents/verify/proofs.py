# SPDX-License-Identifier: Apache-2.0
"""Proofs of computation and traces of one round, as one verifier found them.

Rule: they are looked for side by side, and each is looked for once in a round. A proof that could
not be had counts as missing, whatever comes later: missing is no violation, it has the node's work
done again. Else nodes that publish a payload and no proof would hold every verifier up, one search
after the other, at each of its steps, until the challenge window is over. For the same reason a
proof that is still coming after a while counts as missing too (`agents.runtime.slow_calls`): it and
its trace may take a store's longest search each, and come well all the same, sixteen at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from agents.protocol.structs import Reveal
from agents.rounds.inputs import RoundInputs
from agents.rounds.proof import ProofOfComputation
from agents.rounds.submissions import fetch_proof
from agents.runtime.slow_calls import SlowCalls
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreUnavailable
from agents.training.trace import Trace

_LONGEST_S = 60.0  # that a proof and its trace are waited for: an IPFS store's longest search
_COMING = "no usable proof of computation: it is still coming"

# A proof and its trace, or a sentence that says why they can't be used.
Told = tuple[ProofOfComputation, Trace] | str


class Proofs:
    """Proofs and traces of the round that was asked about last, by reveal.

    `longest_s`: that one of them is waited for.
    """

    def __init__(self, store: ContentStore, longest_s: float = _LONGEST_S) -> None:
        self._store = store
        self._round: tuple[int, int, bytes] | None = None
        self._told: dict[Reveal, Told] = {}
        self._coming = SlowCalls[Reveal, Told](longest_s, "proofs")

    def of(self, inputs: RoundInputs, nodes: Iterable[int]) -> dict[int, Told]:
        """By node what it told, of those of `nodes` that revealed something. Raises
        StoreUnavailable when the store itself is down; what was found until then is kept."""
        round_ = inputs.job_id, inputs.round_id, inputs.draw_seed
        if round_ != self._round:
            self._told, self._round = {}, round_
            self._coming.forget()
        wanted = {*nodes}
        reveals = [s.reveal for s in inputs.submissions if s.reveal.node in wanted]
        fresh = [reveal for reveal in reveals if reveal not in self._told]
        self._coming.run(
            {r: partial(fetch_proof, r, inputs.steps(r.node), self._store) for r in fresh}
        )
        down: StoreUnavailable | None = None
        for reveal in fresh:
            if not self._coming.ended(reveal):
                self._told[reveal] = _COMING
                continue
            try:
                self._told[reveal] = self._coming.take(reveal)
            except StoreUnavailable as error:
                down = error
        if down is not None:
            raise down
        return {reveal.node: self._told[reveal] for reveal in reveals}
