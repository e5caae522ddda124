# SPDX-License-Identifier: Apache-2.0
"""Starting an agent: from settings to everything a role works with.

Settings, chain id, code at the addresses, passphrase and journal lock are all checked before the
first step. So an agent that has started can act.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agents.runtime.chain import ChainClient
from agents.runtime.config import AgentSettings
from agents.runtime.contracts import Deployment, load_deployment
from agents.runtime.errors import ConfigError, JournalError, RpcDown, Stopped, WalletError
from agents.runtime.feed import HeadFeed
from agents.runtime.folder_owner import claim
from agents.runtime.journal import Journal
from agents.runtime.logs import Log, open_log, scrub
from agents.runtime.loop import Agent, Loop, stop_on_signals
from agents.runtime.metrics import Metrics
from agents.runtime.roles import FORMER_NAMES
from agents.runtime.sender import Sender
from agents.runtime.urls import hide
from agents.runtime.wallet import Wallet, keystore_path, load_wallet, read_passphrase
from agents.runtime.watch import run_watched
from agents.storage.several import as_list

_START_PAUSE_S = 1.0


@dataclass(frozen=True)
class Context:
    """What a role's agent is given."""

    settings: AgentSettings
    log: Log
    metrics: Metrics
    deployment: Deployment
    chain: ChainClient
    wallet: Wallet
    sender: Sender
    journal: Journal
    feed: HeadFeed
    stop: threading.Event
    artefacts: Path
    claimed: BinaryIO | None = None  # open for as long as the agent works in `artefacts`

    def close(self) -> None:
        """Stop the feed and release the journal and the folder."""
        self.stop.set()
        self.feed.stop()
        self.journal.close()
        if self.claimed is not None:
            self.claimed.close()


def start(settings: AgentSettings, role: str, stop: threading.Event | None = None) -> Context:
    """Open everything an agent of this role needs; waits for an unreachable RPC node.

    Journal: `<data_dir>/<role>-<address>.journal`; one under a former name of the role is taken
    over, so that commitments made under that name are revealed. Artefacts: `<data_dir>/artefacts`,
    of one operator at a time.
    Raises ConfigError, WalletError or JournalError with a sentence for the operator, Stopped if
    `stop` was set while the node was still unreachable.
    """
    stop = stop or threading.Event()
    log = open_log(
        role, settings.log_level, settings.log_format == "human", settings.log_file
    ).bind(node=settings.node_id, job=settings.job_id or None)
    deployment = load_deployment(settings.deployment, settings.chain_id)
    for url in (*as_list(settings.store), *settings.coordinator.peers):
        hide(url)
    keystore_path(settings.keystore)  # nobody is asked for the passphrase of a file that isn't
    passphrase = read_passphrase(settings.passphrase_env, settings.keystore)
    wallet = load_wallet(settings.keystore, passphrase)
    metrics = Metrics(role)
    chain = ChainClient(settings.rpc_url, log)
    metrics.see_traffic(chain.traffic)
    while True:
        try:
            chain.check(deployment)
            break
        except RpcDown:
            if stop.wait(_START_PAUSE_S):
                raise Stopped("Stopped before the RPC node answered.") from None
    journal = Journal(settings.data_dir / f"{role}-{wallet.address}.journal")
    try:
        for former, name in FORMER_NAMES.items():
            path = settings.data_dir / f"{former}-{wallet.address}.journal"
            if name == role and journal.adopt(path):
                log.info("journal_renamed", former=path, path=journal.path)
    except JournalError:
        journal.close()
        raise
    if journal.torn:
        log.warning("journal_torn", path=journal.path)
    artefacts, claimed = settings.data_dir / "artefacts", None
    try:
        artefacts.mkdir(parents=True, exist_ok=True)
        claimed = claim(artefacts, wallet.address)
    except ConfigError:
        journal.close()
        raise
    except OSError as error:  # a full disk must not keep it from what is to be revealed
        log.warning("folder_not_claimed", path=artefacts, why=str(error))
    metrics.serve(settings.metrics_port)
    feed = HeadFeed(chain, log, settings.ws_url, settings.poll_s).start()
    sender = Sender(
        chain,
        wallet,
        deployment.chain_id,
        log,
        metrics,
        stop,
        stuck_blocks=settings.stuck_blocks,
        confirmations=settings.confirmations,
        max_fee_wei=int(settings.max_fee_gwei * 10**9),
        feed=feed,
    )
    opened = (settings, log, metrics, deployment, chain, wallet, sender, journal, feed, stop)
    return Context(*opened, artefacts, claimed)


def run_agent(
    settings: AgentSettings,
    role: str,
    build: Callable[[Context], Agent],
    patient: tuple[type[Exception], ...] = (),
) -> int:
    """Start a role, run it until SIGTERM or SIGINT, close it. Call from the main thread.

    The process ends within `watch.GRACE_S` of the signal, also in the middle of a step.
    Returns the exit code: 0 after a stop, 2 (with the sentence on standard error) when settings,
    key or journal are wrong. `patient` are errors worth waiting for, such as the store's.
    """
    try:
        _run_agent(settings, role, build, patient)
    except Stopped:
        return 0
    except (ConfigError, WalletError, JournalError) as error:
        print(scrub(str(error)), file=sys.stderr)
        return 2
    return 0


def _run_agent(
    settings: AgentSettings,
    role: str,
    build: Callable[[Context], Agent],
    patient: tuple[type[Exception], ...],
) -> None:
    began = time.monotonic()
    stop = threading.Event()
    stop_on_signals(stop)
    context = start(settings, role, stop)
    stop_on_signals(stop, context.feed.wake)
    loops: list[Loop] = []

    def work() -> None:
        agent = build(context)
        context.log.info(
            "ready", address=context.wallet.address, after_s=round(time.monotonic() - began, 2)
        )
        loops.append(
            Loop(
                agent,
                context.chain,
                context.feed,
                context.log,
                context.metrics,
                stop,
                patient,
                settings.timer_s,
            )
        )
        loops[0].run()

    def busy_since() -> float | None:
        return loops[0].busy_since if loops else began

    try:
        if not run_watched(work, busy_since, stop, context.log):
            # The loop's thread is in the middle of a step: there is no tidy end for it.
            context.log.info("stopped")
            os._exit(0)
    finally:
        context.close()
        context.log.info("stopped")
