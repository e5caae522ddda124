# SPDX-License-Identifier: Apache-2.0
"""Gradient inversion on the demo model succeeds without protection and fails with it.

The attacks are those of `inversion`. "Fails" means: worse than somebody who sees no update and
names the most frequent bytes of public text, and its set of bytes hardly better than a
random one. Run with `-s` to see the figures.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from agents.mechanisms.codec.semantic import Semantic
from agents.mechanisms.privacy.dp_sgd import DpSgd
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.privacy.parts.noise import SecretGenerator, noised
from agents.training.documents import stdlib_corpus
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state
from agents.training.private import clipped_sum
from agents.training.spec import Hyperparameters, demo_spec
from agents.training.state import State
from tests.attacks.inversion import (
    Guess,
    f1,
    gradient_of,
    in_place,
    recover_sequence,
    recover_tokens,
)

pytest.importorskip("opacus", reason="the extra 'privacy' is not installed")

LENGTH = 33  # 32 places with a next token
TEXTS = 3
SPEC = demo_spec("b" + "a" * 58)
SHAPES = {name: tuple(tensor.shape) for name, tensor in init_state(SPEC.model).items()}
Protection = Callable[[State], State]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def corpus() -> tuple[Guess, list[list[int]]]:
    """What the public reads, and private texts of other files."""
    documents = list(stdlib_corpus(800_000))
    private = [text for text in documents[10:] if len(text) > 3000][:TEXTS]
    assert len(private) == TEXTS
    return Guess(b"".join(documents[:10])), [list(t[2000 : 2000 + LENGTH]) for t in private]


def attack(truth: list[int], protect: Protection) -> tuple[float, float]:
    """F1 of the better token set, and the share of tokens found in place."""
    state = init_state(SPEC.model)
    update = protect(gradient_of(SPEC.model, state, torch.tensor([truth])))
    sequence = recover_sequence(SPEC.model, state, update, LENGTH)
    sets = set(sequence), recover_tokens(update, len(set(truth)))
    return max(f1(found, set(truth)) for found in sets), in_place(sequence, truth)


def random_f1(texts: list[list[int]]) -> float:
    """Expected F1 of as many random tokens as occur: their share of all 256."""
    return float(np.mean([len(set(text)) / 256 for text in texts]))


def dp_sgd(gradient: State) -> State:
    """One step of DP-SGD as its weakest user runs it: the lot is this one text, and known."""
    mechanism = DpSgd(noise_multiplier=0.5)
    names = sorted(gradient)
    row = torch.cat([gradient[name].flatten() for name in names])[None]
    total = clipped_sum(row, mechanism.clip).numpy()
    flat = torch.from_numpy(noised(total, mechanism.sigma, SecretGenerator()))
    parts = flat.split([gradient[name].numel() for name in names])
    return {n: p.view(gradient[n].shape) for n, p in zip(names, parts, strict=True)}


def node_level(gradient: State) -> State:
    """Local noise of the whole update at ZIP-400's budget over ten rounds."""
    return Gaussian(epsilon=8.0, rounds=10).release(gradient)


def semantic(gradient: State) -> State:
    """Projection to a hundredth, 4 bits, no noise."""
    codec = Semantic(dimension=sum(t.numel() for t in gradient.values()) // 100, clip=4.0)
    seed = bytes(range(32))
    return codec.decode(codec.encode(gradient, None, seed), SHAPES, seed)


def test_without_protection_every_byte_is_read(corpus: tuple[Guess, list[list[int]]]) -> None:
    guess, texts = corpus
    for truth in texts:
        found, placed = attack(truth, lambda gradient: gradient)
        print(f"none: F1 {found:.3f}, in place {placed:.3f}; guessing "
              f"{guess.f1(truth):.3f}, {guess.in_place(truth):.3f}")  # fmt: skip
        assert (found, placed) == (1.0, 1.0)
        assert guess.f1(truth) < 0.9
        assert guess.in_place(truth) < 0.6


def test_adamw_hides_the_order_but_not_the_bytes(corpus: tuple[Guess, list[list[int]]]) -> None:
    """What a job without privacy publishes after one local step: about lr * sign(gradient)."""
    for truth in corpus[1]:
        net, state = FlatModel(SPEC.model), init_state(SPEC.model)
        hyper = Hyperparameters.of(SPEC, 9)
        update = train_local(net, state, [torch.tensor([truth])], hyper, bytes(32)).pseudo_gradient
        found = f1(recover_tokens(update, len(set(truth))), set(truth))
        print(f"one AdamW step: F1 {found:.3f}, guessing {corpus[0].f1(truth):.3f}")
        assert found > 0.9


@pytest.mark.parametrize("protect", [dp_sgd, node_level])
def test_with_noise_nothing_is_read(
    corpus: tuple[Guess, list[list[int]]], protect: Protection
) -> None:
    """The noise is drawn from the system's secret generator, so no run is like another. In a rare
    draw the attack names a frequent byte in every place, which reads nothing. So of each text the
    middle of three draws counts."""
    guess, texts = corpus
    draws = [[attack(truth, protect) for truth in texts] for _ in range(3)]
    results = np.median(draws, axis=0).mean(0)
    blind = np.array([(guess.f1(t), guess.in_place(t)) for t in texts]).mean(0)
    print(f"{protect.__name__}: F1 {results[0]:.3f}, in place {results[1]:.3f}; guessing "
          f"{blind[0]:.3f}, {blind[1]:.3f}; random sets {random_f1(texts):.3f}")  # fmt: skip
    assert (results < blind).all()
    assert results[0] < 4 * random_f1(texts)


def test_the_projection_alone_hides_the_order_only(corpus: tuple[Guess, list[list[int]]]) -> None:
    """Compression is no protection: the order is lost, but the bytes show far above chance."""
    guess, texts = corpus
    results = np.array([attack(truth, semantic) for truth in texts]).mean(0)
    print(f"semantic at d/100, no noise: F1 {results[0]:.3f}, in place {results[1]:.3f}; random "
          f"sets {random_f1(texts):.3f}")  # fmt: skip
    assert results[0] > 4 * random_f1(texts)
    assert results[1] < np.mean([guess.in_place(t) for t in texts])
