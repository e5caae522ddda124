# SPDX-License-Identifier: Apache-2.0
"""Discloses the keys of a job's data: of shards to who was assigned them, and to the committee.

What is due is derived from the chain each time, and what was given already is read from the files
on record. So a sponsor that was down, was started twice or lost everything but its key file gives
exactly what is missing, and nobody's word decides what anybody is given:

    at any time              to the committee's members, who attest models, the keys of the shards
                             that models are measured on
    COMMIT                   to each trainer those of the shards of its batches; to aggregators
                             and verifiers those that models are measured on
    from the draw on         to verifiers those of the nodes that are to be done again
    a case is open           to the committee's members what the case takes

One file and one transaction serve all readers of a step.

A reader that changes its public key is given what is due once more in a round, and no more often
(`agents.jobs.changed_readers`).
What trainers are given, what verifiers are given after the draw, and what a case takes are counted
apart, so that no trainer can use up the files of those who check it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agents.jobs.changed_readers import Served
from agents.jobs.disclosed import SPONSOR, Disclosures
from agents.jobs.job import JobContext
from agents.protocol.network import Network
from agents.protocol.numbers import Phase
from agents.protocol.view import View, observe
from agents.rounds.models import Models
from agents.rounds.reader import RoundReader
from agents.rounds.shards import NeededShards
from agents.runtime.contracts import Contract
from agents.runtime.errors import Reverted
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.storage.key_release import Kind, Recipient, make_release, node_reader
from agents.training.data import MAX_MANIFEST_BYTES, Dataset
from agents.training.sealed_data import key_for
from agents.training.state import PayloadError
from agents.verify.cases import Case, members_keys, open_cases
from agents.verify.spot_checks import suspects

MOST_FILES = 16  # in one round before the draw, as many after it, and as many for its cases
MOST_KEYS = 100_000  # in one file
_CHECKING = (Phase.AGGREGATE, Phase.CHALLENGE, Phase.DISPUTED)
_PATIENCE = 0.5  # of the challenge window: how long a missing payload is waited for

Reader = tuple[str, bytes]
Wanted = Mapping[Reader, frozenset[int]]


class Discloser:
    """Gives one job's keys from one account. `master`: the sponsor's secret; `say`: hears what
    happens; `send`: sends a call of the account, and raises Reverted."""

    def __init__(
        self,
        network: Network,
        store: ContentStore,
        job_id: int,
        master: bytes,
        account: str,
        send: Callable[[Contract, str, tuple[Any, ...]], Any],
        say: Callable[[str], None],
        device: str = "cpu",
    ) -> None:
        self._network = network
        self._store = store
        self._job_id = job_id
        self._master = master
        self._account = account
        self._send = send
        self._say = say
        self._models = Models(network, store, lambda _: master)
        self._reader = RoundReader(network, store, device, models=self._models)
        self._needed = NeededShards(network, self._models, self._reader.plans)
        self._disclosures = Disclosures(network, store, job_id)
        self._key_of = key_for(
            Dataset.from_bytes(store.get(self._job.spec.data, MAX_MANIFEST_BYTES)), master
        )
        self._checked: dict[tuple[int, bytes, int], frozenset[int]] = {}

    @property
    def _job(self) -> JobContext:
        return self._models.job(self._job_id)

    def step(self) -> list[str]:
        """Give what is due and was not given; returns who was given keys now."""
        served = []
        for round_id, wanted, most in self._due():
            served += self._give(round_id, wanted, most)
        return served

    # -- what is due ---------------------------------------------------------------------------

    def _due(self) -> Iterator[tuple[int, Wanted, int]]:
        """Rounds, who lacks what in them, and up to how many files they may come to."""
        head = self._network.chain.head()
        if self._job.own_keys:
            view = observe(self._network, self._job_id, head)
            most = MOST_FILES if view.phase == Phase.COMMIT else 2 * MOST_FILES
            yield view.round_id, self._of_round(view), most
        for case in open_cases(self._network, self._job_id, head):
            items = self._of_case(observe(self._network, self._job_id, head, case.round_id), case)
            wanted = dict.fromkeys(members_keys(self._network).items(), items)
            yield case.round_id, wanted, 3 * MOST_FILES

    def _of_round(self, view: View) -> Wanted:
        measured = self._needed.to_measure(self._job_id)
        members = dict.fromkeys(members_keys(self._network).items(), measured)
        if view.phase != Phase.COMMIT and view.phase not in _CHECKING:
            return members
        plan = self._reader.plans.of(view)
        if plan is None:
            return members
        wanted: dict[int, set[int]] = defaultdict(set)
        for node in (*view.snapshot.aggregators, *view.snapshot.verifiers):
            wanted[node] |= measured
        if view.phase == Phase.COMMIT:
            for node in view.snapshot.nodes:
                wanted[node] |= self._needed.to_train(self._job_id, plan, node)
        else:
            checked = self._to_check(view)
            for node in view.snapshot.verifiers:
                wanted[node] |= checked
        chain, registry = self._network.chain, self._network.registry
        nodes = sorted(wanted)
        publics = chain.call_many([(registry, "encryption_key_of", (node,)) for node in nodes])
        return members | {
            (node_reader(node), bytes(public)): frozenset(wanted[node])
            for node, public in zip(nodes, publics, strict=True)
            if any(public)
        }

    def _to_check(self, view: View) -> frozenset[int]:
        """Shards of the nodes whom the draw and the signs have verifiers do again; found as a
        verifier finds them, and never before the draw."""
        job_id, round_id = view.job_id, view.round_id
        drawn = self._network.draw_seed(job_id, round_id, view.round)
        if drawn is None or not self._job.verification.redone:
            return frozenset()
        try:
            submissions = self._reader.submissions(view)
            if any(s.gradient is None for s in submissions) and not self._late(view):
                return frozenset()
            submissions = self._reader.counted(view, submissions)
            readable = sum(s.gradient is not None for s in submissions)
            if (round_id, drawn, readable) in self._checked:
                return self._checked[round_id, drawn, readable]
            outcome = self._reader.outcome(view, submissions)
            inputs = None if outcome is None else self._reader.inputs(view, submissions, outcome)
            if inputs is None:
                return frozenset()
            nodes = suspects(inputs, self._store)
        except StoreUnavailable:
            raise
        except (StoreError, PayloadError) as error:
            self._say(f"Round {round_id} can't be looked at yet: {error}")
            return frozenset()
        found = (self._needed.to_check(job_id, inputs.plan, node) for node in nodes)
        self._checked[round_id, drawn, readable] = shards = frozenset().union(*found)
        return shards

    def _late(self, view: View) -> bool:
        """Whether verifiers no longer wait for a payload that is missing."""
        left = view.round.deadline - view.now
        return view.phase in _CHECKING[1:] and left < _PATIENCE * view.job.terms.challenge_s

    def _of_case(self, view: View, case: Case) -> frozenset[int]:
        """Items of a case: of a challenge what models are measured on, of an appeal what the node's
        work takes; of a job with one key that key."""
        if not self._job.own_keys:
            return frozenset({0})
        if case.node is None:
            return self._needed.to_measure(self._job_id)
        plan = self._reader.plans.of(view)
        if plan is None:
            return frozenset()
        return self._needed.to_check(self._job_id, plan, case.node)

    # -- giving it -----------------------------------------------------------------------------

    @property
    def _kind(self) -> Kind:
        return "shards" if self._job.own_keys else "job"

    def _give(self, round_id: int, wanted: Wanted, most: int) -> list[str]:
        """Disclose what these readers lack, in one file. Keys that a reader was given in an earlier
        round are not given again. `most`: files of the round."""
        given: dict[Reader, set[int]] = defaultdict(set)
        releases = [one.release for one in self._disclosures.read({self._account: SPONSOR})]
        for one in releases:
            for entry in one.readers:
                given[entry.reader, bytes.fromhex(entry.key)] |= set(entry.items)
        in_round = [release for release in releases if release.round == round_id]
        served = Served(in_round)
        room = MOST_KEYS
        recipients = []
        for (reader, public), items in sorted(wanted.items()):
            if not served.may_have(reader, public):
                continue
            lacking = sorted(items - given[reader, public])[:room]
            room -= len(lacking)
            if lacking:
                keys = {item: self._key_of(item) for item in lacking}
                recipients.append(Recipient(reader, public, keys))
        place = self._disclosures.place(round_id, self._kind)
        release = make_release(place, recipients) if len(in_round) < most else None
        if release is None:
            return []
        cid = self._store.put_bytes(release.to_bytes())
        try:
            keys_contract = self._network.deployment["DataKeys"]
            self._send(keys_contract, "disclose_keys", (self._job_id, round_id, digest_of(cid)))
        except Reverted as error:
            self._say(f"Keys of round {round_id} are not disclosed now: {error.reason}.")
            return []
        for entry in release.readers:
            count = len(entry.items)
            shards = "the key of a shard" if count == 1 else f"keys of {count} shards"
            what = "the job's key" if self._kind == "job" else shards
            self._say(f"Round {round_id}: {entry.reader} was given {what}.")
        return [entry.reader for entry in release.readers]
