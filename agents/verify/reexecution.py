# SPDX-License-Identifier: Apache-2.0
"""Whether a pseudo-gradient is what its shard, seed and model give when they are run again.

Within one determinism class (same instruction set, threads and library flags) replay is exact, so a
single differing bit, of the pseudo-gradient or of any step hash, is a mismatch. Across classes
rounding differs and grows over the steps, so the verdict is by cosine and by relative L2 distance,
both in float64. Both are needed: the cosine is blind to scale, the distance alone would accept any
vector near zero when the reference is.

Measured with the built-in decoder (0.1 M parameters; `tests/measure/studies/class_spread.py`): CPU
settings that stand for other machines differed by up to 4.9e-5 in fp32 over 12 and 96 steps of a
warmed-up or trained round, and by 2.4e-3 to 0.16, as the text was, in 96 steps of AdamW at the full
rate from the genesis model; 384 such steps gave 0.09. Where rounding decides so, nobody is found
wrong by tolerances (`agents.verify.unsettled`). In bf16 it was 0.025. In fp32 with Muon's products
in bf16 it was 0.028, so a job that has them takes one class alone
(`agents.jobs.combinations.machines`). No GPU was at hand.
A relative L2 distance r implies a cosine of at least sqrt(1 - r^2).

A lossy codec makes choices that a rounding can turn: which numbers it names, which level is
nearest. So in another class its payload is not compared with the own one, number by number: the
codec says how far the update would have to move to be sent like this (`EdgedCodec.least_change`),
which is next to nothing where only choices at an edge came out differently. It may be twice what it
is for updates that really are as far away as the tolerance lets lossless ones be
(`tests/measure/studies/rounding_edges.py` prints how often codes flip, and what passes).

Limit: what lies within the tolerances can't be told from rounding. A node that skips work but lands
inside them is paid: at the defaults it skips none of 12 steps and at most 2 of 96 in fp32, but up
to a third in bf16, where honest nodes differ as much. A job that lists the determinism classes it
takes (`agents.jobs.classes`) leaves it no class to hide in.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from agents.mechanisms.codec import EdgedCodec
from agents.training.norms import Payload, cosine, distance, norm

_TRIED = 3  # updates as far away as honest ones may be
_MARGIN = 2.0  # over what these would take


@dataclass(frozen=True)
class Tolerances:
    """What a replay in another determinism class must reach; the job sets both. No unit."""

    cosine_min: float
    rel_l2_max: float


@dataclass(frozen=True)
class Comparison:
    """`ok`: accept. `exact`: equal bits. `rel_l2`: |own - revealed| / |own|, inf if own is 0.

    `change`: the least length of a change of the own update after which it is sent like this, where
    that was asked; else None.
    """

    ok: bool
    exact: bool
    cosine: float
    rel_l2: float
    reason: str
    change: float | None = None


def compare(
    own: Payload,
    revealed: Payload,
    same_class: bool,
    tolerances: Tolerances,
    own_steps: Sequence[bytes] | None = None,
    revealed_steps: Sequence[bytes] | None = None,
) -> Comparison:
    """Compare a re-executed pseudo-gradient with the revealed one (fp32 dicts, same template).

    `same_class`: both ran in one determinism class. `own_steps`, `revealed_steps`: the trace hashes
    of both, compared within a class only (in another class, hashes differ for honest nodes too).
    ValueError if names or shapes differ: the payload check comes first.
    """
    exact = _equal(own, revealed)
    length, gap = norm(own), distance(own, revealed)
    rel_l2 = gap / length if length else (0.0 if gap == 0 else float("inf"))
    angle = 1.0 if exact else cosine(own, revealed)
    if math.isnan(angle) or math.isnan(rel_l2):  # a replay that is not finite is near nothing
        angle, rel_l2 = 0.0, float("inf")
    ok, reason = _judge(exact, angle, rel_l2, same_class, tolerances)
    if ok and same_class and own_steps is not None and revealed_steps is not None:
        if len(own_steps) != len(revealed_steps):
            ok = False
            reason = f"The trace has {len(revealed_steps)} hashes; {len(own_steps)} are right."
        for index, (mine, theirs) in enumerate(zip(own_steps, revealed_steps, strict=False)):
            if ok and mine != theirs:
                ok, reason = False, f"The trace differs from replay at hash {index}."
    return Comparison(ok, exact, angle, rel_l2, reason)


def unlike(stated: str) -> str:
    """Why a machine of another class than the stated one can't be sure of work that it finds right,
    as a sentence that goes on from the node's name."""
    return (
        f"it states the determinism class {stated!r}, and this machine, of another one, finds it "
        "right as far as that shows: only a member of that class can tell whether it skipped steps"
    )


@dataclass(frozen=True)
class Encoding:
    """How an update was encoded: the codec, the memory that it added, the public seed. `limit`: how
    far honest updates may be apart, as a share of their length; `floor`: a change that counts as
    none, likewise."""

    codec: EdgedCodec
    memory: Payload | None
    seed: bytes
    limit: float
    floor: float


def compare_encoded(own: Payload, data: bytes, how: Encoding, found: Comparison) -> Comparison:
    """Whether a node of another class may have sent `data`, which is not what `own` is sent as.

    `found`: what `compare` says of both after decoding; its figures are kept.
    """
    codec, memory = how.codec, how.memory
    length = norm(own) + (0.0 if memory is None else norm(memory))
    change = codec.least_change(own, memory, data, how.seed)
    allowed = how.floor * length
    if change > allowed:
        for number in range(_TRIED):
            moved = _moved(own, how.limit * length, how.seed, number)
            try:
                sent = codec.encode(moved, memory, how.seed)
            except ValueError:
                continue  # too large to be sent, so nobody's rounding led there
            allowed = max(allowed, _MARGIN * codec.least_change(own, memory, sent, how.seed))
    ok = change <= allowed
    figures = f"{change / length if length else 0.0:.1e} of its length"
    if ok:
        reason = f"Replay in another determinism class agrees: moved by {figures} it is sent so."
    else:
        most = f"{allowed / length if length else 0.0:.1e}"
        reason = f"Replay disagrees: it would have to move by {figures}, and rounding by {most}."
    return replace(found, ok=ok, reason=reason, change=change)


def _moved(own: Payload, length: float, seed: bytes, number: int) -> dict[str, torch.Tensor]:
    """The update, so far away in a direction that everybody draws."""
    digest = hashlib.sha256(seed + b"rounding edges" + bytes([number])).digest()
    source = np.random.default_rng(int.from_bytes(digest[:16], "big"))
    drawn = {
        name: torch.from_numpy(source.standard_normal(tuple(own[name].shape), dtype=np.float32))
        for name in sorted(own)
    }
    share = length / max(norm(drawn), 1e-30)
    return {name: own[name].cpu() + share * drawn[name] for name in own}


def _equal(own: Payload, revealed: Payload) -> bool:
    if own.keys() != revealed.keys():
        return False
    return all(
        own[name].shape == revealed[name].shape
        and torch.equal(
            own[name].cpu().contiguous().view(torch.int32),
            revealed[name].cpu().contiguous().view(torch.int32),
        )
        for name in own
    )


def _judge(
    exact: bool, angle: float, rel_l2: float, same_class: bool, limits: Tolerances
) -> tuple[bool, str]:
    if exact:
        return True, "Replay gives the same bits."
    figures = f"cosine {angle:.6f}, relative L2 {rel_l2:.6f}"
    if same_class:
        return False, f"Replay in the same determinism class gives other bits ({figures})."
    if angle < limits.cosine_min or rel_l2 > limits.rel_l2_max:
        return False, (
            f"Replay disagrees: {figures}; needed are a cosine of at least {limits.cosine_min} "
            f"and a relative L2 of at most {limits.rel_l2_max}."
        )
    return True, f"Replay in another determinism class agrees ({figures})."
