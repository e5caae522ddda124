# SPDX-License-Identifier: Apache-2.0
"""The search for sequences of hostile actions that pay.

A play starts from the same stage every time. What came nearest to a profit, and what did something
that no play had done before, is kept; new plays are mutations and splices of those. What a play is
worth is the coalition's profit and the honest people's losses together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from random import Random

from tests.contracts.fuzz.books import Books, Verdict
from tests.contracts.fuzz.honest import Honest
from tests.contracts.fuzz.hostile import ANY, RUSH, STEP, TICK, WAIT, Action, Hostile
from tests.contracts.fuzz.machine import Event
from tests.contracts.fuzz.run import PLAIN, SCORED, Context, Run, Stage, coalition
from tests.stage.contracts.system import ZOO

LENGTH = 60
CORPUS = 200
WINDING_UP = 60
# What gives up a role, a stake or a seat, and what concerns nobody else, is tried a fifth as often:
# it always works, and it ends most of what might have come. So is taking out what is one's own.
SELDOM = {
    "appeals.withdraw_bond",
    "pool.claim",
    "pool.refund",
    "registry.begin_exit",
    "registry.claim_bounty",
    "registry.set_active",
    "registry.set_encryption_key",
    "registry.set_roles",
    "reports.withdraw_bond",
    "results.withdraw_bond",
    "tasks.compact",
    "tasks.leave",
    "tasks.withdraw_bond",
    "token.approve",
    "token.burn",
    "token.burn_from",
}
# Shares of actions that are no calls.
PAUSES = ((WAIT, 0.03), (RUSH, 0.03), (TICK, 0.17), (STEP, 0.05))


@dataclass(frozen=True)
class Play:
    """A coalition and what it does."""

    seed: int
    actions: tuple[Action, ...]


@dataclass
class Played:
    """A play, what came of it, and what it did."""

    play: Play
    verdict: Verdict
    told: list[str]
    done: frozenset[str]
    tried: dict[tuple[str, Context], list[int]]
    refused: frozenset[str] = frozenset()

    @property
    def deeds(self) -> int:
        """How many actions were carried out: calls that went through, and pauses."""
        return len(self.play.actions)


@dataclass
class Finding:
    """The shortest play that was found for a cause."""

    cause: str
    played: Played
    at: int

    def words(self) -> str:
        """The finding for people."""
        verdict = self.played.verdict
        losers = ", ".join(f"{name} {amount / ZOO:g}" for name, amount in verdict.losers)
        lines = [
            f"{self.cause} (action {self.at}): the coalition {verdict.profit / ZOO:+g} ZOO, "
            f"honest people -{verdict.loss / ZOO:g} ZOO ({losers or 'nobody'})",
            *(f"    {line}" + (f" ({n} times)" if n > 1 else "") for line, n in self._lines()),
        ]
        return "\n".join(lines)

    def _lines(self) -> Iterator[tuple[str, int]]:
        """What was done, equal lines in a row counted."""
        for line, group in groupby(self.played.told):
            yield line, len(list(group))


def sizes(event: Event) -> Iterator[str]:
    """The orders of magnitude of an event's numbers: a greater one than ever is news."""
    for name, value in event.fields.items():
        if isinstance(value, int) and value > ZOO:
            yield f"{event.name}.{name}~{(value // ZOO).bit_length()}"


Choice = Callable[[Random, Context], str]


def wind_up(honest: Honest) -> None:
    """Lets everything come to its end that was begun."""
    honest.closing = True
    for _ in range(WINDING_UP):
        if not honest.busy():
            break
        honest.wait(3_600)


def perform(stage: Stage, play: Play, choose: Choice | None = None) -> Played:
    """Plays from the stage's beginning and leaves the stage as it was."""
    point = stage.machine.snapshot()
    try:
        job = SCORED if play.seed % 3 == 0 else PLAIN
        run = Run(stage, coalition(stage, Random(play.seed)), job)
        honest = Honest(run)
        hostile = Hostile(run, honest, choose)
        books = Books(run)
        done: set[str] = set()
        last = ""
        for action in play.actions:
            outcome = hostile.play(action)
            if outcome is not None and outcome.ok:
                kind = hostile.done[-1].kind
                done |= {kind, f"{last}>{kind}"}
                done |= {f"{kind}:{e.name}" for e in outcome.events}
                done |= {f"{kind}:{size}" for e in outcome.events for size in sizes(e)}
                last = kind
        wind_up(honest)
        verdict = books.verdict()
        meant = Play(play.seed, tuple(hostile.done))
        return Played(
            meant, verdict, hostile.told, frozenset(done), hostile.tried, frozenset(hostile.refused)
        )
    finally:
        stage.machine.revert(point)


@dataclass
class Search:
    """A search with its memory."""

    stage: Stage
    seed: int
    rng: Random = field(init=False)
    corpus: list[Played] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    findings: dict[str, Finding] = field(default_factory=dict)
    actions: int = 0
    plays: int = 0
    tries: dict[tuple[str, Context], list[int]] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    chances: dict[Context, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.titles = [t for t, f in sorted(self.stage.machine.functions.items()) if not f.view]

    # New plays

    def action(self) -> Action:
        """A random action."""
        seed, luck = self.rng.getrandbits(32), self.rng.random()
        for kind, share in PAUSES:
            if luck < share:
                return Action(kind, seed)
            luck -= share
        return Action(ANY, seed)

    def choose(self, rng: Random, context: Context) -> str:
        """A function to try. What has worked often is tried more seldom, as is what is mostly
        refused where the play stands, and what is only ever refused because hostile people may
        not call it, hardly ever."""
        if context not in self.chances:
            weights = []
            for title in self.titles:
                tried, worked = self.tries.get((title, context), (0, 0))
                rate = (1 + worked) / (1 + tried)
                weights.append(max(self.shares.get(title, 1.0) * max(rate, 0.03), 0.001))
            self.chances[context] = list(accumulate(weights))
        return rng.choices(self.titles, cum_weights=self.chances[context])[0]

    def counts(self) -> dict[str, list[int]]:
        """How often each function was tried, and worked."""
        total: dict[str, list[int]] = {}
        for (title, _), (tried, worked) in sorted(self.tries.items()):
            count = total.setdefault(title, [0, 0])
            count[0] += tried
            count[1] += worked
        return total

    def fresh(self) -> Play:
        return Play(
            self.rng.getrandbits(32),
            tuple(self.action() for _ in range(self.rng.randint(LENGTH // 2, LENGTH))),
        )

    def mutated(self, play: Play) -> Play:
        """A play with some actions changed, taken out, put in, repeated or spliced."""
        rng, actions = self.rng, list(play.actions)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(actions) + 1)
            kind = rng.random()
            if kind < 0.35 or not actions:
                actions.insert(place, self.action())
            elif kind < 0.55:
                actions.pop(place % len(actions))
            elif kind < 0.70:
                old = actions[place % len(actions)]
                actions[place % len(actions)] = Action(old.kind, rng.getrandbits(32))
            elif kind < 0.80:
                first = rng.randrange(len(actions))
                actions[place:place] = actions[first : first + rng.randint(1, 4)]
            elif kind < 0.90:
                other = rng.choice(self.corpus).play.actions
                first = rng.randrange(len(other) + 1)
                actions[place:place] = other[first : first + rng.randint(1, 6)]
            else:
                moved = actions.pop(place % len(actions))
                actions.insert(rng.randrange(len(actions) + 1), moved)
        seed = play.seed if rng.random() < 0.9 else rng.getrandbits(32)
        return Play(seed, tuple(actions[:LENGTH]))

    def next_play(self) -> Play:
        if len(self.corpus) < 10 or self.rng.random() < 0.3:
            return self.fresh()
        # A small tournament by worth, else anything that was new once.
        if self.rng.random() < 0.5:
            return self.mutated(self.rng.choice(self.corpus).play)
        group = self.rng.sample(self.corpus, min(6, len(self.corpus)))
        return self.mutated(max(group, key=lambda p: p.verdict.score).play)

    # Running

    def run(
        self,
        actions: int,
        say: Callable[[str], None] = lambda line: None,
        known: Iterable[str] = (),
    ) -> None:
        """Plays until so many actions were carried out. Known causes are found, and not sought."""
        expected = frozenset(known)
        start = time.process_time()
        while self.actions < actions:
            played = perform(self.stage, self.next_play(), self.choose)
            self.actions += played.deeds
            self.plays += 1
            self._learn(played, expected)
            for cause in sorted(played.verdict.causes - set(self.findings)):
                if played.verdict.is_finding and cause not in self.findings:
                    say(f"{cause}: found at action {self.actions}, play {self.plays}")
                    known_one = cause in expected
                    short = played if known_one else shrunk(self.stage, played, cause)
                    for also in sorted(short.verdict.causes - set(self.findings)):
                        self.findings[also] = Finding(also, short, self.actions)
                    say(self.findings[cause].words())
            if self.plays % 50 == 0:
                took = time.process_time() - start
                say(f"{self.actions} actions, {self.actions / took:.0f} a second")

    def _learn(self, played: Played, expected: frozenset[str]) -> None:
        for kind, (tried, worked) in played.tried.items():
            count = self.tries.setdefault(kind, [0, 0])
            count[0] += tried
            count[1] += worked
        self.chances = {}
        counts = self.counts()
        for title in self.titles:
            tried, worked = counts.get(title, (0, 0))
            barred = not worked and title in self.refused and tried > 3
            weight = 0.2 if title in SELDOM or title.startswith("keys.") else 1.0
            self.shares[title] = 0.0 if barred else weight / (1 + worked * weight)
        self.refused |= played.refused
        new = played.done - self.known
        self.known |= played.done
        # What is known already is no longer worth coming near to.
        worth = played.verdict.score if not played.verdict.causes <= expected else 0
        if new or worth > 0:
            self.corpus.append(played)
        if len(self.corpus) > CORPUS:
            self.corpus.sort(key=lambda p: p.verdict.score, reverse=True)
            best, rest = self.corpus[: CORPUS // 4], self.corpus[CORPUS // 4 :]
            self.corpus = best + self.rng.sample(rest, CORPUS // 2)


def shrunk(stage: Stage, played: Played, cause: str) -> Played:
    """The play with every action left out that the finding does not need: halves first."""
    best, size = played, max(1, len(played.play.actions) // 2)
    while True:
        place, smaller = 0, False
        while place < len(best.play.actions):
            actions = best.play.actions
            tried = perform(stage, Play(best.play.seed, actions[:place] + actions[place + size :]))
            if tried.verdict.is_finding and cause in tried.verdict.causes:
                best, smaller = tried, True
            else:
                place += size
        if size == 1 and not smaller:
            return best
        size = max(1, size // 2)
