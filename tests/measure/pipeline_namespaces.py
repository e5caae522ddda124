# SPDX-License-Identifier: Apache-2.0
"""An epoch of a pipeline by twelve real miners behind slow links, beside the modelled one.

Each miner is the real `Miner`, with its post, couriers, signatures and file of entries, in a
process and a network namespace of its own (`slow_links`). Passes sleep as long as they are said to
take, since twelve of them would not compute side by side on the cores of one machine; their
messages have the real length. The same epoch is played by `pipeline_links` with the same costs.

    python -m tests.measure.pipeline_namespaces  # as root; some three minutes
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from eth_account import Account

from agents.pipeline.addresses import AddressBook
from agents.pipeline.letters import Announcement
from agents.pipeline.mailbox import Running
from agents.pipeline.miner import Miner
from agents.pipeline.miner_log import Kind
from agents.pipeline.post import Post
from agents.pipeline.schedule import Times
from agents.pipeline.stage import Backward, Event, Forward, Passed, Step
from agents.pipeline.work import StageWork
from agents.runtime.wallet import Wallet
from agents.training.slices import init_stage
from tests.measure.bench_pipeline import BATCHES, LINK, NARROW, SEQ, STAGES, epoch_of, slices_of
from tests.measure.pipeline_links import FREE, Costs, Simulation
from tests.measure.slow_links import Links, address, enter, hand_over, taken
from tests.stage.memory.pipeline_epoch import HYPER, SLICES, WHERE, batch, quiet_log

_PORT = 7000
_EPOCH = epoch_of()
_ALL = [miner for stage in _EPOCH.stages for miner in stage]
_WALLETS = {miner: Wallet(Account.from_key(miner.to_bytes(32, "big"))) for miner in _ALL}
_OPERATORS = {miner: wallet.address for miner, wallet in _WALLETS.items()}
_TIMES = Times()
_DEADLINE_S = 300.0


@dataclass(frozen=True)
class Ran:
    """One miner's epoch: seconds until it knew that it was over, seconds in passes and steps, of
    CPU in all, and how many passes it made."""

    seconds: float
    computed: float
    cpu: float
    passes: int


@dataclass(frozen=True)
class _Given:
    """What all miners are told. `message`: bytes of a code and of its gradient."""

    costs: Costs
    message: int
    local_batch: int
    folder: Path


class _Sleeping:
    """In the place of a `StageRunner`: every event takes its seconds, and gives a message."""

    def __init__(self, work: StageWork, costs: Costs, message: int) -> None:
        self.net = work._runner.net  # a tiny one, whose hash the log has
        self._stage, self._last = work.stage, work.epoch.last
        self._costs, self._message = costs, bytes(message)
        self.computed = 0.0

    def do(self, event: Event) -> Passed:
        kind = {Forward: Kind.FORWARD, Backward: Kind.BACKWARD, Step: Kind.STEP}[type(event)]
        seconds = self._costs.of(self._stage, kind)
        self.computed += seconds
        time.sleep(seconds)
        if kind is Kind.FORWARD and self._stage == self._last:
            return Passed(loss=1.0)
        leaves = kind is Kind.FORWARD or (kind is Kind.BACKWARD and self._stage > 0)
        return Passed(message=self._message if leaves else None)


def _check(message: bytes, size: int) -> None:
    assert len(message) == size


def _mine(miner: int, given: _Given, talk: Connection) -> Ran:
    book = AddressBook(WHERE, _OPERATORS.get)
    for other in _ALL:
        url = f"http://{address(other)}:{_PORT}"
        book.take(Announcement.signed(_WALLETS[other], WHERE, other, url, int(time.time())))
    post = Post(address(miner), _PORT, quiet_log(), WHERE, book)
    stage = _EPOCH.stage_of(miner)
    assert stage is not None
    work = StageWork(
        SLICES, _EPOCH, miner, init_stage(SLICES, stage), HYPER, batch, given.local_batch
    )
    sleeping = _Sleeping(work, given.costs, given.message)
    work._runner = sleeping  # type: ignore[assignment]
    one = Miner(
        start=lambda: work,
        running=Running(
            _EPOCH,
            miner,
            _OPERATORS,
            given.message,
            lambda _, message, sender: _check(message, given.message),
            2 * given.local_batch,
        ),
        wallet=_WALLETS[miner],
        where=WHERE,
        post=post,
        path=given.folder / f"{miner}.entries",
        local_batch=given.local_batch,
        in_flight=given.local_batch,
        log=quiet_log(),
        times=_TIMES,
    )
    talk.send("ready")
    talk.recv()
    began, cpu = time.monotonic(), time.process_time()
    one.run(began + _DEADLINE_S)
    seconds, spent = time.monotonic() - began, time.process_time() - cpu
    talk.send("done")
    talk.recv()  # others may still ask the post whether the epoch is over
    post.stop()
    made = sum(event.kind is Kind.BACKWARD for event in work.events)
    return Ran(seconds, sleeping.computed, spent, made)


def _child(miner: int, given: _Given, talk: Connection, way: socket.socket) -> None:
    hand_over(enter(miner), way)
    talk.send(_mine(miner, given, talk))


@contextmanager
def _processes(given: _Given) -> Iterator[dict[int, Connection]]:
    """The miners in their namespaces, with the links between them."""
    context = multiprocessing.get_context("fork")
    talks, devices, children = {}, {}, []
    for miner in _ALL:
        here, there = context.Pipe()
        ours, theirs = socket.socketpair()
        child = context.Process(target=_child, args=(miner, given, there, theirs), daemon=True)
        child.start()
        children.append(child)
        talks[miner], devices[miner] = here, taken(ours)
    links = Links(devices, LINK)
    links.start()
    try:
        yield talks
    finally:
        links.stop()
        for child in children:
            child.join(10)
            child.kill()
        for device in devices.values():
            os.close(device)


def played(costs: Costs, message: int, local_batch: int) -> list[Ran]:
    """One epoch of all miners."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _processes(_Given(costs, message, local_batch, Path(folder))) as talks,
    ):
        everybody = list(talks.values())
        _hear(everybody, "ready")
        _tell(everybody)
        _hear(everybody, "done")
        _tell(everybody)
        return [talk.recv() for talk in everybody]


def _tell(everybody: list[Connection]) -> None:
    for talk in everybody:
        talk.send(True)


def _hear(everybody: list[Connection], what: str) -> None:
    for talk in everybody:
        if (said := talk.recv()) != what:
            raise RuntimeError(f"A miner said {said!r}, not {what!r}.")


def line(boundary: str, costs: Costs, local_batch: int) -> str:
    """One epoch of real miners beside the modelled one, in words."""
    message = slices_of(boundary).message_bytes(1, SEQ)
    ran = played(costs, message, local_batch)
    modelled, free = (
        Simulation(_EPOCH, costs, link, message, local_batch).run() for link in (LINK, FREE)
    )
    seconds = max(one.seconds for one in ran)
    share = sum(one.computed for one in ran) / (len(ran) * seconds)
    cpu, passes = statistics.mean(one.cpu for one in ran), sum(one.passes for one in ran)
    return (
        f"{boundary} ({message:,} B), {local_batch} to a step, forward {costs.forward[0]:g} s: "
        f"computing {share:.1%} of {seconds:.1f} s; modelled {modelled.share:.1%} of "
        f"{modelled.seconds:.1f} s; links for nothing {free.share:.1%}; nobody waits "
        f"{modelled.ideal:.1%}; {passes} passes of {STAGES * len(_EPOCH.samples)}; CPU a miner "
        f"{cpu:.1f} s, load {os.getloadavg()[0]:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--forward", type=float, default=0.127, help="seconds of a pass")
    parser.add_argument("--backward", type=float, default=0.249)
    parser.add_argument("--step", type=float, default=0.04)
    parser.add_argument("--local-batch", type=int, action="append", help="passes to a step")
    parser.add_argument("--faster", type=float, action="append", help="divides all three")
    given = parser.parse_args()
    costs = Costs(*([one] * STAGES for one in (given.forward, given.backward, given.step)))
    for local_batch in given.local_batch or BATCHES[:1]:
        for times in given.faster or (1.0, 10.0):
            for boundary in ("none", NARROW):
                print(line(boundary, costs.faster(times), local_batch), flush=True)


if __name__ == "__main__":
    main()
