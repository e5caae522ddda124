# SPDX-License-Identifier: Apache-2.0
"""Every redundant task that came to a result, run again: the result must be what the task gives.

Rule: the last word on a task is what its verdict named, or what two executors agreed on where there
was none. Executors are paid by it, and whoever answered otherwise is slashed by it. The task gives
one result in its class, so the last word is right or wrong to the bit. A wrong one is a difference:
two who colluded were paid, and nobody found them.

What can't be decided here is a remark: a task of another class than this machine's, or one whose
inputs nobody gives. So is a wrong verdict on which the committee was asked and did not decide: by
the contracts it moves the fee and convicts nobody. A task that is still open to an appeal is looked
at like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agents.audit.sources.findings import Part
from agents.audit.tasks.course import Course
from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import ZERO_DIGEST, LaneState
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.tasks.compute.classes import class_label
from agents.tasks.compute.errors import ClassNotHeld
from agents.tasks.compute.run import run_published


def last_word(course: Course) -> bytes | None:
    """The result that a task came to; None if it came to none, or not yet."""
    appeal = course.appeal
    if appeal is not None and not appeal.carried_out:
        return None
    if appeal is not None and appeal.result != ZERO_DIGEST:
        return appeal.result
    shown = [lane.answer for lane in course.lanes if lane.state == LaneState.OPENED]
    return shown[0] if shown and shown[0] != UNAVAILABLE else None


def check_results(
    part: Part,
    store: ContentStore,
    tasks: Iterable[Course],
    classes: Sequence[bytes],
    device: str,
    progress: Callable[[str], None],
) -> None:
    """Run each task that has a last word, and equal ones once.

    Args:
        store: where specs and inputs are.
        classes: names of the determinism classes, by number, as on chain.
        device: where to compute; the process must be pinned (`agents.training.determinism`).

    Raises:
        StoreUnavailable: the store is down.
    """
    gives: dict[tuple[bytes, int, int], bytes] = {}
    for course in tasks:
        word = last_word(course)
        if word is None:
            continue
        key = course.spec, course.run_s, course.class_id
        try:
            if key not in gives:
                progress(f"running {course.name} again")
                place = store, class_label(classes[course.class_id]), device
                gives[key] = run_published(course.spec, course.run_s, *place).digest
        except StoreUnavailable:
            raise
        except (ClassNotHeld, StoreError, ValueError) as error:  # ValueError: no label of a class
            part.remark(f"{course.name} was not run again: {error}")
            continue
        _judge(part, course, word, gives[key])


def _judge(part: Part, course: Course, word: bytes, gives: bytes) -> None:
    appeal = course.appeal
    what = "two executors agreed on" if appeal is None else "its last word is"
    sentence = f"{what} {word.hex()}, and it gives {gives.hex()}."
    if appeal is not None and not appeal.convict and word != gives:
        part.remark(
            f"{course.name}: {sentence} The committee was asked and did not decide, so nobody was "
            "slashed by it."
        )
        return
    part.hold("results", word == gives, course.name, sentence)
