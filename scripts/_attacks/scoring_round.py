# SPDX-License-Identifier: Apache-2.0
"""The market's job, paid by scores: its sponsor adopts ScoreConsensus before the first round.

All trainers come and reveal. The attacker's do no work, so honest verifiers give them nothing, and
divide all scores among the others. Verifiers commit to a vector, then reveal it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eth_utils import keccak

from agents.protocol import formulas
from agents.protocol.median import stake_median
from agents.protocol.numbers import SCALE
from scripts._attacks.embedded import CHAIN_ID
from scripts._attacks.market import Market, Player
from scripts._attacks.refusal import refused

RECORD = keccak(text="a verifier's record")

Scores = Mapping[Player, int]


class ScoringRound:
    """One round of the adopted job, from its opening on."""

    def __init__(
        self, market: Market, adopted: bool = False, absent: Sequence[Player] = ()
    ) -> None:
        """Adopt, unless that was done before, and train to the end of the reveals."""
        self.market, self.chain = market, market.chain
        terms = market.numbers.terms
        if not adopted:
            self.send(market.sponsor, "adopt", market.job, *terms.score_windows)
        self.trainers = [player for player in market.trainers if player not in absent]
        self.number = market.train(self.trainers)

    @property
    def place(self) -> tuple[int, int]:
        return self.market.job, self.number

    @property
    def truth(self) -> Scores:
        """What a trainer's work is worth to an honest verifier."""
        honest = self.market.honest
        return dict.fromkeys(honest, SCALE // len(honest))

    @property
    def lie(self) -> Scores:
        """All to one of the attacker's trainers."""
        return {self.market.evil[0]: SCALE}

    def send(self, sender: str, function: str, *args: Any) -> Any:
        """Call ScoreConsensus. Raises Refused."""
        return self.chain.send(sender, "ScoreConsensus", function, *args)

    def refused(self, reason: str, sender: str, function: str, *args: Any) -> None:
        """ScoreConsensus does not do this; see `refusal.refused`."""
        refused(self.chain, reason, sender, "ScoreConsensus", function, *args)

    # -- vectors -------------------------------------------------------------------------------

    def row(self, scores: Scores) -> list[int]:
        """Scores in the order of the snapshot; who isn't named has none."""
        by_node = {player.node: score for player, score in scores.items()}
        return [by_node.get(node, 0) for node in self.market.snapshot(self.number)[0]]

    def digest(self, verifier: Player, scores: Scores) -> bytes:
        """What the verifier commits to."""
        at = self.chain["ScoreConsensus"].address
        row, salt = self.row(scores), self.salt(verifier)
        place = (*self.place, verifier.node)
        return formulas.score_commitment(CHAIN_ID, at, place, verifier.operator, row, RECORD, salt)

    @staticmethod
    def salt(verifier: Player) -> bytes:
        return keccak(text=f"salt of {verifier.name}")

    def commit(self, verifier: Player, digest: bytes) -> None:
        """Commit to a vector by its digest. Raises Refused."""
        self.send(verifier.operator, "commit_scores", *self.place, verifier.node, digest)

    def opening(self, verifier: Player, scores: Scores) -> tuple[Any, ...]:
        """The arguments that open the verifier's commitment."""
        return *self.place, verifier.node, self.row(scores), RECORD, self.salt(verifier)

    def reveal(self, verifier: Player, scores: Scores) -> None:
        """Open the verifier's commitment. Raises Refused."""
        self.send(verifier.operator, "reveal_scores", *self.opening(verifier, scores))

    def score(self, given: Mapping[Player, Scores]) -> None:
        """These verifiers commit and reveal; the others' time passes."""
        for verifier, scores in given.items():
            self.commit(verifier, self.digest(verifier, scores))
        if len(given) < len(self.market.verifiers):
            self.wait_for_commits()
        for verifier, scores in given.items():
            self.reveal(verifier, scores)

    # -- its end -------------------------------------------------------------------------------

    @property
    def state(self) -> Any:
        """The scoring, as of now."""
        return self.chain.read("ScoreConsensus", "scoring", *self.place)

    def wait_for_commits(self) -> None:
        """Let the time to commit pass."""
        self._wait_out(int(self.state.commit_deadline))

    def wait_for_reveals(self) -> None:
        """Let the time to reveal pass."""
        self._wait_out(int(self.state.reveal_deadline))

    def _wait_out(self, deadline: int) -> None:
        self.chain.wait(max(1, deadline + 1 - self.chain.now))

    def consensus(self, given: Mapping[Player, Scores]) -> list[int]:
        """The medians of the vectors that were revealed, in the order of the snapshot; 0 for who
        did not come."""
        stakes = {p: self._weight(p) for p in self.market.verifiers}
        nodes, came = self.market.snapshot(self.number)[0], {p.node for p in self.trainers}
        rows, held = [self.row(scores) for scores in given.values()], [stakes[v] for v in given]
        medians = stake_median(rows, held, sum(stakes.values()), len(nodes))
        pairs = zip(nodes, medians, strict=True)
        return [median if node in came else 0 for node, median in pairs]

    def _weight(self, verifier: Player) -> int:
        place = (*self.place, verifier.node)
        return int(self.chain.read("TrainingResults", "verifier_weight", *place))

    def close(self, given: Mapping[Player, Scores]) -> None:
        """Anyone brings the consensus of what was revealed."""
        call = (*self.place, *self.market.snapshot(self.number), self.consensus(given))
        self.send(self.market.stranger_address, "close_scoring", *call)

    def not_the_consensus(self, scores: Sequence[int]) -> None:
        """Nobody can bring these instead."""
        call = (*self.place, *self.market.snapshot(self.number), list(scores))
        sender = self.market.stranger_address
        self.refused("scores: not the median", sender, "close_scoring", *call)

    def pay(self) -> None:
        """Propose all who came alike, attest by all verifiers, finalize."""
        market = self.market
        arrays = market.propose(self.number, dict.fromkeys(self.trainers, 1))
        market.attest(self.number, market.verifiers)
        market.finalize(self.number, arrays)

    def finish(self, given: Mapping[Player, Scores], false: Sequence[Player] = ()) -> None:
        """Score, close and pay; the committee overrules the `false` vectors among those given."""
        self.score(given)
        self.close(given)
        self.pay()
        self.overrule([verifier for verifier in false if verifier in given])

    def overrule(self, verifiers: Sequence[Player]) -> None:
        """The committee measures again what these have revealed, and finds that it is false: what
        they name as their records denies it, or nobody can have it."""
        if verifiers:
            nodes = [verifier.node for verifier in verifiers]
            self.market.decide("ScoreConsensus", "overrule_scores", *self.place, nodes)

    def dutiful(self) -> dict[Player, Scores]:
        """Every verifier's vector if all are honest."""
        return dict.fromkeys(self.market.verifiers, self.truth)


def scored(market: Market) -> None:
    """A round in which every verifier says what it has measured."""
    round_ = ScoringRound(market)
    round_.finish(round_.dutiful())
