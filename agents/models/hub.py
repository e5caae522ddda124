# SPDX-License-Identifier: Apache-2.0
"""A folder of Hugging Face's transformers, as what a job starts from: config, tokenizer, weights.

Rule: weights have the names that the library gives them, and nothing is guessed. Each tensor of the
config's network must be there, in its shape, as finite floats; what else the files hold must be a
copy of one of them (tied weights) or a buffer of the network. The files are safetensors, which hold
numbers alone; pickles are not opened. Half precision becomes fp32, which changes no value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from agents.runtime.files import read_bounded
from agents.storage.nesting import parse_json
from agents.training.model import build_model
from agents.training.spec import ModelSpec
from agents.training.state import PayloadError, Shapes, State, check_state
from agents.training.transformers import MAX_CONFIG_BYTES, ModelConfigError, read_config

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_INDEX_BYTES, _TOKENIZER_BYTES = 16 << 20, 64 << 20
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_PLACE = "bafk" + "a" * 55  # of a config that is not in a store yet


class FolderError(ValueError):
    """A folder that no job can start from; says which file and why."""


@dataclass(frozen=True)
class HubFolder:
    """What a job takes from a folder. `tokenizer`: None without one. `separator`: the token that
    ends a text, None where the config names none.

    `fields`: of the spec's model, as the config has them.
    """

    config: bytes
    tokenizer: bytes | None
    fields: dict[str, Any]
    weights: State
    separator: int | None = None

    @property
    def parameters(self) -> int:
        """How many numbers the weights are."""
        return sum(tensor.numel() for tensor in self.weights.values())


def read_folder(folder: Path) -> HubFolder:
    """Read and check a folder. Raises FolderError."""
    config = _config(folder)
    fields = _fields(config)
    spec = ModelSpec(kind="transformers", config_cid=_PLACE, **fields)
    raw = json.dumps(config, sort_keys=True).encode()
    try:
        net = build_model(spec, raw, device="meta")
    except ValueError as error:
        raise FolderError(f"{folder / CONFIG} is no model of a job: {error}.") from error
    try:
        weights = _weights(folder, net)
    except (SafetensorError, OSError) as error:
        raise FolderError(f"The weights in {folder} cannot be read: {error}.") from error
    path = folder / TOKENIZER
    tokenizer = _read(path, _TOKENIZER_BYTES) if path.exists() else None
    return HubFolder(raw, tokenizer, fields, weights, _separator(config, spec.vocab_size))


def _separator(config: dict[str, Any], vocabulary: int) -> int | None:
    ends: Any = config.get("eos_token_id")
    first: Any = ends[0] if isinstance(ends, list) and ends else ends
    if not isinstance(first, int) or isinstance(first, bool):
        return None
    return first if 0 <= first < vocabulary else None


def _config(folder: Path) -> dict[str, Any]:
    raw = _read(folder / CONFIG, MAX_CONFIG_BYTES)
    try:
        found = parse_json(raw)
    except ValueError as error:
        raise FolderError(f"{folder / CONFIG} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise FolderError(f"{folder / CONFIG} must be a JSON object.")
    # Where the folder came from, and which version wrote it; the network does not depend on them.
    kept = {key: value for key, value in found.items() if not key.startswith("_")}
    try:
        return read_config(json.dumps(kept).encode())
    except ModelConfigError as error:
        raise FolderError(f"{folder / CONFIG}: {error}.") from error


def _fields(config: dict[str, Any]) -> dict[str, Any]:
    """What a spec says of the model beside its config."""
    names = {
        "vocab_size": ("vocab_size",),
        "n_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
        "max_seq_len": ("max_position_embeddings", "n_positions", "n_ctx"),
    }
    found = {}
    for field, candidates in names.items():
        value = next((config[each] for each in candidates if each in config), None)
        if isinstance(value, int) and not isinstance(value, bool):
            found[field] = value
    if "vocab_size" not in found:
        raise FolderError(f"{CONFIG} has no vocab_size; name it there.")
    try:
        ModelSpec(kind="transformers", config_cid=_PLACE, **found)
    except ValueError as error:
        raise FolderError(f"{CONFIG} is out of a job's bounds: {error}.") from error
    return found


def _read(path: Path, limit: int) -> bytes:
    try:
        return read_bounded(path, limit)
    except FileNotFoundError:
        raise FolderError(f"There is no {path}; a job starts from a folder that has one.") from None
    except (OSError, ValueError) as error:
        raise FolderError(f"{path} cannot be read: {error}.") from error


# -- weights -----------------------------------------------------------------------------------


def _files(folder: Path) -> list[Path]:
    """The files of the weights. Raises FolderError."""
    if not (folder / INDEX).exists():
        if (folder / WEIGHTS).is_file():
            return [folder / WEIGHTS]
        raise FolderError(
            f"There is no {WEIGHTS} in {folder}. Weights in another format are not opened: have "
            "transformers save the model again, with save_pretrained."
        )
    try:
        index = parse_json(_read(folder / INDEX, _INDEX_BYTES))
        names = set(index["weight_map"].values())
        plain = all(isinstance(each, str) and Path(each).name == each for each in names)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FolderError(f"{folder / INDEX} names no files: {error}.") from error
    if not plain:
        raise FolderError(f"{folder / INDEX} names files that are not in its folder.")
    return [folder / name for name in sorted(names)]


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    for path in _files(folder):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (it is no dictionary)
                yield name, file.get_tensor(name)


def _weights(folder: Path, net: nn.Module) -> State:
    shapes: Shapes = {name: tuple(each.shape) for name, each in net.named_parameters()}
    twins = _twins(net)
    base = f"{getattr(net, 'base_model_prefix', '')}."
    state: State = {}
    copies: list[tuple[str, Tensor]] = []
    for said, tensor in _tensors(folder):
        # The library saves a model's trunk alone without its name, and finds it again as well.
        name = said if said in twins or base + said not in twins else base + said
        if name not in twins:
            raise FolderError(f"The weights hold {said!r}, which the config's network does not.")
        if name not in shapes:
            copies.append((name, tensor))
            continue
        if name in state:
            raise FolderError(f"The weights hold {name!r} twice.")
        if tensor.dtype not in _FLOATS:
            raise FolderError(f"{name!r} is {tensor.dtype}; a job trains floats.")
        state[name] = tensor.to(torch.float32).contiguous()
    for name, tensor in copies:
        _check_copy(name, twins[name], tensor, state)
    if missing := sorted(set(shapes) - set(state)):
        raise FolderError(f"The weights lack {missing[0]!r} and {len(missing) - 1} others.")
    try:
        check_state(state, shapes)
    except PayloadError as error:
        raise FolderError(f"The weights are not the config's: {error}.") from error
    return dict(sorted(state.items()))


def _twins(net: nn.Module) -> dict[str, str]:
    """Each name that the library saves, and the trained tensor that it is; empty for buffers."""
    first = {id(each): name for name, each in net.named_parameters()}
    found = {name: first[id(each)] for name, each in net.named_parameters(remove_duplicate=False)}
    return {**{name: "" for name, _ in net.named_buffers()}, **found}


def _check_copy(name: str, original: str, tensor: Tensor, state: State) -> None:
    """A tied weight must be what it is tied to; it may be there in place of that."""
    if not original:
        return
    copy = tensor.to(torch.float32).contiguous()
    if original not in state:
        state[original] = copy
    elif not torch.equal(state[original], copy):
        raise FolderError(f"{name!r} is tied to {original!r} by the config, and differs from it.")
