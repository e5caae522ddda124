# SPDX-License-Identifier: Apache-2.0
"""Attacks on scores: payloads that cost less work than they are paid for.

A swarm trains a small model under the job's codec, merge and score, so the scores are those of the
real functions on real gradients. Their mean is then paid out on the contracts. Where verifiers do
work again, a payload that isn't the node's work is found like any lie. Where nothing is redone, it
is never found, and the profit is what it earns beyond its share of the work: a node that does a
quarter of the work is due a quarter of what the others get. Under the gauntlet one seed may favour
it: where it is paid beyond its due in one, it is played in three, and the mean counts.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from agents.mechanisms import verify
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.numbers import BPS
from agents.storage.embedded import EmbeddedStore
from agents.training.threads import one_thread
from scripts._attacks.attack import Attack, Outcome, outcome
from scripts._attacks.deeds import round_of, without_evil
from scripts._attacks.gauntlet_swarm import GauntletSwarm
from scripts._attacks.market import Market, Numbers
from scripts._attacks.scored_swarm import ScoredSwarm
from scripts._attacks.spot_checks import drawn
from scripts._attacks.strategies import (
    cubed_merges,
    head_and_part,
    head_only,
    history,
    last_payloads,
    masked_history,
    noise,
    old_merges,
    pools,
    resends,
    rides,
    rides_by_tensor,
    skims,
    stops,
    trains,
    windows,
)
from scripts._attacks.swarm import Strategy, Swarm

_SMALL: dict[str, Any] = {
    "model": {
        "d_model": 16,
        "n_layers": 1,
        "n_heads": 2,
        "n_kv_heads": 1,
        "d_ff": 32,
        "max_seq_len": 32,
    },
    "optimizer": {"batch_size": 4, "seq_len": 32, "lr": 3e-3},
    "eval_batches": 2,
    "rounds": 40,
    "audit_sample": 0,
}
SIGNS: dict[str, Any] = {
    "codec": "demo",
    "codec_options": {"per_chunk": 512, "decay": 0.5},
    "merge": "demo_sign",
    "score": "gauntlet",
    "verify": "gauntlet",
    "score_options": {"evaluated": 16, "eval_batches": 4},
    "optimizer": {
        "batch_size": 2,
        "seq_len": 64,
        "inner": "gradient",
        "outer_lr": 4e-3,
        "outer_decay": True,
        "warmup_rounds": 2,
        "min_lr_ratio": 0.3,
    },
}
MOST_NODES = 9  # in a swarm; more would only take longer
SURE_SEEDS = 3  # that decide where one seed pays a rider beyond its due
_BATCHES = 4  # a node and round
_MEASURED = 8
"""Batches that a loss of the gauntlet is measured on, at least. Those of a small job have two
sequences, and from few chance says what a node has shown: with sequences of 16 tokens, who stops to
work after half of the rounds is paid 0.57 of an honest node's pay by four batches, and 0.49 by
eight."""
PARTS = 10**6  # of a contribution, for shares of pay
_NOISE = Fraction(1, 10)
"""Of an honest node's pay: what a score may give away beyond the share of the work. It is measured
in few rounds, in which equal work is not paid to the unit. Whoever does a part of the work has as
much of it: chance gives no less there."""
# What of a spec decides merge and score.
_KEPT = ("codec", "merge", "score")
# What of its optimizer is a small job's own: sizes, and a state that a swarm's nodes don't keep.
_OWN = ("batch_size", "seq_len", "inner_state", "inner_state_rounds")


@dataclass(frozen=True)
class Ride:
    """What a rider sends, and how much of an honest node's work it does for it. `until`: of all
    rounds, those before what it sends changes."""

    send: Callable[..., Strategy] | Strategy
    work: float = 0.0
    pooled: bool = False
    until: float = 0.0

    def strategy(self, riders: tuple[int, ...], rounds: int) -> Strategy:
        if self.until:
            return self.send(math.ceil(self.until * rounds))
        return self.send(*riders) if self.pooled else self.send


def fields_of(spec: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """A small job with the mechanisms of a spec; what it leaves out has the defaults of a spec. Its
    data is public: who may see it decides who can check the work, and no score. Where validators
    score, what updates show depends on the steps that make them, so they are the spec's as well."""
    kept = {key: value for key, value in spec.items() if key.partition("_options")[0] in _KEPT}
    by_scores = kept.get("score") == "gauntlet"
    small = {"verify": SIGNS["verify"], "optimizer": _steps(spec)} if by_scores else {}
    fields = {**_SMALL, **small, **kept, "batches_per_round": _BATCHES * nodes}
    return {**fields, "model": {**_SMALL["model"], "max_seq_len": _length(fields["optimizer"])}}


def _length(optimizer: Any) -> int:
    """Tokens that the small model reads: as many as a sequence has."""
    given = optimizer.get("seq_len", 0) if isinstance(optimizer, Mapping) else 0
    least: int = _SMALL["model"]["max_seq_len"]
    return max(least, given)


def _steps(spec: Mapping[str, Any]) -> Any:
    """The optimizer of a spec at the sizes of `SIGNS`, and warmed up as soon: few rounds are
    played. Shorter sequences are the spec's own: how long a run of tokens is decides how surely
    work shows on it."""
    given = spec.get("optimizer", {})
    if not isinstance(given, Mapping):
        return given  # whoever reads the spec says what is wrong
    few, warmup = SIGNS["optimizer"], given.get("warmup_rounds", 0)
    if isinstance(warmup, int):
        warmup = min(warmup, few["warmup_rounds"])
    length = given.get("seq_len", few["seq_len"])
    if isinstance(length, int):
        length = min(length, few["seq_len"])
    own = {key: value for key, value in given.items() if key not in _OWN}
    sizes = {"batch_size": few["batch_size"], "seq_len": length}
    return {**own, **sizes, "warmup_rounds": warmup}


def gauntlet_of(numbers: Numbers) -> Mapping[str, Any]:
    """The spec of a job that validators score: the market's, or `SIGNS` where it has another."""
    return numbers.spec if numbers.spec.get("score") == "gauntlet" else SIGNS


def quality(numbers: Numbers, spec: Mapping[str, Any], ride: Ride) -> Fraction:
    """A rider's pay in parts of an honest node's, over rounds and seeds."""
    earned = [_earned(numbers, spec, ride, seed) for seed in range(numbers.seeds)]
    rode, worked = (sum(pay) for pay in zip(*earned, strict=True))
    return Fraction(rode / worked).limit_denominator(PARTS) if worked else Fraction(0)


def surely(numbers: Numbers, spec: Mapping[str, Any], ride: Ride) -> Fraction:
    """The same; over three seeds where fewer pay the rider beyond its share of the work."""
    part = quality(numbers, spec, ride)
    if part <= Fraction(ride.work) or numbers.seeds >= SURE_SEEDS:
        return part
    return quality(replace(numbers, seeds=SURE_SEEDS), spec, ride)


# Rides that were played, by all that decides what they earn.
_known: dict[tuple[Any, ...], tuple[float, float]] = {}


def _earned(
    numbers: Numbers, spec: Mapping[str, Any], ride: Ride, seed: int
) -> tuple[float, float]:
    """What a rider and an honest node earn on average with one seed, in rounds' pots."""
    nodes = min(numbers.nodes, MOST_NODES)
    riders = tuple(range(1, max(1, round(numbers.share * nodes)) + 1))
    fields = _measured(fields_of(spec, nodes))
    key = (repr(fields), numbers.rounds, nodes, riders, ride, seed)
    if key not in _known:
        with one_thread():
            swarm = _played(
                numbers, fields, nodes, riders, ride.strategy(riders, numbers.rounds), seed
            )
        honest = [node for node in swarm.nodes if node not in riders]
        rode, worked = (
            sum(swarm.pay[node] for node in some) / len(some) for some in (riders, honest)
        )
        _known[key] = rode, worked
    return _known[key]


def _measured(fields: dict[str, Any]) -> dict[str, Any]:
    """The same with enough batches a loss, where losses decide the pay."""
    options = fields.get("score_options", {})
    if fields.get("score") != "gauntlet" or not isinstance(options, Mapping):
        return fields
    given = options.get("eval_batches", Gauntlet.eval_batches)
    if not isinstance(given, int):
        return fields  # whoever reads the spec says what is wrong
    return {**fields, "score_options": {**options, "eval_batches": max(given, _MEASURED)}}


def _played(
    numbers: Numbers,
    fields: dict[str, Any],
    nodes: int,
    riders: tuple[int, ...],
    send: Strategy,
    seed: int,
) -> Swarm:
    kind = GauntletSwarm if fields.get("score") == "gauntlet" else ScoredSwarm
    everyone = {n: send if n in riders else trains() for n in range(1, nodes + 1)}
    with tempfile.TemporaryDirectory() as folder:
        swarm = kind.open(EmbeddedStore(Path(folder) / "store"), everyone, seed, **fields)
        for _ in range(numbers.rounds):
            swarm.round()
    return swarm


def riding(
    ride: Ride, spec: Mapping[str, Any] | None = None, *others: Ride
) -> Callable[[Market], Outcome]:
    """Plays a ride in a market's job, or with `spec` if that job is not scored like it. `others`:
    more ways for as much work, of all of which the rider takes the one that pays best."""

    def play(market: Market) -> Outcome:
        own = market.numbers.spec
        fields = own if spec is None or own.get("score") == spec.get("score", "") else spec
        if fields.get("mode") == "pipeline":
            return Outcome.unplayed("the model is split")
        redone = verify.get(str(fields.get("verify", "reexecution"))).redone
        by_chance = fields.get("score") == "gauntlet"
        part_of = surely if by_chance else quality
        part = max(part_of(market.numbers, fields, way) for way in (ride, *others))
        capital = market.numbers.stake * len(market.evil)
        pay = dict.fromkeys(market.honest, PARTS) | {p: int(part * PARTS) for p in market.evil}
        pay = {player: amount for player, amount in pay.items() if amount}
        if not redone:
            # Due is the same share of the work in an honest node's pay.
            due = dict.fromkeys(market.honest, PARTS)
            due |= {p: int(ride.work * PARTS) for p in market.evil if ride.work}
            found = outcome(
                market, round_of(pay), round_of(due), market.evil, capital, note=_said(part)
            )
            return replace(found, allowed=uneven(market))
        if not part:
            return outcome(
                market, round_of(pay), without_evil, market.evil, capital, note="scored 0"
            )
        shares = {player.node: amount for player, amount in pay.items()}
        chance = drawn(market, market.evil[0], shares)
        caught = round_of(pay, tuple(market.evil))
        return outcome(
            market, round_of(pay), without_evil, market.evil, capital, caught, chance, _said(part)
        )

    return play


def _said(part: Fraction) -> str:
    return f"scores {float(part):.2f} of an honest node"


def uneven(market: Market) -> Fraction:
    """A tenth of an honest node's pay for each of the attacker's nodes, in 1e-18 ZOO."""
    terms = market.numbers.terms
    left = BPS - terms.verifier_bps - terms.aggregator_bps
    pay = Fraction(terms.reward_per_round * left, BPS * len(market.trainers))
    return _NOISE * pay * len(market.evil)


_QUARTERS = (
    Ride(trains(0.25), 0.25),
    Ride(rides(0.25), 0.25),
    Ride(rides_by_tensor(0.25), 0.25),
    Ride(masked_history(0.25), 0.25),
    Ride(skims(0.25), 0.25),
    Ride(windows(0.25), 0.25),
)
"""Ways of making the most of a quarter of the work."""

ATTACKS = (
    Attack("send random numbers", "scoring", riding(Ride(noise))),
    Attack("resend the mean of past merges", "scoring", riding(Ride(resends(old_merges)))),
    Attack("resend its cube, number by number", "scoring", riding(Ride(resends(cubed_merges)))),
    Attack("resend the mean of the last payloads", "scoring", riding(Ride(resends(last_payloads)))),
    Attack("do a quarter of the work", "scoring", riding(Ride(trains(0.25), 0.25))),
    Attack("send random numbers", "gauntlet", riding(Ride(noise), SIGNS)),
    Attack("resend the mean of past merges", "gauntlet", riding(Ride(history), SIGNS)),
    Attack("add past merges to its work", "gauntlet", riding(Ride(rides(), 1.0), SIGNS)),
    Attack(
        "add past merges to a quarter of the work",
        "gauntlet",
        riding(_QUARTERS[1], SIGNS),
    ),
    Attack("do a quarter of the work", "gauntlet", riding(_QUARTERS[0], SIGNS)),
    Attack(
        "adapt a quarter of the work",
        "gauntlet",
        riding(_QUARTERS[0], SIGNS, *_QUARTERS[1:]),
    ),
    Attack("do half of the work", "gauntlet", riding(Ride(trains(0.5), 0.5), SIGNS)),
    Attack(
        "stop to work after half of the rounds",
        "gauntlet",
        riding(Ride(stops, 0.5, until=0.5), SIGNS),
    ),
    Attack("train the output layer only", "gauntlet", riding(Ride(head_only, 0.5), SIGNS)),
    Attack(
        "train the output layer, and the rest on a quarter of the data",
        "gauntlet",
        riding(Ride(head_and_part(0.25), 0.625), SIGNS),
    ),
    Attack("send the mean of its own nodes", "gauntlet", riding(Ride(pools, 1.0, True), SIGNS)),
)
