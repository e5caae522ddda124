# SPDX-License-Identifier: Apache-2.0
"""A verifier's part in a case about sealed payloads: it tells the committee's members their keys.

Rule: keys are told while a case is open and only of the payloads that it is about: all of a
challenged round, one of an appeal. Every verifier of the round does so by itself, since any one may
be a liar; a payload names its key, so a liar can tell nothing wrong, only nothing. The chain has
who told whom, and when.

A payload is read only while a member that may be told its key was not, and beside other work
(`agents.verify.key_searches`). A member is served under two public keys in a round
(`agents.jobs.changed_readers`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from agents.jobs.changed_readers import Served
from agents.jobs.disclosed import Disclosures
from agents.protocol.network import Network
from agents.protocol.view import View, observe
from agents.rounds.models import Models
from agents.rounds.payload import max_payload_bytes
from agents.rounds.sealing import Sealing
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.key_release import Recipient, make_release
from agents.storage.sealed_payload import sealed_bound
from agents.verify.cases import Case, members_keys, open_cases
from agents.verify.key_searches import KeySearches


class PayloadKeys:
    """Discloses keys of sealed payloads for one verifier."""

    def __init__(
        self,
        network: Network,
        context: Context,
        store: ContentStore,
        models: Models,
        sealing: Sealing,
    ) -> None:
        self._network = network
        self._context = context
        self._store = store
        self._models = models
        self._sealing = sealing
        self._disclosures: dict[int, Disclosures] = {}
        self._searches: dict[int, KeySearches] = {}

    def step(self, job_id: int, node: int) -> str | None:
        """Tell what an open case takes and members were not told yet, of one case at a step. The
        job's payloads must be sealed ones."""
        head = self._context.chain.head()
        cases = open_cases(self._network, job_id, head)
        if not cases:
            self._searches.pop(job_id, None)
            return None
        members = members_keys(self._network)
        for case in cases if members else ():
            if (did := self._tell(job_id, node, case, members, head)) is not None:
                return did
        return None

    def _tell(
        self, job_id: int, node: int, case: Case, members: Mapping[str, bytes], head: Head
    ) -> str | None:
        view = observe(self._network, job_id, head, case.round_id)
        if node not in view.snapshot.verifiers:
            return None
        if job_id not in self._disclosures:
            self._disclosures[job_id] = Disclosures(self._network, self._store, job_id)
        mine = self._disclosures[job_id]
        files = [
            one.release
            for one in mine.read({self._context.wallet.address: node})
            if (one.release.round, one.release.kind) == (case.round_id, "payloads")
        ]
        told: dict[tuple[str, str], set[int]] = defaultdict(set)
        for one in files:
            for entry in one.readers:
                told[entry.reader, entry.key] |= set(entry.items)
        served = Served(files)
        lacking = {
            member: told[member, public.hex()]
            for member, public in members.items()
            if served.may_have(member, public)
        }
        if not any(case.node not in has for has in lacking.values()):
            return None  # of a challenge each node is looked at
        keys = self._keys(view, case, lacking.values())
        recipients = [
            Recipient(member, members[member], {n: k for n, k in keys.items() if n not in has})
            for member, has in lacking.items()
        ]
        release = make_release(mine.place(case.round_id, "payloads"), recipients)
        if release is None:
            return None
        digest = digest_of(self._store.put_bytes(release.to_bytes()))
        contract = self._network.deployment["DataKeys"]
        self._context.sender.send(contract, "disclose_keys", job_id, case.round_id, digest)
        return f"disclosed: keys of {len(keys)} payloads of round {case.round_id} to the committee"

    def _keys(self, view: View, case: Case, told: Collection[AbstractSet[int]]) -> dict[int, bytes]:
        """Keys of the case's payloads by node, of those that this verifier can open and that not
        everybody was told. `told`: the nodes whose keys each member has. No other is read."""
        job = self._models.job(view.job_id)
        bound = sealed_bound(max_payload_bytes(job.codec, job.shapes))
        reveals = self._network.reveals(view.job_id, view.round_id, view.round.opened_block)
        due = {
            node: reveal.content
            for node, reveal in reveals.items()
            if case.node in (None, node) and any(node not in has for has in told)
        }
        if not due:
            return {}
        if view.job_id not in self._searches:
            self._searches[view.job_id] = KeySearches(self._store)
        key_of = self._sealing.key_finder(view.job_id)
        found = self._searches[view.job_id].find(set(due.values()), bound, key_of)
        return {node: found[content] for node, content in due.items() if content in found}
