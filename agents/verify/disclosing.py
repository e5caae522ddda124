# SPDX-License-Identifier: Apache-2.0
"""A verifier's part in a case about sealed payloads: it tells the committee's members their keys.

Rule: keys are told while a case is open and only of the payloads that it is about: all of a
challenged round, one of an appeal. Every verifier of the round does so by itself, since any one may
be a liar; a payload names its key, so a liar can tell nothing wrong, only nothing. The chain has
who told whom, and when.
"""

from __future__ import annotations

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
from agents.storage.errors import StoreError, StoreUnavailable
from agents.storage.key_release import Recipient, make_release
from agents.storage.sealed_payload import sealed_bound
from agents.verify.cases import Case, members_keys, open_cases


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

    def step(self, job_id: int, node: int) -> str | None:
        """Tell what an open case takes and members were not told yet. The job's payloads must be
        sealed ones."""
        head = self._context.chain.head()
        for case in open_cases(self._network, job_id, head):
            if (did := self._tell(job_id, node, case, head)) is not None:
                return did
        return None

    def _tell(self, job_id: int, node: int, case: Case, head: Head) -> str | None:
        view = observe(self._network, job_id, head, case.round_id)
        if node not in view.snapshot.verifiers:
            return None
        if job_id not in self._disclosures:
            self._disclosures[job_id] = Disclosures(self._network, self._store, job_id)
        mine = self._disclosures[job_id]
        told = {
            (entry.reader, entry.key, item)
            for one in mine.read({self._context.wallet.address: node})
            if (one.release.round, one.release.kind) == (case.round_id, "payloads")
            for entry in one.release.readers
            for item in entry.items
        }
        members = members_keys(self._network)
        keys = self._keys(view, case) if members else {}
        recipients = [
            Recipient(
                member,
                public,
                {n: key for n, key in keys.items() if (member, public.hex(), n) not in told},
            )
            for member, public in members.items()
        ]
        release = make_release(mine.place(case.round_id, "payloads"), recipients)
        if release is None:
            return None
        digest = digest_of(self._store.put_bytes(release.to_bytes()))
        contract = self._network.deployment["DataKeys"]
        self._context.sender.send(contract, "disclose_keys", job_id, case.round_id, digest)
        return f"disclosed: keys of {len(keys)} payloads of round {case.round_id} to the committee"

    def _keys(self, view: View, case: Case) -> dict[int, bytes]:
        """Keys of the case's payloads by node, of those that this verifier can open."""
        job = self._models.job(view.job_id)
        bound = sealed_bound(max_payload_bytes(job.codec, job.shapes))
        found = {}
        reveals = self._network.reveals(view.job_id, view.round_id, view.round.opened_block)
        for reveal in reveals.values():
            if case.node not in (None, reveal.node):
                continue
            try:
                raw = self._store.get_digest(reveal.content, bound)
                found[reveal.node] = self._sealing.key(raw, view)
            except StoreUnavailable:
                raise
            except StoreError:
                continue  # what nobody can open is no payload, which the case will say
        return found
