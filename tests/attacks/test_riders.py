# SPDX-License-Identifier: Apache-2.0
"""Riders train nothing, know everything public and adapt to the rule that scores them.

Ten nodes train a small model for real, for 20 rounds from three seeds; one of them, or three, ride
instead. An adaptive rider knows all payloads of the rounds before. So it knows what each direction
of `SHORTLIST` would have earned in them, sends the best one, and keeps what it earns. The model
goes on by the honest merge of all ten.

What a score promises is asserted as such: no work, no pay, up to a tenth of an honest node's. Where
docs/scoring.md says that riding pays, the bound stated there is asserted, so that the page can't
grow old. Where work is redone a rider is a liar, whatever it scores: it loses money.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache

import pytest
import torch
from eth_utils import keccak
from torch import Tensor

from agents.mechanisms import merge as merges
from agents.mechanisms import score as scores
from agents.mechanisms.score import Evidence, Score
from agents.mechanisms.score.shares import PPM
from agents.protocol.draw import CERTAIN, draw, lots
from agents.protocol.draw_chance import Exposure, exposures, lasting_loss
from agents.protocol.numbers import ZOO
from agents.protocol.slashing import DEFAULTS
from agents.training.spec import ModelSpec
from tests.attacks.riding import BY_TENSOR, FITTED, HELPED, QUARTER, Field, Rests
from tests.measure.studies.lies import CUT, REWARD, SAMPLE
from tests.measure.studies.riders import Span, Whole
from tests.stage.memory.public_rounds import SETTINGS, PublicRound, Trajectory, trajectory
from tests.stage.memory.ten_trainers import NODES
from tests.stage.memory.tiny_specs import tiny_model

torch.set_num_threads(1)

SEEDS, RIDERS = (0, 1, 2), (1, 3)
ROUNDS, STEPS, BATCHES = 20, 4, 4
MODEL = ModelSpec.model_validate(tiny_model(16, 32, 64))
PLAIN = "decayed mean of merges"
SHORTLIST = (
    FITTED,
    BY_TENSOR,
    "its cube",
    "cube of the mean of payloads",
    "its signs",
    "signs of the mean of merges",
    "mean of the last payloads",
)
STAKE = 100 * ZOO
PLAYS = 100


@cache
def made(seed: int, noise: float = 0.0) -> Trajectory:
    """`noise`: added to each payload that is merged, as often as long as it is."""
    if noise:
        return under_noise(made(seed), seed, noise)
    return trajectory(SETTINGS[1], seed, ROUNDS, STEPS, MODEL, speeds=False)


def under_noise(plain: Trajectory, seed: int, noise: float) -> Trajectory:
    """The same models and updates. The merges are those of the noisy payloads."""
    drawn, merge, found = torch.Generator().manual_seed(seed), merges.get("multi_krum")(), []
    for one in plain.rounds:
        long = noise * one.sent.norm(dim=1, keepdim=True) / math.sqrt(one.sent.shape[1])
        sent = one.sent + long * torch.randn(one.sent.shape, generator=drawn)
        found.append(replace(one, sent=sent, merged=merge(_payloads(sent))["a"]))
    return replace(plain, rounds=tuple(found))


@cache
def riders_of(seed: int, history: int, noise: float = 0.0) -> Field:
    """Riders who know that a rule takes out so much."""
    rounds, rests = made(seed, noise).rounds, list[Rests]([Whole()])
    for number in range(1, ROUNDS):
        past = rounds[:number][::-1]
        rests.append(Span(past, rounds[number].model) if history else Whole())
    return Field(made(seed, noise), rests)


@dataclass
class Game:
    """The rounds of a job, paid by a score. `shares`: of each round's pay, by node; riders last."""

    seed: int
    score: Score
    riders: int
    noise: float = 0.0
    shares: list[list[Fraction]] = field(default_factory=list)

    @property
    def field(self) -> Field:
        return riders_of(self.seed, self.score.needs_updates, self.noise)

    @property
    def rounds(self) -> Sequence[PublicRound]:
        return made(self.seed, self.noise).rounds

    def paid(self, kind: str, number: int) -> list[Fraction]:
        """What each node gets of the round if the riders send that."""
        honest = self.rounds[number].sent[: NODES - self.riders]
        rows = honest
        if self.riders:
            rows = torch.cat([honest, self.field.sent(kind, number, self.riders)])
        found = self.score(_payloads(rows), [BATCHES] * NODES, self._evidence(number))
        total = sum(found.contributions) or 1  # where all score 0 nobody is paid
        return [Fraction(part, total) for part in found.contributions]

    def ride(self, kind: str) -> Game:
        """In each round alike."""
        self.shares = [self.paid(kind, number) for number in self.field.rounds]
        return self

    def adapt(self, more: Sequence[str] = ()) -> Game:
        """In each round what earned most in those before, from what everybody can read."""
        seen = dict.fromkeys((*SHORTLIST, *more), Fraction(0))
        for number in self.field.rounds:
            best = max(seen, key=lambda kind: seen[kind])
            by_kind = {kind: self.paid(kind, number) for kind in seen}
            self.shares.append(by_kind[best])
            seen = {kind: old + by_kind[kind][-1] for kind, old in seen.items()}
        return self

    def earned(self) -> list[float]:
        return [float(sum(column)) for column in zip(*self.shares, strict=True)]

    @property
    def pay(self) -> float:
        """A rider's, in parts of an honest node's."""
        earned, there = self.earned(), NODES - self.riders
        return statistics.mean(earned[there:]) / statistics.mean(earned[:there])

    @property
    def spread(self) -> float:
        """Of honest nodes' pay for equal work."""
        honest = self.earned()[: NODES - self.riders]
        return statistics.pstdev(honest) / statistics.mean(honest)

    def _evidence(self, number: int) -> Evidence:
        rounds, count = self.rounds, self.score.needs_updates
        known = [one.merged for one in rounds[:number][::-1][:count]]
        known = [*known, rounds[number].model] if count else []
        return Evidence({}, (0,) * NODES, (PPM,) * NODES, None, tuple(_payloads(known)))


def _payloads(rows: Sequence[Tensor] | Tensor) -> list[dict[str, Tensor]]:
    return [{"a": row} for row in rows]


ADAPTS, WORKS = "adapts", "adapts, with a quarter of the steps"


@cache
def game(name: str, seed: int, riders: int, kind: str, history: int | None = None) -> Game:
    """Played once. `kind`: of every round, or one of the two that adapt. `history`: the score's, if
    not by default."""
    options = {} if history is None else {"history": history}
    opened = Game(seed, scores.get(name)(**options), riders)
    if kind == ADAPTS:
        return opened.adapt()
    return opened.adapt((QUARTER, HELPED)) if kind == WORKS else opened.ride(kind)


def games(name: str, riders: int, kind: str, history: int | None = None) -> list[Game]:
    return [game(name, seed, riders, kind, history) for seed in SEEDS]


# -- Where nothing is redone ---------------------------------------------------------------------


@pytest.mark.parametrize("riders", RIDERS)
def test_alignment__who_resends_past_merges_earns_nothing(riders: int) -> None:
    assert max(one.pay for one in games("alignment", riders, PLAIN)) < 0.1


@pytest.mark.parametrize("riders", RIDERS)
def test_control__without_history_it_earns_what_work_earns(riders: int) -> None:
    assert min(one.pay for one in games("alignment", riders, PLAIN, history=0)) > 0.9


@pytest.mark.parametrize("riders", RIDERS)
@pytest.mark.parametrize(
    ("name", "kind", "least", "most"),
    [
        ("alignment", ADAPTS, 0.9, 1.3),
        ("alignment", QUARTER, 0.6, 1.0),
        ("alignment", WORKS, 0.9, 1.3),
        ("shares", PLAIN, 0.8, 1.2),
        ("shares", ADAPTS, 0.9, 1.4),
    ],
)
def test_documented__what_riding_still_pays(
    riders: int, name: str, kind: str, least: float, most: float
) -> None:
    """Whoever makes this unprofitable has the page to change, and gladly."""
    for one in games(name, riders, kind):
        assert least < one.pay < most


@pytest.mark.parametrize("riders", RIDERS)
@pytest.mark.parametrize(("chance", "least", "most"), [(0.0, 1.2, 2.0), (3.0, 1.5, 10.0)])
def test_documented__under_noise_like_dps_riding_pays_several_times_as_much(
    riders: int, chance: float, least: float, most: float
) -> None:
    """Noise three times as long as an update. The mean of past payloads has less of it than any
    honest one. `chance`, in 1 / sqrt(numbers), takes away more from the honest ones."""
    for seed in SEEDS:
        numbers = made(seed).rounds[0].sent.shape[1]
        score = scores.get("alignment")(chance=chance / math.sqrt(numbers))
        paid = Game(seed, score, riders, noise=3.0).ride(FITTED).pay
        print(f"seed {seed}, {riders} riding, chance {score.chance:.4f}: {paid:.2f}")
        assert least < paid < most


def test_documented__batches_pays_whatever_is_sent() -> None:
    assert [one.pay for one in games("batches", 3, PLAIN)] == [1.0] * len(SEEDS)


@pytest.mark.parametrize(("name", "most"), [("alignment", 0.15), ("shares", 0.1)])
def test_honest_nodes__are_paid_alike_for_equal_work(name: str, most: float) -> None:
    """Without riders, beside those who resend, and beside those who adapt."""
    assert max(one.spread for one in games(name, 0, PLAIN)) < most
    for riders in RIDERS:
        for kind in (PLAIN, ADAPTS):
            assert max(one.spread for one in games(name, riders, kind)) < most


# -- Where work is redone ------------------------------------------------------------------------


def exposed(one: Game) -> list[dict[int, Exposure]]:
    """What each node stands to win and to lose, by round; nodes count from 1."""
    nodes = range(1, NODES + 1)
    losses = dict.fromkeys(nodes, lasting_loss(STAKE, DEFAULTS))
    parts = [[int(part * PPM**2) for part in shares] for shares in one.shares]
    return [exposures(REWARD, CUT, nodes, row, losses) for row in parts]


def profit(one: Game, chances: bool) -> float:
    """Of a rider in ZOO a round: the mean of games that are played with the verifiers' draws.

    `chances`: whether nodes are drawn by what they may win and lose, beside the sample.
    """
    found = []
    for number, nodes in enumerate(exposed(one)):
        for play in range(PLAYS):
            seed = keccak(number.to_bytes(32, "big") + play.to_bytes(32, "big"))
            drawn = set(draw(seed, nodes, SAMPLE))
            if chances:
                drawn |= set(lots(seed, {NODES: nodes[NODES].chance}))
            found.append(-nodes[NODES].loss if NODES in drawn else nodes[NODES].pay)
    return statistics.mean(found) / ZOO


REDONE = [
    *(("alignment", kind) for kind in (PLAIN, ADAPTS)),
    *(("shares", kind) for kind in (PLAIN, ADAPTS)),
    *((name, PLAIN) for name in ("batches", "backward_passes", "clasp")),
]


@pytest.mark.parametrize("riders", RIDERS)
@pytest.mark.parametrize(("name", "kind"), REDONE)
def test_redone__a_rider_loses_money_in_each_round_and_over_all(
    riders: int, name: str, kind: str
) -> None:
    """So it gains nothing by choosing its rounds either."""
    for one in games(name, riders, kind):
        for nodes in exposed(one):
            lies = nodes[NODES]
            chance = Fraction(lies.chance, CERTAIN)
            assert (1 - chance) * lies.pay <= chance * lies.loss
        assert profit(one, chances=True) < 0


def test_control__two_drawn_of_ten_do_not_deter() -> None:
    assert min(profit(one, chances=False) for one in games("alignment", 1, ADAPTS)) > 0
