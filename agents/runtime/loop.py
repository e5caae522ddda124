# SPDX-License-Identifier: Apache-2.0
"""The one loop that every agent runs.

Rule: on every new head, and at least every `timer_s`, the agent's `step` reads the chain and does
the single next thing. If a step fails, the loop goes on and tries again later. Only errors that
waiting cannot mend (settings, keys, a damaged journal) end it; a full disk does not.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from eth_utils.crypto import keccak

from agents.runtime.chain import ChainClient, Head
from agents.runtime.errors import (
    ConfigError,
    JournalError,
    JournalFull,
    Reverted,
    RpcDown,
    RpcRefused,
    Stopped,
    TxRefused,
    WalletError,
)
from agents.runtime.feed import HeadFeed
from agents.runtime.logs import Log
from agents.runtime.metrics import Metrics

_PAUSE_MIN_S = 0.5
_PAUSE_MAX_S = 10.0
_BREATH_S = 0.02  # between two actions in a row


class Agent(Protocol):
    """A role."""

    def step(self, head: Head) -> str | None:
        """Do the single next action that the chain at `head` (or later) calls for.

        Returns a short description of what was done, or None if there was nothing to do. Must
        decide from chain state and the journal alone, so that it can be called again at any time.
        """
        ...


class Loop:
    """Runs one agent until `stop` is set.

    `patient` are further error types worth waiting for (a role passes its store's error): each
    outage is logged once and backed off. `timer_s` is the longest time between two steps.
    """

    def __init__(
        self,
        agent: Agent,
        chain: ChainClient,
        feed: HeadFeed,
        log: Log,
        metrics: Metrics,
        stop: threading.Event,
        patient: tuple[type[Exception], ...] = (),
        timer_s: float = 2.0,
    ) -> None:
        self._agent = agent
        self._chain = chain
        self._feed = feed
        self._log = log
        self._metrics = metrics
        self._stop = stop
        self._patient: tuple[type[Exception], ...] = (RpcDown, RpcRefused, TxRefused, *patient)
        self._timer_s = timer_s
        self.busy_since: float | None = None  # `time.monotonic` of the step in hand
        self._pause_s = 0.0
        self._trouble = ""
        self._head_helps = False

    def run(self) -> None:
        """Step until stopped. Raises ConfigError, WalletError or JournalError; nothing else."""
        while not self._stop.is_set():
            self.busy_since = time.monotonic()
            did = self._once()
            self.busy_since = None
            if did is None:
                self._rest()
            else:
                # What was done may allow the next action at once, without a new head.
                self._stop.wait(_BREATH_S)

    def _once(self) -> str | None:
        try:
            # The last head of a feed that has ended says nothing of the chain as it is now.
            head = (self._feed.latest if self._feed.running else None) or self._chain.head()
            self._metrics.head_block.set(head.number)
            self._chain.traffic.see_block(head.number)
            with self._chain.look(head) as seen:
                did = self._agent.step(seen)
        except Stopped:
            self._stop.set()
            return None
        except JournalFull as error:
            self._report("journal_full", error, loud=True)
            return None
        except (ConfigError, WalletError, JournalError):
            raise
        except Reverted as error:
            # Usually another agent was faster; the next look at the chain tells.
            self._report("reverted", error)
            return None
        except self._patient as error:
            self._report(type(error).__name__, error)
            return None
        except Exception as error:
            self._report("unexpected", error, where=traceback.format_exc(limit=-6))
            return None
        self._recovered()
        if did is not None:
            self._metrics.actions.labels(did.split(maxsplit=1)[0].rstrip(":,")).inc()
            self._log.info("did", what=did, block=head.number)
        return did

    def _report(
        self, kind: str, error: Exception, where: str | None = None, loud: bool = False
    ) -> None:
        self._metrics.error(kind, str(error))
        why = str(error) or type(error).__name__
        trouble = f"{kind} {why}"
        # The chain client already says once that the node is down, and when it is back.
        if trouble != self._trouble and not isinstance(error, RpcDown):
            write = self._log.error if where or loud else self._log.warning
            write(kind, why=why, traceback=where)
        self._trouble = trouble
        # A new head means that the node is back, or that the contract may now agree.
        self._head_helps = isinstance(error, (RpcDown, Reverted))
        self._pause_s = min(max(2 * self._pause_s, _PAUSE_MIN_S), _PAUSE_MAX_S)

    def _recovered(self) -> None:
        if self._trouble and self._pause_s > _PAUSE_MIN_S:
            self._log.info("recovered", after=self._trouble[:200])
        self._trouble, self._pause_s = "", 0.0

    def _rest(self) -> None:
        if self._stop.is_set():
            return
        if self._pause_s and not self._head_helps:
            self._stop.wait(self._pause_s)
        else:
            self._feed.wait(self._pause_s or self._timer_s)


def stop_on_signals(stop: threading.Event, wake: Callable[[], None] = lambda: None) -> None:
    """Set `stop` on SIGTERM and SIGINT, so that the loop ends after the action in hand.

    A second signal kills the process in the ordinary way. Call from the main thread.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()
        # Condition locks must not be taken inside a handler: the main thread may hold them.
        threading.Thread(target=wake, daemon=True).start()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


def jitter(address: str, anchor: int, span: float) -> float:
    """Return this address's share of `span`, in [0, span), for the event numbered `anchor`.

    Deterministic (keccak of address and anchor), so a restart waits for the same moment and
    nobody coordinates; different for each address, so that not all send the same transaction.
    """
    digest = keccak(bytes.fromhex(address.removeprefix("0x")) + anchor.to_bytes(32, "big"))
    return span * int.from_bytes(digest[:7], "big") / 2**56
