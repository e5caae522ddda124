# SPDX-License-Identifier: Apache-2.0
"""Attack 18: payloads that are published once the draw is known, or that a proposer leaves out.

Rule: whom verifiers draw follows from the result that stands, for all of them alike, and not from
the payloads that each of them has. All here is the project's own code on real payloads; the chain's
answers are plain data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from eth_utils import keccak

from agents.jobs.deterrence import lie
from agents.protocol.draw import CERTAIN
from agents.protocol.draw_chance import Exposure, exposures
from agents.protocol.numbers import ZOO, Phase
from agents.protocol.slashing import DEFAULTS, Row
from agents.rounds.reader import RoundReader
from agents.storage.cid import cid_from_digest
from agents.storage.embedded import EmbeddedStore
from agents.verify.judging import result_errors
from agents.verify.spot_checks import suspects_by_sign
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    SEED,
    ChainFacts,
    make_honest_round,
    proposal_of,
)

MUTE = 9  # has half of the batches
REWARD = 1_000 * ZOO


class Facts(ChainFacts):
    """A chain on which a result stands."""

    def draw_seed(self, job_id: int, round_id: int, round_: Any) -> bytes | None:
        return round_.draw_seed

    def in_round(self, question: str, job_id: int, round_id: int, nodes: Sequence[int]) -> set[int]:
        return set()

    def stakes_at(self, nodes: Sequence[int], block: int) -> dict[int, int]:
        return dict.fromkeys(nodes, 100 * ZOO)

    def pool_amount(self, job_id: int, round_id: int) -> tuple[int, int]:
        return REWARD, 0

    def penalties_at(self, block: int) -> Mapping[int, Row]:
        return DEFAULTS

    def retained_at(self, block: int) -> dict[tuple[int, int], int]:
        return {}

    def rounds_at_once(self, job_id: int, round_id: int, round_: Any) -> Counter[int]:
        return Counter(NODES)


class Round:
    """A round whose node MUTE publishes once it likes, to a store that all others share."""

    def __init__(self, folder: Path) -> None:
        self.tiny = made = make_honest_round(EmbeddedStore(folder / "own"), audit_sample=1)
        self.store = EmbeddedStore(folder / "shared")
        job, published = made.job, made.published
        shards = [shard.cid for shard in job.data.dataset.shards]
        for cid in (published.spec_cid, published.checkpoint_cid, job.spec.data, *shards):
            self.store.put_bytes(made.store.get(cid, 1 << 24))
        shared = replace(made, store=self.store)
        self.facts: Any = Facts(published)
        self.facts.revealed = {n: (made if n == MUTE else shared).reveal(n) for n in NODES}
        self.view: Any = self.facts.open(1, SEED)
        terms = self.view.job.terms
        terms.commit_s, terms.aggregator_bps = 60, 500
        self.propose()

    def propose(self) -> None:
        reader = self.reader()
        outcome = reader.outcome(self.view, reader.submissions(self.view))
        assert outcome is not None
        reader.publish(outcome)
        self.facts.proposed = proposal_of(outcome)
        self.view.round.result_hash = self.facts.proposed.result_hash
        self.view = SimpleNamespace(**{**vars(self.view), "phase": Phase.CHALLENGE})

    def publish_late(self) -> None:
        cid = cid_from_digest(self.facts.revealed[MUTE].content)
        self.store.put_bytes(self.tiny.store.get(cid, 1 << 20))

    def reader(self) -> RoundReader:
        """A process of its own."""
        return RoundReader(self.facts, self.store, DEVICE)

    def drawn(self, seed: bytes) -> tuple[set[int], Mapping[int, Exposure]]:
        """Whom a verifier that comes now looks at, and why, as `Verifier.verify` asks."""
        self.view.round.draw_seed = seed
        reader = self.reader()
        submissions = reader.counted(self.view, reader.submissions(self.view))
        outcome = reader.outcome(self.view, submissions)
        inputs = reader.inputs(self.view, submissions, outcome)
        assert inputs is not None
        return set(suspects_by_sign(inputs, self.store)), inputs.exposures


def test_publish_once_the_draw_is_known__draws_the_same_nodes(tmp_path: Path) -> None:
    """Eve's other node keeps its payload back. Each such payload was another draw of the sample, by
    which eve could choose once she knew it, and took from the chances of all others: with half of
    the batches, half of it. What verifiers lacked it drew others, and no two of them confirmed."""
    made = Round(tmp_path)
    seeds = [keccak(text=f"draw {number}") for number in range(8)]
    before = [made.drawn(seed) for seed in seeds]
    made.publish_late()
    assert not any(s.unavailable for s in made.reader().submissions(made.view)), "it is there"
    assert [made.drawn(seed) for seed in seeds] == before
    assert MUTE not in before[0][1], "it is not paid"
    assert result_errors(made.reader(), made.view, patient=False) == []


def test_chance_by_less_than_what_is_paid__a_lie_pays() -> None:
    """Nine equal nodes; eve's friend proposes without seven of them. By what a verifier that has
    all payloads would pay her she was drawn too seldom, and by what the result pays she is not."""
    nodes, loss = list(range(1, 10)), 9 * ZOO + 8 * 94 * ZOO
    losses = dict.fromkeys(nodes, loss)
    believed = exposures(REWARD, 500, nodes, [1] * 9, losses)[1]
    paid = exposures(REWARD, 500, [1, 2], [1, 1], losses)[1]
    for chance, pays in ((believed.chance, True), (paid.chance, False)):
        won = lie(Fraction(paid.pay), Fraction(chance, CERTAIN), Fraction(loss))
        print(f"a lie brings {float(won / ZOO):+.1f} ZOO")
        assert (won > 0) == pays
