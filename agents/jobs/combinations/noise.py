# SPDX-License-Identifier: Apache-2.0
"""What goes with privacy: whose data, which codec and which merge."""

from __future__ import annotations

import math

from agents.jobs.combinations.figures import NODES
from agents.mechanisms.codec import Codec
from agents.mechanisms.codec.semantic import Semantic
from agents.mechanisms.privacy import Privacy
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.privacy.parts.blinding import Blinded, check_blinding
from agents.training.optimizers import chosen
from agents.training.spec import JobSpec, SpecError
from agents.training.state import Shapes


def data(spec: JobSpec, privacy: Privacy) -> list[str]:
    wrong = []
    if privacy.unit == "example" and spec.access != "local":
        sealed = (
            "; sealing the data changes nothing of that, because the sponsor and the verifiers of "
            "a drawn node know what it was assigned"
        )
        wrong.append(
            f'privacy "{spec.privacy}" needs access "local": a node may draw its samples in secret '
            "only from its own data; batches assigned in public earn no privacy"
            + (sealed if spec.access == "encrypted" else "")
        )
    inner = chosen(spec.optimizer.inner, spec.optimizer.inner_options)
    if privacy.unit == "example" and not inner.makes_steps:
        wrong.append(
            f'privacy "{spec.privacy}" makes noisy steps; optimizer.inner '
            f'"{spec.optimizer.inner}" makes none'
        )
    return wrong


def fitted(spec: JobSpec, privacy: Privacy) -> dict[str, float]:
    """Options of the codec that follow from the job's privacy.

    The range of `semantic` is public: it must hold the clipped update and the noise on it, or an
    honest payload would be cut off and look dishonest. SpecError if the spec says otherwise.
    """
    if spec.codec != "semantic" or not isinstance(privacy, Gaussian):
        return {}
    wanted = {"clip": privacy.clip, "noise_std": privacy.sigma}
    for name, value in wanted.items():
        given = spec.codec_options.get(name, value)
        if given != value:
            raise SpecError(
                f"codec_options.{name} is {given}, but privacy fixes it at {value}; leave it out"
            )
    return wanted


def blinding(spec: JobSpec, shapes: Shapes, codec: Codec, privacy: Privacy) -> list[str]:
    """Local noise on whole updates: what it makes of a robust merge."""
    if not isinstance(privacy, Gaussian) or spec.merge == "mean":
        return []
    dimension = sum(math.prod(shape) for shape in shapes.values())
    try:
        found = check_blinding(
            dimension,
            privacy.sigma,
            privacy.clip,
            NODES,
            accept=privacy.accept_blinding,
            projected=codec.rows(dimension) if isinstance(codec, Semantic) else None,
        )
    except Blinded as error:
        raise SpecError(str(error)) from error
    return [] if found is None else [found]
