# SPDX-License-Identifier: Apache-2.0
"""What a committee member does for benchmarks: it checks those again that verifiers have judged.

Rule: a verdict is false only if every honest verifier would have seen so. A pass is false when the
first `DUE_CHECKS` drawn chunks, the root or the form of the artefact are wrong: whoever signed it
has not looked. A fail is false when every chunk is right. What lies between (a wrong chunk that few
checks draw) is nobody's fault: either verdict stands.
Everything needed is in the chain's events, except the seed of the work and the artefact's digest:
these are read as they were in the block of the answer, so a node that asks for its next attempt at
once takes nothing away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, replace

from agents.protocol import formulas
from agents.protocol.network import Network
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.errors import RpcRefused
from agents.runtime.event_cursor import EventCursor, EventLog
from agents.storage.content_store import ContentStore
from agents.storage.errors import NotFound

DUE_CHECKS = 8
"""Chunks that a verifier has to recompute before it passes a benchmark."""
_LOOK_BACK = 50_000  # older verdicts are left alone
_CHUNKS = 32  # recomputed in one step: cases with a deadline go on between two
_BYTES_PER_UNIT = 67
_MAX_NAMED = 16  # verifiers that one call of `overrule` takes
_EVENTS = (
    "SeedCaptured",
    "BenchmarkSubmitted",
    "BenchmarkVerdictGiven",
    "BenchmarkSettled",
    "BenchmarkVerdictSlashed",
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
class _Settled:
    """An attempt that verifiers have judged.

    `answered`, `settled`: blocks; `votes`: verifiers and whether they passed it.
    """

    node: int
    attempt: int
    answered: int
    settled: int
    units: int
    root: bytes
    check_seed: bytes
    votes: tuple[tuple[int, bool], ...]

    @property
    def failed_by_some(self) -> bool:
        return not all(passed for _, passed in self.votes)


@dataclass(frozen=True)
class Work:
    """What an attempt's artefact must be: `units` chunks from `seed`, with this root."""

    seed: bytes
    units: int
    root: bytes
    check_seed: bytes


Checking = Generator[None, None, tuple[bool, str] | None]


class BenchmarkDisputes:
    """The judged benchmarks of all nodes, and what checking them again has shown."""

    def __init__(self, network: Network, context: Context, store: ContentStore) -> None:
        self._network = network
        self._store = store
        configured = context.settings.device
        self._device = None if configured == "auto" else configured
        first = network.deployment.block
        self._events = EventLog(EventCursor(network.chain, network.benchmarks, _EVENTS, first))
        self._found: dict[_Settled, tuple[bool, str] | None] = {}  # which verdict is false, and why
        self._not_before: dict[_Settled, int] = {}  # blocks
        self._check: tuple[_Settled, Checking] | None = None

    def step(self, head: Head) -> list[FalseVerdict]:
        """The false verdicts known here whose verifiers were not slashed; checks a little more."""
        settled, slashed = self._read()
        recent = [case for case in settled if case.settled >= head.number - _LOOK_BACK]
        self._go_on(recent, head)
        found = []
        for case in recent:
            wrong = self._found.get(case)
            if wrong is None:
                continue
            passed, why = wrong
            guilty = {verifier for verifier, vote in case.votes if vote == passed}
            left = sorted(guilty - slashed[case.node, case.attempt])[:_MAX_NAMED]
            if left:
                verdict = FalseVerdict(case.node, case.attempt, passed, tuple(left), why)
                found.append(verdict)
        return found

    def _read(self) -> tuple[list[_Settled], dict[tuple[int, int], set[int]]]:
        """All settled attempts, and who was slashed for a verdict on which."""
        seeds: dict[bytes, bytes] = {}
        answers: dict[tuple[int, int], _Settled] = {}
        votes: dict[tuple[int, int], list[tuple[int, bool]]] = defaultdict(list)
        slashed: dict[tuple[int, int], set[int]] = defaultdict(set)
        settled: list[_Settled] = []
        for event in self._events.read():
            args = event.args
            if event.name == "SeedCaptured":
                seeds[args["key"]] = args["seed"]
                continue
            place = args["node_id"], args["attempt"]
            if event.name == "BenchmarkSubmitted":
                answers[place] = _Settled(
                    *place, event.block, 0, args["units"], args["root"], b"", ()
                )
            elif event.name == "BenchmarkVerdictGiven":
                votes[place].append((args["verifier_id"], args["passed"]))
            elif event.name == "BenchmarkSettled":
                settled.append(
                    replace(
                        answers[place],
                        settled=event.block,
                        check_seed=seeds[formulas.benchmark_check_key(*place)],
                        votes=tuple(votes[place]),
                    )
                )
            else:
                slashed[place].add(args["verifier_id"])
        return settled, slashed

    def _go_on(self, cases: list[_Settled], head: Head) -> None:
        """Check a little more of the case in hand, else of the newest that is due."""
        if self._check is None or self._check[0] not in cases:
            due = (
                case
                for case in reversed(cases)
                if case not in self._found and head.number >= self._not_before.get(case, 0)
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
        except (NotFound, RpcRefused):  # also a node that has no state of the answer's block left
            self._check = None
        except BaseException:
            self._check = None
            raise

    def _checked(self, case: _Settled) -> Checking:
        """Which verdict on an attempt is false, and why; None if neither is. Stops now and then.

        Raises NotFound while nobody has the artefact.
        """
        answer = self._network.benchmark(case.node, case.answered)
        artefact = self._store.get_digest(answer.artefact, artefact_bytes(case.units))
        work = Work(answer.seed, case.units, case.root, case.check_seed)
        return (yield from false_verdict(work, artefact, case.failed_by_some, self._device))


def artefact_bytes(units: int) -> int:
    """The length of the artefact of so many units."""
    return _BYTES_PER_UNIT * units + 1


def false_verdict(work: Work, artefact: bytes, failed: bool, device: str | None) -> Checking:
    """Which verdict on an attempt is false, and why; None if neither is. Stops now and then.

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
        return True, check.reason
    if not failed:
        return None
    previous = work.seed
    for index, digest in enumerate(read_artefact(artefact, work.units)):
        if check_chunk(previous, index, device) != digest:
            return None
        previous = digest
        if index % _CHUNKS == _CHUNKS - 1:
            yield
    return False, f"All {work.units} chunks of the benchmark are right."
