# SPDX-License-Identifier: Apache-2.0
"""The work behind benchmarks: the artefact of each answer, and whether its verdict was false.

Rule: an answer that was judged had an artefact, so other bytes than it named are a difference,
whatever the verdict; one that is missing is a difference where it passed and the job's rounds rest
on the score. Its digests must have the root on chain. With `deep` verdicts are judged by the
committee's own rule, `agents.nodes.benchmark_disputes.look_again`: who gave a false one must have
been slashed for it, and so must a node whose work was invented.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from agents.audit.chain.benchmarks import Attempt
from agents.audit.sources.artefacts import Artefacts, guarded, take_failures
from agents.audit.sources.findings import Part
from agents.nodes.benchmark import read_artefact, root
from agents.nodes.benchmark_disputes import Seen, Work, artefact_bytes, look_again


def check_work(
    part: Part,
    artefacts: Artefacts,
    attempts: Sequence[Attempt],
    rested: Collection[int],
    deep: bool,
    device: str,
    progress: Callable[[str], None],
) -> None:
    """Read the artefact of every answer; with `deep` judge its verdicts. `rested`: nodes on whose
    scores the job's rounds rest."""
    excused = []
    for attempt in attempts:
        who = f"artefact of {attempt.name}"
        artefacts.name(attempt.artefact, who)
        if not attempt.settled or attempt.node not in rested:
            excused.append(who)
        raw = _read(part, artefacts, attempt, who)
        if raw is None:
            continue
        work = Work(attempt.seed, attempt.units, attempt.root, attempt.check_seed)
        if deep and attempt.votes:
            progress(attempt.name)
            _judge(part, attempt, work, raw, device)
        elif attempt.settled:
            _check_root(part, work, raw, who)
    take_failures(artefacts, part, "benchmarks", excused)


def _read(part: Part, artefacts: Artefacts, attempt: Attempt, who: str) -> bytes | None:
    limit = artefact_bytes(attempt.units)
    return guarded(part, "benchmarks", who, lambda: artefacts.get_digest(attempt.artefact, limit))


def _check_root(part: Part, work: Work, raw: bytes, who: str) -> None:
    try:
        found = root(work.seed, read_artefact(raw, work.units))
    except ValueError as error:
        part.differ("benchmarks", who, f"it can't be used: {error}")
        return
    part.same("benchmarks", who, "the root of its chunks", found, work.root)


def _judge(part: Part, attempt: Attempt, work: Work, raw: bytes, device: str) -> None:
    """Whoever gave a false verdict or invented work was slashed for it, and nobody else was."""
    checking = look_again(work, raw, not all(attempt.votes.values()), device)
    try:
        while True:
            next(checking)
    except StopIteration as end:
        seen: Seen | None = end.value
    wrong = None if seen is None else seen.false_verdict
    why = "" if seen is None else f" ({seen.why.rstrip('.')})"
    for verifier, vote in attempt.votes.items():
        guilty = vote == wrong
        slashed = verifier in attempt.overruled
        said = "passed" if vote else "failed"
        sentence = (
            f"verifier {verifier} {said} it, which is wrong{why}, and was not slashed for it."
            if guilty
            else f"verifier {verifier} {said} it and was slashed for that, which is not false{why}."
        )
        part.hold("benchmarks", guilty == slashed, attempt.name, sentence)
    invented = seen is not None and seen.invented and attempt.settled is not None
    sentence = (
        f"its work is invented{why}, and node {attempt.node} was not slashed for it."
        if invented
        else f"node {attempt.node} was slashed for invented work, which it is not{why}."
    )
    part.hold("benchmarks", invented == attempt.condemned, attempt.name, sentence)
