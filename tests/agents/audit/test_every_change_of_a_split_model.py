# SPDX-License-Identifier: Apache-2.0
"""Every kind of change to what the rounds of a split model left is found and named.

One thing is changed at a time. It is either a byte of what the store gives, or it is well formed,
published, and a majority took it for right. With `-s` the count of changes is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agents.audit.sources.findings import Part
from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.miner_log import Event, Kind, MinerLog
from agents.protocol.numbers import UNCLAIMED
from agents.rounds.mined import Mined
from agents.rounds.outcome import Outcome, compute
from agents.rounds.shares import pack_record
from agents.storage.canonical import dumps, loads
from agents.storage.cid import cid_of_bytes, digest_of
from agents.training.state import PayloadError
from tests.stage.chain.lying_sources import LyingStore
from tests.stage.memory.audited_run import (
    NODES,
    Past,
    audit,
    audited_run,
    honest_shares,
    past_of,
    statement,
)
from tests.stage.memory.honest_round import DEVICE, JOB
from tests.stage.memory.mined_round import told, work_through
from tests.stage.memory.mined_run import Run

_WHOLE = 1 << 24


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Whole epochs are done again."""
    return audited_run(tmp_path_factory.mktemp("split"))


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return audited_run(tmp_path_factory.mktemp("segmented"), segment=2)


def miner(made: Run, stage: int) -> int:
    """That of a stage which did most in round 1."""
    works = made.rounds[0].works
    return max((n for n in works if works[n].stage == stage), key=lambda n: len(works[n].entries))


def mined_of(made: Run, node: int) -> Mined:
    found = next(s for s in made.submissions[0] if s.reveal.node == node)
    assert isinstance(found, Mined) and found.proof is not None
    return found


def assert_named(parts: Sequence[Part], subject: str, words: str = "") -> None:
    said = [d for part in parts for d in part.differences]
    assert any(d.subject == subject and words in d.sentence for d in said), [str(d) for d in said]


def first(made: Run, past: Past | None = None, store: Any = None, deep: bool = False) -> list[Part]:
    """The audit of round 1 alone."""
    return audit(made, [past or past_of(made, 0)], store, deep)


def test_true_rounds_hold(made: Run, segmented: Run) -> None:
    for run in (made, segmented):
        for deep in (False, True):
            parts = audit(run, [past_of(run, 0), past_of(run, 1)], deep=deep)
            assert [str(d) for part in parts for d in part.differences] == []
            assert [part.remarks for part in parts] == [[]] * 3
            redone = [part.counts.get("training", 0) for part in parts]
            assert redone == [9 * deep, 9 * deep, 0]


# -- what the store gives ------------------------------------------------------------------------


def artefacts_of(made: Run, node: int) -> dict[str, str]:
    """CIDs by the names that the audit gives them."""
    mined, report = mined_of(made, node), made.outcomes[0].report
    proof, store = mined.proof, made.rounds[0].store
    assert proof is not None and proof.inbox is not None and report.shards is not None
    found = {
        f"payload of node {node}": store.resolve(mined.reveal.content),
        f"proof of node {node}": store.resolve(mined.reveal.proof),
        f"log of node {node}": proof.trace,
        f"entries of node {node}": proof.inbox,
        "record of shards": report.shards,
        "report": cid_of_bytes(report.to_bytes()),
        "update": report.update,
    }
    for cid in mined.states:  # the drawn ones; nobody reads the others
        last = cid == proof.weights
        which = "last weights" if last else f"state {proof.states.index(cid)}"
        found[f"{which} of node {node}"] = cid
    return found


def with_state(made: Run) -> int:
    """A miner of whose states one is drawn beside the last weights."""
    return next(n for n in NODES if len(mined_of(made, n).states) > 1)


@pytest.mark.parametrize("lost", [False, True])
def test_every_artefact_that_is_lost_or_has_a_changed_byte_is_named(
    segmented: Run, lost: bool
) -> None:
    node, store = with_state(segmented), segmented.rounds[0].store
    cids = artefacts_of(segmented, node)
    assert len(cids) == 9
    for name, cid in cids.items():
        data = store.get(cid, _WHOLE)
        place = len(data) // 2
        flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        parts = first(segmented, store=LyingStore(store, cid, None if lost else flipped))
        assert_named(parts, name, "missing" if lost else "other bytes")


@pytest.mark.parametrize("what", ["payload", "trace", "inbox"])
def test_what_a_miner_never_published_is_remarked_if_the_round_went_on_without_it(
    made: Run, what: str
) -> None:
    """The report leaves the miner out, so nothing is wrong. Control: one that does not."""
    node, mined = miner(made, 1), made.rounds[0]
    past = took(made, node, mined.submit(node, missing=what))
    parts = first(made, past, deep=True)
    assert [str(d) for part in parts for d in part.differences] == []
    name = {"payload": "payload", "trace": "log", "inbox": "entries"}[what]
    assert any(f"{name} of node {node} (" in remark for remark in parts[0].remarks)
    honest = past_of(made, 0)
    same = honest.revealed(past.reveals[NODES.index(node)])
    assert_named(first(made, same), f"{name} of node {node}", "missing")


# -- what was proposed ---------------------------------------------------------------------------


def took(made: Run, node: int, submission: Mined, shares: Any = None) -> Past:
    """Round 1 as a majority had it that took this submission of a node as it was read."""
    mined = made.rounds[0]
    submissions = [submission if s.reveal.node == node else s for s in made.submissions[0]]
    said = shares or honest_shares(mined, submissions)
    place = mined.job, JOB, 1, mined.plan, mined.before, submissions, DEVICE
    outcome = compute(*place, shares=said)
    publish(made, outcome)
    return past_of(made, 0, outcome).revealed(submission.reveal)


def publish(made: Run, outcome: Outcome) -> None:
    for raw in (*outcome.parts, outcome.update, outcome.report.to_bytes()):
        made.rounds[0].store.put_bytes(raw)


def reported(made: Run, fields: dict[str, Any]) -> Past:
    """Round 1 with another report."""
    raw = dumps(fields)
    made.rounds[0].store.put_bytes(raw)
    return past_of(made, 0).proposed(report=digest_of(cid_of_bytes(raw)))


def another(value: Any) -> Any:
    """Another value of the same kind."""
    if value is None:
        return cid_of_bytes(b"none")
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str) and value.startswith("baf"):
        return cid_of_bytes(value.encode())
    if isinstance(value, str) and len(value) == 64:
        return f"{int(value[0], 16) ^ 1:x}{value[1:]}"
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return [*value[:-1], another(value[-1])] if value else [[0, 1]]
    raise AssertionError(f"no way to change {value!r}")


def test_every_field_of_the_report_is_named(made: Run) -> None:
    """Also one that is left out; the version has one value."""
    report = made.outcomes[0].report.model_dump(mode="json")
    changed = {n: another(v) for n, v in report.items() if n not in ("version", "nodes")}
    changed["weights"] = [[node, weight - 1] for node, weight in report["weights"]]
    for name, value in changed.items():
        if name == "shards":
            continue  # see the records below
        parts = first(made, reported(made, {**report, name: value}))
        assert_named(parts, "report", f"{name} is ")
    for name in ("weights", "shards"):
        without = {key: value for key, value in report.items() if key != name}
        assert_named(first(made, reported(made, without)), "report", f"{name} is ")
    print(f"\nreport: {len(changed) + 2} changes are named")


def test_every_field_of_a_miners_line_is_named(made: Run) -> None:
    """Passes, pay, declared memory and so on; the reason is free text."""
    report, place = made.outcomes[0].report.model_dump(mode="json"), 3
    line = report["nodes"][place]
    lines = {name: {**line, name: another(v)} for name, v in line.items() if name != "reason"}
    lines["quality_ppm"] = {**line, "quality_ppm": line["quality_ppm"] - 1}
    lines["memory left out"] = {n: v for n, v in line.items() if n != "memory"}
    for name, other in lines.items():
        nodes = [*report["nodes"][:place], other, *report["nodes"][place + 1 :]]
        parts = first(made, reported(made, {**report, "nodes": nodes}))
        if name == "node":
            assert_named(parts, "report", "the nodes in it")
        else:
            assert_named(parts, f"node {line['node']}", name.split()[0])
    fewer = {**report, "nodes": report["nodes"][1:]}
    assert_named(first(made, reported(made, fewer)), "report", "the nodes in it")
    print(f"\nline of a miner: {len(lines) + 1} changes are named")


def test_every_contribution_on_chain_is_named(made: Run) -> None:
    honest = past_of(made, 0)
    nodes, paid = honest.tally.proposal.nodes, honest.tally.proposal.contributions
    for place, node in enumerate(nodes):
        other = (*paid[:place], paid[place] + 1, *paid[place + 1 :])
        parts = first(made, honest.proposed(contributions=other))
        assert_named(parts, f"node {node}", "its contribution on chain")
    fewer = honest.proposed(nodes=nodes[1:], contributions=paid[1:])
    assert_named(first(made, fewer), f"node {nodes[0]}", "its contribution on chain")
    more = honest.proposed(nodes=(*nodes, UNCLAIMED), contributions=(*paid, 1))
    assert_named(first(made, more), f"node {UNCLAIMED}", "its contribution on chain")
    for name in ("model", "update"):
        other = honest.proposed(**{name: b"\7" * 32})
        subject = {"model": "ResultProposed", "update": "update"}[name]
        assert_named(first(made, other), subject)


# -- the record of shards, and the owners' statements --------------------------------------------


def record_of(made: Run) -> list[dict[str, Any]]:
    """The lines of the record, one a stage."""
    cid = made.outcomes[0].report.shards
    assert cid is not None
    found: list[dict[str, Any]] = loads(made.rounds[0].store.get(cid, _WHOLE))["stages"]
    return found


def recorded(made: Run, lines: list[dict[str, Any]]) -> Past:
    """Round 1 with another record."""
    raw = pack_record(JOB, 1, lines)
    report = made.outcomes[0].report.model_dump(mode="json")
    made.rounds[0].store.put_bytes(raw)
    return reported(made, {**report, "shards": cid_of_bytes(raw)})


def test_every_field_of_the_record_of_shards_is_named(made: Run) -> None:
    one, two, three = made.rounds[0].plan.epoch.stages[1]  # type: ignore[union-attr]
    other: dict[str, Any] = {
        "stage": 2,
        "owners": [one, two],
        "contributors": [one, two],
        "agreement": [[None, True, False], [True, None, True], [False, True, None]],
        "elsewhere": [three],
        "unjudged": [[one, [0]]],
        "lost": [1],
        "liars": [[two, [0]]],
        "accepted": False,
        "more": 1,
    }
    true = record_of(made)
    assert other.keys() == {"more", *true[1]} - {"statements"}
    for name, value in other.items():
        parts = first(made, recorded(made, [true[0], {**true[1], name: value}, true[2]]))
        assert_named(parts, "report", "shards is ")
        assert_named(parts, "record of shards, stage 1", f"{name} is ")
    parts = first(made, recorded(made, true[:2]))
    assert_named(parts, "record of shards", "the number of its stages")


def test_every_field_of_an_owners_statement_is_named(made: Run) -> None:
    """Nobody else can sign it, so the record of it is another."""
    true, place = record_of(made), 1
    said = true[place]["statements"][0]
    for name, value in said.items():
        if name in ("digests", "contributors"):
            other: Any = [*value[:-1], another(value[-1])]
        else:
            other = another(value) if name != "signature" else "00" + value[2:]
        statements = [{**said, name: other}, *true[place]["statements"][1:]]
        lines = [true[0], {**true[1], "statements": statements}, true[2]]
        parts = first(made, recorded(made, lines))
        owner = other if name == "owner" else said["owner"]
        assert_named(parts, f"node {owner}", "its statement in the record of shards")
    lines = [true[0], {**true[1], "statements": true[1]["statements"][1:]}, true[2]]
    assert_named(first(made, recorded(made, lines)), "record of shards, stage 1", "agreement is ")


def test_an_owner_that_stated_another_merge_and_that_nobody_slashed_is_named(made: Run) -> None:
    """The record is right about it."""
    mined, submissions = made.rounds[0], made.submissions[0]
    honest = honest_shares(mined, submissions)
    for owner in NODES:
        lie = statement(mined, submissions, owner, off=0.5)
        shares = replace(honest, statements={**honest.statements, owner: lie})
        past = took(made, owner, mined_of(made, owner), shares)
        assert past.outcome.lies.keys() == {owner}
        if owner == NODES[0]:
            assert all(part.holds for part in first(made, past))
            assert_named(first(made, past, deep=True), f"node {owner}", "gives something else")


# -- what miners did -----------------------------------------------------------------------------


def changed_logs(log: MinerLog) -> Iterator[tuple[str, MinerLog]]:
    """One event of each kind: another number or digest, or left out."""
    for kind in Kind:
        place = max(p for p, event in enumerate(log.events) if event.kind is kind)
        event = log.events[place]
        others: dict[str, tuple[Event, ...]] = {
            "number": (replace(event, number=event.number + 1000),),
            "digest_in": (replace(event, digest_in=b"\7" * 32),),
            "digest_out": (replace(event, digest_out=b"\7" * 32),),
            "left out": (),
        }
        for what, put in others.items():
            events = (*log.events[:place], *put, *log.events[place + 1 :])
            try:
                yield f"{kind.name} {what}", replace(log, events=events)
            except PayloadError:
                continue  # no log has this order: whoever reads it refuses it


def changed_entries(entries: tuple[Entry, ...]) -> Iterator[tuple[str, tuple[Entry, ...]]]:
    """One entry of each kind that came from another miner: each of its fields; and it left out, or
    twice."""
    for kind in (Kind.FORWARD, Kind.BACKWARD):
        place = max((p for p, e in enumerate(entries) if e.sender and e.kind is kind), default=-1)
        if place < 0:
            continue  # of the last stage, where nothing comes back
        entry = entries[place]
        turned = Kind.FORWARD if kind is Kind.BACKWARD else Kind.BACKWARD
        others: dict[str, tuple[Entry, ...]] = {
            "kind": (replace(entry, kind=turned, trail=b""),),
            "sample": (replace(entry, sample=entry.sample + 1),),
            "sender": (replace(entry, sender=entry.sender + 1),),
            "signature": (replace(entry, signature=bytes(65)),),
            "message": (replace(entry, message=bytes(len(entry.message))),),
            "trail": (replace(entry, trail=bytes(len(entry.trail) or 1)),),
            "left out": (),
            "twice": (entry, entry),
        }
        for what, put in others.items():
            yield f"{kind.name} entry's {what}", (*entries[:place], *put, *entries[place + 1 :])


def changes_of(made: Run, node: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a miner shows in place of what it did, under a commitment to that."""
    work = made.rounds[0].works[node]
    for what, log in changed_logs(work.log):
        yield what, {"trace": log.to_bytes(), "root": log.root()}
    yield "root", {"root": b"\7" * 32}
    for what, entries in changed_entries(work.entries):
        yield what, {"inbox": Inbox(entries).to_bytes()}
    scaled = {name: 1.01 * tensor for name, tensor in work.change.items()}
    yield "payload", {"payload": made.rounds[0].encode(scaled)}


def losses_of(made: Run, node: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Losses that a miner of the last stage states, the first time with a log that binds them; and
    its entries, which show the whole way of a sample."""
    work = made.rounds[0].works[node]
    for what, entries in changed_entries(work.entries):
        yield what, {"inbox": Inbox(entries).to_bytes()}
    (sample, loss), *others = work.losses
    lower = ((sample, loss // 2), *others)
    log = told(work.log, dict(lower))
    yield "loss", {"losses": lower, "trace": log.to_bytes(), "root": log.root()}
    yield "loss unbound", {"losses": lower, "trace": work.log.to_bytes()}
    yield "loss left out", {"losses": tuple(others), "trace": work.log.to_bytes()}


@pytest.mark.parametrize(("stage", "shown"), [(1, changes_of), (2, losses_of)])
def test_every_change_of_what_a_miner_did_is_named(
    made: Run, stage: int, shown: Callable[[Run, int], Iterator[tuple[str, dict[str, Any]]]]
) -> None:
    """The majority that took it did nothing again; `deep` does."""
    node, silent, kinds = miner(made, stage), list[str](), 0
    for what, changes in shown(made, node):
        kinds += 1
        past = took(made, node, made.rounds[0].submit(node, **changes))
        parts = first(made, past, deep=True)
        if not any(d.subject == f"node {node}" for part in parts for d in part.differences):
            silent.append(what)
    print(f"\nwhat a miner did: {kinds - len(silent)} of {kinds} changes are named")
    assert not silent, f"the audit should name {silent}"


def test_a_miner_that_was_read_otherwise_than_it_shows_is_named(made: Run) -> None:
    """The result is of the honest work; what was revealed is not that, which shows at once."""
    node = miner(made, 1)
    honest = past_of(made, 0)
    for what in ({"root": b"\7" * 32}, {"inbox": b"no entries"}, {"trace": b"no log"}):
        reveal = made.rounds[0].submit(node, **what).reveal
        parts = first(made, honest.revealed(reveal))
        assert_named(parts, f"node {node}", "accepted in the report is True")


# -- who held which stage ------------------------------------------------------------------------


def test_miners_that_held_other_seats_than_the_draw_gave_are_named(made: Run) -> None:
    """Two swap their stages and do all work there; the majority took it."""
    mined = made.rounds[0]
    epoch = mined.plan.epoch
    assert epoch is not None
    one, two = epoch.stages[0][0], epoch.stages[1][0]
    swap = {one: two, two: one}
    stages = tuple(tuple(sorted(swap.get(n, n) for n in here)) for here in epoch.stages)
    plan = replace(mined.plan, epoch=replace(epoch, stages=stages))
    other = replace(mined, plan=plan, works=work_through(mined, plan))
    submissions = [other.submit(node, memory=10**9, busy_ms=100) for node in NODES]
    assert all(s.gradient is not None for s in submissions)
    shares = honest_shares(other, submissions)
    place = mined.job, JOB, 1, plan, mined.before, submissions, DEVICE
    outcome = compute(*place, shares=shares)
    publish(made, outcome)
    past = replace(past_of(made, 0, outcome), reveals=tuple(s.reveal for s in submissions))
    parts = first(made, past)
    for node in (one, two):
        assert_named(parts, f"node {node}", "accepted in the report is True")


@pytest.mark.parametrize("what", ["nodes", "seed"])
def test_another_snapshot_or_seed_gives_other_seats(made: Run, what: str) -> None:
    """A chain that says otherwise than the work was done by. What it says is checked elsewhere."""
    honest = past_of(made, 1)
    if what == "nodes":
        opened = replace(honest.opened, nodes=NODES[1:], weights=honest.opened.weights[1:])
        other = replace(honest, opened=opened)
    else:
        manifest = replace(honest.mined.plan.manifest, seed=b"\7" * 32)
        plan = replace(honest.mined.plan, manifest=manifest)
        other = replace(honest, mined=replace(honest.mined, plan=plan))
    parts = audit(made, [past_of(made, 0), other])
    assert parts[0].holds and not parts[1].holds
    if what == "nodes":
        assert_named(parts[1:], f"node {NODES[0]}", "accepted in the report is True")
