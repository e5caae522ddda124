# SPDX-License-Identifier: Apache-2.0
"""Estimates whether local noise makes a robust merge choose by chance.

A spec that combines such noise with such a merge is refused by this estimate. Rules such as Krum
tell liars by distance. Noise of deviation sigma on d coordinates makes every squared distance 2 d
sigma^2 +- sigma^2 sqrt(8 d); honest and flipped updates of norm C differ in it by at most 4 C^2.
Where the first swamps the second, poisoners are chosen as often as anyone (Guerraoui et al. 2021,
"Differential privacy and Byzantine resilience in SGD: do they add up?"). Worse, a poisoner who
skips the noise is nearer to everybody than the honest are to each other, and is chosen first.

The estimate draws Gram matrices, not vectors, so it costs O(n^3) a trial for any d: the updates'
part in the span of the signals is drawn coordinate by coordinate, and the rest of the noise adds a
Wishart matrix of d - n - 1 degrees of freedom (Bartlett's decomposition). It is exact for Gaussian
noise. Multi-Krum stands for all robust rules: they use the same distances, or single coordinates,
which tell less. Draws come from a fixed public seed, so everyone gets the same figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from agents.mechanisms.privacy.parts import options

REFUSE_FROM = 0.8
"""Refused if poisoners are chosen at least this often, relative to chance."""
WARN_FROM = 0.1
_SEED = 0x4D656E616765726965  # "Menagerie"
_MAX_NODES = 512


class Blinded(ValueError):
    """The noise leaves the robust merge no better than drawing lots; the message says how bad."""


@dataclass(frozen=True)
class Estimate:
    """What a robust merge makes of noised updates.

    Attributes:
        selected: poisoners' share of the chosen updates, 0..1.
        chance: what drawing lots would give, f / n.
        cosine: mean cosine of the mean of the chosen with the honest mean without noise.
        silent: whether the poisoners skip the noise.
    """

    selected: float
    chance: float
    cosine: float
    silent: bool

    def sentence(self) -> str:
        """The figures in words."""
        how = "who send no noise" if self.silent else "who add the same noise"
        return (
            f"poisoners {how} are {100 * self.selected:.0f} % of the selected, chance is "
            f"{100 * self.chance:.0f} %, cosine of the aggregate to the honest mean "
            f"{self.cosine:.2f}"
        )


def estimate(
    dimension: int,
    sigma: float,
    clip: float,
    nodes: int,
    poisoners: int,
    *,
    likeness: float = 0.5,
    silent: bool = False,
    projected: int | None = None,
    trials: int | None = None,
) -> Estimate:
    """Multi-Krum (n - f - 2 selected) against sign flippers, under local noise.

    Args:
        dimension: d of what is merged: the model, or the projection if the codec projects. sigma:
        noise deviation per coordinate; 0 for none. clip: C; every update has this norm before
        noise, the best case for the signal. nodes, poisoners: n and f; n > 2f + 2. likeness: cosine
        between two honest updates before noise. Optimistic by default; non-identical
            shards give less.
        silent: poisoners send the flipped honest direction without noise.
        projected: k < d if the codec keeps k random dimensions of the noised update. Of the signal
            that leaves C sqrt(k/d), of the noise sigma per coordinate: projecting blinds further.
        trials: Monte-Carlo draws; None for 2,000 nodes' worth, at least 8 and at most 200. The
            share's standard error is below 0.5 / sqrt(trials).

    Raises:
        ValueError: a value out of range.
    """
    n = options.whole("nodes", nodes, 3, _MAX_NODES)
    f = options.whole("poisoners", poisoners, 0, n)
    if n <= 2 * f + 2:
        raise ValueError(f"Multi-Krum needs more than 2f + 2 nodes; n = {n}, f = {f}.")
    space = options.whole("dimension", dimension, 1, 10**12)
    noise = options.real("sigma", sigma, 0.0, 1e30) / options.clip_bound(clip)
    if projected is not None and projected < space:
        noise *= math.sqrt(space / options.whole("projected", projected, 1))
        space = projected
    cosine = options.real("likeness", likeness, 0.0, 1.0)
    draws = max(8, min(200, 2000 // n)) if trials is None else options.whole("trials", trials, 1)
    keep, rng = n - f - 2, Generator(Philox(key=_SEED))
    deviations = np.full(n, noise)
    signal = np.zeros((n, n + 1))
    signal[:, 0] = math.sqrt(cosine)
    signal[np.arange(n), np.arange(n) + 1] = math.sqrt(1.0 - cosine)
    honest_mean = signal[f:].mean(axis=0)
    signal[:f] = -honest_mean / max(float(np.linalg.norm(honest_mean)), 1e-30)
    if silent:
        deviations[:f] = 0.0
    chosen_poisoners, cosines = 0, 0.0
    for _ in range(draws):
        inside = signal + deviations[:, None] * _noise_inside(rng, n, space)
        outside = deviations[:, None] * _noise_outside(rng, n, space)
        rows = np.concatenate([inside, outside], axis=1)
        chosen = multi_krum(rows @ rows.T, f, keep)
        chosen_poisoners += int((chosen < f).sum())
        mean = rows[chosen].mean(axis=0)
        scale = float(np.linalg.norm(mean) * np.linalg.norm(honest_mean))
        cosines += float(mean[: n + 1] @ honest_mean) / scale if scale else 0.0
    return Estimate(chosen_poisoners / (draws * keep), f / n, cosines / draws, silent)


def check_blinding(
    dimension: int,
    sigma: float,
    clip: float,
    nodes: int,
    poisoners: int | None = None,
    *,
    accept: bool = False,
    projected: int | None = None,
    trials: int | None = None,
) -> str | None:
    """Whether a spec may combine local noise with a robust merge.

    Args:
        poisoners: f; None for floor(0.3 n), the default of the merge rules. No more are counted
            than Multi-Krum can face, (n - 3) / 2.
        dimension, projected: as in `estimate`.
        accept: the sponsor accepts a blinded merge: a warning instead of a refusal.

    Returns:
        None if the merge still works, else a warning sentence with the figures of the worse of the
        two attackers (with and without noise of their own).

    Raises:
        Blinded: poisoners are chosen at 0.8 of chance or more and `accept` is False.
        ValueError: a value out of range.
    """
    n = options.whole("nodes", nodes, 1, _MAX_NODES)
    f = (3 * n) // 10 if poisoners is None else options.whole("poisoners", poisoners, 0, n)
    f = min(f, (n - 3) // 2)
    if f <= 0:
        return None
    found = [
        estimate(dimension, sigma, clip, n, f, silent=silent, projected=projected, trials=trials)
        for silent in (False, True)
    ]
    worst = max(found, key=lambda one: one.selected)
    if worst.selected < WARN_FROM * worst.chance:
        return None
    left = dimension if projected is None else min(dimension, projected)
    sentence = (
        f"Local noise of {sigma:.3g} per coordinate on updates of norm {clip:g}, merged in {left} "
        f"dimensions, weakens the robust merge of {n} nodes: {worst.sentence()}."
    )
    if worst.selected >= REFUSE_FROM * worst.chance and not accept:
        raise Blinded(
            f"{sentence} Choose privacy 'aggregate' (the aggregator adds the noise), more nodes, "
            "less noise, or accept_blinding."
        )
    return sentence


def multi_krum(gram: NDArray[np.float64], poisoners: int, keep: int) -> NDArray[np.intp]:
    """Indices of the `keep` rows with the smallest sum of n - f - 2 squared distances (Blanchard et
    al. 2017), from a Gram matrix [n, n]."""
    squares = np.diag(gram)
    distances = squares[:, None] + squares[None, :] - 2.0 * gram
    np.fill_diagonal(distances, np.inf)
    nearest = np.sort(distances, axis=1)[:, : len(gram) - poisoners - 2]
    return np.argsort(nearest.sum(axis=1), kind="stable")[:keep]


def _noise_inside(rng: Generator, n: int, space: int) -> NDArray[np.float64]:
    """Unit noise [n, n + 1] in the signals' span, or in the first `space` axes if d is smaller."""
    noise = rng.standard_normal((n, n + 1))
    noise[:, space:] = 0.0
    return noise


def _noise_outside(rng: Generator, n: int, space: int) -> NDArray[np.float64]:
    """Rows [n, m] with the Gram matrix, in distribution, of unit noise in d - n - 1 dimensions."""
    freedom = space - n - 1
    if freedom <= 0:
        return np.zeros((n, 0))
    if freedom < n:
        return rng.standard_normal((n, freedom))
    factor = np.tril(rng.standard_normal((n, n)), -1)
    factor[np.diag_indices(n)] = np.sqrt(rng.chisquare(freedom - np.arange(n)))
    return factor
