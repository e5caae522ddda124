# SPDX-License-Identifier: Apache-2.0
"""Ratings by hand, against OpenSkill itself, and under what was tried against Gauntlet."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openskill.models import PlackettLuce

from agents.gauntlet.peer_scores import peer_score
from agents.gauntlet.ratings import (
    FRESH,
    MICRO,
    Evaluation,
    Rating,
    indicator,
    ordinal,
    ranks,
    rate,
)
from agents.mechanisms.score.gauntlet import Gauntlet

RULE = Gauntlet()
ASSIGNED = Gauntlet(extra=0)  # what is shown on assigned batches is all that counts


def seen(node: int, assigned: float | None, random: float | None) -> Evaluation:
    return Evaluation(node, assigned, random)


def with_mu(mu: int, skill: int = 30 * MICRO, sigma: int = 2 * MICRO) -> Rating:
    return Rating(skill, sigma, mu)


def plackett_luce(states, places, beta, tau):
    """Weng and Lin's algorithm 4 for single players, in plain Python."""
    sigmas = [math.hypot(sigma, tau) for _, sigma in states]
    skills = [skill for skill, _ in states]
    c = math.sqrt(sum(s * s + beta * beta for s in sigmas))
    weight = [math.exp(skill / c) for skill in skills]
    count = range(len(states))
    result = []
    for i in count:
        omega = delta = 0.0
        for q in count:
            if places[q] > places[i]:
                continue
            tied = sum(places[s] == places[q] for s in count)
            chance = weight[i] / sum(weight[s] for s in count if places[s] >= places[q])
            omega += ((1.0 if q == i else 0.0) - chance) / tied
            delta += chance * (1 - chance) / tied
        gain = sigmas[i] ** 2 / c * omega
        shrink = sigmas[i] ** 2 / c**2 * delta * sigmas[i] / c
        result.append((skills[i] + gain, sigmas[i] * math.sqrt(max(1 - shrink, 1e-4))))
    return result


def test_two_fresh_players_by_hand():
    """sigma^2 = (25/3)^2 + 0.01, c^2 = 2 (sigma^2 + 49); each wins with 1/2.

    The winner gains sigma^2 / (2c); both lose a factor sqrt(1 - sigma^3 / (4 c^3)) of sigma.
    """
    after = rate({}, [seen(1, 0.2, 0.1), seen(2, 0.2, 0.05)], [], RULE)
    square = 8.333334**2 + 0.01
    c = math.sqrt(2 * (square + 49))
    gain = square / (2 * c)
    sigma = math.sqrt(square) * math.sqrt(1 - square**1.5 / (4 * c**3))
    assert after[1].skill == round((25 + gain) * MICRO) == 27_256_209
    assert after[2].skill == round((25 - gain) * MICRO) == 22_743_791
    assert after[1].sigma == after[2].sigma == math.ceil(sigma * MICRO) == 8_166_898
    assert after[1].mu == after[2].mu == 50_000


STATES = st.lists(
    st.tuples(st.floats(-60, 100), st.floats(0.5, 12), st.sampled_from([None, 0.0, 0.1, 0.1, 5.0])),
    min_size=2,
    max_size=7,
)


@settings(max_examples=80, deadline=None)
@given(STATES, st.floats(1, 30), st.floats(0.001, 1))
def test_a_match_is_openskill_s_and_the_paper_s(states, beta, tau):
    rule = Gauntlet(skill_beta=beta, skill_tau=tau)
    before = {
        node: Rating(round(skill * MICRO), round(sigma * MICRO), 0)
        for node, (skill, sigma, _) in enumerate(states)
    }
    evaluations = [seen(node, s, s) for node, (_, _, s) in enumerate(states)]
    after = rate(before, evaluations, [], rule)
    exact = [(r.skill / MICRO, r.sigma / MICRO) for r in before.values()]
    places = [
        sum((-1 if o is None else o) > (-1 if s is None else s) for _, _, o in states)
        for _, _, s in states
    ]
    model = PlackettLuce(beta=beta, tau=tau)
    teams = [[model.rating(mu=skill, sigma=sigma)] for skill, sigma in exact]
    theirs = [team[0] for team in model.rate(teams, ranks=list(map(float, places)))]
    ours = plackett_luce(exact, places, beta, tau)
    for node, rating in after.items():
        assert rating.skill == round(theirs[node].mu * MICRO)
        assert rating.sigma == math.ceil(theirs[node].sigma * MICRO)
        assert abs(rating.skill / MICRO - ours[node][0]) < 2e-6
        assert abs(rating.sigma / MICRO - ours[node][1]) < 2e-6


def test_mu_by_hand():
    """gamma 0.95: 0, 0.05, 0.0975, 0.142625; then a -1 and a 0."""
    ratings: dict[int, Rating] = {}
    found = []
    for assigned, random in [(2, 1), (2, 1), (2, 1), (1, 2), (1, 1)]:
        ratings = rate(ratings, [seen(7, assigned, random)], [], RULE)
        found.append(ratings[7].mu)
    assert found == [50_000, 97_500, 142_625, 85_493, 81_218]


def showing(shown: float, rounds: int = 1, node: int = 7) -> Evaluation:
    """A node that shows so much work, evaluated for the first time in so many rounds."""
    return Evaluation(node, 1.0, 1.0, round(shown * MICRO), rounds)


def test_an_evaluation_stands_for_the_rounds_since_the_one_before():
    """gamma 0.95: one round moves mu and value by 0.05, three by 0.142625."""
    ratings: dict[int, Rating] = {}
    for rounds in (1, 3):
        ratings = rate(ratings, [showing(1.0, rounds)], [], ASSIGNED)
    assert (
        ratings[7].mu
        == ratings[7].value
        == 950_000 * 50_000 // MICRO * 902_500 // MICRO + (142_625)
    )


def test_no_evaluation_replaces_more_than_half_of_a_rating_or_what_gamma_says():
    for rounds in (14, 1_000):
        assert rate({7: with_mu(600_000)}, [showing(1.0, rounds)], [], ASSIGNED)[7].mu == 800_000
    quick = Gauntlet(gamma=0.2, extra=0)
    for rounds in (1, 5):
        assert rate({7: with_mu(500_000)}, [showing(1.0, rounds)], [], quick)[7].mu == 900_000


@pytest.mark.parametrize(
    ("mu", "shown", "wait", "moved"),
    [
        (0.8, 0.4, 1, 1),  # all are evaluated in each round
        (0.8, 0.4, 3, 5),
        (0.8, 0.79, 3, 5),
        (0.8, 0.8, 3, 1),
        (0.8, 0.9, 3, 1),
        (0.8, -0.5, 3, 5),
        (0.0, -0.5, 3, 1),  # a newcomer may try again as soon as others
        (-0.2, -0.5, 3, 1),
    ],
)
def test_a_fall_stands_for_two_usual_waits_more(mu, shown, wait, moved):
    before = {7: Rating(25 * MICRO, MICRO, round(mu * MICRO), MICRO // 2)}
    after = rate(before, [showing(shown)], [], ASSIGNED, wait)[7]
    kept = 0.95**moved
    assert after.mu / MICRO == pytest.approx(kept * mu + (1 - kept) * shown, abs=1e-5)
    assert after.value / MICRO == pytest.approx(kept * 0.5 + (1 - kept), abs=1e-5)


def beside(shown: float, extra: float) -> Evaluation:
    """A node that shows so much on its assigned batches, and on its extra ones."""
    return Evaluation(7, 1.0, 1.0, round(shown * MICRO), extra=round(extra * MICRO))


def test_extra_batches_count_while_a_node_has_shown_more_than_half_as_much_there():
    """gamma 0.95, by hand: 0.05 of 0.6 - 0.3; 0.95 of that and 0.05 of 0.1 - 0.3; and so on."""
    ratings: dict[int, Rating] = {}
    averages, shown = [], []
    for own, extra in [(0.6, 0.6), (0.6, 0.1), (0.6, 0.1), (0.6, 0.4), (0.6, 0.9)]:
        ratings = rate(ratings, [beside(own, extra)], [], RULE)
        averages.append(ratings[7].extra)
        shown.append(indicator(beside(own, extra), ratings[7].extra, RULE))
    assert averages == [15_000, 4_250, -5_963, -665, 29_368]
    assert shown == [600_000, 350_000, 300_000, 300_000, 750_000]


def test_who_leads_there_by_chance_is_paid_for_its_assigned_batches_alone():
    before = {7: Rating(25 * MICRO, MICRO, 0, 0, extra=-200_000)}
    after = rate(before, [beside(0.5, 1.0)], [], RULE)[7]
    assert after.extra == -200_000 * 95 // 100 + 50_000 * 75 // 100
    assert after.mu == 50_000 * 25 // 100


def test_who_shows_nothing_assigned_must_show_something_there():
    for extra, counted in [(0.2, 0.1), (0.0, 0.0), (-0.2, 0.0)]:
        after = rate({}, [beside(0.0, extra)], [], RULE)[7]
        assert indicator(beside(0.0, extra), after.extra, RULE) == round(counted * MICRO)
    lagging = rate({}, [beside(-0.4, 0.2)], [], RULE)[7]
    assert indicator(beside(-0.4, 0.2), lagging.extra, RULE) == -100_000


def test_extra_batches_weigh_as_many_times_as_a_node_may_have_them():
    rule = Gauntlet(extra=3)
    after = rate({}, [beside(0.4, 0.8)], [], rule)[7]
    assert indicator(beside(0.4, 0.8), after.extra, rule) == 700_000


def test_a_payload_without_scores_says_nothing_of_extra_batches():
    before = {7: Rating(25 * MICRO, MICRO, 0, 0, extra=12_345)}
    lost = Evaluation(7, None, None, 0, extra=MICRO)
    assert rate(before, [lost], [], RULE)[7].extra == 12_345
    assert rate(before, [], [7], RULE)[7].extra == 12_345
    assert rate(before, [seen(7, 1.0, 0.5)], [], RULE)[7].extra == 12_345  # paid by rank


def test_the_sign_is_of_the_difference_and_zero_for_equals():
    for assigned, random, sign in [(2, 1, 1), (1, 2, -1), (1, 1, 0), (-1, -2, 1), (0, -0.0, 0)]:
        assert indicator(seen(1, assigned, random), 0, RULE) == MICRO * sign
    for unusable in (None, math.nan, math.inf, -math.inf):
        for unusable_one in (seen(1, unusable, 1.0), seen(1, 1.0, unusable)):
            assert indicator(unusable_one, 0, RULE) == -MICRO


def test_order_of_algorithm_1_penalty_before_indicator():
    """0.8 * 0.75 = 0.6, and an indicator of +1 earns nothing in a failed round; -1 still counts."""
    assert rate({1: with_mu(800_000)}, [], [1], RULE)[1].mu == 600_000
    assert rate({1: with_mu(800_000)}, [seen(1, 2, 1)], [1], RULE)[1].mu == 600_000
    assert rate({1: with_mu(800_000)}, [seen(1, 1, 2)], [1], RULE)[1].mu == 520_000
    assert rate({1: with_mu(800_000)}, [seen(1, None, None)], [], RULE)[1].mu == 520_000


def test_a_penalty_never_raises_a_negative_mu():
    """Production, issues 45 and 51: 0.75 times a negative score was a rise."""
    for mu in (-MICRO, -400_000, -1, 0):
        assert rate({1: with_mu(mu)}, [], [1], RULE)[1].mu == mu
        assert rate({1: with_mu(mu)}, [seen(1, None, None)], [1], RULE)[1].mu <= mu
        assert rate({1: with_mu(mu)}, [seen(1, 1, 1)], [1], RULE)[1].mu <= mu


def test_an_offline_node_with_a_high_score_decays():
    ratings = {1: with_mu(MICRO, 60 * MICRO), 2: with_mu(200_000)}
    worth = [peer_score(ratings[1])]
    for _ in range(6):
        ratings = rate(ratings, [], [1], RULE)
        worth.append(peer_score(ratings[1]))
    assert worth == sorted(worth, reverse=True)
    assert ratings[1].mu == math.floor(MICRO * 0.75**6) and ratings[2].mu == 200_000
    # Evaluated as missing as well, it loses skill too, and is worth nothing within a few rounds.
    again = {1: with_mu(MICRO, 60 * MICRO), 2: with_mu(200_000)}
    for _ in range(5):
        again = rate(again, [seen(1, None, None), seen(2, 2, 1)], [1], RULE)
    assert again[1].skill < 60 * MICRO and again[1].mu < 80_000 < again[2].mu


def test_a_spike_is_worth_no_more_than_a_win():
    """Production, issue 133: one loss spike harvested for a huge score."""
    others = [seen(2, 0.02, 0.01), seen(3, 0.015, 0.009)]
    spike = rate({}, [seen(1, 1e6, 1e5), *others], [], RULE)
    assert spike == rate({}, [seen(1, 0.03, 0.0101), *others], [], RULE)


def test_missing_and_ruined_share_the_last_rank():
    nan, inf = math.nan, math.inf
    scores = [(0.1, 0.1), (None, None), (1, -1e300), (nan, nan), (1.0, -inf), (inf, inf)]
    evaluations = [seen(node, *pair) for node, pair in enumerate(scores, start=1)]
    assert ranks(evaluations) == [0, 2, 1, 2, 2, 2]
    after = rate({}, evaluations, [], RULE)
    assert len({(after[n].skill, after[n].sigma, after[n].mu) for n in (2, 4, 5, 6)}) == 1
    assert after[2].skill < after[3].skill < after[1].skill
    assert after[2].mu == -50_000


def test_all_equal_scores_move_nobody_s_skill():
    after = rate({}, [seen(n, 0.1, 0.1) for n in range(4)], [], RULE)
    assert {(r.skill, r.mu) for r in after.values()} == {(FRESH.skill, 0)}
    assert all(r.sigma < FRESH.sigma for r in after.values())


def test_a_match_of_one_or_none_rates_nobody():
    ratings = {1: with_mu(100_000), 2: with_mu(0)}
    assert rate(ratings, [], [], RULE) == ratings
    alone = rate(ratings, [seen(1, 2, 1)], [], RULE)
    assert alone[2] == ratings[2]
    assert (alone[1].skill, alone[1].sigma) == (ratings[1].skill, ratings[1].sigma)
    assert alone[1].mu == 145_000


def test_a_fresh_node_is_worth_nothing():
    assert -1e-5 < ordinal(FRESH) <= 0
    assert peer_score(FRESH) == 0
    assert rate({}, [], [9], RULE) == {9: FRESH}


def test_two_evaluations_of_a_node_are_refused():
    with pytest.raises(ValueError, match="evaluated twice"):
        rate({}, [seen(1, 1, 1), seen(1, 2, 2)], [], RULE)


@pytest.mark.parametrize(
    "fields",
    [(25, 0, 0), (25, 1, MICRO + 1), (0.5, 1, 0), (True, 1, 0), (501 * MICRO, 1, 0), (0, -1, 0)],
)
def test_a_state_out_of_range_is_refused(fields):
    with pytest.raises(ValueError, match="A rating's"):
        Rating(*fields)


def test_the_extreme_states_can_still_play():
    high, low = Rating(500 * MICRO, 1, 0), Rating(-500 * MICRO, 500 * MICRO, 0)
    rule = Gauntlet(skill_beta=1, skill_tau=0)
    after = rate(
        {1: high, 2: low, 3: high}, [seen(1, 0, 0), seen(2, 1, 1), seen(3, 0, 0)], [], rule
    )
    assert all(-500 * MICRO <= r.skill <= 500 * MICRO for r in after.values())


SCORES = st.one_of(
    st.none(), st.sampled_from([0.0, -0.0, 0.1, -0.1, math.nan, math.inf]), st.floats(-2, 2)
)
RATINGS = st.builds(
    Rating,
    skill=st.integers(-80 * MICRO, 120 * MICRO),
    sigma=st.integers(MICRO // 2, 9 * MICRO),
    mu=st.integers(-MICRO, MICRO),
)
ROUNDS = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(RATINGS, min_size=n, max_size=n).map(lambda states: dict(enumerate(states))),
        st.lists(st.tuples(SCORES, SCORES), min_size=n, max_size=n).map(
            lambda pairs: [seen(node, *pair) for node, pair in enumerate(pairs)]
        ),
        st.sets(st.integers(0, n - 1)),
        st.permutations(range(n)),
    )
)


@settings(max_examples=80, deadline=None)
@given(ROUNDS)
def test_the_order_of_evaluations_does_not_matter(case):
    ratings, evaluations, failed, order = case
    turned = dict(reversed(ratings.items()))
    shuffled = [evaluations[k] for k in order]
    straight = rate(ratings, evaluations, failed, RULE)
    assert straight == rate(turned, shuffled, sorted(failed), RULE)


@settings(max_examples=80, deadline=None)
@given(ROUNDS, st.integers(0, 5))
def test_a_failure_never_raises_anything(case, pick):
    ratings, evaluations, failed, _ = case
    node = pick % len(ratings)
    plain = rate(ratings, evaluations, failed - {node}, RULE)[node]
    punished = rate(ratings, evaluations, failed | {node}, RULE)[node]
    assert punished.mu <= plain.mu and punished.mu <= ratings[node].mu
    assert peer_score(punished) <= peer_score(plain)
    evaluations[node] = seen(node, None, None)
    absent = rate(ratings, evaluations, failed, RULE)[node]
    assert absent.mu <= punished.mu and absent.skill <= plain.skill + 1
    assert peer_score(absent) <= peer_score(ratings[node]) + 1e-6 * 1e3


@settings(max_examples=80, deadline=None)
@given(ROUNDS, st.integers(0, 5), st.floats(0, 1))
def test_a_better_score_never_ranks_lower(case, pick, more):
    ratings, evaluations, failed, _ = case
    node = pick % len(ratings)
    plain = rate(ratings, evaluations, failed, RULE)[node]
    now = evaluations[node].scored
    evaluations[node] = seen(
        node, *((0.0, more) if now is None else (now[0] + more, now[1] + more))
    )
    better = rate(ratings, evaluations, failed, RULE)[node]

    def worth(scored):
        return -math.inf if scored is None else scored[1]

    others = [e for e in evaluations if e.node != node]
    assert ranks(evaluations)[node] <= sum(worth(e.scored) > worth(now) for e in others)
    # A first place that two share is worth less to openskill than a second place alone.
    if worth(evaluations[node].scored) not in [worth(e.scored) for e in others]:
        assert better.skill >= plain.skill - 1


@settings(max_examples=60, deadline=None)
@given(ROUNDS, st.sampled_from([0.25, 0.5, 2.0, 1024.0]))
def test_scaling_all_losses_changes_nothing(case, factor):
    """Powers of two, so that scaling is exact."""
    ratings, plain, failed, _ = case
    scaled = [
        seen(e.node, *(None if s is None else s * factor for s in (e.assigned, e.random)))
        for e in plain
    ]
    # A number so small that scaling loses it is no counterexample.
    if all(s is None or s == 0 or abs(s) > 1e-290 for e in plain for s in (e.assigned, e.random)):
        assert rate(ratings, plain, failed, RULE) == rate(ratings, scaled, failed, RULE)


@settings(max_examples=60, deadline=None)
@given(ROUNDS)
def test_a_replay_from_the_published_integers_gives_the_same_integers(case):
    ratings, evaluations, failed, _ = case
    published = {node: (r.skill, r.sigma, r.mu) for node, r in ratings.items()}
    again = {node: Rating(*numbers) for node, numbers in published.items()}
    assert rate(ratings, evaluations, failed, RULE) == rate(again, evaluations, failed, RULE)
