# SPDX-License-Identifier: Apache-2.0
"""A population of Figure 2's peers and worse, scored for many rounds by the pure functions alone.

LossScores are synthetic: per round a scale common to all (losses fall less and less, and some
rounds are bad for everybody), per node a mean by what it does, and noise. Work on the assigned data
shows as a lead of the assigned score over the random one. Means follow the paper's Figure 2 in
order, not in size. All validators evaluate the same draw of nodes, so one stands for their median;
the best are merged.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np
import pytest

from agents.gauntlet.peer_scores import normalise, peer_score, vector
from agents.gauntlet.ratings import FRESH, MICRO, Evaluation, Rating, ordinal, rate
from agents.mechanisms.score.gauntlet import Gauntlet


@dataclass(frozen=True)
class Peer:
    """What a node does, on average, in units of a baseline's LossScore.

    Attributes:
        gain: effect on random data.
        lead: by how much more it lowers the loss on its assigned data.
        extra: likewise on its own stretch of unassigned data.
        misses: share of rounds in which it sends nothing.
        fails: whether it fails a fast check (sync, norm).
    """

    gain: float
    lead: float
    extra: float = 0.0
    misses: float = 0.0
    fails: bool = False


HONEST = {n: Peer(1.0, 0.4) for n in range(1, 6)}
TWICE, DESYNCHRONISED, COPIER, DUPLICATE, INFLATER, NOISE, LATE, SPIKE, UNASSIGNED = range(6, 15)
POPULATION = HONEST | {
    TWICE: Peer(1.5, 0.4, 0.4),
    DESYNCHRONISED: Peer(0.45, 0.15, fails=True),
    COPIER: Peer(1.0, 0.0),  # someone else's work: as good on random data, nothing of its own
    DUPLICATE: Peer(1.0, 0.0),
    INFLATER: Peer(-3.0, 0.0, fails=True),
    NOISE: Peer(-0.5, 0.0),
    LATE: Peer(1.0, 0.4, misses=0.7),
    SPIKE: Peer(-0.2, 0.0),  # and once in a while a huge score
    UNASSIGNED: Peer(1.1, -0.1),  # honest work, but on other data than it was given
}
CHEATS = (DESYNCHRONISED, COPIER, DUPLICATE, INFLATER, NOISE, LATE, SPIKE, UNASSIGNED)


class Run:
    """Rounds of validators that measure alike."""

    def __init__(self, seed: int, population: dict[int, Peer], options: Gauntlet) -> None:
        self.random = np.random.default_rng(seed)
        self.population, self.options = population, options
        self.ratings: dict[int, Rating] = {}
        self.standing: dict[int, int] = {}
        self.merged: tuple[int, ...] = ()
        self.history: list[dict[int, int]] = []

    def play(self, rounds: int) -> None:
        for number in range(rounds):
            self._round(number)

    def _round(self, number: int) -> None:
        nodes = sorted(self.population)
        absent = {n for n in nodes if self.random.random() < self.population[n].misses}
        failed = absent | {n for n in nodes if self.population[n].fails}
        # A bad round: a step of this size raises the loss whatever the gradient.
        scale, shift = 0.02 / (1 + number / 20), -0.03 * (number % 11 == 10)
        usable = [n for n in nodes if n not in failed]
        self.merged = self.options.select(usable, self.standing)
        chosen = self.random.choice(nodes, self.options.evaluated, replace=False).tolist()
        seen = [self._evaluate(n, n in absent, scale, shift) for n in chosen]
        self.ratings = rate(self.ratings, seen, failed, self.options)
        scores = {n: peer_score(self.ratings.get(n, FRESH)) for n in nodes}
        scores |= dict.fromkeys(failed, 0.0)
        shares = vector(normalise(scores, self.options.power), nodes)
        self.standing = dict(zip(nodes, shares, strict=True))
        self.history.append(self.standing)

    def _evaluate(self, node: int, absent: bool, scale: float, shift: float) -> Evaluation:
        if absent:
            return Evaluation(node, None, None)
        peer = self.population[node]
        random = scale * (peer.gain + 0.25 * self.random.normal()) + shift
        lead = scale * (peer.lead + 0.25 * self.random.normal())
        if node == SPIKE and self.random.random() < 0.1:
            return Evaluation(node, 2e5, 1e5)
        return Evaluation(node, random + lead, random, self._shown(node))

    def _shown(self, node: int) -> int:
        """Of 16 runs of tokens of the assigned batches and as many extra ones, signs in a mean."""
        leads = [self.population[node].lead, self.population[node].extra]
        signs = [np.sign(lead + 0.5 * self.random.normal(size=16)).mean() for lead in leads]
        return round(MICRO * float(np.mean(signs)))

    def pay(self, node: int) -> int:
        """The sum of a node's shares over the run."""
        return sum(standing[node] for standing in self.history)


def played(seed: int, options: Gauntlet | None = None, rounds: int = 120) -> Run:
    run = Run(seed, POPULATION, options or Gauntlet(gamma=0.9, top=6))
    run.play(rounds)
    return run


@pytest.mark.parametrize("seed", range(5))
def test_twice_the_data_is_first_and_cheats_end_below_every_honest_peer(seed):
    run = played(seed)
    assert max(run.standing, key=run.standing.__getitem__) == TWICE
    assert run.pay(TWICE) > max(run.pay(n) for n in HONEST)
    worst = min(run.pay(n) for n in HONEST)
    assert {n: run.pay(n) for n in CHEATS if run.pay(n) >= worst} == {}
    # Of the merge, the six best: those who work, and nobody who harms.
    assert TWICE in run.merged
    assert not set(run.merged) & {DESYNCHRONISED, INFLATER, NOISE, SPIKE, LATE}


@pytest.mark.parametrize("seed", range(3))
def test_those_who_fail_or_harm_are_paid_next_to_nothing(seed):
    run = played(seed)
    total = sum(run.pay(n) for n in POPULATION)
    for cheat in (DESYNCHRONISED, INFLATER, NOISE, SPIKE):
        assert run.pay(cheat) < 0.01 * total, cheat


def test_failing_the_fast_checks_costs_everything_however_good_the_update():
    run = Run(0, POPULATION | {DESYNCHRONISED: Peer(1.5, 0.4, fails=True)}, Gauntlet(gamma=0.9))
    run.play(60)
    assert run.pay(DESYNCHRONISED) == 0 < run.pay(1)


def test_a_bad_first_submission_is_merged_once():
    """Before anybody is rated all plausible ones are merged; after one round only the rated are."""
    run = Run(0, POPULATION, Gauntlet(top=6))
    run.play(1)
    assert NOISE in run.merged
    run.play(30)
    assert NOISE not in run.merged and len(run.merged) <= 6


def test_without_mu_the_copier_would_be_paid_like_honest_peers():
    """mu is what tells a copier from an honest peer; the match alone can't."""
    run = played(1)
    last = run.ratings
    assert ordinal(last[COPIER]) > min(ordinal(last[n]) for n in HONEST) - 10
    assert run.pay(COPIER) < 0.5 * statistics.mean(run.pay(n) for n in HONEST)


def test_an_honest_peer_that_goes_offline_is_replaced_soon():
    run = played(2, rounds=60)
    before = run.standing[1]
    run.population = POPULATION | {1: Peer(1.0, 0.4, misses=1.0)}
    run.play(12)
    assert before > 0 and run.standing[1] < before / 50 and 1 not in run.merged


def test_one_who_registers_again_starts_from_nothing():
    run = played(3, rounds=60)
    run.population = {k: v for k, v in POPULATION.items() if k != NOISE} | {20: Peer(-0.5, 0.0)}
    run.play(1)
    assert run.standing[20] == 0 and run.standing[TWICE] > 0


def test_the_same_seed_gives_the_same_run():
    assert played(4, rounds=20).history == played(4, rounds=20).history
