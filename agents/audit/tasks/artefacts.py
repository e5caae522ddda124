# SPDX-License-Identifier: Apache-2.0
"""What tasks were made of and what they gave: every byte against the digest that names it.

Rule: bytes that are not those that a digest names are a difference, whoever was to publish them.
Bytes that are missing are a remark: nobody is bound to keep them for strangers, and a spec that
can't be read is refused by executors, which is a result. Each artefact is read once, however many
tasks name it; what it holds is for executors and verifiers to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from agents.audit.sources.artefacts import Artefacts, take_failures
from agents.audit.sources.findings import Part
from agents.audit.tasks.course import Course
from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import LaneState
from agents.storage.cid import digest_of
from agents.storage.errors import StoreError, StoreUnavailable
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.prompts import MAX_PROMPT_BYTES
from agents.tasks.compute.spec import MAX_SPEC_BYTES, parse_spec
from agents.training.data import MAX_MANIFEST_BYTES, MAX_SHARD_BYTES, Dataset
from agents.training.documents import DataError

_MOST_BYTES = MAX_SHARD_BYTES  # of a checkpoint or a result


def check_artefacts(
    part: Part, artefacts: Artefacts, tasks: Iterable[Course], progress: Callable[[str], None]
) -> None:
    """Read spec, inputs and result of every task, each once."""
    reader = _Reader(part, artefacts)
    excused = []
    for course in tasks:
        progress(course.name)
        excused += list(reader.read(course))
    take_failures(artefacts, part, "tasks", excused)


class _Reader:
    def __init__(self, part: Part, artefacts: Artefacts) -> None:
        self._part = part
        self._artefacts = artefacts
        self._seen: set[bytes] = set()

    def read(self, course: Course) -> Iterator[str]:
        """Read a task's artefacts; what each is called."""
        who = f"spec of {course.name}"
        yield who
        raw = self._get(course.spec, who, MAX_SPEC_BYTES)
        if raw is not None:
            yield from self._inputs(raw, course.name)
        opened = [lane.answer for lane in course.lanes if lane.state == LaneState.OPENED]
        for result in opened:
            if result != UNAVAILABLE:
                who = f"result of {course.name}"
                yield who
                self._get(result, who, _MOST_BYTES)

    def _inputs(self, raw: bytes, name: str) -> Iterator[str]:
        try:
            spec = parse_spec(raw)
        except TaskError:
            return
        who = f"checkpoint of {name}"
        yield who
        self._get(bytes(digest_of(spec.checkpoint)), who, _MOST_BYTES)
        prompts = spec.kind == "generate"
        who = f"{'prompts' if prompts else 'dataset manifest'} of {name}"
        yield who
        limit = MAX_PROMPT_BYTES if prompts else MAX_MANIFEST_BYTES
        data = self._get(bytes(digest_of(spec.data)), who, limit)
        if prompts or data is None:
            return
        try:
            shards = Dataset.from_bytes(data).shards
        except DataError:
            return
        for index, shard in enumerate(shards):
            who = f"shard {index} of {name}"
            yield who
            self._get(bytes(digest_of(shard.cid)), who, MAX_SHARD_BYTES)

    def _get(self, digest: bytes, who: str, limit: int) -> bytes | None:
        """The bytes, the first time they are asked for; None if they can't be had, which waits in
        the artefacts' failures."""
        if digest in self._seen:
            return None
        self._seen.add(digest)
        self._artefacts.name(digest, who)
        self._part.counts["tasks"] = self._part.counts.get("tasks", 0) + 1
        try:
            return self._artefacts.get_digest(digest, limit)
        except StoreUnavailable:
            raise
        except StoreError:
            return None
