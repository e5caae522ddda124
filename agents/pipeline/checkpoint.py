# SPDX-License-Identifier: Apache-2.0
"""A stage in the middle of its epoch: weights and optimizer, their hash, and their file.

Rule: where epochs are audited by segments, each state hash of a log binds both. Else a miner could
choose moments that make a false step right. Before the first step the optimizer is zero, so
everybody can say what a log starts from; such an optimizer is left out of the hash.

A miner publishes its state after each whole segment but the last step's, and after the last step
its weights alone: nobody goes on from there, and the proof states the hash of the optimizer. A file
is a safetensors file, written tensor by tensor, so that a state is never in memory twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from eth_utils import keccak
from torch import Tensor

from agents.storage.cid import cid_of_file
from agents.storage.durable import PRIVATE_MODE, atomic_file
from agents.training.state import Shapes, State

_DOMAIN = b"menagerie stage state 1\0"
_WEIGHTS, _OPTIMIZER = "weights.", "optimizer."
_ZERO = bytes(32)


def state_hash(weights: bytes, optimizer: bytes = _ZERO) -> bytes:
    """The state hash of a log with segments. Arguments are hashes of both parts (`model_hash`);
    zeros for an optimizer that has made no step."""
    return keccak(_DOMAIN + weights + optimizer)


def published(steps: int, segment: int) -> int:
    """How many states an epoch of so many steps publishes, beside its last weights."""
    return max(0, steps - 1) // segment


def joined(weights: Mapping[str, Tensor], optimizer: Mapping[str, Tensor]) -> State:
    """Both as the tensors of one file."""
    first = {_WEIGHTS + name: tensor for name, tensor in weights.items()}
    return first | {_OPTIMIZER + name: tensor for name, tensor in optimizer.items()}


def parted(state: Mapping[str, Tensor]) -> tuple[State, State]:
    """Weights and optimizer of a file's tensors."""
    return _under(_WEIGHTS, state), _under(_OPTIMIZER, state)


def joined_shapes(weights: Shapes, optimizer: Shapes) -> Shapes:
    """The shapes of `joined`."""
    first = {_WEIGHTS + name: shape for name, shape in weights.items()}
    return first | {_OPTIMIZER + name: shape for name, shape in optimizer.items()}


def write(path: Path, state: Mapping[str, Tensor]) -> None:
    """Make a state the content of a safetensors file; equal states give equal bytes.

    Raises:
        FloatingPointError: a number is not finite, so nobody would take the file.
        OSError: the disk refuses.
    """
    entries, end = {}, 0
    for name in sorted(state):
        begin, end = end, end + 4 * state[name].numel()
        shape = list(state[name].shape)
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    head = json.dumps(entries, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path.parent, PRIVATE_MODE) as (file, commit):
        file.write(len(head).to_bytes(8, "little") + head)
        for name in sorted(state):
            tensor = state[name].detach().cpu().contiguous()
            if not bool(torch.isfinite(tensor).all()):
                raise FloatingPointError(f"tensor {name!r} of the stage is not finite")
            file.write(tensor.numpy().astype("<f4", copy=False).data)
        commit(path)


class States:
    """The files of one epoch's states, each written when its step is made: `<stem>NUMBER` after
    that many steps, and `<stem>end` of the last weights. None is ever in memory beside the stage.
    """

    def __init__(self, stem: Path) -> None:
        self._stem = stem

    def clear(self) -> None:
        """Remove all of them: they are written again. Raises OSError."""
        for path in self.paths():
            path.unlink()

    def put(self, steps: int, state: Mapping[str, Tensor]) -> None:
        """Write the state after so many steps. Raises as `write`."""
        write(self._path(f"{steps:07d}"), state)

    def named(self, count: int) -> list[str]:
        """The CIDs of the first `count`. One that is left over is removed: after it came no step.
        Raises OSError."""
        paths = self.paths()
        for path in paths[count:]:
            path.unlink()
        return [_cid_of(path) for path in paths[:count]]

    def end(self, weights: Mapping[str, Tensor]) -> str:
        """Write the last weights; their CID. Raises as `write`."""
        write(self._path("end"), weights)
        return _cid_of(self._path("end"))

    def paths(self) -> list[Path]:
        """All files there are, in order."""
        return sorted(self._stem.parent.glob(f"{self._stem.name}*"))

    def _path(self, name: str) -> Path:
        return self._stem.with_name(self._stem.name + name)


def _cid_of(path: Path) -> str:
    with path.open("rb") as file:
        return cid_of_file(file)


def _under(prefix: str, state: Mapping[str, Tensor]) -> State:
    return {name[len(prefix) :]: state[name] for name in state if name.startswith(prefix)}
