# SPDX-License-Identifier: Apache-2.0
"""The consensus of several validators on what each node is worth, in the contract's integers.

Rule: a node's consensus is the largest value that validators with more than half of *all* stake, at
least two, gave it: the clipping of Yuma consensus (Opentensor, "Yuma Consensus", kappa = 1/2). A
validator without a vector gave zero to every node. So half of the stake, present or not, raises no
node, and validators with more than half that agree can't be overruled. A node that did not reveal
has no consensus: who calls this gives it zeros. What is computed here is what
ScoreConsensus.close_scoring checks. Agents, audit and scripts all use these functions; only the
stateful tests' model says the same a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.protocol.numbers import BPS, MIN_VOICES


def stake_median(
    vectors: Sequence[Sequence[int]], stakes: Sequence[int], total: int, nodes: int | None = None
) -> list[int]:
    """The stake-weighted median of each node's scores.

    Args:
        vectors: one row of scores for each validator that revealed.
        stakes: of those validators.
        total: stake of all validators, also of those without a row.
        nodes: length of the answer; may be left out when there is a row.

    Raises:
        ValueError: there is no stake, the rows hold more than all of it, or the shapes differ.
    """
    if total <= 0 or any(stake < 0 for stake in stakes) or sum(stakes) > total:
        raise ValueError("the validators' stakes must be part of a total above zero")
    if nodes is None:
        nodes = len(vectors[0]) if vectors else 0
    if len(vectors) != len(stakes) or any(len(row) != nodes for row in vectors):
        raise ValueError("every validator needs one stake and one score for each node")
    return [_median([row[place] for row in vectors], stakes, total) for place in range(nodes)]


def _median(scores: Sequence[int], stakes: Sequence[int], total: int) -> int:
    """The largest value that more than half of `total` reached, 0 if none is."""
    reached = 0
    ranked = sorted(zip(scores, stakes, strict=True), reverse=True)
    for voices, (score, stake) in enumerate(ranked, 1):
        reached += stake
        if 2 * reached > total and voices >= MIN_VOICES:
            return score
    return 0


def agreement(row: Sequence[int], consensus: Sequence[int]) -> int:
    """How much of a validator's vector is also in the consensus, in 1/10,000; 0 for an empty row.

    sum(min(w, c)) over the greater of sum(w) and sum(c). Over sum(w) alone (Yuma's trust of rows
    that sum to one) a validator that gives next to nothing to anybody would agree perfectly.
    """
    if len(row) != len(consensus):
        raise ValueError("a vector and the consensus must have the same nodes")
    given = sum(row)
    if given == 0:
        return 0
    agreed = sum(min(w, c) for w, c in zip(row, consensus, strict=True))
    return BPS * agreed // max(given, sum(consensus))


def next_trust(old: int | None, newest: int) -> int:
    """Trust after a scored round: its agreement at first (`old` None), then a decaying average."""
    return newest if old is None else (7 * old + 3 * newest) // 10


def cut_factor(trust: int, best: int) -> int:
    """What the cut of a validator that revealed counts, in 1/10,000; all when the best is zero.

    Cubed, because cuts are shared by it (`agents.protocol.formulas.shared_cuts`): who gives less
    than the others to a part of the nodes moves the medians in proportion. With a third of the cuts
    it keeps 3 t^3 / (2 + t^3) of its own where it agrees by t and the others fully, which is never
    more than t^2: it loses twice the proportion.
    """
    return BPS * trust**3 // best**3 if best else BPS
