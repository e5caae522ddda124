# SPDX-License-Identifier: Apache-2.0
"""What `ape run keys serve` does for a job, whichever way its data is sealed.

The secret itself leaves the sponsor only where it is the job's one key. Where shards have keys of
their own no request is ever answered with it: a node that asks waits for its shards' keys.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import click

from agents.protocol.network import Network
from agents.protocol.numbers import JobStatus
from agents.rounds.models import Models
from agents.runtime.contracts import Contract
from agents.runtime.errors import ConfigError, WalletError
from agents.runtime.logs import scrub
from agents.storage.content_store import ContentStore
from scripts._shared.discloser import Discloser
from scripts._shared.keyholder import Keyholder, KeyholderError

_LASTING = (ConfigError, WalletError, KeyholderError, click.ClickException)
_SAID_S = 3_600.0  # before a cause is said again
_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\d+")  # in the words of one cause, from look to look


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
        self._announced = False
        self._ended = False

    def step(self) -> bool:
        """Give what is due; returns whether anybody was given anything. The key is announced first
        where it isn't yet. Says once that the job is over."""
        if not self._announced:
            if self.holder.announce():
                self._say(f"Key {self.holder.key_id.hex()} is announced for job {self._job_id}.")
            self._announced = True
        served = [] if self._own_keys else self.holder.step()
        given = bool(served) | bool(self._discloser.step())
        if not self._ended and self._network.job(self._job_id).status != JobStatus.ACTIVE:
            self._ended = True
            self._say(
                f"Job {self._job_id} has ended: trainers need no more keys. The committee may, "
                "until its last model is attested and no report of it is open."
            )
        return given


class Patience:
    """Looks again and again, and waits for whatever waiting may mend, as the agents' loop does.

    Without keys trainers commit to nothing and verifiers attest nothing, so a node that is down, a
    reorganisation, a transaction that is refused or ether that has run out must not end it.
    `lasting`: further errors that end it.
    """

    def __init__(
        self, say: Callable[[str], None], lasting: tuple[type[Exception], ...] = ()
    ) -> None:
        self._say = say
        self._lasting = (*_LASTING, *lasting)
        self._said: dict[str, float] = {}  # by cause, when
        self._waits = False

    def look(self, step: Callable[[], object]) -> None:
        """One look. Each cause of waiting is said once an hour, and that it is over."""
        try:
            step()
        except self._lasting:
            raise
        except Exception as error:
            self._tell(error)
            return
        if self._waits:
            self._waits = False
            self._say("It goes on.")

    def _tell(self, error: Exception) -> None:
        name = type(error).__name__
        words = scrub(str(getattr(error, "message", None) or error) or name)
        cause, now = f"{name} {_CHANGING.sub('', words)}", time.monotonic()
        if now - self._said.get(cause, -_SAID_S) >= _SAID_S:
            self._said[cause] = now
            self._waits = True
            self._say(f"{words} Trying again.")
