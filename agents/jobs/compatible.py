# SPDX-License-Identifier: Apache-2.0
"""Which of a spec's mechanisms go together.

Rule: a combination that cannot keep what one of its parts promises is refused when the job is
read, with the reason; one that keeps it badly is a warning with the figure. Nobody trains, stakes
or pays on a spec that was refused.
"""

from __future__ import annotations

import math

from agents.mechanisms.codec import Codec, LinearCodec, SupportCodec
from agents.mechanisms.codec.semantic import Semantic
from agents.mechanisms.privacy import Privacy
from agents.mechanisms.privacy.aggregate import sensitivity
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.privacy.parts.blinding import Blinded, check_blinding
from agents.mechanisms.verify import Companions, Verification
from agents.training.optimizers import chosen
from agents.training.spec import JobSpec, SpecError
from agents.training.state import Shapes

_LARGE_SIGN = 0.01  # as an outer rate of signs
_OF_PASSES = ("backward_passes", "clasp")
_NODES = 16  # a network this large is assumed where a figure depends on it


def check_together(
    spec: JobSpec, shapes: Shapes, verification: Verification, codec: Codec, privacy: Privacy
) -> list[str]:
    """Warnings about a spec, as sentences. Raises SpecError for what cannot work."""
    wrong = [
        *_data(spec, privacy),
        *verification.objections(_companions(spec, codec, privacy)),
        *_merging(spec, codec, privacy),
        *_splitting(spec, verification, privacy),
    ]
    if wrong:
        raise SpecError("; ".join(wrong))
    return [
        *_mixing(spec, codec),
        *_signs(spec, codec),
        *_projecting(spec, codec),
        *_blinding(spec, shapes, codec, privacy),
    ]


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


def _data(spec: JobSpec, privacy: Privacy) -> list[str]:
    wrong = []
    if privacy.unit == "example" and spec.access != "local":
        wrong.append(
            f'privacy "{spec.privacy}" needs access "local": a node may draw its samples in secret '
            "only from its own data; batches assigned in public earn no privacy"
        )
    inner = chosen(spec.optimizer.inner, spec.optimizer.inner_options)
    if privacy.unit == "example" and not inner.makes_steps:
        wrong.append(
            f'privacy "{spec.privacy}" makes noisy steps; optimizer.inner '
            f'"{spec.optimizer.inner}" makes none'
        )
    return wrong


def _companions(spec: JobSpec, codec: Codec, privacy: Privacy) -> Companions:
    return Companions(
        access=spec.access,
        codec=spec.codec,
        memory_rounds=codec.memory_rounds,
        has_memory=codec.has_memory,
        linear=isinstance(codec, LinearCodec),
        names_numbers=isinstance(codec, SupportCodec),
        privacy=spec.privacy,
        privacy_unit=privacy.unit,
        privacy_place=privacy.place,
    )


def _merging(spec: JobSpec, codec: Codec, privacy: Privacy) -> list[str]:
    wrong = []
    zeros = ("geometric_mean", "median", "trimmed_mean")
    if getattr(codec, "mostly_zero", False) and spec.merge in zeros:
        wrong.append(
            f'codec "{spec.codec}" leaves most coordinates of a payload zero, so merge '
            f'"{spec.merge}" would be zero nearly everywhere; use multi_krum, geometric_median, '
            "centred_clipping, norm_clip or mean"
        )
    if privacy.place == "aggregate":
        try:
            sensitivity(spec.merge, 1, 1.0)
        except ValueError as error:
            wrong.append(str(error))
        if spec.score != "batches":
            wrong.append(
                f'score "{spec.score}" would publish figures about updates that privacy '
                '"aggregate" keeps secret; use batches'
            )
    return wrong


def _splitting(spec: JobSpec, verification: Verification, privacy: Privacy) -> list[str]:
    """What a model in stages doesn't allow: a node has no gradient without its neighbours."""
    if (spec.score in _OF_PASSES) != (spec.pipeline is not None):
        names = " or ".join(f'"{name}"' for name in _OF_PASSES)
        return [
            f'score {names} and mode "pipeline" belong together: the nodes of a split model have '
            "different tensors, so other scores can't compare them, and no other mode has such "
            f'passes; score is "{spec.score}", mode is "{spec.mode}"'
        ]
    if spec.pipeline is None:
        return []
    wrong = []
    if not verification.redone:
        wrong.append(
            f'mode "{spec.mode}" needs verify "reexecution", not "{spec.verify}": the loss says '
            "nothing about one stage alone, so a node's work is known to be right only by doing it "
            "again"
        )
    if privacy.unit != "none":
        wrong.append(
            f'mode "{spec.mode}" needs privacy "none", not "{spec.privacy}": codes and gradients '
            "pass between nodes without noise, and are published"
        )
    if spec.access != "public":
        wrong.append(
            f'mode "{spec.mode}" needs access "public", not "{spec.access}": every node of a '
            "sample's way reads its tokens, and verifiers read them again"
        )
    if spec.codec != "dense":
        wrong.append(
            f'mode "{spec.mode}" needs codec "dense", not "{spec.codec}": a node changes its stage '
            "from round to round, and neither a codec's memory nor its shared randomness is "
            "defined for one stage yet"
        )
    if not chosen(spec.optimizer.inner, spec.optimizer.inner_options).makes_steps:
        wrong.append(
            f'mode "{spec.mode}" makes steps within a round; optimizer.inner '
            f'"{spec.optimizer.inner}" makes none'
        )
    return wrong


def _mixing(spec: JobSpec, codec: Codec) -> list[str]:
    """Sparse honest updates hardly overlap: identical attackers look like the closest friends."""
    if not getattr(codec, "mostly_zero", False) or spec.merge != "multi_krum":
        return []
    if spec.merge_options.get("mixing", False):
        return []
    return [
        f'codec "{spec.codec}" under multi_krum without mixing: in tests 3 of 10 nodes with strong '
        "inner-product manipulation raised the loss; set merge_options.mixing to true"
    ]


def _signs(spec: JobSpec, codec: Codec) -> list[str]:
    """An update of signs moves every parameter as far, whatever the gradient's size."""
    if spec.merge != "demo_sign":
        return []
    found = []
    rate = spec.optimizer.outer_lr
    if rate > _LARGE_SIGN:
        found.append(
            f"merge demo_sign moves every parameter by optimizer.outer_lr in each round, and "
            f"{rate:g} is large; DeMo's runs use 0.0004"
        )
    if not spec.optimizer.outer_decay:
        found.append(
            "merge demo_sign without optimizer.outer_decay: updates of signs don't shrink with "
            "the gradient, so the model keeps moving and does not settle"
        )
    if getattr(codec, "mostly_zero", False):
        found.append(
            f'codec "{spec.codec}" under merge demo_sign: a number that one node alone sent moves '
            "its parameter as far as one that all agree on; use demo, or norm_clip"
        )
    return found


def _projecting(spec: JobSpec, codec: Codec) -> list[str]:
    if not getattr(codec, "own_seed", False) or spec.merge == "mean":
        return []
    return [
        f'codec "{spec.codec}" with own_seed under merge "{spec.merge}": payloads of different '
        "projections are far apart whoever sent them, so the merge tells nobody from anybody; "
        "leave own_seed out"
    ]


def _blinding(spec: JobSpec, shapes: Shapes, codec: Codec, privacy: Privacy) -> list[str]:
    """Local noise on whole updates: what it makes of a robust merge."""
    if not isinstance(privacy, Gaussian) or spec.merge == "mean":
        return []
    dimension = sum(math.prod(shape) for shape in shapes.values())
    try:
        found = check_blinding(
            dimension,
            privacy.sigma,
            privacy.clip,
            _NODES,
            accept=privacy.accept_blinding,
            projected=codec.rows(dimension) if isinstance(codec, Semantic) else None,
        )
    except Blinded as error:
        raise SpecError(str(error)) from error
    return [] if found is None else [found]
