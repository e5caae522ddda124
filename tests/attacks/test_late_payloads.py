# SPDX-License-Identifier: Apache-2.0
"""Attack 18: payloads that are published once the draw is known, or that a proposer leaves out.

Rule: whom verifiers draw follows from the result that stands, for all of them alike, and not from
the payloads that each of them has, also where the model is split. All here is the project's own
code on real payloads; the chain's answers are plain data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

from eth_utils import keccak

from agents.jobs.deterrence import lie
from agents.protocol.draw import CERTAIN
from agents.protocol.draw_chance import Exposure, exposures
from agents.protocol.numbers import ZOO, Phase
from agents.protocol.slashing import DEFAULTS, Row
from agents.protocol.structs import Reveal
from agents.rounds.reader import RoundReader
from agents.storage.cid import cid_from_digest
from agents.storage.embedded import EmbeddedStore
from agents.verify.judging import result_errors
from agents.verify.spot_checks import suspects_by_sign
from tests.attacks.pipeline.test_lying_losses import framing
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    SEED,
    ChainFacts,
    TinyJob,
    make_honest_round,
    proposal_of,
)
from tests.stage.memory.mined_round import WALLETS, WHERE, make_mined_round

MUTE = 9  # has half of the batches
MINERS = range(2, 11)  # three of each stage
REWARD = 1_000 * ZOO


class Facts(ChainFacts):
    """A chain on which a result stands."""

    deployment = SimpleNamespace(chain_id=WHERE["chainId"])

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
        return Counter(self.snapshots[round_id].nodes)

    def operators_at(self, nodes: Sequence[int], block: int) -> dict[int, str]:
        return {node: WALLETS[node].address for node in nodes}


class Rounds(dict[int, Any]):
    address = WHERE["verifyingContract"]


class Round:
    """A round whose node MUTE publishes once it likes, to a store that all others share."""

    def __init__(self, folder: Path) -> None:
        made = make_honest_round(EmbeddedStore(folder / "own"), audit_sample=1)
        copytree(made.store.root, folder / "shared")  # the job itself
        store = EmbeddedStore(folder / "shared")
        shared = replace(made, store=store)
        revealed = {n: (made if n == MUTE else shared).reveal(n) for n in NODES}
        self.begin(made, store, revealed, MUTE, NODES)

    def begin(
        self,
        made: TinyJob,
        store: EmbeddedStore,
        revealed: Mapping[int, Reveal],
        mute: int,
        nodes: Sequence[int],
    ) -> None:
        """Up to the result, as who has the shared store proposes it."""
        self.tiny, self.store, self.mute = made, store, mute
        self.facts: Any = Facts(made.published)
        self.facts.rounds = Rounds()
        self.facts.revealed = dict(revealed)
        self.view: Any = self.facts.open(1, SEED, nodes)
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
        cid = cid_from_digest(self.facts.revealed[self.mute].content)
        self.store.put_bytes(self.tiny.store.get(cid, 1 << 20))

    def reader(self) -> RoundReader:
        """A process of its own."""
        return RoundReader(self.facts, self.store, DEVICE)

    def drawn(self, seed: bytes) -> tuple[Mapping[int, list[str]], Mapping[int, Exposure]]:
        """Whom a verifier that comes now looks at, and why, as `Verifier.verify` asks; and what
        each stands to win and to lose."""
        self.view.round.draw_seed = seed
        reader = self.reader()
        submissions = reader.counted(self.view, reader.submissions(self.view))
        outcome = reader.outcome(self.view, submissions)
        inputs = reader.inputs(self.view, submissions, outcome)
        assert inputs is not None
        return suspects_by_sign(inputs, self.store), inputs.exposures


class SplitRound(Round):
    """The same of a model in stages. A liar of the last stage states losses that have the pay of a
    victim cut, once those of the mute one, its friend, are not there."""

    def __init__(self, folder: Path, audit_sample: int) -> None:
        spec: dict[str, Any] = {"batches_per_round": 45, "score": "clasp"}
        own = EmbeddedStore(folder / "own")
        made = make_mined_round(own, MINERS, audit_sample=audit_sample, **spec)
        assert made.plan.epoch is not None
        _, (_, self.victim, _), (self.liar, friend, _) = made.plan.epoch.stages
        copytree(own.root, folder / "shared")
        store = EmbeddedStore(folder / "shared")
        shared, lying = replace(made, store=store), framing(made, [self.liar], [self.victim])
        told = {
            m.reveal.node: m.proof.losses for m in lying if m.proof is not None and m.proof.losses
        }
        for node in MINERS:
            if node == self.liar:
                shared.submit(node, losses=told[node])
            elif node != friend:
                shared.submit(node)
        self.begin(made, store, {m.reveal.node: m.reveal for m in lying}, friend, MINERS)
        self.made = shared

    def publish_late(self) -> None:
        self.made.submit(self.mute)


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


def test_publish_late_in_a_pipeline__draws_the_same_miners(tmp_path: Path) -> None:
    """A miner's payload, log and entries that were kept back were another draw there as well."""
    made = SplitRound(tmp_path, audit_sample=2)
    seeds = [keccak(text=f"draw {number}") for number in range(8)]
    before = [made.drawn(seed) for seed in seeds]
    made.publish_late()
    assert not any(s.unavailable for s in made.reader().submissions(made.view)), "it is there"
    assert [made.drawn(seed) for seed in seeds] == before
    assert made.mute not in before[0][1], "it is not paid"
    assert result_errors(made.reader(), made.view, patient=False) == []


def test_losses_that_come_late__who_lied_about_a_victim_is_checked(tmp_path: Path) -> None:
    """The result cuts the victim's pay by the liar's losses. With those of its friend, which came
    later, nobody's pay would have been cut, so verifiers looked at nobody, and attested the cut."""
    made = SplitRound(tmp_path, audit_sample=0)
    report = made.reader().models.report(made.facts.proposed.report)
    (cut,) = (line for line in report.nodes if line.node == made.victim)
    assert cut.quality_ppm < 200_000
    made.publish_late()
    looked_at, _ = made.drawn(keccak(text="draw"))
    assert f"its losses speak against node {made.victim}" in looked_at[made.liar]
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
