# SPDX-License-Identifier: Apache-2.0
"""What a committee member can read of encrypted data and sealed payloads: what models are measured
on, and what a case takes.

A member is no node. It names its public key on chain when the first model of such a job is to be
attested or its first case comes up (`DataKeys.set_reader_key`), and reads the files of keys that
are disclosed to its address. While it lacks a key it has no verdict and attests nothing.
"""

from __future__ import annotations

from agents.jobs.disclosed import ReceivedKeys
from agents.jobs.job import DataKeys
from agents.jobs.specs_beside import SpecsBeside
from agents.protocol.network import Network
from agents.protocol.structs import read
from agents.protocol.view import View
from agents.rounds.large_files import LargeFiles
from agents.rounds.models import Models
from agents.rounds.sealing import Sealing
from agents.rounds.submissions import Unseal
from agents.runtime.context import Context
from agents.runtime.wallet import Identity
from agents.storage.content_store import ContentStore
from agents.storage.sealed_payload import open_with


class MemberAccess:
    """The jobs of one committee member. `models` reads them with the keys disclosed to it."""

    def __init__(self, network: Network, store: ContentStore, context: Context) -> None:
        self._network = network
        self._context = context
        self._address = context.wallet.address
        self._identity = Identity(context.wallet)
        self._received = ReceivedKeys(network, store, context, self._identity)
        self._readers = Sealing(network, self._identity, self._address)
        memory, large = context.settings.memory, LargeFiles(store)
        self.models = Models(network, store, self._keys, memory=memory, large=large)
        self._specs = SpecsBeside(network, self.models.fetch)

    def step(self, job_id: int) -> str | None:
        """Name the public key, if the job needs one and it is another one on chain. Raises
        SpecComing while the job's files are on their way."""
        self._specs.need(job_id)
        job = self.models.job(job_id)
        if job.spec.access != "encrypted" and not job.sealed:
            return None
        keys, chain = self._network.deployment["DataKeys"], self._context.chain

        def done() -> bool:
            known = read(bytes, chain.call(keys, "reader_key_of", self._address))
            return known == self._identity.public

        if done():
            return None
        self._context.sender.ensure(done, keys, "set_reader_key", self._identity.public)
        return f"published: the key under which {self._address} is written to"

    def opener(self, view: View) -> Unseal:
        """What opens the round's payloads with the keys that were disclosed, in any thread. It
        raises NotForUs, SealError."""
        verifiers, network = sorted(view.snapshot.verifiers), self._network
        tellers = {
            operator: node
            for block in (view.round.opened_block, view.block)
            for node, operator in network.operators_at(verifiers, block).items()
        }
        keys = self._received.of_payloads(view.job_id, view.round_id, self._address, tellers)
        readers = self._readers.readers(view)
        return lambda raw: open_with(raw, keys, readers)

    def _keys(self, job_id: int) -> DataKeys | None:
        shards, whole = self._received.of_releaser(job_id, self._address)
        return shards if self.models.job(job_id).own_keys else whole
