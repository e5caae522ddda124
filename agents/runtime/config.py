# SPDX-License-Identifier: Apache-2.0
"""One typed settings object per agent.

Rule: a setting comes from the command line, else from `MENAGERIE_<NAME>` in the environment
(`MENAGERIE_TRAINER__COMPILE` inside a section), else from the file (TOML or YAML), else from the
default here. A name that is not here is an error that lists those that are. A section may be given
under a name that it had before (`agents.runtime.roles`); given under both, the new name counts. No
secret is a setting: keys are in keystores, and `passphrase_env` names the variable that holds a
passphrase.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from agents.runtime.errors import ConfigError
from agents.runtime.faults import CRASH_VARIABLE
from agents.runtime.files import read_toml, read_yaml
from agents.runtime.roles import FORMER_NAMES

PREFIX = "MENAGERIE_"
_RESERVED = (CRASH_VARIABLE, "MENAGERIE_PASSPHRASE")  # not settings, so not unknown ones

Port = int


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TrainerSettings(_Section):
    """What only a trainer needs."""

    compile: bool = Field(False, description="Compile the model before training")
    attestation: Path | None = Field(None, description="Opaque TEE attestation file to publish")
    benchmark_s: float = Field(
        3.0, gt=0, le=600, description="Seconds of benchmark work to do, or more: the next setting"
    )
    benchmark_blocks: int = Field(
        20,
        ge=0,
        le=1_000,
        description="Blocks that it lasts at least; with fewer, a score is less exact and lower",
    )
    register_stake: int | None = Field(
        None, ge=1, description="Register by itself with this many ZOO (default: the owner does)"
    )
    appeal: bool = Field(
        True,
        description="When reported for work that was right, appeal, with a bond of the operator's",
    )
    local_data: Path | None = Field(
        None, description="Folder of your own text, for jobs whose nodes bring their data"
    )
    accept_riders: bool = Field(
        False,
        description="Train also where who trains nothing is paid, as nothing tells it from work",
    )
    accept_no_privacy: bool = Field(
        False,
        description="Show your own data in jobs without noise too, where the agent chooses the job",
    )
    accept_tokenizer: bool = Field(
        False,
        description="Have a sponsor's tokenizer read your data in jobs with noise that the agent "
        "chooses",
    )
    max_epsilon: float | None = Field(
        None,
        gt=0,
        description="Stop before your privacy loss in all jobs together exceeds this "
        "(default: each job's)",
    )
    extra_batches: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Batches to train on beside the assigned ones, in jobs that leave it to you",
    )
    recompute: bool = Field(
        True, description="As a miner, compute blocks twice: less memory, a third more time"
    )
    post_listen: bool = Field(
        True, description="Take connections; false: collect letters at other miners' posts"
    )
    post_host: str = Field("127.0.0.1", description="Address that a miner's post listens on")
    post_port: Port = Field(0, ge=0, le=65535, description="Port of the post (0: any free one)")
    post_url: str | None = Field(
        None,
        description="Where other miners reach the post, without a path (default: post_host and the "
        "port)",
    )
    post_peers: list[str] = Field(
        [], description="URLs of posts that know others, to ask where miners are"
    )
    post_store: bool = Field(
        True, description="Pass letters through the store where a miner can't be reached"
    )
    answer_s: float = Field(
        20.0, gt=0, le=3_600, description="Wait for a gradient, for each stage ahead, in seconds"
    )
    gather_s: float = Field(
        10.0, ge=0, le=600, description="Pass nobody by in the first seconds of an epoch"
    )
    linger_s: float = Field(
        120.0, gt=0, le=86_400, description="End an epoch when no letter came for so many seconds"
    )
    payout: str | None = Field(
        None, description="Cold wallet that rewards go to when registering by itself"
    )

    @field_validator("post_url")
    @classmethod
    def _bare(cls, value: str | None) -> str | None:
        if value and urlsplit(value).path not in ("", "/"):
            raise ValueError("must have no path: other miners refuse such an address")
        return value


class VerifierSettings(_Section):
    """What only a verifier needs."""

    audit_all: bool = Field(False, description="Re-execute every node, not only the sample")
    benchmark_checks: int = Field(
        8,
        ge=1,
        le=10_000,
        description="Chunks of a benchmark to recompute (8 are expected), and as many in secret",
    )
    task_audit_rate: float = Field(
        0.1, ge=0, le=1, description="Share of redundant tasks to run again, drawn in private"
    )


class ExecutorSettings(_Section):
    """What a node needs that runs redundant tasks."""

    join: bool = Field(
        True, description="Take a seat in the pool of the class this machine computes in"
    )
    with_training: bool = Field(False, description="A trainer runs redundant tasks as well")
    appeal: bool = Field(
        True, description="Bond an appeal when outvoted and running the task again confirms it"
    )


class CoordinatorSettings(_Section):
    """What only a committee member needs."""

    board_host: str = Field("127.0.0.1", description="Address the signature board listens on")
    board_port: Port = Field(0, ge=0, le=65535, description="Port of the board (0: any free one)")
    peers: list[str] = Field([], description="URLs of the other members' signature boards")
    attest: bool = Field(
        True, description="Recompute finalized rounds, and attest the models of checkpoints"
    )
    attest_hours: float = Field(
        1.0,
        gt=0,
        description="Attest a round that takes longer to recompute last, and one of 12 times never",
    )
    trusted_owners: list[str] = Field(
        [], description="Owners whose nodes may be verifiers and aggregators"
    )


class AgentSettings(BaseSettings):
    """Everything an operator can set. `load_settings` is the way to make one."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    rpc_url: str = Field("http://127.0.0.1:8545", description="HTTP address of the chain's node")
    ws_url: str | None = Field(
        None, description="Its WebSocket address (default: derived from rpc_url; '' polls only)"
    )
    chain_id: int | None = Field(None, ge=1, description="Refuse to run on any other chain")
    deployment: Path = Field(Path("deployments/31337.json"), description="Deployment file")
    keystore: str = Field("operator", description="Keystore file, or alias in `ape accounts`")
    passphrase_env: str | None = Field(
        None, description="Environment variable with its passphrase (default: ask)"
    )
    store: str | list[str] = Field(
        "store",
        description="Content store: a folder, or http://host:port of Kubo; lists go in order",
    )
    data_dir: Path = Field(Path("agent-data"), description="Folder for journal and artefacts")
    job_id: int = Field(
        0, ge=0, description="The job to work on (0: those that pay best for the work they take)"
    )
    least_pay: float = Field(
        0.0, ge=0, description="With job_id 0: least pay to work for, in ZOO per hour of one node"
    )
    max_jobs: int = Field(
        8,
        ge=1,
        le=256,
        description="With job_id 0: jobs served at a time: the best paid, and some new ones",
    )
    node_id: int | None = Field(None, ge=1, description="This node's id (default: by operator key)")
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    max_memory_gib: float = Field(
        0.0, ge=0, description="Memory a job may take, in GiB (0: three quarters of what there is)"
    )
    portable: bool = Field(
        True, description="Compute the same bits on every CPU model (off: faster, this model only)"
    )
    metrics_port: Port = Field(0, ge=0, le=65535, description="Port for Prometheus (0: none)")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe lines that are written"
    )
    log_format: Literal["json", "human"] = Field("json", description="Lines for programs or people")
    log_file: Path | None = Field(None, description="Log file (default: standard error)")
    poll_s: float = Field(
        0.5, gt=0, le=60, description="Least time between polls without WebSocket"
    )
    timer_s: float = Field(2.0, gt=0, le=60, description="Longest time between two looks, seconds")
    jitter_s: float = Field(2.0, ge=0, le=600, description="Spread of permissionless actions, s")
    confirmations: int = Field(1, ge=1, le=64, description="Blocks that make a transaction done")
    stuck_blocks: int = Field(3, ge=1, le=100, description="Blocks before a fee is raised")
    max_fee_gwei: float = Field(10_000.0, gt=0, description="Highest fee per gas ever offered")
    post_peers: list[str] = Field(
        [],
        description="Aggregators and verifiers: URLs of miners' posts, to ask for merged shards",
    )
    trainer: TrainerSettings = Field(TrainerSettings(), description="Trainer's section")
    verifier: VerifierSettings = Field(VerifierSettings(), description="Verifier's section")
    executor: ExecutorSettings = Field(
        ExecutorSettings(), description="Section of nodes that run redundant tasks"
    )
    coordinator: CoordinatorSettings = Field(
        CoordinatorSettings(), description="Committee member's section"
    )

    @field_validator("rpc_url")
    @classmethod
    def _http(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value

    @field_validator("ws_url")
    @classmethod
    def _ws(cls, value: str | None) -> str | None:
        if value and not value.startswith(("ws://", "wss://")):
            raise ValueError("must start with ws:// or wss://, or be empty")
        return value

    @property
    def memory(self) -> int | None:
        """Bytes that a job may take; None: what `agents.jobs.budget` finds on this machine."""
        return int(self.max_memory_gib * 2**30) or None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags, environment, file (the last one, given by load_settings)."""
        flags = dict(getattr(init_settings, "init_kwargs", {}))
        content = flags.pop("_content", {})
        if isinstance(env_settings, EnvSettingsSource):
            given = env_settings.env_vars  # in lower case
            present = {_present_variable(name): value for name, value in given.items()}
            env_settings.env_vars = {**present, **given}
        return (
            InitSettingsSource(settings_cls, init_kwargs=flags),
            env_settings,
            InitSettingsSource(settings_cls, init_kwargs=content),
        )


@dataclass(frozen=True)
class SettingInfo:
    """One setting, for help texts and command-line flags."""

    name: str
    type: str
    default: Any
    help: str


def describe_settings() -> list[SettingInfo]:
    """Return every setting, sections dotted (`trainer.compile`), in declaration order."""
    return list(_describe(AgentSettings, ""))


def _describe(model: type[BaseModel], prefix: str) -> Iterator[SettingInfo]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, _Section):
            yield from _describe(kind, f"{prefix}{name}.")
        else:
            label = kind.__name__ if isinstance(kind, type) else str(kind)
            yield SettingInfo(prefix + name, label, field.default, field.description or "")


def load_settings(
    path: Path | str | None = None, flags: Mapping[str, Any] | None = None
) -> AgentSettings:
    """Return the settings from file, environment and flags (None among the flags means unset).

    Flags may use dotted names for sections. Raises ConfigError that names the setting and the
    source, and for an unknown one lists those that exist.
    """
    content = _present(_read(Path(path))) if path is not None else {}
    flags = {name: value for name, value in (flags or {}).items() if value is not None}
    given = _present(_nested(flags))
    _refuse_unknown(content, str(path))
    _refuse_unknown(given, "the command line")
    _refuse_unknown_environment(given, content)
    try:
        return AgentSettings(**{**given, "_content": content})
    except ValidationError as error:
        where = f"{path}, the environment and the command line" if path else "the settings"
        parts = [
            f"{'.'.join(map(str, item['loc']))}: {item['msg'].removeprefix('Value error, ')}"
            f"{_shown(item)}"
            for item in error.errors()
        ]
        raise ConfigError(f"Wrong setting in {where}: {'; '.join(parts)}.") from None


def _shown(item: Mapping[str, Any]) -> str:
    """The value that is wrong, unless it may hold a key."""
    if {"rpc_url", "ws_url", "store", "peers"} & set(map(str, item["loc"])):
        return ""
    return f" (it is {item.get('input')!r})"


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.suffix in (".yaml", ".yml"):
            content = read_yaml(path) or {}
        elif path.suffix == ".toml":
            content = read_toml(path)
        else:
            raise ValueError("its name must end in .toml, .yaml or .yml")
    except FileNotFoundError:
        raise ConfigError(f"There is no settings file {path}. Correct --config.") from None
    except OSError as error:
        raise ConfigError(f"The settings file {path} cannot be read: {error}.") from None
    except ValueError as error:
        raise ConfigError(f"The settings file {path} cannot be used: {error}.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"The settings file {path} must hold names and values.")
    return content


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in flat.items():
        *sections, last = name.split(".")
        place = result
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return result


def _present(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings, with sections under the names that they have now."""
    result = dict(content)
    for former, name in FORMER_NAMES.items():
        section = result.get(former)
        if isinstance(section, Mapping) and isinstance(result.get(name, {}), Mapping):
            result[name] = {**section, **result.get(name, {})}
            del result[former]
    return result


def _present_variable(variable: str) -> str:
    """The name that a setting's environment variable (in lower case) has now."""
    section, found, rest = variable.removeprefix(PREFIX.lower()).partition("__")
    if section not in FORMER_NAMES or not variable.startswith(PREFIX.lower()):
        return variable
    return f"{PREFIX.lower()}{FORMER_NAMES[section]}{found}{rest}"


def _names() -> list[str]:
    return [info.name for info in describe_settings()]


def _refuse_unknown(content: Mapping[Any, Any], source: str) -> None:
    known = set(_names()) | {name.split(".")[0] for name in _names() if "." in name}
    for name in _dotted(content):
        if name not in known:
            _unknown(name, source)


def _dotted(content: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield str(name)


def _refuse_unknown_environment(*others: Mapping[str, Any]) -> None:
    known = {PREFIX + name.upper().replace(".", "__") for name in _names()}
    known |= {PREFIX + name.split(".")[0].upper() for name in _names() if "." in name}
    for former, name in FORMER_NAMES.items():
        begin = f"{PREFIX}{name}".upper()
        known |= {
            v.replace(begin, f"{PREFIX}{former}".upper()) for v in known if v.startswith(begin)
        }
    named = {str(other["passphrase_env"]) for other in others if other.get("passphrase_env")}
    named.add(os.environ.get(f"{PREFIX}PASSPHRASE_ENV", ""))
    for variable in os.environ:
        if not variable.startswith(PREFIX) or variable in known or variable in named:
            continue
        if not variable.startswith(_RESERVED):
            _unknown(variable.removeprefix(PREFIX).lower().replace("__", "."), f"${variable}")


def _unknown(name: str, source: str) -> None:
    near = difflib.get_close_matches(name, _names(), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(
        f"Unknown setting {name!r} in {source}.{hint} Known settings: {', '.join(_names())}."
    )
