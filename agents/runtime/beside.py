# SPDX-License-Identifier: Apache-2.0
"""A second agent in one process: its own loop, in a thread, with the same key and journal.

It is for duties that may not wait until the first agent has finished a long action. For example, a
trainer that also runs redundant tasks must reveal in time while it trains. Both agents share the
sender, which sends one transaction at a time. An error that ends the second loop ends the first
too.
"""

from __future__ import annotations

import threading

from agents.runtime.context import Context
from agents.runtime.errors import ConfigError, JournalError, WalletError
from agents.runtime.loop import Agent, Loop


class Beside:
    """Runs `agent` from the first `start` until the context's `stop` is set.

    `patient`: as for `run_agent`.
    """

    def __init__(
        self, agent: Agent, context: Context, patient: tuple[type[Exception], ...] = ()
    ) -> None:
        self._context = context
        self._loop = Loop(
            agent,
            context.chain,
            context.feed,
            context.log,
            context.metrics,
            context.stop,
            patient,
            context.settings.timer_s,
        )
        self._thread = threading.Thread(target=self._run, name="beside", daemon=True)
        self._started = False

    def start(self) -> None:
        """Begin; nothing more when it has begun."""
        if not self._started:
            self._started = True
            self._thread.start()

    def _run(self) -> None:
        try:
            self._loop.run()
        except (ConfigError, WalletError, JournalError) as error:
            if not self._context.stop.is_set():
                self._context.log.error(type(error).__name__, why=str(error))
            self._context.stop.set()
            self._context.feed.wake()
