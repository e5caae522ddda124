# SPDX-License-Identifier: Apache-2.0
"""What jobs are read from, got beside a member's other work.

A spec is a stranger's file, and so are the two that it names, which may have 16 MiB each: whoever
serves them slowly takes minutes for one.
Rule: nobody waits for them longer than a moment. What needs a job whose files are still coming is
left for a later step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agents.protocol.network import Network
from agents.runtime.slow_calls import SlowCalls
from agents.storage.errors import StoreError

_WAIT_S = 2.0  # that the files of a job are waited for
_MOST = 64  # jobs whose files are coming


class SpecComing(StoreError):
    """What a job is read from is not there yet."""


class SpecsBeside:
    """`fetch`: has the store get the files of a spec, by its digest, in any thread."""

    def __init__(self, network: Network, fetch: Callable[[bytes], None]) -> None:
        self._network = network
        self._fetch = fetch
        self._had: set[bytes] = set()
        self._coming = SlowCalls[bytes, Exception | None](_WAIT_S, "spec")

    def need(self, job_id: int) -> None:
        """Have the files of a job's spec in the store.

        Raises SpecComing while they are on their way, and whatever getting them gave; what could
        not be had is looked for again by the next call.
        """
        spec = self._network.job(job_id).terms.spec
        if spec in self._had:
            return
        if spec not in self._coming and len(self._coming) >= _MOST:
            self._coming.drop_ended(())  # of jobs that nobody asked for again
        if spec not in self._coming and len(self._coming) < _MOST:
            self._coming.run({spec: partial(self._got, spec)})
        if spec not in self._coming or not self._coming.ended(spec):
            raise SpecComing(f"what job {job_id} is read from is still coming")
        error = self._coming.take(spec)
        if error is not None:
            raise error
        self._had.add(spec)

    def _got(self, spec: bytes) -> Exception | None:
        try:
            self._fetch(spec)
        except Exception as error:
            return error
        return None
