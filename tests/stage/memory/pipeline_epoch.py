# SPDX-License-Identifier: Apache-2.0
"""A tiny epoch of a pipeline: four stages of two miners, with their keys and their posts."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import torch
from eth_account import Account
from torch import Tensor

from agents.mechanisms import boundary as boundaries
from agents.pipeline import letters
from agents.pipeline.addresses import AddressBook
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import most_sent, unpacked
from agents.pipeline.letters import Announcement
from agents.pipeline.mailbox import Running
from agents.pipeline.miner import Miner
from agents.pipeline.miner_log import Kind
from agents.pipeline.post import Post
from agents.pipeline.schedule import Times
from agents.pipeline.work import StageWork
from agents.runtime.logs import LEVELS, Log, _Sink
from agents.runtime.wallet import Wallet
from agents.storage.content_store import ContentStore
from agents.training.slices import Slices, init_stage
from agents.training.spec import Hyperparameters, ModelSpec
from tests.stage.memory.tiny_specs import tiny_model

SPEC = ModelSpec(**tiny_model(16, 24, 12, layers=4), tie_embeddings=False)
SLICES = Slices(SPEC, (1, 1, 1, 1), boundaries.get("residual")(width=4))
HYPER = Hyperparameters(5e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, "fp32")
EPOCH = Epoch(3, 7, b"\x05" * 32, ((11, 12), (21, 22), (31, 32), (41, 42)), range(40, 48))
MINERS = [miner for stage in EPOCH.stages for miner in stage]
WALLETS = {m: Wallet(Account.from_key(m.to_bytes(32, "big"))) for m in [*MINERS, 99]}
OPERATORS = {miner: WALLETS[miner].address for miner in MINERS}
WHERE = letters.domain(31337, "0x" + "11" * 20)
LOCAL_BATCH = IN_FLIGHT = 2  # one number, as `agents.rounds.mining` has it
BATCH, SEQ = 2, 12
MAX_MESSAGE = SLICES.message_bytes(BATCH, SEQ)
TIMES = Times(answer=1.0, retry=0.1, linger=5.0)


def quiet_log() -> Log:
    return Log(_Sink(io.StringIO(), LEVELS["debug"], human=False))


def batch(number: int) -> Tensor:
    draw = torch.Generator().manual_seed(number)
    return torch.randint(0, 256, (BATCH, SEQ + 1), generator=draw)


def work(miner: int) -> StageWork:
    stage = EPOCH.stage_of(miner)
    assert stage is not None
    state = init_stage(SLICES, stage)
    return StageWork(SLICES, EPOCH, miner, state, HYPER, batch, IN_FLIGHT)


def check(kind: Kind, message: bytes, sender: int) -> object:
    shape = SLICES.code_shape(BATCH, SEQ)
    return unpacked(SLICES.boundary, kind, message, shape, most_sent(EPOCH, kind, sender))


def running(miner: int, max_waiting: int = 64) -> Running:
    return Running(EPOCH, miner, OPERATORS, MAX_MESSAGE, check, max_waiting)


def book() -> AddressBook:
    return AddressBook(WHERE, OPERATORS.get)


def post(
    request_s: float = 10.0,
    connections: int = 64,
    known: AddressBook | None = None,
    listen: bool = True,
) -> Post:
    place = "127.0.0.1", 0, quiet_log(), WHERE, known or book()
    return Post(*place, request_s, connections, listen)


def announced(miner: int, url: str, when: int | None = None) -> Announcement:
    moment = int(time.time()) if when is None else when
    return Announcement.signed(WALLETS[miner], WHERE, miner, url, moment)


def miner_of(
    miner: int,
    at: Post,
    folder: Path,
    times: Times = TIMES,
    store: ContentStore | None = None,
    start: Callable[[], StageWork] | None = None,
) -> Miner:
    return Miner(
        start=start or (lambda: work(miner)),
        running=running(miner),
        wallet=WALLETS[miner],
        where=WHERE,
        post=at,
        path=folder / f"{miner}.inbox",
        local_batch=LOCAL_BATCH,
        in_flight=IN_FLIGHT,
        log=quiet_log(),
        times=times,
        store=store,
    )
