# SPDX-License-Identifier: Apache-2.0
"""When a committee member says that nobody can have a validator's record, and when it leaves a
record alone. Its chain has four blocks a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.gauntlet import disputes as module
from agents.gauntlet.disputes import LOOK_S, WITHHELD_S, ScoreDisputes, _Vector
from agents.gauntlet.earlier_records import EarlierRecords
from agents.gauntlet.record import ScoreRecord
from agents.gauntlet.remeasure import SAMPLES_WAIT_S
from agents.gauntlet.replay import digest_of_record
from agents.gauntlet.sample_search import SampleSearch
from agents.storage.errors import NotFound, StoreError, StoreUnavailable
from tests.stage.memory.score_records import LOSSES, OPTIONS, chain_of, honest_record, older

PER_S, REVEALED = 4, 100_000  # blocks a second, and the second of the reveal
BLOCK, OLD = PER_S * REVEALED, REVEALED + 86_400
VECTOR = _Vector(1, 5, 7, (1, 2), b"\1" * 32, BLOCK)


class Member:
    """One process of a member before one vector; all that its record says is right."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.up, self.looks = True, 0
        self.pinned: list[str] = []
        self.heard: list[str] = []
        self.overruled: set[int] = set()
        score: Any = Stub(spec=None)
        self.disputes = object.__new__(ScoreDisputes)
        parts: dict[str, Any] = {
            "_store": Stub(
                get_digest=self.get, resolve=lambda digest: digest.hex(), pin=self.pinned.append
            ),
            "_network": None,
            "_ages": Stub(made_at=lambda block: block // PER_S),
            "_found": {},
            "_not_before": {},
            "_absent": set(),
            "_missed": {},
            "_samples": {},
            "_measured": None,
            "_records": EarlierRecords(self.disputes._record),
            "_began": {},
            "_say": self.heard.append,
            "_told": False,
            "_read": lambda _: ([VECTOR], {(1, 5): self.overruled}),
            "_denied": lambda *_: "",
            "_replayed": lambda *_: "",
            "_drawn": lambda *_: "",
            "_options": lambda _: score,
            "_rounds": lambda: None,
        }
        vars(self.disputes).update(parts)
        view = Stub(job_id=1, round_id=5)
        monkeypatch.setattr(module, "observe", lambda *_: view)
        monkeypatch.setattr(module, "Consensus", lambda _: None)
        monkeypatch.setattr(module, "sample_search", lambda *_: SampleSearch(Stub(), 9))
        monkeypatch.setattr(module, "errors", lambda *_: iter(()))
        monkeypatch.setattr(module, "lacking", lambda *_: [])
        record = Stub(from_bytes=lambda _: Stub(audit_seed=""))
        monkeypatch.setattr(module, "ScoreRecord", record)

    def get(self, digest: bytes, _: int) -> bytes:
        self.looks += 1
        if not self.up:
            raise NotFound("nobody reachable has it")
        return b"record"

    def says(self, now: int) -> list[str]:
        head: Any = Stub(number=PER_S * now, timestamp=now)
        return [found.why for found in self.disputes.step(head)]


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Member:
    return Member(monkeypatch)


def test_a_failed_look_at_an_old_record_convicts_nobody(member: Member) -> None:
    """Such as the first one after a restart, while the validator's store is away for a minute."""
    member.up = False
    assert member.says(OLD) == []
    member.up = True
    for now in range(OLD, OLD + 2 * WITHHELD_S, 120):
        assert member.says(now) == []


def test_a_record_that_was_missing_all_the_while_is_withheld(member: Member) -> None:
    member.up = False
    last = OLD + WITHHELD_S
    for now in range(OLD, last + 1, 120):
        assert member.says(now) == []
    said = [member.says(now) for now in range(last + 1, last + LOOK_S + 2)]
    assert said[-1] == ["nobody can have its record, looked for during 6 hours"]
    assert member.looks <= 2 + WITHHELD_S / LOOK_S + 8


def test_what_was_said_is_taken_back_soon_once_the_record_is_there(member: Member) -> None:
    member.up = False
    now = OLD
    while not member.says(now):
        now += 120
    member.up = True
    said = [member.says(later) for later in range(now, now + LOOK_S + 1)]
    assert said[0] and not said[-1]


def test_days_after_it_was_taken_back_the_count_begins_anew(member: Member) -> None:
    member.up = False
    assert member.says(OLD) == []
    member.up = True
    assert member.says(OLD + LOOK_S) == [] and member.looks == 2
    assert not member.disputes._missed


def test_a_record_that_was_read_is_kept(member: Member) -> None:
    assert member.says(REVEALED + 10) == []
    assert member.pinned == [VECTOR.record.hex()]


@pytest.mark.parametrize("error", [StoreUnavailable, StoreError])
def test_who_can_not_keep_records_judges_and_says_it_once(
    member: Member, monkeypatch: pytest.MonkeyPatch, error: type[StoreError]
) -> None:
    """Such as a member whose store is read through a proxy that lets no writes through."""

    def refuse(_: str) -> None:
        raise error("it takes no writes")

    second = _Vector(1, 6, 7, (1, 2), b"\2" * 32, BLOCK)
    overruled: dict[tuple[int, int], set[int]] = {(1, 5): set(), (1, 6): set()}
    parts = {
        "_store": Stub(get_digest=member.get, resolve=str, pin=refuse),
        "_read": lambda _: ([VECTOR, second], overruled),
        "_denied": lambda *_: "it lies",
    }
    vars(member.disputes).update(parts)
    assert [len(member.says(OLD + step)) for step in range(3)] == [1, 2, 2]
    assert member.heard == ["a record that was read can't be kept: it takes no writes"]


def test_nobody_looks_for_the_record_of_who_was_overruled(member: Member) -> None:
    member.up = False
    member.overruled = {VECTOR.verifier}
    assert member.says(OLD) == [] and member.looks == 0


def test_withheld_records_hold_no_older_lie_up(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than steps until they are looked for again, and all of newer rounds."""
    kept_back = [
        _Vector(1, 6 + n, 7, (1, 2), n.to_bytes(32, "big"), BLOCK + 1)
        for n in range(3 * LOOK_S // 12)
    ]
    due = [*kept_back, VECTOR]
    looks: dict[bytes, int] = dict.fromkeys((vector.record for vector in due), 0)

    def get(digest: bytes, _: int) -> bytes:
        looks[digest] += 1
        if digest == VECTOR.record:
            return b"record"
        raise NotFound("nobody reachable has it")

    overruled: dict[tuple[int, int], set[int]] = {(v.job, v.round): set() for v in due}
    parts = {
        "_store": Stub(get_digest=get, resolve=str, pin=lambda _: None),
        "_read": lambda _: (due, overruled),
        "_denied": lambda *_: "it lies",
    }
    vars(member.disputes).update(parts)
    said = [member.says(OLD + 12 * step) for step in range(len(due))]
    assert said[-1] == ["it lies"] and set(looks.values()) == {1}
    for step in range(len(due), 3 * len(due)):
        member.says(OLD + 12 * step)
    again = [looks[vector.record] for vector in kept_back]
    assert looks[VECTOR.record] == 1 and max(again) - min(again) <= 1 and min(again) > 1


class Sampled:
    """A member before rounds whose samples nobody serves, one vector in each; time is its own."""

    def __init__(self, member: Member, monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
        self.now, self.second = 0.0, OLD
        self.free = threading.Event()
        self.begun: list[int] = []
        self.judged: list[int] = []
        self.broken: Exception | None = None
        due = [_Vector(1, n, 7, (1, 2), bytes([n] * 32), BLOCK) for n in range(1, rounds + 1)]
        overruled: dict[tuple[int, int], set[int]] = {(1, v.round): set() for v in due}
        vars(member.disputes).update({"_read": lambda _: (due, overruled)})
        monkeypatch.setattr(module, "_LOOK_S", 0.0)
        monkeypatch.setattr(module, "sample_search", lambda *args: self.search(args[-1].round_id))
        monkeypatch.setattr(
            module, "observe", lambda _, job, __, number: Stub(job_id=job, round_id=number)
        )
        monkeypatch.setattr(module, "errors", lambda *args: self.errors(args[3].round_id, args[5]))
        self.member = member

    def search(self, number: int) -> SampleSearch:
        self.begun.append(number)
        search = SampleSearch(Stub(get_digest=self.get), 9, lambda: self.now)
        search.want([bytes([number])])
        return search

    def get(self, digest: bytes, _: int) -> bytes:
        if self.broken is not None:
            raise self.broken
        self.free.wait(60.0)
        raise NotFound("nobody serves it")

    def errors(self, number: int, search: SampleSearch) -> Iterator[str]:
        assert search.ended
        self.judged.append(number)
        return iter(())

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.second += 1
            assert self.member.says(self.second) == []


def test_samples_are_looked_for_beside_the_loop(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step waits for them, and the searches of several rounds go on at once."""
    sampled = Sampled(member, monkeypatch, rounds=6)
    sampled.steps(20)
    assert sampled.begun == [1, 2, 3, 4] and not sampled.judged
    sampled.now = SAMPLES_WAIT_S
    sampled.steps(20)
    assert sorted(sampled.judged) == [1, 2, 3, 4] and sampled.begun[4:] == [5, 6]
    sampled.free.set()
    sampled.now += SAMPLES_WAIT_S
    sampled.steps(20)
    assert sorted(sampled.judged) == [1, 2, 3, 4, 5, 6] == sorted(sampled.begun)
    assert len(member.disputes._samples) == 4


def test_what_was_said_of_a_payload_stands_while_samples_are_looked_for(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled = Sampled(member, monkeypatch, rounds=1)
    monkeypatch.setattr(module, "lacking", lambda *_: [4])
    sampled.steps(2)
    sampled.now = SAMPLES_WAIT_S
    sampled.steps(2)
    assert sampled.judged
    sampled.second += WITHHELD_S
    withheld = member.says(sampled.second)
    assert len(withheld) == 1 and "payloads of nodes [4]" in withheld[0]
    member.disputes._samples.clear()  # as when other rounds' searches took its place
    for second in range(sampled.second + 1, sampled.second + 2 * LOOK_S):
        assert member.says(second) == withheld
    assert len(sampled.begun) == 2
    sampled.free.set()


def test_a_store_that_is_down_while_samples_are_looked_for_denies_nothing(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled = Sampled(member, monkeypatch, rounds=1)
    sampled.broken = StoreUnavailable("no daemon")
    with pytest.raises(StoreUnavailable):  # in the step that begins the search or in a later one
        for _ in range(1_000):
            sampled.steps(1)
            time.sleep(0.001)
    sampled.broken = None
    sampled.free.set()
    sampled.second = 2 * OLD
    for _ in range(1_000):
        sampled.steps(1)
        if sampled.judged:
            break
        time.sleep(0.001)
    assert sampled.begun == [1, 1] and sampled.judged == [1]


# -- records of an older version -------------------------------------------------------------------

VERIFIER, OTHER, THIRD = 21, 22, 23
NEW, FIRST_ONLY = chain_of(3), chain_of(1)[0]


def of(verifier: int, number: int = 1) -> ScoreRecord:
    """A record of another validator that had none before it."""
    return honest_record(None, number, LOSSES).model_copy(update={"verifier": verifier})


def denied(
    monkeypatch: pytest.MonkeyPatch,
    revealed: list[tuple[ScoreRecord, bytes]],
    stakes: dict[int, int] | None = None,
) -> dict[tuple[int, int], str]:
    """What a member says of these records, each as its validator published it, by round and
    verifier. All that depends on a round's payloads is right."""
    stakes = stakes or dict.fromkeys((VERIFIER, OTHER, THIRD), 1)
    stored = {digest_of_record(raw): raw for _, raw in revealed}
    due, by_round = [], {}
    for record, raw in revealed:
        place = record.job, record.round, record.verifier
        vector = _Vector(*place, tuple(record.vector()), digest_of_record(raw), BLOCK)
        due.append(vector)
        by_round.setdefault((record.job, record.round), []).append(vector)
    pinned: list[bytes] = []
    parts: dict[str, Any] = {
        "_store": Stub(
            get_digest=lambda digest, _: stored[digest],
            resolve=lambda digest: digest,
            pin=pinned.append,
        ),
        "_read": lambda _: (due, {place: set() for place in by_round}),
        "_revealed": by_round,
        "_options": lambda _: OPTIONS,
    }
    disputes = Member(monkeypatch).disputes
    del disputes._denied  # type: ignore[attr-defined]
    vars(disputes).update(parts)
    monkeypatch.setattr(module, "ScoreRecord", ScoreRecord)
    view = Stub(job_id=1, round_id=1, snapshot=Stub(verifiers=stakes))
    monkeypatch.setattr(module, "observe", lambda *_: view)
    for now in range(OLD, OLD + 2 * len(due)):
        head: Any = Stub(number=PER_S * now, timestamp=now)
        found = disputes.step(head)
    assert set(disputes._found) == set(due) and set(pinned) == set(stored)
    return {(false.round, false.verifier): false.why for false in found}


def as_they_are(*records: ScoreRecord) -> list[tuple[ScoreRecord, bytes]]:
    return [(record, record.to_bytes()) for record in records]


def as_older(*records: ScoreRecord) -> list[tuple[ScoreRecord, bytes]]:
    return [(record, older(record)) for record in records]


def test_nobody_is_convicted_for_what_he_revealed_before_an_upgrade(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor for the record after it, which starts from fresh ratings, nor for the next."""
    after = honest_record(None, 4, LOSSES)
    last = honest_record(after, 5, LOSSES)
    assert denied(monkeypatch, [*as_older(*NEW), *as_they_are(after, last)]) == {}


def test_a_record_that_goes_on_from_an_older_one_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = older(NEW[1])
    named = {"previous": digest_of_record(raw).hex()}
    found = denied(
        monkeypatch,
        [*as_older(NEW[0]), (NEW[1], raw), *as_they_are(NEW[2].model_copy(update=named))],
    )
    assert list(found) == [(3, VERIFIER)] and "it follows" in found[3, VERIFIER]


def test_an_older_record_in_a_job_that_began_without_is_false(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else whoever measures nothing would name one, in every job."""
    began = as_they_are(FIRST_ONLY, of(OTHER))
    found = denied(monkeypatch, [*began, *as_older(of(THIRD)), *as_older(of(THIRD, 2))])
    assert set(found) == {(1, THIRD), (2, THIRD)}
    assert "version 4" in found[2, THIRD] and "began with a newer" in found[2, THIRD]


def test_half_of_the_stake_says_with_which_version_a_job_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = [*as_they_are(FIRST_ONLY), *as_older(of(OTHER)), *as_older(of(OTHER, 2))]
    assert denied(monkeypatch, began, {VERIFIER: 1, OTHER: 1}) == {}
    assert len(denied(monkeypatch, began, {VERIFIER: 3, OTHER: 2})) == 2


def test_the_first_records_are_looked_for_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A distant store searches a minute for each that is missing."""
    looks: list[int] = []
    honest = ScoreDisputes._first_is_older

    def first(self: ScoreDisputes, job_id: int, head: Any) -> bool:
        looks.append(head.number)
        return honest(self, job_id, head)

    monkeypatch.setattr(ScoreDisputes, "_first_is_older", first)
    assert denied(monkeypatch, as_older(*NEW)) == {}
    assert len(looks) == 1


def test_who_reveals_alone_with_little_stake_begins_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = as_older(of(THIRD))
    rest = as_they_are(of(VERIFIER, 2), of(OTHER, 2))
    assert set(denied(monkeypatch, [*alone, *rest])) == {(1, THIRD)}
