# SPDX-License-Identifier: Apache-2.0
"""The literature's poisoning attacks, as pure functions from honest updates to malicious ones.

Rule: the attacker is omniscient. It sees all honest updates of the round (`honest`) and what its
own nodes would have sent honestly (`own`), and returns one update per own node. An update is a dict
of fp32 tensors; inputs are not written. Everything is a pseudo-gradient: what the outer step
subtracts. The label flip is no function of updates: `TenTrainers.train(flipped=True)` really trains
on flipped tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import NormalDist

import torch
from torch import Tensor

Update = dict[str, Tensor]
Attack = Callable[[Sequence[Update], Sequence[Update]], list[Update]]


def vector(update: Mapping[str, Tensor]) -> Tensor:
    """All numbers of an update in order of name, float64 [d]."""
    return torch.cat([update[name].double().reshape(-1) for name in sorted(update)])


def like(flat: Tensor, update: Mapping[str, Tensor]) -> Update:
    """The inverse of `vector`, rounded to fp32: `flat` [d] in the shapes of `update`."""
    names = sorted(update)
    parts = flat.float().split([update[name].numel() for name in names])
    return {name: p.reshape(update[name].shape) for name, p in zip(names, parts, strict=True)}


def cosine(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> float:
    """Cosine of two updates in float64; 0 if one of them is zero."""
    one, two = vector(left), vector(right)
    scale = float(one.norm() * two.norm())
    return float(one @ two) / scale if scale else 0.0


def mean(updates: Sequence[Update]) -> Update:
    """The plain mean, the reference of "cosine to the honest mean"."""
    return like(torch.stack([vector(update) for update in updates]).mean(0), updates[0])


def sign_flip(honest: Sequence[Update], own: Sequence[Update], factor: float = 1.0) -> list[Update]:
    """Each sends its honest update times -factor.

    Li et al., "RSA: Byzantine-Robust Stochastic Aggregation Methods for Distributed Learning from
    Heterogeneous Datasets" (AAAI 2019), section on sign-flipping attacks.
    """
    return [{name: -factor * tensor for name, tensor in update.items()} for update in own]


def alie(honest: Sequence[Update], own: Sequence[Update], z: float | None = None) -> list[Update]:
    """All send mean - z * std, coordinate by coordinate, just inside the honest spread.

    Baruch, Baruch and Goldberg, "A Little Is Enough" (NeurIPS 2019), algorithm 3: with n nodes, f
    of them malicious, and s = floor(n / 2 + 1) - f, z is the greatest with
    Phi(z) < (n - f - s) / (n - f).
    """
    rows = torch.stack([vector(update) for update in honest])
    spread = rows.std(0)
    strength = alie_z(len(honest) + len(own), len(own)) if z is None else z
    return [like(rows.mean(0) - strength * spread, honest[0])] * len(own)


def alie_z(n: int, f: int) -> float:
    """The paper's z for n nodes, f of them malicious. ValueError where the paper gives none."""
    supporters = n // 2 + 1 - f
    share = (n - f - supporters) / (n - f)
    if not 0 < share < 1:
        raise ValueError(f"ALIE has no z for {f} malicious of {n} nodes.")
    return NormalDist().inv_cdf(share)


def ipm(honest: Sequence[Update], own: Sequence[Update], epsilon: float) -> list[Update]:
    """All send -epsilon times the honest mean.

    Xie, Koyejo and Gupta, "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product
    Manipulation" (UAI 2020), section 4. A mean is reversed when epsilon > (n - f) / f; a small
    epsilon is meant to be near enough to the honest updates to be selected.
    """
    centre = torch.stack([vector(update) for update in honest]).mean(0)
    return [like(-epsilon * centre, honest[0])] * len(own)


def blow_up(honest: Sequence[Update], own: Sequence[Update], factor: float = 1e4) -> list[Update]:
    """Each sends its reversed update, enormous; one such node owns a plain mean.

    Blanchard et al., "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent"
    (NeurIPS 2017), section 3: a linear rule lets one node choose the result.
    """
    return sign_flip(honest, own, factor)


def mimic(honest: Sequence[Update], own: Sequence[Update]) -> list[Update]:
    """All copy the honest node that sticks out most along the direction of greatest variance.

    Karimireddy, He and Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing"
    (ICLR 2022), appendix B: z maximises the variance of <z, x_i>, and node argmax |<z, x_i>| is
    copied. Here z comes from the one round that is seen, by an eigenvector of the centred Gram
    matrix.
    """
    rows = torch.stack([vector(update) for update in honest])
    centred = rows - rows.mean(0)
    _, eigenvectors = torch.linalg.eigh(centred @ centred.T)
    direction = centred.T @ eigenvectors[:, -1]
    return [dict(honest[int((rows @ direction).abs().argmax())])] * len(own)


def noise(honest: Sequence[Update], own: Sequence[Update], seed: int = 0) -> list[Update]:
    """Each sends Gaussian numbers of its honest update's norm: no attack, no work either."""
    source = torch.Generator().manual_seed(seed)
    sent = []
    for update in own:
        flat = vector(update)
        draw = torch.randn(flat.numel(), generator=source, dtype=torch.float64)
        sent.append(like(draw * (flat.norm() / draw.norm()), update))
    return sent


def zero(honest: Sequence[Update], own: Sequence[Update]) -> list[Update]:
    return [{name: torch.zeros_like(tensor) for name, tensor in update.items()} for update in own]


def not_finite(update: Update, value: float) -> Update:
    """The update with one NaN or infinity in the middle of its first tensor."""
    spoiled = {name: tensor.clone() for name, tensor in update.items()}
    flat = spoiled[min(spoiled)].view(-1)
    flat[flat.numel() // 2] = value
    return spoiled


# IPM comes twice: the weak one hides, the strong one reverses a mean. So does ALIE: the paper's z
# for 7 + 3 nodes is only 0.18, so a larger one is run beside it.
ATTACKS: Mapping[str, Attack] = {
    "sign_flip": sign_flip,
    "alie": alie,
    "alie_far": partial(alie, z=1.5),
    "ipm_weak": partial(ipm, epsilon=0.1),
    "ipm_strong": partial(ipm, epsilon=4.0),
    "blow_up": blow_up,
    "mimic": mimic,
    "noise": noise,
    "zero": zero,
}
