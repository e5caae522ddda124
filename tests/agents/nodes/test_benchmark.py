# SPDX-License-Identifier: Apache-2.0
"""The benchmark chain is exact integers, committed to chunk by chunk, and spot checks find lies."""

import hashlib
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.nodes import benchmark

SEED = bytes(range(32))
CHECK = b"\x05" * 32
UNITS = 6


@pytest.fixture(scope="module")
def digests() -> list[bytes]:
    return benchmark.run(SEED, UNITS, device="cpu")


def submission(digests, **changes):
    given = {
        "artefact": benchmark.pack_artefact(digests),
        "seed": SEED,
        "units": UNITS,
        "claimed_root": benchmark.root(SEED, digests),
        "check_seed": CHECK,
        "count": UNITS,
        **changes,
    }
    return benchmark.check_submission(given.pop("artefact"), **given)


def test_chunk_equals_integer_arithmetic():
    raw = hashlib.shake_128(b"menagerie/benchmark/v1" + SEED + bytes(32)).digest(65536)
    halves = [half for byte in raw for half in (byte % 16 - 8, byte // 16 - 8)]
    matrix, factor = np.array(halves, np.int64).reshape(2, 256, 256)
    for _ in range(16):
        product = matrix @ factor
        assert np.abs(product).max() < 2**24
        matrix = np.floor_divide(product, 8) % 16 - 8
    expected = hashlib.sha256(matrix.astype(np.int8).tobytes()).digest()
    assert benchmark.check_chunk(SEED, 0, "cpu") == expected


def test_chain_and_progress(digests):
    seen = []
    again = benchmark.run(SEED, 2, lambda done, units: seen.append((done, units)), "cpu")
    assert seen == [(1, 2), (2, 2)]
    assert again == digests[:2]
    assert benchmark.check_chunk(digests[0], 1, "cpu") == digests[1]
    assert benchmark.check_chunk(digests[0], 2, "cpu") != digests[1]
    assert len(set(digests)) == UNITS


def test_thread_setting_is_left_as_it_was(digests):
    torch.set_num_threads(2)
    try:
        assert benchmark.check_chunk(SEED, 0, "cpu") == digests[0]
        assert benchmark.run(SEED, 1, device="cpu") == digests[:1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cuda_gives_the_same_digests(digests):
    assert benchmark.run(SEED, UNITS, device="cuda") == digests


def test_honest_submission_passes(digests):
    check = submission(digests)
    assert check.passed and check.reason == "6 of 6 chunks were recomputed and are right."
    assert submission(digests, count=2).reason == "2 of 6 chunks were recomputed and are right."


@pytest.mark.parametrize("bad", range(UNITS))
def test_every_wrong_chunk_is_found_when_drawn(digests, bad):
    forged = [*digests[:bad], b"\x11" * 32, *digests[bad + 1 :]]
    assert not submission(forged).passed
    drawn = benchmark.draw_checks(CHECK, UNITS, 2)
    # A wrong digest spoils its own chunk and the one that starts from it.
    assert submission(forged, count=2).passed == (not {bad, bad + 1} & set(drawn))


@pytest.mark.parametrize("bad", range(UNITS))
def test_a_verifiers_own_draw_is_of_other_chunks(digests, bad):
    """Who knows the public draw has not seen what else is looked at."""
    forged = [*digests[:bad], b"\x11" * 32, *digests[bad + 1 :]]
    assert not submission(forged, count=UNITS // 2, secret=SEED).passed
    check = submission(digests, count=2, secret=SEED)
    assert check.passed and check.reason.startswith(f"4 of {UNITS} chunks were recomputed")
    check = submission(digests, count=UNITS, secret=SEED)
    assert check.passed and check.reason.startswith(f"{UNITS} of {UNITS} ")


def test_a_device_that_computes_wrongly_fails_no_right_work(digests, monkeypatch):
    """Whoever signed the fail lost a fifth of its stake once the committee had looked."""
    right = benchmark.check_chunk

    def broken(previous, index, device):
        return right(previous, index, "cpu") if device == "cpu" else b"\x11" * 32

    monkeypatch.setattr(benchmark, "check_chunk", broken)
    assert submission(digests, device="cuda").passed
    forged = [*digests[:2], b"\x22" * 32, *digests[3:]]
    assert not submission(forged, device="cuda").passed


def test_root_binds_seed_order_and_artefact(digests):
    swapped = [digests[1], digests[0], *digests[2:]]
    given = [(SEED, digests), (CHECK, digests), (SEED, swapped)]
    assert len({benchmark.root(*pair) for pair in given}) == 3
    check = submission(digests, claimed_root=b"\0" * 32)
    assert not check.passed and "doesn't have the Merkle root" in check.reason


def test_artefact_is_canonical_json(digests):
    data = benchmark.pack_artefact(digests)
    assert json.loads(data) == [digest.hex() for digest in digests]
    assert benchmark.read_artefact(data, UNITS) == digests


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.tuples(st.integers(0, 134), st.integers(0, 255)))
def test_fuzzed_artefacts_are_refused_in_a_sentence(change):
    good = benchmark.pack_artefact([b"\x01" * 32, b"\xab" * 32])
    if isinstance(change, tuple):
        where, value = change
        data = good[:where] + bytes([value]) + good[where + 1 :]
    else:
        data = change
    try:
        found = benchmark.read_artefact(data, 2)
    except ValueError as error:
        assert "not a canonical list of 2 digests" in str(error)
        given = {"seed": SEED, "claimed_root": SEED, "check_seed": CHECK, "count": 1}
        assert not benchmark.check_submission(data, units=2, **given).passed
    else:
        assert benchmark.pack_artefact(found) == data


def test_draw_checks_is_spread_and_bounded():
    assert benchmark.draw_checks(CHECK, 5, 99) == [0, 1, 2, 3, 4]
    drawn = benchmark.draw_checks(CHECK, 1000, 20)
    assert drawn == sorted(set(drawn)) and len(drawn) == 20
    assert drawn != benchmark.draw_checks(SEED, 1000, 20)


def test_detection_probability_is_at_least_the_stated_one():
    wrong = set(range(10))  # 10 % of 100 chunks, q = 20: at least 1 - 0.9^20 = 0.878
    caught = sum(
        bool(wrong & set(benchmark.draw_checks(seed.to_bytes(32, "big"), 100, 20)))
        for seed in range(400)
    )
    assert caught / 400 >= 0.878


def test_score_and_limits():
    assert benchmark.score(100, 10) == 10_000_000
    assert benchmark.score(7, 0) == 7_000_000
    assert benchmark.score(1, 3) == 333_333
    with pytest.raises(ValueError, match="1 to 1048576 units, not 0"):
        benchmark.run(SEED, 0)
    with pytest.raises(ValueError, match="32 bytes, not 3"):
        benchmark.run(b"abc", 1)
