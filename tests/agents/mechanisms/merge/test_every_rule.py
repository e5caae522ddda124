# SPDX-License-Identifier: Apache-2.0
"""What every merge rule holds to: threads, zeros, shapes, its inputs, and what it refuses."""

import itertools
import math

import pytest
import torch

from agents.mechanisms import merge as merge_rules
from agents.mechanisms.merge import MergeRefused
from agents.mechanisms.merge.parts.sorting_network import CHUNK
from tests.agents.mechanisms.conftest import two_threads
from tests.stage.memory.payloads import cluster, payload, same_bits

RULES = (
    *("centred_clipping", "demo_sign", "geometric_mean", "geometric_median", "mean", "median"),
    *("multi_krum", "norm_clip", "trimmed_mean", "weighted_mean"),
)
NEED_THREE = ("centred_clipping", "geometric_median", "multi_krum")


def merge(name, payloads):
    return merge_rules.get(name)()(payloads)


def test_these_are_the_rules():
    assert merge_rules.names() == list(RULES)


@pytest.mark.parametrize("name", RULES)
def test_thread_count_changes_no_bit(name):
    payloads = cluster(7, 3 * CHUNK, 0.1, seed=10)
    alone = merge(name, payloads)
    with two_threads():
        assert same_bits(alone, merge(name, payloads))


@pytest.mark.parametrize("name", RULES)
def test_zero_has_one_sign(name):
    for count in (3,) if name in NEED_THREE else (1, 2, 3):
        for signs in itertools.product([0.0, -0.0], repeat=count):
            got = merge(name, [payload(value) for value in signs])["a"]
            assert math.copysign(1.0, got.item()) == 1.0


@pytest.mark.parametrize("name", RULES)
def test_inputs_stay_as_they_are(name):
    rows = [payload(-0.0, -1.0), payload(0.0, 1.0), payload(-0.0, 0.0)]
    before = [{"a": entry["a"].clone()} for entry in rows]
    merge(name, rows)
    assert all(map(same_bits, rows, before))


@pytest.mark.parametrize("name", RULES)
def test_shapes_are_kept_also_of_empty_tensors(name):
    entries = [
        {"s": torch.tensor(float(i)), "e": torch.zeros(0, 3), "m": torch.full((2, 3), float(i)).t()}
        for i in range(5)
    ]
    got = merge(name, entries)
    shapes = {key: tuple(tensor.shape) for key, tensor in got.items()}
    assert shapes == {"s": (), "e": (0, 3), "m": (3, 2)}
    assert all(tensor.dtype == torch.float32 for tensor in got.values())


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("place", range(5))
def test_nan_is_refused(name, place):
    rows = [payload(float(index), 1.0) for index in range(5)]
    rows[place]["a"][0] = math.nan
    with pytest.raises(ValueError, match="not finite"):
        merge(name, rows)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"b": torch.zeros(1)}, "Payload 4 holds other tensor names"),
        (payload(1.0, 2.0), "ayload 4 differs in shape"),
        ({"a": torch.zeros(1, dtype=torch.float64)}, "ayload 4 is torch.float64, not float32"),
    ],
    ids=["names", "shape", "dtype"],
)
def test_a_payload_unlike_the_others_is_refused(name, bad, words):
    with pytest.raises(ValueError, match=words):
        merge(name, [*[payload(1.0)] * 4, bad])


@pytest.mark.parametrize("name", RULES)
def test_no_payload_is_refused(name):
    with pytest.raises(MergeRefused if name in NEED_THREE else ValueError):
        merge(name, [])
