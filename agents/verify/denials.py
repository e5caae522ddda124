# SPDX-License-Identifier: Apache-2.0
"""What a miner's log denies of its own entries, or of what it signed.

Rule: all miners of a round are looked at in two ways without doing anything again: whether a
miner's entries are what its log says that came in (`misfit`), and, where an entry is not what its
sender logged, which of the two is wrong (`contradicted`): the sender if it signed the entry, else
the receiver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Passage, Signed
from agents.pipeline.inbox import Received
from agents.pipeline.miner_log import Event, Kind, MinerLog
from agents.pipeline.work import out_of_place
from agents.rounds.mined import Mined


def misfit(epoch: Epoch, one: Mined) -> str:
    """Why a miner's log can't have come of its entries, as a sentence; empty if it can.

    Entries and events must be the same in kind, number and order, each entry must come from whom it
    may come, and its message must have the digest that is logged. Signatures are not looked at.
    """
    assert one.log is not None
    entries, events = one.received, one.log.events
    if len(entries) != len(events):
        return f"The log has {len(events)} events, of {len(entries)} entries."
    for place, (entry, event) in enumerate(zip(entries, events, strict=True)):
        wrong = _not_of(epoch, one.reveal.node, entry, event)
        if wrong:
            return f"Entry {place} does not fit the log: {wrong}."
    return ""


@dataclass(frozen=True)
class Guilt:
    """What shows that `miner` is wrong. `details`: for the evidence."""

    miner: int
    reason: str
    details: dict[str, Any]


def contradicted(epoch: Epoch, mined: Sequence[Mined], signed: Signed) -> Iterator[Guilt]:
    """Miners that are wrong where two logs disagree about a passage, at most once each.

    The sender is, if it signed what the receiver shows: it logged something else. Else the receiver
    is: it took what nobody signed. So there are at most two signatures to check for each miner,
    however many entries are false.
    """
    logged = {m.reveal.node: _sent(m.log) for m in mined if m.log is not None}
    guilty: set[int] = set()
    for one in mined:
        node = one.reveal.node
        for entry in one.received:
            theirs = logged.get(entry.sender)
            if theirs is None or theirs.get((entry.kind, entry.sample)) == entry.digest:
                continue
            if entry.sender in guilty:
                continue
            passage = Passage.of(epoch, entry.sample, entry.kind, entry.sender, node)
            what = f"{entry.kind.name.lower()} pass of sample {entry.sample}"
            details = {"signed": entry.digest.hex(), "signature": entry.signature.hex()}
            if signed(passage, entry.digest, entry.signature):
                guilty.add(entry.sender)
                reason = f"It signed another {what} for node {node} than it logged."
                yield Guilt(entry.sender, reason, details)
            else:
                reason = f"It shows a {what} that node {entry.sender} neither logged nor signed."
                if node not in guilty:
                    guilty.add(node)
                    yield Guilt(node, reason, details)
                break


def _not_of(epoch: Epoch, node: int, entry: Received, event: Event) -> str:
    """Why an event is not that of an entry; empty if it is."""
    if (entry.kind, entry.sample) != (event.kind, event.number):
        return f"the event is {event.kind.name} {event.number}"
    if entry.kind is Kind.STEP:
        return "" if entry.bare else "a step comes from nobody"
    wrong = out_of_place(epoch, node, entry)
    if not wrong and entry.digest != event.digest_in:
        wrong = f"another message of sample {entry.sample} was logged"
    return wrong


def _sent(log: MinerLog) -> dict[tuple[Kind, int], bytes]:
    passes = (event for event in log.events if event.kind is not Kind.STEP)
    return {(event.kind, event.number): event.digest_out for event in passes}
