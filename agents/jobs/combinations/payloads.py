# SPDX-License-Identifier: Apache-2.0
"""What goes with a codec: which merges its payloads bear, and what it makes of a model's shapes."""

from __future__ import annotations

import math

from agents.mechanisms.codec import Codec, ratio
from agents.mechanisms.codec import get as get_codec
from agents.mechanisms.codec.parts.cell_codec import CellCodec
from agents.mechanisms.codec.semantic import Semantic
from agents.mechanisms.privacy import Privacy
from agents.mechanisms.privacy.aggregate import sensitivity
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.verify import Verification
from agents.training.optimizers import chosen
from agents.training.spec import Hyperparameters, JobSpec
from agents.training.state import Shapes

_LARGE_SIGN = 0.01  # as an outer rate of signs
NEED_ALL = ("geometric_mean", "median", "trimmed_mean")
"""Merge rules that are zero wherever most payloads are."""
_AVERAGING = ("mean", "norm_clip", "weighted_mean")
"""Rules that compare nobody's payload with another's, but for its length."""
WEIGHING = "weighted_mean"
BY_NUMBER = ("geometric_mean", "mean", "median", "trimmed_mean")
"""Merge rules that give a shard the same bits alone as in its place."""
_AS_THEY_ARE = ("geometric_mean", "mean")
"""Rules of models that are not split whose result follows one payload however far it goes."""
_LARGE: Shapes = {"matrix": (8192, 8192)}  # every codec's chunks are full here
_LEAST_SHARE = 0.5  # of that ratio, which a job's shapes leave without a warning


def merging(spec: JobSpec, codec: Codec, privacy: Privacy) -> list[str]:
    wrong = []
    if getattr(codec, "mostly_zero", False) and spec.merge in NEED_ALL:
        instead = "multi_krum, geometric_median, centred_clipping, norm_clip or mean"
        if getattr(codec, "own_seed", False):
            instead = _averaging(spec)  # the others compare payloads, see `projecting`
        wrong.append(
            f'codec "{spec.codec}" leaves most coordinates of a payload zero, or noise, so merge '
            f'"{spec.merge}" would be zero nearly everywhere; use {instead}'
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


def sizes(spec: JobSpec, verification: Verification, codec: Codec, privacy: Privacy) -> list[str]:
    """Merges that take a payload of any size as it is.

    Where work is done again its sender is found if it is drawn, else by nobody, and `job create`
    refuses the job. The change stays in both cases. Of the stages of a split model
    `agents.rounds.stage_bound` has the bound.
    """
    unlooked = spec.merge in _AS_THEY_ARE and not verification.validators_score
    if spec.pipeline is not None or not unlooked or not _any_size(spec, codec, privacy):
        return []
    cure = "use merge norm_clip, by which no payload moves the model further than the median one"
    if isinstance(privacy, Gaussian):
        cure = "use codec dense or semantic"
    said = (
        f'codec "{spec.codec}" with optimizer.inner "{spec.optimizer.inner}" under merge '
        f'"{spec.merge}": nothing bounds a payload below 2^64 in each number, and the merge takes '
        "it as it is, so one spoils the model for good"
    )
    found = (
        "whether its node is found or not" if verification.redone else "and its node is not found"
    )
    return [f"{said}, {found}; {cure}"]


def _any_size(spec: JobSpec, codec: Codec, privacy: Privacy) -> bool:
    """Whether nothing bounds what one payload of a model that is not split says.

    Noise's place `aggregate` has payloads clipped before they are merged, and the range of
    `semantic` is in the spec. Else it is what `agents.rounds.payload_bound` can't hold a payload
    against.
    """
    if privacy.place == "aggregate" or isinstance(codec, Semantic):
        return False
    if not codec.lossless:
        return True
    if isinstance(privacy, Gaussian):
        return False
    rounds = spec.optimizer.inner_state_rounds if spec.optimizer.inner_state == "kept" else 1
    steps, hyper = spec.batches_per_round, Hyperparameters.of(spec, 0)
    inner, one = chosen(hyper.inner, hyper.inner_options), {"hidden": (1, 1), "rest": (1, 1)}
    most = inner.most_moved(one, ("hidden",), hyper, steps, (rounds - 1) * steps)
    bounds = [bound for tensor in most.values() for bound in (tensor.share, tensor.number)]
    return len(most) < len(one) or not all(map(math.isfinite, bounds))


def mixing(spec: JobSpec, codec: Codec) -> list[str]:
    """Sparse honest updates hardly overlap: identical attackers look like the closest friends."""
    if not getattr(codec, "mostly_zero", False) or spec.merge != "multi_krum":
        return []
    if spec.merge_options.get("mixing", False):
        return []
    return [
        f'codec "{spec.codec}" under multi_krum without mixing: in tests 3 of 10 nodes with strong '
        "inner-product manipulation raised the loss; set merge_options.mixing to true"
    ]


def signs(spec: JobSpec, codec: Codec) -> list[str]:
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


def projecting(spec: JobSpec, codec: Codec) -> list[str]:
    """Codecs that draw for each node by itself, under a merge that compares payloads."""
    if spec.merge in _AVERAGING:
        return []
    named = [(f'codec "{spec.codec}"', getattr(codec, "own_seed", False))]
    sharing = None if spec.pipeline is None else spec.pipeline.sharing
    if sharing is not None and spec.full_every > 1:
        usual = getattr(get_codec(sharing.codec), "own_seed", False)
        own = sharing.codec_options.get("own_seed", usual)
        named.append((f'pipeline.sharing.codec "{sharing.codec}"', own))
    return [
        f'{what} with a seed for each node under merge "{spec.merge}": payloads of different draws '
        "are far apart whoever sent them, so the merge tells nobody from anybody; use "
        f"{_averaging(spec)}, or leave own_seed out where the codec has that option"
        for what, own in named
        if own
    ]


def _averaging(spec: JobSpec) -> str:
    """Rules that compare nobody's payload with another's, of those that the job may have."""
    rules = [rule for rule in _AVERAGING if rule != WEIGHING or spec.pipeline is not None]
    return " or ".join(rule for rule in rules if not spec.butterfly or rule in BY_NUMBER)


def unnamed(shapes: Shapes, codec: Codec) -> list[str]:
    """Tensors that the codec is told of and the model has not."""
    if not isinstance(codec, CellCodec):
        return []
    return [
        f"codec_options.fine names {name!r}, and the model has no such tensor; its tensors of two "
        f"dimensions that are largest: {', '.join(_largest(shapes))}"
        for name in codec.fine_names
        if name not in shapes
    ]


def _largest(shapes: Shapes) -> list[str]:
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    return sorted(matrices, key=lambda name: (-math.prod(shapes[name]), name))[:4]


def small_shapes(spec: JobSpec, shapes: Shapes, codec: Codec) -> list[str]:
    """Headers, scales and chunks that are not full: what they cost where tensors are small.

    `semantic` sends as many numbers as the sponsor says, whatever the shapes.
    """
    if isinstance(codec, Semantic):
        return []
    here, large = ratio(codec, shapes), ratio(codec, _LARGE)
    if here >= _LEAST_SHARE * large:
        return []
    return [
        f'codec "{spec.codec}" makes this model {here:.1f} times shorter, and {large:.1f} times '
        "where tensors are large matrices: each payload has a header, and a chunk that a tensor "
        "does not fill costs nearly as much as a full one (docs/compression.md, Shapes)"
    ]
