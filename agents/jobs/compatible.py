# SPDX-License-Identifier: Apache-2.0
"""Which of a spec's mechanisms go together.

Rule: a combination that cannot keep what one of its parts promises is refused when the job is
read, with the reason; one that keeps it badly is a warning with the figure. Nobody trains, stakes
or pays on a spec that was refused.
"""

from __future__ import annotations

import math

from agents.jobs.riders import RIDERS_EARN
from agents.mechanisms.codec import Codec, LinearCodec, SupportCodec, ratio
from agents.mechanisms.codec import get as get_codec
from agents.mechanisms.codec.cells import Cells
from agents.mechanisms.codec.demo import Demo
from agents.mechanisms.codec.semantic import Semantic
from agents.mechanisms.privacy import Privacy
from agents.mechanisms.privacy.aggregate import sensitivity
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.privacy.parts.blinding import Blinded, check_blinding
from agents.mechanisms.score.alignment import Alignment
from agents.mechanisms.verify import Companions, Verification
from agents.training.optimizers import chosen
from agents.training.spec import JobSpec, SpecError, update_tolerances
from agents.training.state import Shapes

_LARGE_SIGN = 0.01  # as an outer rate of signs
_NEED_ALL = ("geometric_mean", "median", "trimmed_mean")
"""Merge rules that are zero wherever most payloads are."""
_AVERAGING = ("mean", "norm_clip", "weighted_mean")
"""Rules that compare nobody's payload with another's, but for its length."""
_WEIGHING = "weighted_mean"
_BY_NUMBER = ("geometric_mean", "mean", "median", "trimmed_mean")
"""Merge rules that give a shard the same bits alone as in its place."""
_OF_PASSES = ("backward_passes", "clasp")
# By whether the codec is lossless: the relative L2 from which on a node that states another class
# than the verifier's may skip so many steps of 12, and of 96. The most lenient cases of
# `tests/measure/studies/class_spread.py`, from the first in which they are more than 5 % of 12.
_SKIPPED = {
    True: ((0.021, 1, 7), (0.044, 2, 12), (0.062, 3, 16), (0.096, 4, 22)),
    False: ((0.112, 1, 8), (0.187, 2, 20), (0.233, 3, 30), (0.3, 6, 46)),
}
# Relative L2 by which honest nodes differed in 12 to 96 steps; without a warm-up in 96 steps.
_HONEST = {
    ("fp32", True): (4.9e-5, 2.4e-3),
    ("fp32", False): (0.054, 0.082),
    ("bf16", True): (0.025, 0.32),
    ("bf16", False): (0.26, 0.82),
}
_LARGE: Shapes = {"matrix": (8192, 8192)}  # every codec's chunks are full here
_LEAST_SHARE = 0.5  # of that ratio, which a job's shapes leave without a warning
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
        *_classes(spec, verification, privacy),
        *_keeping(spec, verification, codec),
        *_rounding(spec, verification, privacy),
        *_skippable(spec, verification, codec),
        *_showing(spec, verification, codec),
        *_alike(spec),
        *_paying(spec),
    ]
    if wrong:
        raise SpecError("; ".join(wrong))
    return [
        *_mixing(spec, codec),
        *_signs(spec, codec),
        *_projecting(spec, codec),
        *_unnamed(shapes, codec),
        *_small_shapes(spec, shapes, codec),
        *_convicting(spec, verification, codec),
        *_blinding(spec, shapes, codec, privacy),
        *_riding(spec, verification),
        *_lots(spec, privacy),
        *_taking_much(spec, codec),
        *_showing_little(spec, verification, codec),
        *_paying_little_work(spec, verification, codec),
        *_segments(spec),
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
    if getattr(codec, "mostly_zero", False) and spec.merge in _NEED_ALL:
        instead = "multi_krum, geometric_median, centred_clipping, norm_clip or mean"
        if getattr(codec, "own_seed", False):
            instead = _averaging(spec)  # the others compare payloads, see `_projecting`
        wrong.append(
            f'codec "{spec.codec}" leaves most coordinates of a payload zero, so merge '
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
        if spec.merge != _WEIGHING:
            return []
        return [
            f'merge "{_WEIGHING}" needs mode "pipeline": it weighs by backward passes that count, '
            "and no other mode counts any; use mean"
        ]
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
            f'mode "{spec.mode}" needs codec "dense", not "{spec.codec}": a full synchronisation '
            "is not compressed; name another codec in pipeline.sharing, for the rounds between"
        )
    sharing = spec.pipeline.sharing
    if (
        sharing is not None
        and getattr(get_codec(sharing.codec), "mostly_zero", False)
        and spec.merge in _NEED_ALL
    ):
        wrong.append(
            f'pipeline.sharing.codec "{sharing.codec}" leaves most coordinates of a payload zero, '
            f'so merge "{spec.merge}" would be zero nearly everywhere; use mean or norm_clip'
        )
    if spec.segment and spec.full_every > 1 and sharing is not None and sharing.codec != "dense":
        wrong.append(
            f'pipeline.segment does not go with pipeline.sharing by codec "{sharing.codec}": what '
            "a miner owes is known by doing its whole epochs again; leave segment out, or "
            "compressed rounds"
        )
    if spec.butterfly and spec.merge == _WEIGHING:
        wrong.append(
            f'pipeline.all_reduce "butterfly" does not go with merge "{_WEIGHING}": an owner that '
            "has not seen all logs counts other passes, would merge by other weights and be taken "
            f"for a liar; use one of {', '.join(_BY_NUMBER)}"
        )
    elif spec.butterfly and spec.merge not in _BY_NUMBER:
        wrong.append(
            f'pipeline.all_reduce "butterfly" merges shards, and merge "{spec.merge}" looks at '
            f"whole updates; use one that merges each number for itself: {', '.join(_BY_NUMBER)}"
        )
    if not chosen(spec.optimizer.inner, spec.optimizer.inner_options).makes_steps:
        wrong.append(
            f'mode "{spec.mode}" makes steps within a round; optimizer.inner '
            f'"{spec.optimizer.inner}" makes none'
        )
    return wrong


def _classes(spec: JobSpec, verification: Verification, privacy: Privacy) -> list[str]:
    """Where a list of determinism classes would promise what nobody checks."""
    if not spec.classes:
        return []
    if not verification.redone:
        return [
            f'classes need verify "reexecution", not "{spec.verify}": nobody does the work again, '
            "so nothing is compared to the bit"
        ]
    if privacy.place == "node":
        return [
            f'classes don\'t go with privacy "{spec.privacy}": work under noise that only its node '
            "knows is judged by the size of the noise, in every class"
        ]
    return []


def _keeping(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """Where the inner optimizer's state can't live on: nobody could say what it must be, or there
    is none."""
    inner = spec.optimizer
    if inner.inner_state == "zero":
        return []
    kept = f'optimizer.inner_state "{inner.inner_state}"'
    wrong = []
    if not verification.redone:
        wrong.append(
            f'{kept} needs verify "reexecution", not "{spec.verify}": nobody does a node\'s '
            "earlier rounds again, so nobody could say which state it must start from"
        )
    if spec.pipeline is not None:
        wrong.append(
            f'{kept} does not go with mode "{spec.mode}": a stage changes hands, and its optimizer '
            "starts from zero with every miner and round"
        )
    if not chosen(inner.inner, inner.inner_options).makes_steps:
        wrong.append(
            f'{kept} needs an inner optimizer that makes steps; optimizer.inner "{inner.inner}" '
            "has no state"
        )
    rounds = inner.inner_state_rounds
    longer, shorter = max(rounds, codec.memory_rounds), min(rounds, codec.memory_rounds)
    if codec.has_memory and longer % shorter:
        wrong.append(
            f"optimizer.inner_state_rounds is {rounds} and codec_options.memory_rounds "
            f"{codec.memory_rounds}; one must divide the other, or a re-execution could begin "
            "nowhere with both of them empty"
        )
    if _drifts(spec) and len(spec.classes) != 1:
        wrong.append(
            f"{kept} with products in bf16 needs exactly one determinism class in classes, and "
            f"there are {len(spec.classes)}: from round to round honest nodes of different classes "
            "drift apart, further than the tolerances allow, and would be found INVALID; list one "
            'class, or use fp32 or optimizer.inner_state "zero"'
        )
    return wrong


def _rounding(spec: JobSpec, verification: Verification, privacy: Privacy) -> list[str]:
    """Products in bf16 inside an inner optimizer that starts each round from zero: they move the
    update of another class further than the tolerances allow. Where state is kept `_keeping` says
    so.

    A tolerance that lets them pass pays for steps that were left out, and a lossy codec is judged
    by the lossless limit (`agents.verify.reexecution`), so no codec helps. Noise that only its node
    knows is far larger, and judged by its size.

    Figures: `python -m tests.measure.studies.kept_spread --rounds 6 --case "fp32 muon" "fp32 muon,
    products bf16"`; by codec `python -m tests.measure.studies.class_spread`.
    """
    inner = spec.optimizer
    rounded = inner.inner_options.get("newton_schulz") == "bf16" and inner.inner_state == "zero"
    if not (rounded and verification.redone) or privacy.place == "node" or len(spec.classes) == 1:
        return []
    return [
        'optimizer.inner_options.newton_schulz "bf16" needs exactly one determinism class in '
        f"classes, and there are {len(spec.classes)}: in 12 steps honest nodes of different "
        "classes were up to 0.028 apart (fp32, codec dense), where 0.005 is allowed by default, "
        "and would be found INVALID whatever the codec; list one class, or use newton_schulz "
        '"fp32", by which they were 7.4e-6 apart'
    ]


def _drifts(spec: JobSpec) -> bool:
    """Whether a state is gathered from numbers that have 8 bits, which each class rounds its way.

    Figures: `python -m tests.measure.studies.kept_spread`.
    """
    return "bf16" in (spec.precision, spec.optimizer.inner_options.get("newton_schulz"))


def _showing(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """Payloads that say too little about their round's data for validators to pay by it.

    Figures, by `power` 1: `python -m tests.measure.studies.gauntlet_pay --job sparse --cases
    equal,quarters --options '{"power": 1}'`.
    """
    inner = chosen(spec.optimizer.inner, spec.optimizer.inner_options)
    mostly_zero = getattr(codec, "mostly_zero", False)
    if not (verification.validators_score and mostly_zero and inner.makes_steps):
        return []
    return [
        f'codec "{spec.codec}" with the local steps of optimizer.inner "{spec.optimizer.inner}" '
        f'does not go with score "{spec.score}": a payload says little about its round\'s data, so '
        "validators measure chance. The pay of equal nodes spread by 41 to 68 % of its mean, and "
        "nodes that rode on a quarter of the work earned 0.47 to 1.14 of their share; use codec "
        '"demo" with optimizer.inner "gradient", or verify "reexecution"'
    ]


def _alike(spec: JobSpec) -> list[str]:
    """Updates that are so alike that a score by direction takes honest nodes for copies."""
    inner = chosen(spec.optimizer.inner, spec.optimizer.inner_options)
    if spec.score != "alignment" or inner.makes_steps:
        return []
    return [
        f'score "alignment" does not go with optimizer.inner "{spec.optimizer.inner}": mean '
        "gradients of large batches are nearly equal. Where 2 of 10 nodes add noise, the other 8 "
        "pass for copies of each other, and a noisy node earned 7.8 of an honest one; a node with "
        "1/32 of the work earned 0.93. Use score shares or gauntlet, or an inner optimizer that "
        "makes steps (adamw or muon)"
    ]


def _paying(spec: JobSpec) -> list[str]:
    """Options of the gauntlet that pay by lot, or pay for past merged updates.

    Figures: `python -m tests.measure.studies.gauntlet_pay --job plain --paper`; of each option
    alone with `--options '{"pays": "rank", "power": 1}'` and `'{"history": 0, "power": 1}'`.
    """
    if spec.score != "gauntlet":
        return []
    wrong = []
    if spec.score_options.get("pays") == "rank":
        wrong.append(
            'score "gauntlet" does not go with score_options.pays "rank": the pay of equal nodes '
            "spread by 106 to 120 % of its mean with history 0, and by 87 % with history 8; by "
            'pays "work" it is 15 to 22 %, so use that'
        )
    if spec.score_options.get("history") == 0:
        wrong.append(
            'score "gauntlet" does not go with score_options.history 0: past updates count like '
            "work then. By power 1 nodes that rode on a quarter of the work earned 0.44 of an "
            'honest node\'s pay, where 0.25 is fair; with pays "rank" riders earned 1.35 to 3.71 '
            "of their share. Leave history out"
        )
    return wrong


def _showing_little(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """The neighbours of what `_showing` refuses. Figures, by `power` 1: `python -m
    tests.measure.studies.gauntlet_pay --job "sparse gradient" --job steps --cases equal,quarters
    --options '{"power": 1}'`.
    """
    if not verification.validators_score:
        return []
    if getattr(codec, "mostly_zero", False):
        return [
            f'codec "{spec.codec}" under score "{spec.score}": by power 1 two of seven nodes that '
            "rode on a quarter of the work earned 0.67 to 1.20 of their share, with codec demo "
            "0.23 to 0.89 (docs/scoring.md)"
        ]
    if chosen(spec.optimizer.inner, spec.optimizer.inner_options).makes_steps:
        return [
            f'the local steps of optimizer.inner "{spec.optimizer.inner}" under score '
            f'"{spec.score}": by power 1 the pay of equal nodes spread by 26 to 43 % of its mean, '
            "with inner gradient by 12 to 18 % (docs/scoring.md)"
        ]
    return []


def _paying_little_work(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """Payloads of so few numbers that most of what they show is in a part of the work. `ape run job
    create` plays it and refuses; who makes a job another way is told here.

    How long the codec remembers matters little: with 32 and a decay of 0.5 they earned 0.40 and
    0.70, with 512 and 0.999 0.24 and 0.34. Figures: `ape run economics attacks --family gauntlet
    --spec FILE`, which plays six rounds, by three seeds where little work is paid above its share.
    """
    if not (verification.validators_score and isinstance(codec, Demo)):
        return []
    if codec.per_chunk > Demo.per_chunk:
        return []
    return [
        f'codec "demo" with codec_options.per_chunk {codec.per_chunk} under score "{spec.score}": '
        f"with {Demo.per_chunk} a quarter of the work earned 0.42 of an honest node's pay, and "
        "half of it 0.64; set codec_options.per_chunk to 512 and decay to 0.5, by which they "
        "earned 0.19 and 0.37 (docs/scoring.md)"
    ]


def _segments(spec: JobSpec) -> list[str]:
    """Segments that save nothing, and what they let by."""
    if not spec.segment or spec.pipeline is None:
        return []
    steps = math.ceil(spec.batches_per_round / spec.pipeline.local_batch)
    if spec.segment >= steps:
        return [
            f"pipeline.segment {spec.segment} is no shorter than an epoch, which has {steps} steps "
            "of a miner that is alone in its stage; leave it out"
        ]
    return [
        f"pipeline.segment {spec.segment}: of an epoch of n segments a drawn miner does one again, "
        "so one false step is found once in n draws; work that is left out is found in proportion"
    ]


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


def _riding(spec: JobSpec, verification: Verification) -> list[str]:
    """Scores by direction: whom they can't tell from an honest node, where nothing else does."""
    found = []
    unseen = f'score "{spec.score}" under verify "{spec.verify}"'
    if spec.score == "shares" and not verification.redone:
        found.append(
            f"{unseen} pays a node that resends past merged updates like one that trains, and "
            "nobody does its work again; use alignment"
        )
    if spec.score == "alignment" and not verification.redone:
        found.append(
            f"{unseen} pays nothing for past merged updates as they are, but who trains nothing "
            f"and adapts their form earns {RIDERS_EARN}; admit nodes that you know"
        )
    if spec.score == "batches" and not verification.redone:
        found.append(
            f"{unseen} pays whatever is sent, and nobody does the work again; use alignment"
        )
    return found


def _lots(spec: JobSpec, privacy: Privacy) -> list[str]:
    """A score by direction where noise hides most of what updates have in common."""
    by_direction = spec.score == "alignment" and privacy.unit != "none"
    if not by_direction or spec.score_options.get("chance", 0):
        return []
    return [
        f'score "alignment" with privacy "{spec.privacy}": where updates are mostly noise, who is '
        "paid in a round is left to luck, and a sender of noise earned 0.51 of an honest node; set "
        "score_options.chance to 3 / sqrt(m) for updates of m numbers, or of m rows of a codec"
    ]


def _taking_much(spec: JobSpec, codec: Codec) -> list[str]:
    """What is public, taken out of payloads that hold few numbers: little is left to pay by.

    Figures: `python -m tests.measure.studies.riders --seeds 3`.
    """
    history = spec.score_options.get("history", Alignment.history)
    if spec.score != "alignment" or not history or not getattr(codec, "mostly_zero", False):
        return []
    return [
        f'codec "{spec.codec}" under score "alignment" with score_options.history {history}: a '
        "node with twice the data earned 0.89 to 1.47 of its usual pay, with history 0 1.61 to "
        "1.73, and the pay of equal nodes spread by up to 24 % of its mean beside riders, with "
        'history 0 by 14 %; where work is redone (verify "reexecution") set history to 0'
    ]


def _projecting(spec: JobSpec, codec: Codec) -> list[str]:
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
    rules = [rule for rule in _AVERAGING if rule != _WEIGHING or spec.pipeline is not None]
    return " or ".join(rule for rule in rules if not spec.butterfly or rule in _BY_NUMBER)


def _unnamed(shapes: Shapes, codec: Codec) -> list[str]:
    """Tensors that the codec is told of and the model has not."""
    if not isinstance(codec, Cells):
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


def _small_shapes(spec: JobSpec, shapes: Shapes, codec: Codec) -> list[str]:
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


def _skippable(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """Tolerances that pay a node which states another class for work that it left out.

    Figures: `python -m tests.measure.studies.class_spread --steps 12 96 384`. In a pipeline only a
    miner of the first stage can, by `tests/agents/verify/test_skipped_passes.py`: every other one
    owes its neighbour the gradient of each pass.
    """
    passed = [row for row in _SKIPPED[codec.lossless] if row[0] <= _radius(spec)]
    if not (verification.redone and passed) or spec.classes:
        return []
    _, few, many = passed[-1]
    left_out = f"skip {few} of 12 steps or more, {many} of 96"
    if spec.pipeline is not None:
        left_out = "leave backward passes of the first stage out (in bf16 three of 27)"
    return [
        f"precision {spec.precision} and codec {spec.codec} with tolerances of a relative L2 of "
        f"{_radius(spec):.3g} need classes: a node that states another determinism class than the "
        f"verifier's may {left_out}, and be paid. List those classes that your verifiers run, and "
        "work that states another one is not paid; or use fp32 and leave tolerances out"
    ]


def _convicting(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """Tolerances that convict an honest node of another class."""
    if not verification.redone:
        return []
    warm, cold = _HONEST[spec.precision, codec.lossless]
    unsettled = chosen(spec.optimizer.inner, spec.optimizer.inner_options).makes_steps and (
        spec.optimizer.warmup_rounds == 0
    )
    honest = cold if unsettled and spec.batches_per_round > 12 * _NODES else warm
    if _radius(spec) >= honest:
        return []
    return [
        f"tolerances: honest nodes of different determinism classes were {honest:.2g} apart "
        f"({spec.precision}, codec {spec.codec}), more than the {_radius(spec):.3g} that are "
        "allowed, and one that is drawn would be reported; warm up, or allow more"
    ]


def _radius(spec: JobSpec) -> float:
    """The relative L2 that both tolerances allow.

    A cosine bounds the distance too: of all vectors at an angle the best one is that far. A miner
    of a pipeline is judged before a codec, whatever its compressed rounds are sent by.
    """
    limits = spec.tolerances if spec.pipeline is None else update_tolerances(spec)
    return min(limits.rel_l2_max, math.sqrt(1.0 - limits.cosine_min**2))


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
