# SPDX-License-Identifier: Apache-2.0
"""What goes with a score: which payloads it can tell apart, and whom it pays for nothing."""

from __future__ import annotations

from agents.jobs.combinations.figures import RIDERS_EARN
from agents.mechanisms.codec import Codec
from agents.mechanisms.codec.demo import Demo
from agents.mechanisms.privacy import Privacy
from agents.mechanisms.score.alignment import Alignment
from agents.mechanisms.verify import Verification
from agents.training.optimizers import chosen
from agents.training.spec import JobSpec

LEAST_SAID = 8
"""A chunk's numbers over those that codec `demo` must send of it where validators score."""


def showing(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """Payloads that say too little about their round's data for validators to pay by it.

    Figures: `python -m tests.measure.studies.gauntlet_pay --job sparse --cases equal,quarters
    --texts`, and `--job steps --seq-len 64 --texts --rounds 16 --cases "plain quarter"`.
    """
    inner = chosen(spec.optimizer.inner, spec.optimizer.inner_options)
    if not (verification.validators_score and inner.makes_steps):
        return []
    if getattr(codec, "mostly_zero", False):
        measured = (
            "The pay of equal nodes spread by 53 to 71 % of its mean, and nodes that rode on a "
            "quarter of the work earned up to 1.03 of their share"
        )
    else:
        measured = (
            'With codec "demo" the pay of equal nodes spread by 59 to 90 % of its mean, and a node '
            "that did a quarter of the work earned up to 0.39 of an honest node's pay"
        )
    return [
        f'codec "{spec.codec}" with the local steps of optimizer.inner "{spec.optimizer.inner}" '
        f'does not go with score "{spec.score}": a payload says little about its round\'s data, so '
        f'validators measure chance. {measured}; use codec "demo" with optimizer.inner "gradient" '
        '(docs/gauntlet.md has such a spec), or verify "reexecution"'
    ]


def saying_little(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """Payloads of so few numbers that a part of the work shows more than its share of all of it.

    A payload has the largest coefficients of each chunk. Where these are few, more data moves what
    is sent towards what all data have in common, and a lead on any of it falls faster than by 1 /
    sqrt(n). How long the codec remembers matters little. Figures: `python -m
    tests.measure.studies.gauntlet_pay --job plain --texts --seq-len 64 --cases sizes,windows
    --codec-options '{"per_chunk": 64, "decay": 0.5}'`, with 512, and with 32 and 0.999.
    """
    if not (verification.validators_score and isinstance(codec, Demo)):
        return []
    numbers = codec.chunk * codec.chunk
    least = -(-numbers // LEAST_SAID)
    if codec.per_chunk >= least:
        return []
    return [
        f'codec "demo" that sends {codec.per_chunk} of a chunk\'s {numbers} numbers '
        f'(codec_options.per_chunk) does not go with score "{spec.score}": nodes that trained on a '
        "quarter of each sequence earned 1.48 of their share by 32 of 4096 and 1.35 by 64, and one "
        "on twice the data 1.34 of an honest node's pay; by 512 it was 1.02 and 1.79 "
        f"(docs/scoring.md). Set codec_options.per_chunk to {least} or more"
    ]


def showing_little(spec: JobSpec, verification: Verification, codec: Codec) -> list[str]:
    """A neighbour of what `showing` refuses. Figures: `python -m
    tests.measure.studies.gauntlet_pay --job "sparse gradient" --cases equal --texts`, and `--cases
    windows --texts --seq-len 64`.
    """
    if not (verification.validators_score and getattr(codec, "mostly_zero", False)):
        return []
    return [
        f'codec "{spec.codec}" under score "{spec.score}": nodes that trained on a quarter of each '
        "sequence earned 0.71 to 1.68 of their share, and the pay of equal nodes spread by 18 to "
        "36 % of its mean, with codec demo by 9 to 27 % (docs/scoring.md)"
    ]


def alike(spec: JobSpec) -> list[str]:
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


def paying(spec: JobSpec) -> list[str]:
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
            'pays "work" it is 9 to 27 %, so use that'
        )
    if spec.score_options.get("history") == 0:
        wrong.append(
            'score "gauntlet" does not go with score_options.history 0: past updates count like '
            "work then. By power 1 nodes that rode on a quarter of the work earned 0.44 of an "
            'honest node\'s pay, where 0.25 is fair; with pays "rank" riders earned 1.35 to 3.71 '
            "of their share. Leave history out"
        )
    return wrong


def riding(spec: JobSpec, verification: Verification) -> list[str]:
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


def lots(spec: JobSpec, privacy: Privacy) -> list[str]:
    """A score by direction where noise hides most of what updates have in common."""
    by_direction = spec.score == "alignment" and privacy.unit != "none"
    if not by_direction or spec.score_options.get("chance", 0):
        return []
    return [
        f'score "alignment" with privacy "{spec.privacy}": where updates are mostly noise, who is '
        "paid in a round is left to luck, and a sender of noise earned 0.51 of an honest node; set "
        "score_options.chance to 3 / sqrt(m) for updates of m numbers, or of m rows of a codec"
    ]


def taking_much(spec: JobSpec, codec: Codec) -> list[str]:
    """What is public, taken out of payloads that hold few numbers: little is left to pay by.

    Figures: `python -m tests.measure.studies.riders --seeds 3`.
    """
    history = spec.score_options.get("history", Alignment.history)
    if spec.score != "alignment" or not history or not getattr(codec, "mostly_zero", False):
        return []
    return [
        f'codec "{spec.codec}" under score "alignment" with score_options.history {history}: with '
        'codec "sparse" a node with twice the data earned 0.89 to 1.47 of its usual pay, with '
        "history 0 1.61 to 1.73, and the pay of equal nodes spread by up to 24 % of its mean "
        "beside riders, with history 0 by 14 %; where work is redone (verify "
        '"reexecution") set history to 0'
    ]
