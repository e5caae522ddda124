# SPDX-License-Identifier: Apache-2.0
"""demo_sign and norm_clip: by hand, exact in any order, and what one liar can move."""

import hashlib
import math
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import merge as merge_rules
from agents.mechanisms.merge import MergeRefused
from agents.mechanisms.merge.norm_clip import clip_factor
from agents.mechanisms.merge.parts import grid
from tests.stage.memory.payloads import cluster, matrix, payload, same_bits

RULES = ("demo_sign", "norm_clip")


def merge(name, payloads):
    return merge_rules.get(name)()(payloads)


def test_sign_by_hand():
    # Lengths 5, 10 and 1: (0.6, 0.8, 0), (-0.6, 0, 0.8), (0, -1, 0) add up to (0, -0.2, 0.8).
    nodes = [payload(3, 4, 0), payload(-6, 0, 8), payload(0, -1, 0)]
    assert merge("demo_sign", nodes)["a"].tolist() == [0, -1, 1]
    assert merge("demo_sign", nodes[:1])["a"].tolist() == [1, 1, 0]


def test_tensors_are_normalised_one_by_one():
    one = {"a": torch.tensor([1e-6, 0.0]), "b": torch.tensor([100.0])}
    two = {"a": torch.tensor([0.0, -1.0]), "b": torch.tensor([-1.0])}
    got = merge("demo_sign", [one, two])
    assert got["a"].tolist() == [1, -1]
    assert got["b"].tolist() == [0]


def test_clip_by_hand():
    # Norms 5, 1 and 26: the longest is shortened to 5. Divided by three in every coordinate.
    nodes = [payload(3, 4, 0), payload(0, 1, 0), payload(10, 0, 24)]
    got = merge("norm_clip", nodes)["a"]
    wanted = torch.tensor([3 + 50 / 26, 5, 120 / 26]).double() / 3
    assert torch.equal(got, wanted.float())
    assert clip_factor(26.0, 5.0) == 5 / 26
    assert clip_factor(5.0, 5.0) == clip_factor(0.0, 5.0) == 1.0


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_the_divisor_is_the_number_of_nodes(count):
    """Not of those that sent the coordinate, and not one more: both are bugs of published code.

    SparseLoCo's reference divides by the senders; IOTA's divisor starts at 1 and then counts.
    """
    assert merge("norm_clip", [payload(6, -2)] * count)["a"].tolist() == [6, -2]
    lonely = [payload(1, 0)] * (count - 1) + [payload(0, 1)]
    got = merge("norm_clip", lonely)["a"].tolist()
    assert got == [float(torch.tensor((count - 1) / count)), float(torch.tensor(1 / count))]
    assert sum(got) == pytest.approx(1)


def test_payloads_that_are_not_clipped_are_added_exactly():
    nodes = [payload(1 + 2**-23, 3), payload(-1 - 2**-23, 3), payload(2**-20, 3)]
    got = merge("norm_clip", nodes)["a"].tolist()
    # 2^-20 / 3 and 3: nothing is lost beside the larger numbers that cancel.
    assert got == [float(torch.tensor(2**-20 / 3)), 3]


def whole_numbers(count: int) -> list:
    """Payloads of random whole numbers: unlike normal ones, the same in every process."""
    generator = torch.Generator().manual_seed(8)
    draw = lambda: torch.randint(-(2**20), 2**20, (100_000,), generator=generator)  # noqa: E731
    return [{"a": draw() * 2.0 ** (number - 10)} for number in range(count)]


@pytest.mark.parametrize("rule", RULES)
def test_order_cannot_matter(rule):
    nodes = cluster(4, 300, spread=3.0, seed=4)
    nodes[2] = {name: tensor * 1e6 for name, tensor in nodes[2].items()}
    wanted = merge(rule, nodes)
    for order in permutations(range(4)):
        assert same_bits(merge(rule, [nodes[index] for index in order]), wanted)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(RULES), st.integers(1, 12), st.integers(0, 10**6), st.randoms())
def test_order_cannot_matter_for_any_magnitudes(rule, count, seed, random):
    generator = torch.Generator().manual_seed(seed)
    size = 70_000 if seed % 5 == 0 else 50
    nodes = [
        {"a": torch.randn(size, generator=generator) * 10.0 ** random.randint(-12, 12)}
        for _ in range(count)
    ]
    shuffled = list(nodes)
    random.shuffle(shuffled)
    torch.set_num_threads(random.choice([1, 2]))
    assert same_bits(merge(rule, shuffled), merge(rule, nodes))
    torch.set_num_threads(1)


def digest(rule: str) -> str:
    return hashlib.sha256(merge(rule, whole_numbers(5))["a"].numpy().tobytes()).hexdigest()


@pytest.mark.parametrize("rule", RULES)
def test_another_process_gets_the_same_bits(rule):
    script = (
        "import torch, tests.agents.mechanisms.merge.test_signed_and_clipped as here\n"
        "torch.set_num_threads(2)\n"
        f"print(here.digest('{rule}'))\n"
    )
    threads = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
    env = {"ATEN_CPU_CAPABILITY": "default", "PYTHONPATH": ".", **threads}
    root = Path(__file__).parents[4]
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest(rule)


def test_clip_equals_float64():
    nodes = cluster(7, 5000, spread=2.0, seed=1)
    nodes[3] = {name: tensor * 50 for name, tensor in nodes[3].items()}
    rows = matrix(nodes)
    norms = (rows * rows).sum(axis=1) ** 0.5
    middle = sorted(norms)[3]
    wanted = (rows * [[min(1, middle / norm)] for norm in norms]).mean(axis=0)
    assert abs(matrix([merge("norm_clip", nodes)])[0] - wanted).max() < 1e-6


def test_sign_equals_float64_where_the_sum_is_not_nearly_zero():
    nodes = cluster(6, 5000, spread=2.0, seed=2)
    total = sum(
        torch.cat([node[name].double() / node[name].double().norm() for name in ("b", "w")])
        for node in nodes
    )
    got = merge("demo_sign", nodes)
    found = torch.cat([got[name] for name in ("b", "w")]).double()
    clear = total.abs() > 1e-10
    assert clear.sum() > 4900
    assert torch.equal(found[clear], torch.sign(total[clear]))


@pytest.mark.parametrize("factor", [1e6, 1e-6, -1e6])
def test_a_scaled_payload_has_one_nodes_say_under_sign(factor):
    """Whatever the liar's length: exactly what it would move at an honest one's."""
    nodes = cluster(5, 400, spread=1.0, seed=3)
    liar = {name: -2 * tensor for name, tensor in nodes[0].items()}
    loud = {name: tensor * factor for name, tensor in liar.items()}
    quiet = {name: tensor * math.copysign(1, factor) for name, tensor in liar.items()}
    assert same_bits(merge("demo_sign", [*nodes, loud]), merge("demo_sign", [*nodes, quiet]))
    # Where the honest are of one mind by more than its own entry, it changes nothing.
    honest = merge("demo_sign", nodes)
    moved = merge("demo_sign", [*nodes, loud])
    for name in honest:
        total = sum(node[name].double() / node[name].double().norm() for node in nodes)
        own = (loud[name].double() / loud[name].double().norm()).abs()
        firm = total.abs() > own + 1e-9
        assert torch.equal(moved[name][firm], honest[name][firm])


@pytest.mark.parametrize("factor", [1.0, 1e6, -1e6, 1e15])
def test_a_scaled_payload_moves_the_clipped_mean_by_a_median_norm_over_n(factor):
    nodes = cluster(6, 400, spread=1.0, seed=5)
    nodes[5] = {name: tensor * factor for name, tensor in nodes[5].items()}
    silent = [*nodes[:5], {name: torch.zeros_like(tensor) for name, tensor in nodes[5].items()}]
    norms = sorted(math.sqrt(float((row * row).sum())) for row in matrix(nodes))
    # The same clipping length, so that only the liar's own part differs.
    parts = [min(1.0, norms[2] / math.sqrt(float((row * row).sum()))) for row in matrix(nodes)]
    others = sum(row * part for row, part in zip(matrix(silent), parts, strict=True)) / 6
    moved = matrix([merge("norm_clip", nodes)])[0] - others
    assert math.sqrt(float((moved * moved).sum())) <= norms[2] / 6 * (1 + 1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_zeros_and_a_single_node_by_hand(rule):
    zeros = payload(0, 0, -0.0)
    assert merge(rule, [zeros])["a"].view(torch.int32).tolist() == [0, 0, 0]
    assert merge(rule, [zeros] * 3)["a"].tolist() == [0, 0, 0]
    alone = merge(rule, [payload(4, -0.0, -2)])["a"].tolist()
    assert alone == ([1, 0, -1] if rule == "demo_sign" else [4, 0, -2])
    with_zeros = merge(rule, [payload(4, 0, -2), payload(4, 0, -2), zeros])["a"].tolist()
    third = float(torch.tensor(8 / 3))
    assert with_zeros == ([1, 0, -1] if rule == "demo_sign" else [third, 0, -third / 2])
    # Most are silent: the median norm is 0, and the clipped mean with it; a sign is a sign.
    quiet = merge(rule, [payload(4, 0, -2), zeros, zeros])["a"].tolist()
    assert quiet == ([1, 0, -1] if rule == "demo_sign" else [0, 0, 0])


@pytest.mark.parametrize("rule", RULES)
def test_payloads_of_extreme_lengths_merge_to_finite_numbers(rule):
    huge, tiny = payload(2.0**63, 2.0**63), payload(1e-38, -1e-38)
    got = merge(rule, [huge, tiny, tiny])["a"].tolist()
    if rule == "demo_sign":
        assert got == [1, -1]
    else:
        assert got == pytest.approx([1e-38, -1e-38 / 3], rel=1e-6)
    assert all(math.isfinite(value) for value in merge(rule, [huge, huge])["a"].tolist())


@pytest.mark.parametrize("rule", RULES)
def test_payloads_that_cannot_be_merged_are_refused(rule):
    with pytest.raises(ValueError, match="no payload"):
        merge(rule, [])
    with pytest.raises(ValueError, match="not finite"):
        merge(rule, [payload(1, float("nan"))])
    with pytest.raises(MergeRefused, match="at most 512 updates exactly and got 513"):
        merge(rule, [payload(1)] * (grid.MOST + 1))
    assert merge(rule, [payload(1)] * grid.MOST)["a"].tolist() == [1]


def test_the_grid_cannot_round_a_sum():
    assert grid.MOST * (2**grid.BITS + 1) <= 2**53 + grid.MOST
    # The largest product is a payload of one number: its length is that number.
    (name, offset, total), *rest = grid.sums([payload(3.0)] * 2, [{"a": 2**43 / 3.0}] * 2)
    assert (name, offset, total.tolist(), rest) == ("a", 0, [2.0**44], [])


def test_norms_are_exact_sums_in_a_fixed_order():
    values = torch.randn(200_000, generator=torch.Generator().manual_seed(6))
    exact = math.fsum((values.double() ** 2).tolist())
    assert grid.squares([{"a": values}])[0]["a"] == pytest.approx(exact, rel=1e-14)
    assert grid.squares([{"a": torch.tensor([3.0, 4.0]), "b": torch.zeros(0)}]) == [
        {"a": 25.0, "b": 0.0}
    ]


def shifted(sign: float, seed: int, count: int = 300) -> dict:
    """A direction that all share, reversed by -1, under noise of a node's own, three times as
    long."""
    draw = torch.Generator().manual_seed(seed)
    shared = torch.randn(count, generator=torch.Generator().manual_seed(99))
    return {"a": sign * shared + 3 * torch.randn(count, generator=draw)}


def opposed(nodes, fraction=0.25):
    return merge_rules.get("norm_clip")(byzantine_fraction=fraction).opposed(nodes)


@pytest.mark.parametrize("length", [1e-3, 1.0, 1e6, 2.0**58])
def test_those_that_point_away_are_left_out_whatever_their_length(length):
    nodes = [shifted(1.0, seed, 4000) for seed in range(6)]
    turned = [shifted(-1.0, seed, 4000) for seed in (6, 7)]
    turned = [{name: tensor * length for name, tensor in one.items()} for one in turned]
    rule = merge_rules.get("norm_clip")(byzantine_fraction=0.25)
    assert opposed([turned[0], *nodes, turned[1]]) == {0, 7}
    got = rule([turned[0], *nodes, turned[1]])
    assert same_bits(got, merge_rules.get("norm_clip")()(nodes))
    # Nobody is left out of an honest round, and then the option changes no bit.
    honest = [shifted(1.0, seed, 4000) for seed in range(8)]
    assert opposed(honest) == set()
    assert same_bits(rule(honest), merge("norm_clip", honest))


def test_liars_can_not_vouch_for_each_other_nor_have_the_honest_left_out():
    nodes = [shifted(1.0, seed, 4000) for seed in range(6)]
    lie = shifted(-1.0, 6, 4000)
    assert opposed([*nodes, lie, lie]) == {6, 7}
    # Both aim at one node, by sending the reverse of what it sends.
    aimed = {"a": -nodes[0]["a"]}
    assert 0 not in opposed([*nodes, aimed, aimed])


def test_at_most_the_stated_share_is_left_out():
    nodes = [shifted(1.0, seed, 4000) for seed in range(5)]
    turned = [shifted(-1.0, seed, 4000) for seed in (5, 6, 7)]
    assert len(opposed([*nodes, *turned])) == 2
    assert opposed([*nodes, *turned], 0.4) == {5, 6, 7}
    assert opposed([*nodes, *turned], 0.0) == opposed(nodes[:3]) == set()


def test_who_sends_nothing_in_common_is_not_left_out():
    """A payload of zeros, or one of numbers that nobody else sends, points nowhere."""
    nodes = [payload(*(1.0 if at == place else 0.0 for at in range(8))) for place in range(7)]
    assert opposed([*nodes, payload(*[0.0] * 8)]) == set()


@pytest.mark.parametrize("fraction", [0.5, -0.1, "0.2", True, math.nan])
def test_a_share_out_of_range_is_refused(fraction):
    with pytest.raises(ValueError, match="byzantine_fraction of norm_clip"):
        merge_rules.get("norm_clip")(byzantine_fraction=fraction)
