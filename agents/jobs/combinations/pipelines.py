# SPDX-License-Identifier: Apache-2.0
"""What goes with a model in stages: a node has no gradient without its neighbours."""

from __future__ import annotations

import math

from agents.jobs.combinations.machines import LIST_THEM
from agents.jobs.combinations.payloads import BY_NUMBER, NEED_ALL, WEIGHING
from agents.mechanisms.codec import get as get_codec
from agents.mechanisms.privacy import Privacy
from agents.mechanisms.verify import Verification
from agents.training.optimizers import chosen
from agents.training.spec import JobSpec

_OF_PASSES = ("backward_passes", "clasp")


def together(spec: JobSpec, verification: Verification, privacy: Privacy) -> list[str]:
    """What a model in stages doesn't allow: a node has no gradient without its neighbours."""
    if (spec.score in _OF_PASSES) != (spec.pipeline is not None):
        names = " or ".join(f'"{name}"' for name in _OF_PASSES)
        return [
            f'score {names} and mode "pipeline" belong together: the nodes of a split model have '
            "different tensors, so other scores can't compare them, and no other mode has such "
            f'passes; score is "{spec.score}", mode is "{spec.mode}"'
        ]
    if spec.pipeline is None:
        if spec.merge != WEIGHING:
            return []
        return [
            f'merge "{WEIGHING}" needs mode "pipeline": it weighs by backward passes that count, '
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
        and spec.merge in NEED_ALL
    ):
        wrong.append(
            f'pipeline.sharing.codec "{sharing.codec}" leaves most coordinates of a payload zero, '
            f'or noise, so merge "{spec.merge}" would be zero nearly everywhere; use mean or '
            "norm_clip"
        )
    if spec.segment and spec.full_every > 1 and sharing is not None and sharing.codec != "dense":
        wrong.append(
            f'pipeline.segment does not go with pipeline.sharing by codec "{sharing.codec}": what '
            "a miner owes is known by doing its whole epochs again; leave segment out, or "
            "compressed rounds"
        )
    if spec.butterfly and spec.merge == WEIGHING:
        wrong.append(
            f'pipeline.all_reduce "butterfly" does not go with merge "{WEIGHING}": an owner that '
            "has not seen all logs counts other passes, would merge by other weights and be taken "
            f"for a liar; use one of {', '.join(BY_NUMBER)}"
        )
    elif spec.butterfly and spec.merge not in BY_NUMBER:
        wrong.append(
            f'pipeline.all_reduce "butterfly" merges shards, and merge "{spec.merge}" looks at '
            f"whole updates; use one that merges each number for itself: {', '.join(BY_NUMBER)}"
        )
    if not chosen(spec.optimizer.inner, spec.optimizer.inner_options).makes_steps:
        wrong.append(
            f'mode "{spec.mode}" makes steps within a round; optimizer.inner '
            f'"{spec.optimizer.inner}" makes none'
        )
    return wrong


def unlike_machines(spec: JobSpec) -> list[str]:
    """Work that only a machine of the miner's own class can judge where a neighbour sent what makes
    rounding decide it (`agents.verify.rounding`). Without a list of classes nobody would judge a
    miner that states a false one."""
    if spec.pipeline is None or spec.classes:
        return []
    judged = []
    if spec.segment:
        judged.append("a segment of an epoch (pipeline.segment)")
    if _leaves_owed(spec):
        judged.append("what a miner owes of earlier rounds (pipeline.sharing)")
    return [
        f"{what} needs classes: a neighbour may send a miner what makes rounding decide it, and "
        "then no verifier of another determinism class can tell honest work from false. "
        f"{LIST_THEM}"
        for what in judged
    ]


def _leaves_owed(spec: JobSpec) -> bool:
    """Whether a compressed payload leaves something that its miner owes in the rounds after it."""
    sharing = None if spec.pipeline is None else spec.pipeline.sharing
    if sharing is None or spec.full_every == 1:
        return False
    return bool(get_codec(sharing.codec)(**sharing.codec_options).has_memory)


def segments(spec: JobSpec) -> list[str]:
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
