# SPDX-License-Identifier: Apache-2.0
"""Poisoned updates: 7 honest nodes outvote 3 malicious ones, who are paid next to nothing.

Honest updates are real (`ten_trainers.py`), attacks are the literature's (`poisoning.py`), rules,
codecs and scores are what a job would use. ZIP-400's test asks for a cosine of at least 0.9 between
the merged update and the honest mean. Whether any rule can promise that depends on how much honest
updates differ from each other: where nodes hold the same kind of text it is promised and reached;
where they hold disjoint text, no rule can promise it, and the exceptions are listed with the bound
that holds.
"""

import math

import pytest
import torch

from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merge_rules
from agents.rounds.payload import read_payload
from agents.training.state import PayloadError
from scripts._demo.cheats import poisoner
from tests.attacks.poisoning import ATTACKS, alie_z, cosine, ipm, mean, mimic, not_finite, vector
from tests.measure.studies.robustness import (
    HONEST,
    LABEL_FLIP,
    NAMES,
    RULES,
    converge,
    guaranteed_cosine,
    merged_cosine,
    qualities,
    rows,
)
from tests.stage.memory.ten_trainers import honest_updates

torch.set_num_threads(1)
GOAL = 0.9

# Where honest updates differ so much (median cosine of two: 0.45) that the goal is missed, and what
# is reached all the same. Identical rows are at distance 0 from each other, so Multi-Krum always
# takes them: those of mimic, ALIE, a weak IPM, and zeros. A coordinate-wise rule loses by as much
# as a coordinate's honest values lie apart, whatever the attacker sends beyond them. The geometric
# median and the clipped centre move towards a cluster of three that lies where honest nodes lie.
APART = {
    ("multi_krum", "alie_far"): 0.65,
    ("multi_krum", "ipm_weak"): 0.75,
    ("multi_krum", "mimic"): 0.6,
    ("multi_krum", "zero"): 0.75,
    ("trimmed_mean", "alie_far"): 0.75,
    ("trimmed_mean", "blow_up"): 0.8,
    ("trimmed_mean", "ipm_strong"): 0.7,
    ("trimmed_mean", "mimic"): 0.8,
    ("trimmed_mean", "sign_flip"): 0.85,
    ("trimmed_mean", LABEL_FLIP): 0.8,
    ("median", "alie_far"): 0.75,
    ("median", "blow_up"): 0.8,
    ("median", "ipm_strong"): 0.7,
    ("median", "ipm_weak"): 0.85,
    ("median", "mimic"): 0.8,
    ("median", "sign_flip"): 0.85,
    ("median", LABEL_FLIP): 0.8,
    ("geometric_median", "alie_far"): 0.8,
    ("geometric_median", "mimic"): 0.7,
    ("geometric_median", LABEL_FLIP): 0.8,
    ("centred_clipping", "alie_far"): 0.8,
    ("centred_clipping", LABEL_FLIP): 0.8,
}

# Attacks that a score on direction can't tell from honest work: they are honest directions. All
# three nodes send the same, so they share what one would get.
LIKE_HONEST = {"alie", "alie_far", "mimic"}


# -- The attacks are what they claim to be -------------------------------------------------------


def test_label_flip_really_trains_on_other_text():
    honest, flipped = rows("zero", True)[0], rows(LABEL_FLIP, True)[HONEST]
    assert 0.5 < float(vector(flipped).norm() / vector(honest).norm()) < 2
    assert abs(cosine(flipped, honest)) < 0.2


def test_alie_has_the_papers_strength():
    # Baruch et al.'s own example: 50 nodes, 24 of them malicious: s = 2 and z = 1.43.
    assert alie_z(50, 24) == pytest.approx(1.4, abs=0.05)
    assert alie_z(10, 3) == pytest.approx(0.18, abs=0.01)
    with pytest.raises(ValueError, match="no z"):
        alie_z(10, 6)


def test_mimic_copies_the_one_that_sticks_out():
    common = {"a": torch.ones(8)}
    outlier = {"a": torch.tensor([9.0, -7, 1, 1, 1, 1, 1, 1])}
    honest = [common, {"a": torch.ones(8) * 1.01}, outlier, {"a": torch.ones(8) * 0.99}]
    assert all(torch.equal(row["a"], outlier["a"]) for row in mimic(honest, honest[:2]))


def test_ipm_reverses_a_mean_from_its_bound_on():
    honest = list(honest_updates(True).updates[:HONEST])
    centre = mean(honest)
    for epsilon, sign in ((2.2, 1), (2.5, -1)):  # (n - f) / f = 2.33
        merged = mean([*honest, *ipm(honest, honest[:3], epsilon)])
        assert cosine(merged, centre) == pytest.approx(sign, abs=1e-3)


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_leave_their_inputs_alone_and_send_valid_updates(attack):
    updates = honest_updates(True).updates
    before = [vector(update) for update in updates]
    for update in rows(attack, True)[HONEST:]:
        assert {n: t.shape for n, t in update.items()} == {
            n: t.shape for n, t in updates[0].items()
        }
        assert all(t.dtype == torch.float32 and t.isfinite().all() for t in update.values())
    assert all(torch.equal(vector(u), old) for u, old in zip(updates, before, strict=True))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_never_reach_a_merge(value):
    update = honest_updates(True).updates[0]
    shapes = {name: tuple(tensor.shape) for name, tensor in update.items()}
    codec = codecs.get("dense")()
    good = codec.encode(update, None, bytes(32))
    assert cosine(read_payload(good, codec, shapes, bytes(32)), update) > 0.999
    data = codec.encode(not_finite(update, value), None, bytes(32))
    with pytest.raises(PayloadError, match="not finite"):
        read_payload(data, codec, shapes, bytes(32))


@pytest.mark.parametrize(
    ("attack", "direction", "length"),
    [("sign_flip", -1, 1), ("blow_up", -1, 1000), ("noise", 0, 1), ("alie", 0.89, 1.12)],
)
def test_the_demos_poisoner_sends_what_it_says(attack, direction, length):
    updates = honest_updates(True).updates
    honest, own = updates[:HONEST], updates[HONEST:]
    sent = [poisoner.ATTACKS[attack](update) for update in own]
    for update, bad in zip(own, sent, strict=True):
        assert cosine(bad, update) == pytest.approx(direction, abs=0.02)
        assert float(vector(bad).norm() / vector(update).norm()) == pytest.approx(length, rel=0.03)
    merged = merge_rules.get("multi_krum")()([*honest, *sent])
    assert cosine(merged, mean(honest)) > GOAL


# -- Merging -------------------------------------------------------------------------------------


def test_where_theory_allows_the_goal():
    assert guaranteed_cosine(alike=True) > GOAL
    assert guaranteed_cosine(alike=False) < GOAL


def test_a_plain_mean_fails():
    # So what the robust rules withstand below is there.
    for attack in ("blow_up", "ipm_strong"):
        assert merged_cosine("mean", attack, True) < 0
        assert merged_cosine("mean", attack, False) < 0


@pytest.mark.parametrize("attack", NAMES)
@pytest.mark.parametrize("rule", RULES)
def test_robust_rules_keep_the_honest_direction(rule, attack):
    assert merged_cosine(rule, attack, True) > GOAL


@pytest.mark.parametrize("attack", NAMES)
@pytest.mark.parametrize("rule", RULES)
def test_robust_rules_on_disjoint_text(rule, attack):
    assert merged_cosine(rule, attack, False) > APART.get((rule, attack), GOAL)


# -- Scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("attack", NAMES)
def test_poisoners_earn_next_to_nothing(attack, alike):
    found = qualities(attack, alike)
    honest, malicious = found[:HONEST], found[HONEST:]
    if attack == "mimic":
        # The copied node shares with its copies: the limit that docs/scoring.md states.
        honest.remove(min(honest))
    share = sum(malicious) / sum(honest)
    if attack in LIKE_HONEST:
        assert len(set(malicious)) == 1
        assert sum(malicious) < 1.2 * max(honest)
    elif attack == LABEL_FLIP and not alike:
        # What flipped text teaches depends on the text: 0.00 and 0.14 on two corpora.
        assert share < 0.3
    else:
        assert share < 0.02
    # Nobody honest is starved: with disjoint text some are of less use to the others than others.
    assert min(honest) > (0.8 if alike else 0.4) * max(honest)


# -- Runs ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("attack", NAMES)
def test_training_converges_under_attack(attack):
    first, last = converge(attack, "dense")
    assert last < 0.8 * first


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["sign_flip", "ipm_strong", "mimic"])
def test_training_converges_under_attack_with_packed_directions(attack):
    first, last = converge(attack, "polytope")
    assert last < 0.8 * first


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["sign_flip", "ipm_strong", "mimic"])
def test_training_converges_under_attack_with_sparse_updates_that_are_mixed(attack):
    first, last = converge(attack, "sparse", rounds=7, mixing=True)
    assert last < 0.8 * first


@pytest.mark.slow
def test_limit_sparse_updates_blind_multi_krum_unless_mixed():
    # Sparse updates hardly overlap, so honest ones are far from each other, and three identical
    # ones always look closest. Multi-Krum by itself then takes the poison.
    first, last = converge("ipm_strong", "sparse", rounds=3)
    assert last > first


@pytest.mark.slow
def test_training_with_a_mean_diverges_under_attack():
    first, last = converge("ipm_strong", "dense", rule="mean")
    assert last > first
