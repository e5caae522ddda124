# SPDX-License-Identifier: Apache-2.0
"""What a committee member does for benchmarks: it checks those again that verifiers have judged.

Rule: work is invented when any of its chunks, its root or the form of its artefact is wrong. It is
exact integers of the attempt's own seed, so nothing else makes it wrong, and whoever answered with
it is slashed: at once where a pass is overruled, else once a verifier has failed it. How long it
took is no evidence.
Rule: a verdict is false only if every honest verifier would have seen so. A pass is false when the
first `DUE_CHECKS` drawn chunks, the root or the form of the artefact are wrong: whoever signed it
has not looked. A fail is false when every chunk is right. What lies between (a wrong chunk that few
checks draw) is no verifier's fault: either verdict stands.
A settled attempt is looked after for the unbonding period (`agents.protocol.ages`): the contract
sets no time, and who leaves at once can't be slashed any more after it.
Rule: an artefact that comes slowly comes beside, and other cases go on.
Rule: everything needed is in the chain's events, and no state is asked for. A node that asks for
its next attempt erases the one before, and most RPC nodes keep the state of 128 blocks: an answer
whose verdicts come later than that could be judged by nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agents.protocol import formulas
from agents.protocol.ages import Ages
from agents.protocol.network import Network
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.event_cursor import EventCursor, EventLog
from agents.runtime.slow_calls import SlowCalls
from agents.storage.content_store import ContentStore
from agents.storage.errors import NotFound

DUE_CHECKS = 8
"""Chunks that a verifier has to recompute before it passes a benchmark."""
_CHUNKS = 32  # recomputed in one step: cases with a deadline go on between two
_BYTES_PER_UNIT = 67
_WAITED_S = 2.0  # for an artefact, before it comes beside
_AT_ONCE = 4  # that come beside; each may have 67 MB
_MAX_NAMED = 16  # verifiers that one call of `overrule` takes
_EVENTS = (
    "SeedCaptured",
    "BenchmarkSubmitted",
    "BenchmarkVerdictGiven",
    "BenchmarkSettled",
    "BenchmarkVerdictSlashed",
    "FalseBenchmarkSlashed",
)


@dataclass(frozen=True)
class FalseVerdict:
    """A false verdict on an attempt, why it is false, and who gave it, 16 verifiers at most."""

    node: int
    attempt: int
    passed: bool
    verifiers: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class FalseWork:
    """An answer that was invented, in whole or in part, and why it is."""

    node: int
    attempt: int
    why: str


@dataclass(frozen=True)
class Seen:
    """What the work of an attempt shows: which verdict on it is false (None: neither), whether it
    was invented, and why."""

    false_verdict: bool | None
    invented: bool
    why: str


@dataclass(frozen=True)
class Work:
    """What an attempt's artefact must be: `units` chunks from `seed`, with this root."""

    seed: bytes
    units: int
    root: bytes
    check_seed: bytes


@dataclass(frozen=True)
class _Settled:
    """An attempt that verifiers have judged.

    `settled`: a block; `artefact`: its digest; `votes`: verifiers and whether they passed it.
    """

    node: int
    attempt: int
    settled: int
    artefact: bytes
    work: Work
    votes: tuple[tuple[int, bool], ...]

    @property
    def failed_by_some(self) -> bool:
        return not all(passed for _, passed in self.votes)


@dataclass(frozen=True)
class _Deeds:
    """What was done about false benchmarks: verifiers slashed by attempt, and attempts whose node
    was."""

    verifiers: defaultdict[tuple[int, int], set[int]]
    answers: set[tuple[int, int]]


Checking = Generator[None, None, Seen | None]


class BenchmarkDisputes:
    """The judged benchmarks of all nodes, and what checking them again has shown."""

    def __init__(self, network: Network, context: Context, store: ContentStore) -> None:
        self._network = network
        self._store = store
        configured = context.settings.device
        self._device = None if configured == "auto" else configured
        first = network.deployment.block
        self._events = EventLog(EventCursor(network.chain, network.benchmarks, _EVENTS, first))
        self._ages = Ages(network.chain)
        self._found: dict[_Settled, Seen | None] = {}
        self._not_before: dict[_Settled, int] = {}  # blocks
        self._check: tuple[_Settled, Checking] | None = None
        self._coming = SlowCalls[_Settled, bytes](_WAITED_S, "benchmark")

    def step(self, head: Head) -> list[FalseVerdict | FalseWork]:
        """The false verdicts and the invented work known here for which nobody was slashed; checks
        a little more."""
        settled, deeds = self._read()
        since = head.timestamp - self._network.unbonding_s()
        recent = self._ages.since(since, settled, lambda case: case.settled)
        self._go_on(recent, head)
        cases = ((case, self._found.get(case)) for case in recent)
        due = (_due(case, seen, deeds) for case, seen in cases if seen is not None)
        return [one for one in due if one is not None]

    def _read(self) -> tuple[list[_Settled], _Deeds]:
        """All settled attempts, and who was slashed for which."""
        seeds: dict[bytes, bytes] = {}
        answers: dict[tuple[int, int], Mapping[str, Any]] = {}
        votes: dict[tuple[int, int], list[tuple[int, bool]]] = defaultdict(list)
        deeds = _Deeds(defaultdict(set), set())
        settled: list[_Settled] = []
        for event in self._events.read():
            args = event.args
            if event.name == "SeedCaptured":
                seeds[args["key"]] = args["seed"]
                continue
            place = args["node_id"], args["attempt"]
            if event.name == "BenchmarkSubmitted":
                answers[place] = args
            elif event.name == "BenchmarkVerdictGiven":
                votes[place].append((args["verifier_id"], args["passed"]))
            elif event.name == "BenchmarkSettled":
                answer = answers[place]
                work = Work(
                    seed=seeds[formulas.benchmark_seed_key(*place)],
                    units=answer["units"],
                    root=answer["root"],
                    check_seed=seeds[formulas.benchmark_check_key(*place)],
                )
                said = tuple(votes[place])
                settled.append(_Settled(*place, event.block, answer["artefact"], work, said))
            elif event.name == "BenchmarkVerdictSlashed":
                deeds.verifiers[place].add(args["verifier_id"])
            else:
                deeds.answers.add(place)
        return settled, deeds

    def _go_on(self, cases: Sequence[_Settled], head: Head) -> None:
        """Check a little more of the case in hand, else of the newest that is due."""
        self._coming.drop_ended(cases)
        if self._check is None or self._check[0] not in cases:
            due = (
                case
                for case in reversed(cases)
                if case not in self._found and self._is_due(case, head)
            )
            case = next(due, None)
            if case is None:
                self._check = None
                return
            self._check = case, self._checked(case)
        case, check = self._check
        # Noted before it is tried: a case that can't be judged holds up no other.
        self._not_before[case] = 2 * head.number - case.settled + 1
        try:
            next(check)
        except StopIteration as end:
            self._found[case] = end.value
            self._check = None
        except NotFound:
            self._check = None
            self._coming.drop_ended([other for other in cases if other != case])
        except BaseException:
            self._check = None
            raise

    def _checked(self, case: _Settled) -> Checking:
        """What the work of an attempt shows. Stops now and then.

        Raises NotFound while nobody has the artefact, or it is still coming.
        """
        artefact = self._artefact(case)
        return (yield from look_again(case.work, artefact, case.failed_by_some, self._device))

    def _artefact(self, case: _Settled) -> bytes:
        if case not in self._coming:
            if len(self._coming) >= _AT_ONCE:
                raise NotFound("too many other artefacts are still coming")
            limit = artefact_bytes(case.work.units)
            self._coming.run({case: partial(self._store.get_digest, case.artefact, limit)})
        if not self._coming.ended(case):
            raise NotFound("the artefact is still coming")
        return self._coming.take(case)

    def _is_due(self, case: _Settled, head: Head) -> bool:
        """Whether to look at a case now: its artefact has come, or may be looked for again."""
        if case in self._coming:
            return self._coming.ended(case)
        return head.number >= self._not_before.get(case, 0)


def _due(case: _Settled, seen: Seen, deeds: _Deeds) -> FalseVerdict | FalseWork | None:
    """What is left to do about an attempt: verifiers first, since to overrule their pass slashes
    the node too."""
    place = case.node, case.attempt
    guilty = {verifier for verifier, vote in case.votes if vote == seen.false_verdict}
    left = sorted(guilty - deeds.verifiers[place])[:_MAX_NAMED]
    if left:
        return FalseVerdict(*place, bool(seen.false_verdict), tuple(left), seen.why)
    if seen.invented and place not in deeds.answers:
        return FalseWork(*place, seen.why)
    return None


def artefact_bytes(units: int) -> int:
    """The length of the artefact of so many units."""
    return _BYTES_PER_UNIT * units + 1


def look_again(work: Work, artefact: bytes, failed: bool, device: str | None) -> Checking:
    """What the work of an attempt shows; None if nothing is false. Stops now and then.

    `failed`: whether anybody has failed it, so that all of it is computed again.
    """
    # Loads torch, which a member without a case never needs.
    from agents.nodes.benchmark import check_chunk, check_submission, read_artefact

    check = check_submission(
        artefact,
        seed=work.seed,
        units=work.units,
        claimed_root=work.root,
        check_seed=work.check_seed,
        count=DUE_CHECKS,
        device=device,
    )
    if not check.passed:
        return Seen(True, True, check.reason)
    if not failed:
        return None
    previous = work.seed
    for index, digest in enumerate(read_artefact(artefact, work.units)):
        if check_chunk(previous, index, device) != digest:
            return Seen(None, True, f"Chunk {index} of the benchmark is wrong.")
        previous = digest
        if index % _CHUNKS == _CHUNKS - 1:
            yield
    return Seen(False, False, f"All {work.units} chunks of the benchmark are right.")
