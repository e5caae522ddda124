# SPDX-License-Identifier: Apache-2.0
"""A commitment to the parameters a node started from, opened at a few positions drawn afterwards.

Each tensor, in order of the names, is cut into blocks of 256 values (the last may be shorter); a
block's leaf is that of ``training.trace`` over node 0, its number and the sha2-256 of its
little-endian fp32 bytes. Node ids begin at 1, so no trace passes for such a tree. The root is
committed before the audit seed exists, so whoever is asked for the values at the seed's positions
can't choose what to show.

Limit: it shows which parameters a node *had*. Whoever has the round's model can commit to it and
train from another one. Only the loss of its payload shows that.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping

import numpy as np
from eth_utils import keccak
from numpy.typing import NDArray
from torch import Tensor

from agents.storage.canonical import dumps, loads
from agents.storage.merkle import merkle_proofs, merkle_root, verify_proof
from agents.training.state import PayloadError, Shapes
from agents.training.trace import leaf

BLOCK = 256  # values of one leaf: 1 KiB

Position = tuple[str, int]  # tensor, flat index


def sync_root(state: Mapping[str, Tensor]) -> bytes:
    """The 32-byte Merkle root over all blocks of a state's fp32 tensors."""
    return merkle_root(_leaves(state))


def positions(audit_seed: bytes, shapes: Shapes, per_tensor: int) -> list[Position]:
    """Where the seed looks: ``per_tensor`` places of each tensor, tensors in order of their names.

    Place j of a tensor is keccak(seed || name || 0x00 || j as 4 bytes) mod its number of values, so
    a place may come up twice.
    """
    found = []
    for name in sorted(shapes):
        size = math.prod(shapes[name])
        for draw in range(per_tensor):
            word = keccak(audit_seed + name.encode() + b"\0" + draw.to_bytes(4, "big"))
            found.append((name, int.from_bytes(word, "big") % size))
    return found


def values_at(
    state: Mapping[str, Tensor], audit_seed: bytes, per_tensor: int
) -> NDArray[np.float32]:
    """fp32 [tensors * per_tensor]: a state's values at the seed's ``positions``, in their order."""
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    wanted = positions(audit_seed, shapes, per_tensor)
    return np.array([_flat(state[name])[index] for name, index in wanted], dtype=np.float32)


def open_samples(state: Mapping[str, Tensor], audit_seed: bytes, per_tensor: int) -> bytes:
    """Canonical JSON: the blocks that hold the seed's positions, each with its Merkle proof."""
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    first = _first_blocks(shapes)
    asked = _blocks_of(positions(audit_seed, shapes, per_tensor))
    proofs = merkle_proofs(_leaves(state), [first[n] + start // BLOCK for n, start in asked])
    blocks = [
        {
            "values": _flat(state[name])[start : start + BLOCK].tobytes().hex(),
            "proof": [sibling.hex() for sibling in proof],
        }
        for (name, start), proof in zip(asked, proofs, strict=True)
    ]
    return dumps({"version": 1, "blocks": blocks})


def max_samples_bytes(shapes: Shapes, per_tensor: int) -> int:
    """Upper bound on the length of an honest sample."""
    depth = _count(shapes).bit_length() + 1
    return 256 + per_tensor * len(shapes) * (64 + 8 * BLOCK + 67 * depth)


def read_samples(
    raw: bytes, root: bytes, shapes: Shapes, audit_seed: bytes, per_tensor: int
) -> NDArray[np.float32]:
    """What ``values_at`` gives for the state under ``root``, from a stranger's bytes.

    Raises:
        PayloadError: too long, malformed, not the blocks that the seed asks for, not under
            ``root``, or a value asked for is not finite.
    """
    limit = max_samples_bytes(shapes, per_tensor)
    if len(raw) > limit:
        raise PayloadError(f"the sync sample has {len(raw)} bytes, at most {limit} are expected")
    wanted = positions(audit_seed, shapes, per_tensor)
    asked = _blocks_of(wanted)
    given = _parse(raw, len(asked))
    first, count = _first_blocks(shapes), _count(shapes)
    held: dict[Position, NDArray[np.float32]] = {}
    for (name, start), (content, proof) in zip(asked, given, strict=True):
        size = min(BLOCK, math.prod(shapes[name]) - start)
        if len(content) != 4 * size:
            raise PayloadError(f"a block of {name!r} has {len(content)} bytes, not {4 * size}")
        number = first[name] + start // BLOCK
        if not verify_proof(root, count, number, _leaf(number, content), proof):
            raise PayloadError(f"block {number} of the sync sample is not under the node's root")
        held[name, start] = np.frombuffer(content, "<f4").astype(np.float32)
    values = np.array(
        [held[name, index - index % BLOCK][index % BLOCK] for name, index in wanted],
        dtype=np.float32,
    )
    if not np.isfinite(values).all():
        raise PayloadError("the sync sample holds NaN or infinity")
    return values


def _parse(raw: bytes, blocks: int) -> list[tuple[bytes, list[bytes]]]:
    try:
        fields = loads(raw, max(len(raw), 1))
    except ValueError as error:
        raise PayloadError(f"the sync sample is not canonical JSON: {error}") from error
    if not isinstance(fields, dict) or set(fields) != {"version", "blocks"}:
        raise PayloadError("the sync sample needs exactly the keys version and blocks")
    if type(fields["version"]) is not int or fields["version"] != 1:
        raise PayloadError("the sync sample is not version 1")
    rows = fields["blocks"]
    if not isinstance(rows, list) or len(rows) != blocks:
        raise PayloadError(f"the sync sample must hold {blocks} blocks")
    found = []
    for row in rows:
        if not isinstance(row, dict) or set(row) != {"values", "proof"}:
            raise PayloadError("a block of the sync sample needs exactly values and proof")
        if not isinstance(row["proof"], list):
            raise PayloadError("a proof of the sync sample is not a list")
        found.append((_bytes(row["values"]), [_bytes(sibling) for sibling in row["proof"]]))
    return found


def _bytes(item: object) -> bytes:
    if isinstance(item, str) and len(item) % 2 == 0 and not set(item) - set("0123456789abcdef"):
        return bytes.fromhex(item)
    raise PayloadError("the sync sample must spell bytes as lower-case hexadecimal digits")


def _blocks_of(wanted: list[Position]) -> list[Position]:
    """(tensor, first value) of each block that holds a position, ascending, each once."""
    return sorted({(name, index - index % BLOCK) for name, index in wanted})


def _first_blocks(shapes: Shapes) -> dict[str, int]:
    """The number of each tensor's first block."""
    found, number = {}, 0
    for name in sorted(shapes):
        found[name] = number
        number += -(-math.prod(shapes[name]) // BLOCK)
    return found


def _count(shapes: Shapes) -> int:
    return sum(-(-math.prod(shape) // BLOCK) for shape in shapes.values())


def _flat(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().cpu().contiguous().numpy().reshape(-1)
    return array.astype("<f4", copy=False)


def _leaves(state: Mapping[str, Tensor]) -> list[bytes]:
    return [_leaf(number, content) for number, content in enumerate(_contents(state))]


def _contents(state: Mapping[str, Tensor]) -> Iterator[memoryview]:
    for name in sorted(state):
        raw: memoryview = _flat(state[name]).view(np.uint8).data
        for start in range(0, len(raw), 4 * BLOCK):
            yield raw[start : start + 4 * BLOCK]


def _leaf(number: int, content: bytes | memoryview) -> bytes:
    return leaf(0, number, hashlib.sha256(content).digest())
