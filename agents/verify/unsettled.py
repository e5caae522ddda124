# SPDX-License-Identifier: Apache-2.0
"""Whether rounding alone decides what a node's local steps give.

Rule: at a high rate, or without a warm-up, local steps may lead two honest machines of different
determinism classes further apart than the tolerances allow. A spec's tolerances may also be
narrower than any rounding. Both are the sponsor's choice, and no trainer sees them in its own work.
So before a verifier finds a node of another class wrong by tolerances, it does the node's work once
more, from weights that differ in the last bits. Where the two come to be apart by a quarter of what
honest machines may be, and the node is off by no more than twice what they are apart, no machine of
another class can tell whether the node is right. It is not found wrong, and a committee member has
no word on it. A verifier of the node's own class compares to the bit as ever.

What the node takes from earlier rounds is found again from moved weights too: their rounding is in
the memory of its codec and in the state of its inner optimizer.

A payload of a lossy codec says a part of an update. So both are measured by what would be sent, as
`agents.verify.rounding` does it for miners.

Which last bits are moved follows from the draw's seed, which nobody knew when the work was sent.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.mechanisms.codec import EdgedCodec
from agents.rounds.carried import Carried
from agents.rounds.inputs import RoundInputs
from agents.training import last_bits
from agents.training.norms import distance, norm
from agents.training.spec import update_limit
from agents.training.state import State
from agents.verify.reexecution import Comparison
from agents.verify.rounding import MARGIN, SHARE

Replay = Callable[[State, State | None], State]
"""(weights, state of the inner optimizer) -> the update of the node's steps from there.

Raises FloatingPointError where they do not finish."""


def rounding_decides(
    inputs: RoundInputs, node: int, own: State | None, found: Comparison | None, replay: Replay
) -> bool:
    """Whether no machine of another class can tell if a node is right that is found wrong here.

    Args:
        inputs: of the node's round.
        node: of another class than this machine.
        own: the update by replay; None where replay does not finish.
        found: what comparing it found, with `change` under an `EdgedCodec`; None with `own`.
        replay: does the node's work again.

    Raises StoreError or PayloadError when an artefact of an earlier round can't be had.
    """
    owed, carried = inputs.memory(node), Carried()
    if owed is not None or inputs.inner(node) is not None:
        carried = inputs.moved(node, inputs.draw_seed)
    try:
        moved = replay(last_bits.moved(inputs.before, inputs.draw_seed), carried.inner)
    except FloatingPointError:
        return own is not None
    if own is None or found is None:
        return True
    far = distance(own, moved) + _between(owed, carried.owed)
    if not far > SHARE * update_limit(inputs.job.spec) * norm(own):
        return False
    codec, release = inputs.job.codec, inputs.job.privacy.release
    seed, shapes = inputs.plan.codec_seed(codec, node), inputs.job.shapes
    try:
        sent = codec.encode(release(moved), carried.owed, seed)
    except ValueError:
        return False  # too large to be sent, so nobody's rounding led there
    if isinstance(codec, EdgedCodec) and found.change is not None:
        lead = codec.least_change(release(own), owed, sent, seed)
        return not found.change > MARGIN * lead
    mine = codec.decode(codec.encode(release(own), owed, seed), shapes, seed)
    lead, length = distance(mine, codec.decode(sent, shapes, seed)), norm(mine)
    return not found.rel_l2 * length > MARGIN * lead


def _between(owed: State | None, moved: State | None) -> float:
    """The distance of two memories, None being zeros."""
    if owed is None or moved is None:
        only = moved if owed is None else owed
        return 0.0 if only is None else norm(only)
    return distance(owed, moved)
