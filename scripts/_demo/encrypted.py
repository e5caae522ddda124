# SPDX-License-Identifier: Apache-2.0
"""The demo of encrypted data: every shard has a key, and nodes get those that they were assigned.

Six strangers train on text that none of them may read whole. The sponsor gives each, round by
round, the keys of the shards of its batches. One node tries to open everything else. One sells the
keys that it holds. One sends noise, and verifiers find it although they hold no keys of its shards
until it is drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agents.jobs.disclosed import Disclosures
from agents.jobs.job import JobContext
from agents.protocol.numbers import Violation
from agents.rounds.models import Models
from agents.rounds.plan import Plans
from agents.rounds.shards import NeededShards
from agents.storage.key_release import node_reader
from agents.storage.sealed import sealed_size
from scripts._demo.cheats.leaker import LEAK
from scripts._demo.cheats.prying import NOTES
from scripts._demo.scenario import BATCHES_PER_TRAINER, OPTIMIZER, Cheat, Scenario
from scripts._demo.secret import Sight
from scripts._report.verdict import Check
from scripts._shared.leaks import places_of, receivers, suspects_of

_SHARD_BYTES = 4 * 1024  # 8 batches: a trainer's 12 a round need shards that nobody else's do
_PRYING, _LEAKER = "prying", "leaker"


def _spec(trainers: int) -> dict[str, Any]:
    # Whoever redoes work holds keys of the round's shards only, so no state comes from another one.
    return {"batches_per_round": BATCHES_PER_TRAINER * trainers, "optimizer": dict(OPTIMIZER)}


def _seen(sight: Sight, cheats: Mapping[str, str]) -> list[Check]:
    job = Models(sight.network, sight.store).job(sight.job_id)
    found = Disclosures(sight.network, sight.store, sight.job_id).read()
    given = receivers(found)
    return [
        _assigned(sight, given, len(found)),
        _nothing_plain(sight, job),
        *_pried(sight, given, cheats[_PRYING]),
        _named(sight, job, given, cheats[_LEAKER]),
    ]


def _assigned(sight: Sight, given: Mapping[str, frozenset[int]], files: int) -> Check:
    """Each trainer was given the keys of its own shards, and those alone."""
    models = Models(sight.network, sight.store, lambda _: sight.key)
    plans = Plans(sight.network, models)
    needed = NeededShards(sight.network, models, plans)
    rounds = range(1, sight.network.job(sight.job_id).rounds_opened + 1)
    shards = len(models.job(sight.job_id).data.dataset.shards)
    wrong, most = [], 0
    for name, node in sorted(sight.nodes.items()):
        if not name.startswith("trainer"):
            continue
        own = given.get(node_reader(node), frozenset())
        due = frozenset().union(
            *(needed.to_train(sight.job_id, plans.past(sight.job_id, r), node) for r in rounds)
        )
        most = max(most, len(own))
        if not own <= due:
            wrong.append(name)
    return Check(
        not wrong and most > 0,
        f"no trainer was given a key of a shard that the chain did not assign to it; the most that "
        f"one holds after {len(rounds)} rounds are {most} of {shards}, by {files} files of keys"
        + (f"; WRONG: {', '.join(wrong)}" if wrong else ""),
    )


def _nothing_plain(sight: Sight, job: JobContext) -> Check:
    """Store, folders and logs hold no shard's text: looked for by pieces of each."""
    data = JobContext(job.spec, sight.store, lambda: sight.key).data
    pieces = [
        bytes(data.sequences(data.rows(index)[:1])[0, :48].tolist())
        for index in range(0, data.batches_per_epoch, max(1, data.batches_per_epoch // 40))
    ]
    raw = [p.read_bytes() for p in sorted(sight.run.rglob("*")) if p.is_file()]
    shown = sum(any(piece in part for part in raw) for piece in pieces)
    secret = any(sight.key in part or sight.key.hex().encode() in part for part in raw)
    return Check(
        shown == 0 and not secret,
        f"of {len(pieces)} pieces of the text {shown} are found in the {len(raw)} files of store, "
        f"nodes and chain; the sponsor's secret is {'' if secret else 'not '}among them",
    )


def _pried(sight: Sight, given: Mapping[str, frozenset[int]], name: str) -> list[Check]:
    """What the prying node wrote down, against what it was given."""
    path = sight.folders[name] / NOTES
    notes = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if not notes:
        return [Check(False, f"{name} tried nothing")]
    last = notes[-1]
    held = given.get(node_reader(sight.nodes[name]), frozenset())
    blind = sum(len(note["without"]) for note in notes)
    right = all(note["with"] == note["held"] for note in notes) and set(last["held"]) <= held
    return [
        Check(
            blind == 0,
            f"{name}, without a key, tried all {last['shards']} shards in each of {len(notes)} "
            f"rounds: {blind} opened",
        ),
        Check(
            right,
            f"{name}, with the {len(last['held'])} keys that it was given, tried all "
            f"{last['shards']} again: {len(last['with'])} opened, its own",
        ),
        Check(
            last["boxes"] > 0 and all(note["boxes_opened"] == 0 for note in notes),
            f"{name} tried {last['boxes']} boxes of keys that were sealed to others: "
            f"{last['boxes_opened']} opened",
        ),
    ]


def _named(sight: Sight, job: JobContext, given: Mapping[str, frozenset[int]], name: str) -> Check:
    """Whom the leaked keys point to."""
    path = sight.folders[name] / LEAK
    leaked = [bytes.fromhex(line) for line in path.read_text().split()] if path.exists() else []
    places = places_of(sight.store, job.data.dataset, leaked)
    names = {node_reader(node): seat for seat, node in sight.nodes.items()}
    suspects = [names.get(reader, reader) for reader in suspects_of(dict(given), places)]
    trainers = [suspect for suspect in suspects if suspect.startswith("trainer")]
    others = [suspect for suspect in suspects if suspect not in trainers]
    size = sum(sealed_size(job.data.dataset.shards[place].tokens) for place in places)
    beside = f", beside {', '.join(others)}, who checked it" if others else ""
    return Check(
        bool(places) and trainers == [name],
        f"{len(leaked)} leaked keys open {len(places)} shards ({size:,} bytes); of the trainers "
        f"only {', '.join(trainers) or 'nobody'} had been given all of them{beside}",
    )


ENCRYPTED = Scenario(
    title="strangers train on text that none of them may read whole; keys go to who was assigned",
    trainers=6,
    cheats={
        _PRYING: Cheat("prying", None, "Try to open shards that it was given no key of."),
        _LEAKER: Cheat("leaker", None, "Publish the keys that it was given."),
        "noise": Cheat("noise", Violation.INVALID, "Send noise instead of an update."),
    },
    spec=_spec,
    shard_bytes=_SHARD_BYTES,
    sight=_seen,
    rounds=3,
    loss_goal=0.9,
)
