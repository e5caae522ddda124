# SPDX-License-Identifier: Apache-2.0
"""Riders' pay by the real scores, and what is made of it on the contracts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from agents.protocol.numbers import ZOO
from agents.training.spec import SpecError
from scripts._attacks import riders
from scripts._attacks.market import Market, Numbers
from scripts._attacks.riders import (
    ATTACKS,
    SIGNS,
    Ride,
    fields_of,
    quality,
    riding,
    surely,
    uneven,
)
from scripts._attacks.strategies import noise, old_merges, resends, trains

NUMBERS = Numbers(nodes=4, share=0.25, rounds=3)


@pytest.fixture(scope="module")
def market() -> Market:
    return Market(NUMBERS)


def test_honest_work_scores_as_honest_work() -> None:
    """The control: a rider that trains like everybody is paid like everybody."""
    assert quality(NUMBERS, {}, Ride(trains(), 1.0)) == pytest.approx(1.0, abs=0.1)


def test_noise_scores_next_to_nothing() -> None:
    assert quality(NUMBERS, {}, Ride(noise)) < 0.1


@pytest.mark.parametrize("spec", [{}, SIGNS], ids=["scoring", "gauntlet"])
def test_each_seed_is_a_game_of_its_own(spec: dict[str, Any]) -> None:
    numbers, ride = replace(NUMBERS, rounds=2), Ride(trains(0.5), 0.5)
    by_seed = [riders._earned(numbers, spec, ride, seed) for seed in range(3)]
    assert len(set(by_seed)) == 3


def test_the_jobs_own_score_decides() -> None:
    """A past mean is worth nothing to `alignment`, and a lot to `shares`."""
    numbers = replace(NUMBERS, rounds=5)
    ride = Ride(resends(old_merges))
    assert quality(numbers, {"score": "alignment"}, ride) < 0.3
    assert quality(numbers, {"score": "shares"}, ride) > 0.5


def test_a_lie_where_work_is_redone_is_played_out_and_loses(market: Market) -> None:
    found = riding(Ride(resends(old_merges)), {"score": "shares"})(market)
    assert found.profit < 0 and not found.pays
    assert found.capital == NUMBERS.stake


def test_where_nothing_is_redone_the_same_payload_pays(market: Market) -> None:
    """With data that only its owner has, nobody can find it, and the measure sees the profit."""
    screened = {"score": "shares", "verify": "screening", "access": "local"}
    found = riding(Ride(resends(old_merges)), screened)(market)
    assert found.pays
    assert found.profit > Fraction(NUMBERS.terms.reward_per_round, 10)


def test_a_job_that_validators_score_is_ridden_at_its_own_terms() -> None:
    """So terms that the score does not take can't be played. A job of another score is ridden at
    ours."""
    ride = riding(Ride(noise), SIGNS)
    steep = {**SIGNS, "score_options": {**SIGNS["score_options"], "power": 5.0}}
    with pytest.raises(SpecError, match="power"):
        ride(Market(replace(NUMBERS, spec=steep)))
    assert ride(Market(replace(NUMBERS, spec={"score": "alignment"}))).note.startswith("scores 0.0")


def test_half_of_the_work_is_due_half_of_the_pay(market: Market) -> None:
    """Profit is what is paid beyond the share of the work."""
    batches = {"score": "batches", "verify": "screening", "access": "local"}
    found = riding(Ride(trains(0.5), 0.5), batches)(market)
    pot = NUMBERS.terms.reward_per_round * 85 // 100
    # Paid by assigned batches: a quarter of the pot, where 1/7 is due.
    assert found.profit == pytest.approx(Fraction(pot, 4) - Fraction(pot, 7), abs=1e-6 * ZOO)


def test_a_model_that_is_split_is_not_played(market: Market) -> None:
    found = riding(Ride(noise), {"mode": "pipeline"})(market)
    assert (found.profit, found.capital) == (0, 0) and "split" in found.note


def test_a_spec_keeps_its_mechanisms_and_gets_a_small_model() -> None:
    fields = fields_of({"codec": "sparse", "merge_options": {"f": 1}, "rounds": 9_000}, 4)
    assert fields["codec"] == "sparse" and fields["merge_options"] == {"f": 1}
    assert fields["rounds"] == 40 and fields["model"]["d_model"] == 16


def test_a_gauntlet_spec_that_leaves_options_out_is_not_given_ours() -> None:
    """The codec's own are another job, which is refused; so ours must not be played for it."""
    spec = {"score": "gauntlet", "codec": "demo", "merge": "demo_sign"}
    fields = fields_of(spec, 4)
    assert not {"codec_options", "score_options"} & set(fields)
    assert fields["optimizer"] == {"batch_size": 2, "seq_len": 64, "warmup_rounds": 0}
    assert fields["verify"] == "gauntlet"
    ours = fields_of(SIGNS, 4)
    assert all(ours[key] == SIGNS[key] for key in ("codec_options", "optimizer"))


def test_a_gauntlet_spec_is_played_with_its_own_steps_at_small_sizes() -> None:
    """A swarm's nodes keep no state from round to round, and few rounds are played."""
    steps = {"inner": "muon", "inner_options": {"momentum": 0.9}, "lr": 1e-3, "outer_lr": 0.5}
    sizes = {"batch_size": 64, "seq_len": 2_048, "warmup_rounds": 500, "inner_state": "kept"}
    fields = fields_of({"score": "gauntlet", "optimizer": {**steps, **sizes}}, 4)
    few = {"batch_size": 2, "seq_len": 64, "warmup_rounds": 2}
    assert fields["optimizer"] == {**steps, **few}
    wrong = fields_of({"score": "gauntlet", "optimizer": "muon"}, 4)
    assert wrong["optimizer"] == "muon", "whoever reads the spec refuses it"


@pytest.mark.parametrize(
    ("own", "played"), [(16, 16), (48, 48), (64, 64), (2_048, 64)], ids="{}".format
)
def test_a_gauntlet_spec_s_sequences_are_played_as_long_as_they_are_up_to_64_tokens(
    own: int, played: int
) -> None:
    fields = fields_of({**SIGNS, "optimizer": {**SIGNS["optimizer"], "seq_len": own}}, 4)
    assert fields["optimizer"]["seq_len"] == played
    assert fields["model"]["max_seq_len"] == max(32, played)


def test_what_a_gauntlet_job_pays_a_rider_follows_from_its_own_steps() -> None:
    numbers, ride = replace(NUMBERS, rounds=2), Ride(trains(0.5), 0.5)
    steps = {**SIGNS["optimizer"], "outer_lr": 4e-2}
    assert quality(numbers, SIGNS, ride) != quality(numbers, {**SIGNS, "optimizer": steps}, ride)


def paid(monkeypatch: pytest.MonkeyPatch, *by_seed: float) -> list[int]:
    """Have a rider earn so much of an honest node's pay by each seed; which seeds were played."""
    played: list[int] = []

    def earned(numbers: Numbers, spec: object, ride: Ride, seed: int) -> tuple[float, float]:
        played.append(seed)
        return by_seed[seed], 1.0

    monkeypatch.setattr(riders, "_earned", earned)
    return played


HALF = Ride(trains(0.5), 0.5)


@pytest.mark.parametrize(
    ("by_seed", "part", "seeds"),
    [
        ((0.4, 0.9, 0.9), 0.4, {0}),
        ((0.5, 0.9, 0.9), 0.5, {0}),
        ((0.6, 0.4, 0.5), 0.5, {0, 1, 2}),
        ((0.6, 0.8, 0.7), 0.7, {0, 1, 2}),
    ],
    ids=["less than due", "as due", "a lucky seed", "truly more"],
)
def test_where_one_seed_pays_beyond_the_work__three_decide(
    monkeypatch: pytest.MonkeyPatch, by_seed: tuple[float, ...], part: float, seeds: set[int]
) -> None:
    played = paid(monkeypatch, *by_seed)
    assert surely(NUMBERS, SIGNS, HALF) == pytest.approx(part, abs=1e-6)
    assert set(played) == seeds


@pytest.mark.parametrize(("part", "pays"), [(0.60, False), (0.62, True)])
def test_a_part_of_the_work_has_a_tenth_of_a_whole_nodes_pay_to_vary(
    monkeypatch: pytest.MonkeyPatch, part: float, pays: bool
) -> None:
    """By hand, as docs/attacks.md has it: three of nine with half of the work each are due 1.5 of
    7.5 parts. A tenth of an honest node's pay for each is 0.3 of 9 parts more: 0.2333 of all, which
    they have from 0.609 of an honest node's pay on. No cut changes that."""
    paid(monkeypatch, part, part, part)
    for cut in (0, 4_000):
        terms = replace(NUMBERS.terms, verifier_bps=cut)
        market = Market(Numbers(terms=terms, rounds=3))
        found = riding(HALF, SIGNS)(market)
        left = terms.reward_per_round * (9_500 - cut) // 10_000
        assert found.allowed == uneven(market) == Fraction(left, 30)
        assert found.pays == pays and found.note == f"scores {part:.2f} of an honest node"


def test_who_has_several_ways_takes_the_one_that_pays_best(
    monkeypatch: pytest.MonkeyPatch, market: Market
) -> None:
    earns = {0.25: 0.2, 0.3: 0.24, 0.35: 0.1}
    ways = [Ride(trains(part), 0.25) for part in earns]
    by_way = dict(zip(ways, earns.values(), strict=True))
    monkeypatch.setattr(riders, "_earned", lambda numbers, spec, ride, seed: (by_way[ride], 1.0))
    assert riding(ways[0], SIGNS, *ways[1:])(market).note.startswith("scores 0.24")


def test_the_same_ride_is_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, ride = replace(NUMBERS, rounds=1), Ride(noise)
    first = quality(numbers, {}, ride)
    monkeypatch.setattr(riders, "_played", lambda *_: pytest.fail("played again"))
    assert quality(numbers, {}, ride) == first
    with pytest.raises(pytest.fail.Exception):
        quality(replace(numbers, rounds=2), {}, ride)


def test_names_differ_within_a_family() -> None:
    assert len({(attack.family, attack.name) for attack in ATTACKS}) == len(ATTACKS)
