# SPDX-License-Identifier: Apache-2.0
"""The largest of each chunk in C++: the eager code's places and bits, on every kind of machine."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import built
from agents.mechanisms import codec as codecs
from agents.mechanisms.codec.parts import native
from agents.mechanisms.codec.parts.largest import largest
from tests.agents.mechanisms.codec.conftest import gradient
from tests.agents.mechanisms.codec.digests import LOSSY, SEED

pytestmark = pytest.mark.skipif(built.compiler() is None, reason="no C++ compiler here")

# What a machine without these instructions runs; the first is this machine itself.
MACHINES: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "AVX2 at most": ("-mno-avx512f",),
    "no AVX": ("-mno-avx512f", "-mno-avx2", "-mno-avx"),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1.1754942e-38, 3.4e38, -3.4e38, 0.5]
SHAPES = {"a": (130, 200), "b": (9001,), "c": (3,), "d": (65, 2, 33), "e": (1,), "f": (64, 64)}


@pytest.fixture(scope="module")
def libraries():
    """One for each kind of machine, built and checked."""
    plain, found = built._OPTIONS, {}
    for name, options in MACHINES.items():
        built._OPTIONS = (*plain, *options)
        try:
            found[name] = native.CODE.made()
        finally:
            built._OPTIONS = plain
    return found


@pytest.fixture(autouse=True)
def fresh(monkeypatch, libraries):
    monkeypatch.setattr(native.CODE, "library", libraries["as it is"])
    monkeypatch.setattr(native.CODE, "asked", True)


@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    shape=st.tuples(*(st.integers(1, most) for most in (3, 40, 3, 70))),
    few=st.booleans(),
    adds=st.booleans(),
    data=st.data(),
)
def test_any_chunks_are_searched_like_the_library_searches(
    libraries, machine, seed, shape, few, adds, data
):
    down, height, across, width = shape
    count = data.draw(st.integers(1, height * width))
    rng = np.random.default_rng(seed)

    def drawn():
        # A rectangle inside of a wider matrix, of equal numbers or of any.
        wide = rng.choice(SPECIAL, (down * height + 2, across * width + 3)).astype(np.float32)
        if not few:
            wide = rng.integers(0, 0x7F000000, wide.shape, np.uint32).view(np.float32)
            wide = np.where(rng.random(wide.shape) < 0.5, -wide, wide)
        part = torch.from_numpy(wide)[1:-1, 2:-1]
        return part.unflatten(0, (down, height)).unflatten(2, (across, width))

    chunks, more = drawn(), drawn() if adds else None
    if more is not None:
        chunks, more = chunks.mul_(0.25), more.mul_(0.25)
    total = chunks if more is None else chunks + more
    table = total.permute(0, 2, 1, 3).reshape(-1, height * width)
    wanted = largest(table.abs(), count)
    places, values = native.largest_of(libraries[machine], chunks, more, count)
    assert np.array_equal(places, wanted)
    assert values.tobytes() == np.take_along_axis(table.numpy(), wanted, axis=1).tobytes()


@pytest.mark.parametrize("name", [name for name in LOSSY if name.split()[0] in ("sparse", "demo")])
@pytest.mark.parametrize("kind", ["normal", "ties", "zeros"])
@pytest.mark.parametrize("remembers", [True, False])
def test_payloads_and_edges_are_the_same_bytes(name, kind, remembers):
    codec = codecs.get(name.partition(" ")[0])(**LOSSY[name])
    sent, memory = gradient(SHAPES, 1), gradient(SHAPES, 2) if remembers else None
    if kind != "normal":
        scale = 100.0 if kind == "ties" else 0.0
        sent = {name: (scale * tensor).round() for name, tensor in sent.items()}
        memory = memory and {name: (scale * tensor).round() for name, tensor in memory.items()}
    with built.disabled():
        wanted = codec.encode(sent, memory, SEED)
        edge = codec.least_change(sent, memory, wanted, SEED)
    assert codec.encode(sent, memory, SEED) == wanted
    assert codec.least_change(sent, memory, wanted, SEED) == edge


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("bad", [float("nan"), float("-inf"), float("inf")])
def test_what_is_not_finite_is_refused(monkeypatch, libraries, machine, bad):
    monkeypatch.setattr(native.CODE, "library", libraries[machine])
    for place in (0, 77, 9000):
        sent = gradient({"a": (9001,)})
        sent["a"][place] = bad
        for name in ("sparse", "demo"):
            with pytest.raises(ValueError, match="NaN or infinity"):
                codecs.get(name)().encode(sent, None, SEED)


def test_a_sum_beyond_all_numbers_is_refused():
    sent = {"a": torch.full((4096,), 3e38)}
    with pytest.raises(ValueError, match="NaN or infinity"):
        codecs.get("sparse")().encode(sent, sent, SEED)


@pytest.mark.parametrize(
    "broken",
    [
        lambda chunks: (chunks.double(), None, 1),
        lambda chunks: (chunks.transpose(1, 3), None, 1),
        lambda chunks: (chunks, chunks[:1], 1),
        lambda chunks: (chunks, chunks.permute(0, 2, 1, 3), 1),
        lambda chunks: (chunks, chunks.double(), 1),
        lambda chunks: (chunks, None, 0),
        lambda chunks: (chunks, None, 26),
    ],
)
def test_what_does_not_lie_as_it_should_never_reaches_the_code(broken):
    chunks = torch.zeros(2, 5, 5, 5)
    with pytest.raises(AssertionError):
        native.largest_of(None, *broken(chunks))


def test_small_models_do_not_build_anything(monkeypatch):
    monkeypatch.setattr(native.CODE, "library", None)
    monkeypatch.setattr(native.CODE, "asked", False)
    codecs.get("sparse")().encode(gradient(SHAPES), None, SEED)
    assert native.CODE.asked is False


def test_code_that_names_other_numbers_is_refused(monkeypatch, tmp_path):
    wrong = tmp_path / "wrong.cpp"
    source = native.CODE.source.read_text()
    assert "numbers[at] + more[at]" in source
    wrong.write_text(source.replace("numbers[at] + more[at]", "numbers[at] - more[at]"))
    monkeypatch.setattr(native.CODE, "source", wrong)
    with pytest.warns(RuntimeWarning, match="names other numbers"):
        assert native.CODE.warm() is False
    assert native.CODE.get() is None
