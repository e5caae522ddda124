# SPDX-License-Identifier: Apache-2.0
"""What `ape run keys serve` does for a job, whichever way its data is sealed.

The secret itself leaves the sponsor only where it is the job's one key. Where shards have keys of
their own no request is ever answered with it: a node that asks waits for its shards' keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.protocol.network import Network
from agents.protocol.numbers import JobStatus
from agents.rounds.models import Models
from agents.runtime.contracts import Contract
from agents.storage.content_store import ContentStore
from scripts._shared.discloser import Discloser
from scripts._shared.keyholder import Keyholder


class KeyServer:
    """Serves one job's keys from one account; arguments as for `Discloser`."""

    def __init__(
        self,
        network: Network,
        store: ContentStore,
        job_id: int,
        master: bytes,
        account: str,
        send: Callable[[Contract, str, tuple[Any, ...]], Any],
        say: Callable[[str], None],
    ) -> None:
        self.holder = Keyholder(network, job_id, master, account, send, say)
        self._discloser = Discloser(network, store, job_id, master, account, send, say)
        self._own_keys = Models(network, store).job(job_id).own_keys
        self._network, self._job_id, self._say = network, job_id, say
        self._ended = False

    def step(self) -> bool:
        """Give what is due; returns whether anybody was given anything. Says once that the job is
        over."""
        served = [] if self._own_keys else self.holder.step()
        given = bool(served) | bool(self._discloser.step())
        if not self._ended and self._network.job(self._job_id).status != JobStatus.ACTIVE:
            self._ended = True
            self._say(
                f"Job {self._job_id} has ended: trainers need no more keys. The committee may, "
                "until its last model is attested and no report of it is open."
            )
        return given
