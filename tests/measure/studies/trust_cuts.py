# SPDX-License-Identifier: Apache-2.0
"""What honest validators keep of their cuts, and what a liar wins by what nobody can deny.

Nine equal trainers and three validators play ten rounds under the job of the gauntlet's attacks. A
validator's cut follows from its trust, and trust from how far its vector agrees with the consensus.
Printed by how many nodes each evaluates, and by how often one of them lacks a payload: the part of
their cuts that they keep, and its standard deviation between them, under the rule that the
contracts apply (cuts are shared by the cube of trust) and under two others. All draw by the audit
seed, so they differ only where one of them lacks a payload: never, or one in so many rounds.

Then one of the three lies. Three trainers are its friends; of others it says that their payloads
came too late, which no record disproves. It knows the honest vectors. Printed is the most that it
and its friends win, in parts of a round's pay, over how many it denies, at two verifiers' cuts.

    python -m tests.measure.studies.trust_cuts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, pstdev

import torch
from rich.console import Console

from agents.protocol.median import agreement, next_trust, stake_median
from scripts._attacks.denying import Round, denying, measured
from scripts._attacks.market import Numbers
from scripts._attacks.riders import SIGNS
from tests.measure.rows import text_table

TRAINERS, VALIDATORS, ROUNDS, SEEDS = 9, 3, 10, 3
CASES = ((8, 0), (4, 0), (8, 8), (8, 4), (8, 1))  # evaluated; rounds to a missed payload, 0: none
CUTS = (0.10, 0.42)  # verifiers', of a round's pay
_PROPOSER = 0.05
_FRIENDS = ((0, 1, 2), (3, 4, 5), (6, 7, 8))

Rule = Callable[[Sequence[int]], list[float]]  # from trusts, the part of its cut that each has


def _over_the_best(power: int) -> Rule:
    return lambda trusts: [(trust / max(trusts)) ** power for trust in trusts]


def _shared(trusts: Sequence[int]) -> list[float]:
    cubes = [trust**3 for trust in trusts]
    return [len(trusts) * cube / sum(cubes) for cube in cubes]


RULES: Mapping[str, Rule] = {
    "trust over the best": _over_the_best(1),
    "its square": _over_the_best(2),
    "shared by its cube": _shared,
}


def settled(rounds: Sequence[Round], rule: Rule) -> list[tuple[list[float], list[float]]]:
    """By round: the part of its cut that each validator has, and each trainer's share."""
    trusts: list[int | None] = [None] * VALIDATORS
    kept, shares = [1.0] * VALIDATORS, [1 / TRAINERS] * TRAINERS
    found = []
    for rows in rounds:
        consensus = stake_median(rows, [1] * VALIDATORS, VALIDATORS)
        if any(consensus):
            moved = [
                next_trust(old, agreement(row, consensus))
                for old, row in zip(trusts, rows, strict=True)
            ]
            trusts = [*moved]
            kept = rule(moved)
            shares = [score / sum(consensus) for score in consensus]
        found.append((kept, shares))
    return found


def earned(
    rounds: Sequence[Round], rule: Rule, liar: int, friends: Sequence[int], cut: float
) -> float:
    """Of a validator and its friends, as a part of a round's pay. What verifiers don't get is the
    trainers'."""
    each = cut / VALIDATORS
    return fmean(
        each * kept[liar]
        + (1 - _PROPOSER - each * sum(kept)) * sum(shares[node] for node in friends)
        for kept, shares in settled(rounds, rule)
    )


def most_won(seeds: Sequence[Sequence[Round]], rule: Rule, cut: float) -> float:
    """By denying, over how many are denied; the mean of seeds, liars and friends."""

    def won(count: int) -> float:
        return fmean(
            earned([lied(rows, liar, friends, count) for rows in rounds], rule, *place)
            - earned(rounds, rule, *place)
            for rounds in seeds
            for liar in range(VALIDATORS)
            for friends in _FRIENDS
            for place in [(liar, friends, cut)]
        )

    return max(won(count) for count in range(1, TRAINERS - len(_FRIENDS[0]) + 1))


def lied(rows: Round, liar: int, friends: Sequence[int], count: int) -> Round:
    """The round if the liar denies so many."""
    honest = [row for index, row in enumerate(rows) if index != liar]
    first = denying([rows[liar], *honest], friends, count)
    return [first if index == liar else row for index, row in enumerate(rows)]


def rows_of(evaluated: int, every: int) -> list[tuple[str, ...]]:
    """The table's rows, one for each rule."""
    spec = {**SIGNS, "score_options": {**SIGNS["score_options"], "evaluated": evaluated}}
    seeds = measured(Numbers(spec=spec, rounds=ROUNDS, seeds=SEEDS), TRAINERS, every)
    found = []
    for name, rule in RULES.items():
        by_validator = [
            fmean(kept[index] for kept, _ in settled(rounds, rule))
            for rounds in seeds
            for index in range(VALIDATORS)
        ]
        won = [f"{most_won(seeds, rule, cut):+.1%}" for cut in CUTS]
        mean = fmean(by_validator)
        found.append(
            (
                str(evaluated),
                str(every or "-"),
                name,
                f"{mean:.0%}",
                f"{pstdev(by_validator):.0%}",
                *won,
            )
        )
    return found


def main() -> None:
    torch.set_num_threads(1)
    rows = [row for case in CASES for row in rows_of(*case)]
    headings = (
        "evaluated",
        "one missed in",
        "cut by",
        "kept",
        "spread",
        *(f"won at {cut:.0%}" for cut in CUTS),
    )
    title = "Cuts that three honest validators keep, and what a liar wins"
    Console(width=120).print(text_table(title, headings, rows, left=2))


if __name__ == "__main__":
    main()
