# SPDX-License-Identifier: Apache-2.0
"""Any Hugging Face causal language model by its config.json, through the optional extra.

A config is a stranger's text. Only architectures of the installed transformers are built. Keys that
could load other code, kernels or files are refused, and so is remote code. What a config has built
is bounded (``config_bounds``). No weights are downloaded: they come from ``model.init_state``.

A model is what one release of transformers makes of its config, and a determinism class does not
name the release. Between 4.57.6 and 5.17.0 Bloom gives other bits, Cohere another update (a
relative L2 of 0.17 after four steps), and Mixtral's, Qwen's MoE's and GPT-NeoX's tensors have other
names. So an honest node with another release would be found wrong, and is refused the model here.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from agents.storage.nesting import parse_json
from agents.training.config_bounds import MOST, at_most, excess
from agents.training.spec import ModelSpec

VERSION = "5.17.0"
"""The release that all models of this kind are defined on (`pyproject.toml` pins it)."""

MAX_CONFIG_BYTES = 256 * 1024
_MAX_PARTS = 100_000  # modules and parameters; 1,024 layers have about 25,000
_REFUSED = {
    "auto_map",
    "attn_implementation",
    "experts_implementation",
    "custom_pipelines",
    "quantization_config",
    "compression_config",
    "use_kernels",
    "adapter_kwargs",
    "name_or_path",
}


class ModelConfigError(ValueError):
    """A model config that this agent will not build; says why."""


def build_causal_lm(spec: ModelSpec, config: bytes | None) -> nn.Module:
    """The network of a config.json, in eval mode (so without dropout), weights of no value.

    Args:
        spec: ``vocab_size`` must be the config's.
        config: content of config.json.

    Raises:
        ModelConfigError: malformed, refused key, unknown or non-causal architecture, or the
            extra is not installed, or is another release.
    """
    fields = read_config(config)
    try:
        from transformers import AutoModelForCausalLM, __version__
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    except ImportError as error:
        raise ModelConfigError(
            'model kind "transformers" needs the extra "hf"; install it'
        ) from error
    if __version__ != VERSION:
        raise ModelConfigError(
            f'model kind "transformers" is defined on transformers {VERSION}, and {__version__} is '
            "installed: another release may compute other bits in the same determinism class; "
            f"install transformers=={VERSION}"
        )
    kind = fields.pop("model_type")
    if kind not in CONFIG_MAPPING:
        raise ModelConfigError(f"the installed transformers has no model type {kind!r}")
    try:
        parsed = CONFIG_MAPPING[kind](**fields)
        known: Any = AutoModelForCausalLM  # typed or not, with the version that is installed
        with at_most(_MAX_PARTS):
            model = known.from_config(parsed, trust_remote_code=False, attn_implementation="eager")
    except Exception as error:  # any class of error can come out of a stranger's config
        raise ModelConfigError(f"the config of {kind!r} cannot be built: {error}") from error
    if parsed.vocab_size != spec.vocab_size:
        raise ModelConfigError(
            f"the config has vocab_size {parsed.vocab_size}, the spec {spec.vocab_size}"
        )
    model.config.use_cache = False
    evaluated: nn.Module = model.eval()
    return evaluated


def output_head(model: nn.Module) -> nn.Module | None:
    """The layer that makes the logits of a network of ``build_causal_lm``; None if it has none."""
    head: nn.Module | None = model.get_output_embeddings()  # type: ignore[operator]
    return head


def read_config(raw: bytes | None) -> dict[str, Any]:
    """Parse and vet a config.json without importing transformers; ModelConfigError if refused."""
    if raw is None:
        raise ModelConfigError('model kind "transformers" needs the bytes behind config_cid')
    if len(raw) > MAX_CONFIG_BYTES:
        raise ModelConfigError(f"the config has {len(raw)} bytes, at most {MAX_CONFIG_BYTES}")
    try:
        fields = parse_json(raw)
    except ValueError as error:
        raise ModelConfigError(f"the config is not JSON: {error}") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("model_type"), str):
        raise ModelConfigError("the config must be a JSON object with a model_type")
    _vet(fields, "config")
    return fields


def _vet(value: Any, where: str, key: str = "") -> None:
    if wrong := excess(key, value):
        raise ModelConfigError(f"{where} {wrong}")
    if isinstance(value, dict):
        for key, item in value.items():
            if key.startswith("_") or key in _REFUSED:
                raise ModelConfigError(f"{where}.{key[:80]} is not allowed; remove it")
            deep = "layer" in key or "depth" in key
            if deep and isinstance(item, int) and not 0 <= item <= MOST:
                raise ModelConfigError(f"{where}.{key[:80]} must be from 0 to {MOST}")
            _vet(item, f"{where}.{key[:80]}", key)
    elif isinstance(value, list):
        for item in value:
            _vet(item, where, key)
