# SPDX-License-Identifier: Apache-2.0
"""The work behind benchmarks: the artefact of each answer, and whether its verdict was false.

Rule: an answer that was judged had an artefact, so other bytes than it named are a difference,
whatever the verdict; one that is missing is a difference where it passed and the job's rounds rest
on the score. Its digests must have the root on chain. With `deep` verdicts are judged by the
committee's own rule, `agents.nodes.benchmark_disputes.false_verdict`: who gave a false one must
have been slashed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from agents.audit.chain.benchmarks import Attempt
from agents.audit.sources.artefacts import Artefacts, guarded, take_failures
from agents.audit.sources.findings import Part
from agents.nodes.benchmark import read_artefact, root
from agents.nodes.benchmark_disputes import Work, artefact_bytes, false_verdict


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
    """Whoever gave a false verdict was slashed for it, and nobody else was."""
    checking = false_verdict(work, raw, not all(attempt.votes.values()), device)
    try:
        while True:
            next(checking)
    except StopIteration as end:
        wrong: tuple[bool, str] | None = end.value
    for verifier, vote in attempt.votes.items():
        guilty = wrong is not None and vote == wrong[0]
        slashed = verifier in attempt.overruled
        said = "passed" if vote else "failed"
        why = "" if wrong is None else f" ({wrong[1].rstrip('.')})"
        sentence = (
            f"verifier {verifier} {said} it, which is wrong{why}, and was not slashed for it."
            if guilty
            else f"verifier {verifier} {said} it and was slashed for that, which is not false{why}."
        )
        part.hold("benchmarks", guilty == slashed, attempt.name, sentence)
