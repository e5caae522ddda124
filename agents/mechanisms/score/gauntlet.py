# SPDX-License-Identifier: Apache-2.0
"""The score `gauntlet`: what an update did to the loss, as several validators measured it.

Gauntlet (Lidin et al., "Incentivizing Permissionless Distributed Learning of LLMs", 2025). Nodes
train as they like. Each validator measures what a few nodes' updates do to the loss on data drawn
after the reveal (`loss_score`), rates the nodes by rank (`ratings`), and turns ratings into shares
(`peer_scores`); the contract takes the stake-weighted median of the validators' shares. That
consensus, not this object's `__call__`, decides what a scored round pays.

Templar's Gauntlet pays by rank (`pays: rank`). A job pays for the work that updates show, as long
as they are as good as the usual one; docs/scoring.md says why, with figures. A job that pays by
rank, or takes nothing out (`history: 0`), is refused (`agents.jobs.combinations.pay`).

This file holds the options all of that reads, and the two choices that everybody must make alike
before there are scores: whose updates are merged (`select`), and which norms are plausible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.mechanisms.merge.parts.options import number, whole
from agents.mechanisms.options import check_choice
from agents.mechanisms.rows import Payload, check
from agents.mechanisms.score import Evidence, Scores, register
from agents.mechanisms.score.shares import PPM

_NAME = "gauntlet"
MOST_HISTORY = 16  # merged updates


@register(_NAME)
@dataclass(frozen=True, kw_only=True)
class Gauntlet:
    """The scoring rule `gauntlet`. Paper = the paper's value; deployed = Templar's last run.

    Attributes:
        pays: "work": mu counts the tokens of a node's data that its update shows. "rank": the
            paper's formulas, with OpenSkill, a sign for mu and `power` 2.
        gamma: what mu and value keep of themselves per round, 0..0.999 (deployed 0.95, per
            evaluation). An evaluation counts for the rounds since the one before. Six decimals
            count.
        step_share: c of beta = c * alpha, the step whose effect on the loss is measured, 0.001..1
            (deployed 0.2).
        history: merged updates whose span is taken out of an update, 0..16 (paper 0).
        extra: how many times its assigned batches a node may have counted beside them, 0..7, and
            at most `eval_batches`: the first of its own stretch of unassigned batches
            (`trainer.extra_batches`).
        runs: runs of tokens that each sequence is cut into when work is looked for, 1..64.
        evaluated: nodes that each validator evaluates per round, 2..128 (paper 5).
        top: G, the most nodes merged per round, 1..128 (paper 15).
        power: exponent of the shares, 1..4 (paper 2). What is shown grows like the square root of
            the data, where noise in a gradient limits it. So by 2 the pay grows like the data. By
            less, little work is paid above its share, and equal nodes' pay spreads less
            (docs/scoring.md).
        sync_limit: largest SyncScore, in steps of size alpha, 0.001..1000 (paper 3).
        fast_penalty: factor on a positive mu for a failed fast check, 0..1 (paper 0.75). Six
            decimals count.
        norm_ratio: a norm is plausible up to this many times more or less than the median, 1..1000.
        overlap: overlap beyond the usual from which two payloads are looked at, 0.05..1
            (`agents.verify.overlap`).
        overlap_margin: least lean to another node's data that counts as evidence of a copy,
            0.001..0.5 (`agents.verify.provenance`).
        eval_batches: batches per loss that is measured, 1..64. So a node is assigned no more
            (`most_assigned`).
        samples: parameters per tensor in a sync sample, 1..64 (paper 2).
        skill_beta: spread of one performance in OpenSkill, 1..100 (deployed 7).
        skill_tau: what OpenSkill adds to a sigma per match, 0..10 (deployed 0.1).
    """

    pays: str = "work"
    gamma: float = 0.95
    step_share: float = 0.2
    history: int = 8
    extra: int = 1
    runs: int = 4
    evaluated: int = 8
    top: int = 15
    power: float = 2.0
    sync_limit: float = 3.0
    fast_penalty: float = 0.75
    norm_ratio: float = 4.0
    overlap: float = 0.4
    overlap_margin: float = 0.03
    eval_batches: int = 6
    samples: int = 2
    skill_beta: float = 7.0
    skill_tau: float = 0.1

    needs_gains: ClassVar[bool] = False
    needs_updates: ClassVar[int] = 0

    def __post_init__(self) -> None:
        """ValueError for an option of a wrong type or out of range."""
        check_choice(f"pays of {_NAME}", self.pays, ("work", "rank"))
        for name, low, high in (
            ("gamma", 0, 0.999),
            ("step_share", 0.001, 1),
            ("power", 1, 4),
            ("sync_limit", 0.001, 1000),
            ("fast_penalty", 0, 1),
            ("norm_ratio", 1, 1000),
            ("overlap", 0.05, 1),
            ("overlap_margin", 0.001, 0.5),
            ("skill_beta", 1, 100),
            ("skill_tau", 0, 10),
        ):
            number(_NAME, name, getattr(self, name), low, high)
        for name, least, most in (
            ("history", 0, MOST_HISTORY),
            ("extra", 0, 7),
            ("runs", 1, 64),
            ("evaluated", 2, 128),
            ("top", 1, 128),
            ("eval_batches", 1, 64),
            ("samples", 1, 64),
        ):
            whole(_NAME, name, getattr(self, name), least, most)
        if self.extra > self.eval_batches:
            raise ValueError(
                f"{_NAME} measures {self.eval_batches} batches of a kind (eval_batches), so extra "
                f"must be at most {self.eval_batches}, got {self.extra}"
            )

    @property
    def most_assigned(self) -> int:
        """Batches that a node is assigned at most: so many that all are measured, and all that may
        be counted beside them. On others nobody would see whether it worked (docs/gauntlet.md)."""
        return self.eval_batches // max(1, self.extra)

    @property
    def pays_work(self) -> bool:
        """Whether nodes are paid for the work they show, and not by rank as in the paper."""
        return self.pays == "work"

    def __call__(
        self,
        payloads: Sequence[Payload],
        batches: Sequence[int],
        evidence: Evidence | None = None,
    ) -> Scores:
        """Quality and contribution 1,000,000 for everyone: who may be paid, not how much.

        A round that is scored is paid by the validators' consensus; these equal contributions
        are what it pays only if it ends without one. Errors as `agents.mechanisms.score.Score`.
        """
        check(payloads)
        if len(batches) != len(payloads):
            raise ValueError(f"{len(batches)} batch counts do not match {len(payloads)} payloads.")
        if any(count < 0 for count in batches):
            raise ValueError("Batch counts must not be negative.")
        return Scores((PPM,) * len(payloads), (PPM,) * len(payloads))

    def select(self, nodes: Sequence[int], standing: Mapping[int, int]) -> tuple[int, ...]:
        """The nodes of `nodes` to merge, ascending.

        `standing`: shares by node id of the last scored round's consensus. If it is positive for
        any of `nodes`, those are taken, at most `top` of them: the larger share first, of equal
        shares the lower id. Otherwise (no round is scored yet, or nobody who scored is here) all.
        """
        rated = [node for node in set(nodes) if standing.get(node, 0) > 0]
        if not rated:
            return tuple(sorted(set(nodes)))
        return tuple(sorted(sorted(rated, key=lambda node: (-standing[node], node))[: self.top]))

    def plausible_norms(self, norms: Mapping[int, float]) -> set[int]:
        """The nodes whose norm is positive and within `norm_ratio` of the median, both ways.

        `norms`: L2 norms by node id. Norms of zero, NaN or infinity are implausible and don't enter
        the median. Of an even number's two middle values the smaller counts: with two nodes that
        disagree, too small an update does less harm than too large a one. Fewer than half of the
        nodes can't move the median outside the others' norms.
        """
        sound = {node: norm for node, norm in norms.items() if math.isfinite(norm) and norm > 0}
        if not sound:
            return set()
        middle = sorted(sound.values())[(len(sound) - 1) // 2]
        return {
            node
            for node, norm in sound.items()
            if norm <= middle * self.norm_ratio and middle <= norm * self.norm_ratio
        }
