# SPDX-License-Identifier: Apache-2.0
"""The benchmark: its score is work that was verifiably done between two blocks.

The work is a chain of `units` chunks. Chunk i expands the 32-byte state s_i (s_0 is the seed, a
block hash younger than the request) by SHAKE-128 into two 256 x 256 matrices of integers in -8..7,
multiplies 16 times, folding each product back into -8..7, and hashes the last matrix: s_{i+1}.
Every partial sum is an integer of magnitude at most 256 * 64 = 2^14, far below 2^24, so fp32
multiplication is exact in any order: all hardware, threads and libraries give the same digests. The
fold keeps bits 3..6 of each entry; dropping the low bits makes it non-linear, so the 16 products
can't be collapsed into fewer.

The node commits to all digests by their Merkle root. Verifiers then draw q chunks from a later
block and recompute each from the digest before it. If a fraction phi of the chunks is wrong, they
notice with probability at least 1 - (1 - phi)^q (drawing without repetition can only help). So q =
20 finds 10 % of invented work with probability 0.88.

A node may keep its artefact back until it knows that draw, and have it made anew as often as it
likes: by the contract after 256 blocks, or by its next attempt. So each verifier recomputes as many
chunks again that it draws by itself and tells nobody. Of two verifiers who must pass an answer both
miss a share phi with probability (1 - phi)^(2 q), whatever the node has seen before.

On a CPU the score is that of one core, which is what exact replay uses for training too.

The time is the chain's: from the block of the request to that of the answer, whole blocks. So a
node works for 20 blocks at least (`trainer.benchmark_blocks`): what it waits for its seed and for
its answer to be mined varies by a block, which is then less than a tenth of the whole, and equal
machines score alike.

Limit: work split over P machines needs only P - 1 invented starting states, hence P - 1 wrong
chunks, and is found with probability about q (P - 1) / units. The spot check bounds skipped work
and not borrowed machines. Whoever is found to have invented a chunk is slashed as for FALSE_REPORT
(agents/nodes/benchmark_disputes.py), so a node checks some of its own chunks before it answers: a
machine that computes wrongly keeps its answer back.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from eth_utils import keccak
from torch import Tensor

from agents.protocol.draw import draw
from agents.storage.merkle import merkle_root
from agents.training.threads import one_thread

SIZE = 256
DEPTH = 16
MAX_UNITS = 1 << 20
MOST_UNITS = 1_000_000  # that NodeBenchmarks takes
_DOMAIN = b"menagerie/benchmark/v1"
_ARTEFACT = re.compile(rb'\["[0-9a-f]{64}"(?:,"[0-9a-f]{64}")*\]')
_DIGEST = re.compile(rb"[0-9a-f]{64}")

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Check:
    """Outcome of a spot check: what verifiers sign, and a sentence why."""

    passed: bool
    reason: str


def run(
    seed: bytes, units: int, progress: Progress | None = None, device: str | None = None
) -> list[bytes]:
    """Do the work; the `units` digests s_1..s_units, 32 bytes each.

    `progress(done, units)` is called after every chunk; what it raises ends the run. `device` is a
    torch device, by default CUDA if there is one. ValueError for a bad seed or unit count.
    """
    _check_units(units)
    state = _check_state(seed)
    place = _device(device)
    digests = []
    with one_thread():
        for index in range(units):
            state = _chunk(state, index, place)
            digests.append(state)
            if progress:
                progress(index + 1, units)
    return digests


def run_for(seed: bytes, seconds: float, least: int, device: str | None = None) -> list[bytes]:
    """Do the work for so long, by this machine's clock, and at least so many units; the digests.

    ValueError for a bad seed.
    """
    state, place = _check_state(seed), _device(device)
    end, digests = time.monotonic() + seconds, list[bytes]()
    with one_thread():
        while len(digests) < least or time.monotonic() < end:
            if len(digests) == MOST_UNITS:
                break
            state = _chunk(state, len(digests), place)
            digests.append(state)
    return digests


def check_chunk(previous: bytes, index: int, device: str | None = None) -> bytes:
    """The digest of chunk `index` (from 0) that follows the digest `previous`."""
    with one_thread():
        return _chunk(_check_state(previous), index, _device(device))


def wrong_chunk(
    seed: bytes, digests: Sequence[bytes], chosen: Sequence[int], device: str | None
) -> int:
    """The first of the `chosen` chunks whose digest does not follow from the one before; -1: none.

    Computed on `device`, which need not be where the work was done.
    """
    for index in chosen:
        previous = digests[index - 1] if index else seed
        if check_chunk(previous, index, device) != digests[index]:
            return index
    return -1


def root(seed: bytes, digests: Sequence[bytes]) -> bytes:
    """Merkle root that goes on chain; leaf i is keccak(0x00 || seed || i as uint256 || digest)."""
    leaves = [
        keccak(b"\0" + seed + index.to_bytes(32, "big") + digest)
        for index, digest in enumerate(digests)
    ]
    return merkle_root(leaves)


def pack_artefact(digests: Sequence[bytes]) -> bytes:
    """The artefact: canonical JSON, a list of the digests in lower-case hex."""
    return b"[" + b",".join(b'"' + digest.hex().encode() + b'"' for digest in digests) + b"]"


def read_artefact(data: bytes, units: int) -> list[bytes]:
    """The digests in a stranger's artefact; ValueError with a sentence if it is not exactly one."""
    _check_units(units)
    if len(data) != 67 * units + 1 or not _ARTEFACT.fullmatch(data):
        raise ValueError(f"The benchmark artefact is not a canonical list of {units} digests.")
    return [bytes.fromhex(found.decode()) for found in _DIGEST.findall(data)]


def draw_checks(check_seed: bytes, units: int, count: int) -> list[int]:
    """Distinct chunk indices to recompute, ascending; all of them if `count` is not smaller."""
    _check_units(units)
    return draw(check_seed, range(units), count)


def check_submission(
    artefact: bytes,
    *,
    seed: bytes,
    units: int,
    claimed_root: bytes,
    check_seed: bytes,
    count: int,
    device: str | None = None,
    secret: bytes | None = None,
) -> Check:
    """A verifier's whole spot check of a submission; never raises for what a stranger wrote.

    `seed`, `units`, `claimed_root` and `check_seed` come from the chain, `count` is the number of
    chunks to recompute. `secret`: 32 bytes that nobody else knows, which draw as many of the others
    again; None: no others.
    """
    try:
        digests = read_artefact(artefact, units)
    except ValueError as error:
        return Check(False, str(error))
    if root(seed, digests) != claimed_root:
        return Check(False, "The benchmark artefact doesn't have the Merkle root given on chain.")
    chosen = draw_checks(check_seed, units, count)
    if secret is not None:
        chosen = sorted(chosen + draw(secret, set(range(units)).difference(chosen), count))
    wrong = wrong_chunk(seed, digests, chosen, device)
    if wrong >= 0:
        # A false fail costs a verifier stake: what its device finds wrong is looked at by the CPU.
        wrong = wrong_chunk(seed, digests, chosen, "cpu")
    if wrong >= 0:
        return Check(False, f"Chunk {wrong} of the benchmark is wrong.")
    return Check(True, f"{len(chosen)} of {units} chunks were recomputed and are right.")


def score(units: int, elapsed: int) -> int:
    """Millionths of a unit per second, as `NodeBenchmarks` has it: units * 10^6 // max(s, 1)."""
    return units * 1_000_000 // max(elapsed, 1)


def _check_units(units: int) -> None:
    if not 1 <= units <= MAX_UNITS:
        raise ValueError(f"A benchmark has 1 to {MAX_UNITS} units, not {units}.")


def _check_state(state: bytes) -> bytes:
    if len(state) != 32:
        raise ValueError(f"A benchmark state has 32 bytes, not {len(state)}.")
    return state


def _device(device: str | None) -> torch.device:
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def _expand(state: bytes, index: int) -> Tensor:
    """fp32 [2, 256, 256] of integers in -8..7, one per half byte, low half first."""
    text = _DOMAIN + state + index.to_bytes(32, "big")
    raw = np.frombuffer(hashlib.shake_128(text).digest(SIZE * SIZE), np.uint8)
    halves = np.stack([raw & 15, raw >> 4], axis=-1).reshape(2, SIZE, SIZE)
    return torch.from_numpy(halves.astype(np.float32) - np.float32(8))


def _chunk(state: bytes, index: int, device: torch.device) -> bytes:
    matrix, factor = _expand(state, index).to(device)
    for _ in range(DEPTH):
        product = torch.mm(matrix, factor).to(torch.int32)
        matrix = ((product >> 3) & 15).sub_(8).to(torch.float32)
    return hashlib.sha256(matrix.to(torch.int8).cpu().numpy().tobytes()).digest()
