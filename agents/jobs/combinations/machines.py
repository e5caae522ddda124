# SPDX-License-Identifier: Apache-2.0
"""What goes with unlike machines: the classes that a job lists, and what its tolerances let by."""

from __future__ import annotations

import math

from agents.jobs.combinations.figures import NODES
from agents.mechanisms.codec import Codec
from agents.mechanisms.privacy import Privacy
from agents.mechanisms.verify import Verification
from agents.training.optimizers import chosen
from agents.training.spec import JobSpec, update_tolerances

LIST_THEM = (
    'List those classes that your verifiers run ("cpu-fp32" in the file of `ape run job create` is '
    "that of all x86-64 CPUs), and work that states another one is not paid"
)
# By whether the codec is lossless: the relative L2 from which on a node that states another class
# than the verifier's may skip so many steps of 12, and of 96. The most lenient cases of
# `tests/measure/studies/class_spread.py`, from the first in which they are more than 5 % of 12.
_SKIPPED = {
    True: ((0.021, 1, 7), (0.044, 2, 12), (0.062, 3, 16), (0.096, 4, 22)),
    False: ((0.112, 1, 8), (0.187, 2, 20), (0.233, 3, 30), (0.3, 6, 46)),
}
# Relative L2 by which honest nodes differed in 12 to 96 steps; without a warm-up in 96 steps, which
# depends on the text: in fp32 2.4e-3 in the study. On two pages of docs, beside AVX-512 and MKL's
# own branch, it was up to 0.16 (0.19 by `demo`, 0.47 by `sparse`, 0.61 by `polytope`).
_HONEST = {
    ("fp32", True): (4.9e-5, 0.16),
    ("fp32", False): (0.054, 0.61),
    ("bf16", True): (0.025, 0.32),
    ("bf16", False): (0.26, 0.82),
}


def listed(spec: JobSpec, verification: Verification, privacy: Privacy) -> list[str]:
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


def kept_state(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
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


def products(spec: JobSpec, verification: Verification, privacy: Privacy) -> list[str]:
    """Products in bf16 inside an inner optimizer that starts each round from zero: they move the
    update of another class further than the tolerances allow. Where state is kept `kept_state` says
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


def skippable(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
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
        f"verifier's may {left_out}, and be paid. {LIST_THEM}; or use fp32 and leave tolerances out"
    ]


def convicting(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """Tolerances by which an honest node of another class would be wrong. It is not found so, since
    rounding decides (`agents.verify.unsettled`), and neither is one that leaves as much out."""
    if not verification.redone:
        return []
    warm, cold = _HONEST[spec.precision, codec.lossless]
    unsettled = chosen(spec.optimizer.inner, spec.optimizer.inner_options).makes_steps and (
        spec.optimizer.warmup_rounds == 0
    )
    honest = cold if unsettled and spec.batches_per_round > 12 * NODES else warm
    if _radius(spec) >= honest:
        return []
    return [
        f"tolerances: honest nodes of different determinism classes were {honest:.2g} apart "
        f"({spec.precision}, codec {spec.codec}), more than the {_radius(spec):.3g} that are "
        "allowed: no verifier of another class can tell one from a node that leaves work out; warm "
        "up, or list classes"
    ]


def _radius(spec: JobSpec) -> float:
    """The relative L2 that both tolerances allow.

    A cosine bounds the distance too: of all vectors at an angle the best one is that far. A miner
    of a pipeline is judged before a codec, whatever its compressed rounds are sent by.
    """
    limits = spec.tolerances if spec.pipeline is None else update_tolerances(spec)
    return min(limits.rel_l2_max, math.sqrt(1.0 - limits.cosine_min**2))
