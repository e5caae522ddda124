# SPDX-License-Identifier: Apache-2.0
"""The job spec: everything that decides a job's numbers, bounded, immutable and canonical.

A spec is written by a stranger. Every number has a range, unknown keys are refused, mechanisms
are plain identifiers that other packages look up in their registries, and nothing a spec names
is ever imported or executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from agents.mechanisms import mode, verify
from agents.training.rate_schedule import Decay, scheduled

MAX_SPEC_BYTES = 64 * 1024
MAX_ERRORS = 100
"""Of one document, that are told one by one."""

MECHANISMS = ("mode", "codec", "merge", "score", "verify", "privacy")

Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Cid = Annotated[str, StringConstraints(pattern=r"^b[a-z2-7]{58}$")]
Line = Annotated[str, StringConstraints(pattern=r"^[ -~]{1,400}$")]
Licence = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]{0,198}[!-~])?$")]


class SpecError(ValueError):
    """A spec that cannot be used; the message names each field and what it allows."""


def _between(low: float, high: float) -> AfterValidator:
    def check(value: float) -> float:
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}, got {value}")
        return value

    return AfterValidator(check)


MAX_OPTIONS = 16
Option = (
    Annotated[bool, Strict()]
    | Annotated[int, Strict()]
    | Annotated[float, Strict()]
    | Annotated[str, StringConstraints(pattern=r"^[ -~]{1,64}$")]
)
Options = Annotated[dict[Identifier, Option], Field(max_length=MAX_OPTIONS)]
Int = Annotated[int, Strict()]
Float = Annotated[float, Strict()]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ModelSpec(_Frozen):
    """The network. ``llama`` is built in; ``transformers`` takes a config.json by CID."""

    kind: Literal["llama", "transformers"] = "llama"
    vocab_size: Annotated[Int, _between(2, 1_000_000)] = 256
    d_model: Annotated[Int, _between(4, 32_768)] = 64
    n_layers: Annotated[Int, _between(1, 256)] = 2
    n_heads: Annotated[Int, _between(1, 512)] = 4
    n_kv_heads: Annotated[Int, _between(1, 512)] = 2
    d_ff: Annotated[Int, _between(4, 131_072)] = 176
    max_seq_len: Annotated[Int, _between(2, 131_072)] = 64
    rope_theta: Annotated[Float, _between(1.0, 1e9)] = 10_000.0
    tie_embeddings: Annotated[bool, Strict()] = True
    init_seed: Annotated[Int, _between(0, 2**63 - 1)] = 0
    config_cid: Cid | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.kind == "transformers") != (self.config_cid is not None):
            raise ValueError('config_cid belongs to kind "transformers", which needs one')
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model {self.d_model} must be a multiple of n_heads {self.n_heads}")
        if (self.d_model // self.n_heads) % 2:
            raise ValueError("d_model / n_heads must be even for rotary positions")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_heads {self.n_heads} must be a multiple of n_kv_heads {self.n_kv_heads}"
            )
        return self


def _is(default: object) -> Callable[[object], bool]:
    """Whether a value is this one: then it is left out of the canonical bytes."""
    return lambda value: value == default


def is_empty(value: Sized) -> bool:
    """Whether there is nothing in it: then it is left out of the canonical bytes."""
    return not value


def is_none(block: object) -> bool:
    """Whether there is no such block: then it is left out of the canonical bytes."""
    return block is None


STATE_ROUNDS = 20
MAX_STATE_ROUNDS = 64
"""Finalized rounds that an inner optimizer's state lives at most: a verifier may have to do that
many tasks of a node again."""


class OptimizerSpec(_Frozen):
    """The inner steps and the outer one.

    ``inner`` says what a node does with its batches, and names a file of ``agents.training.inner``:
    one step of ``adamw`` each, or ``gradient``: no step at all, only the mean of the batches'
    gradients where the round starts (DeMo, arXiv 2411.19870, whose momentum is the codec's memory).
    ``gradient`` reads neither ``lr`` nor ``betas``, ``eps``, ``weight_decay`` or ``grad_clip``.
    ``inner_options`` go to the file, which says what they mean. Where there are none they are left
    out of the canonical bytes, so specs from before there were any keep theirs.

    ``inner_state`` says what a node's inner optimizer starts a round with: nothing (``zero``), or
    what it had gathered by the end of the last round that was accepted of this node (``kept``).
    Kept state is zero again every ``inner_state_rounds`` finalized rounds, so whoever does a node's
    work again has so many rounds to do again at most (``agents.rounds.codec_memory``). Both fields
    are left out of the canonical bytes where they have their defaults.

    ``outer_lr`` multiplies the merged pseudo-gradient once, in fp32 (``state.apply_outer``). With
    ``outer_decay`` it follows the same warm-up and decay as the inner rate: an update of signs
    has one size whatever the loss, so nothing else would let it settle.

    ``decay`` names how both rates fall from their peak after the warm-up to ``min_lr_ratio`` of it
    in the job's last round: ``linear``, or along half a ``cosine`` (``rate_schedule``). ``linear``
    is left out of the canonical bytes, so specs from before it keep theirs.
    """

    inner: Identifier = "adamw"
    inner_options: Options = Field(default_factory=dict, exclude_if=is_empty)
    inner_state: Literal["zero", "kept"] = Field("zero", exclude_if=_is("zero"))
    inner_state_rounds: Annotated[Int, _between(1, MAX_STATE_ROUNDS)] = Field(
        STATE_ROUNDS, exclude_if=_is(STATE_ROUNDS)
    )
    lr: Annotated[Float, _between(1e-8, 1.0)] = 4e-3
    warmup_rounds: Annotated[Int, _between(0, 100_000)] = 0
    min_lr_ratio: Annotated[Float, _between(0.0, 1.0)] = 0.1
    betas: tuple[
        Annotated[Float, _between(0.0, 0.9999)], Annotated[Float, _between(0.0, 0.999999)]
    ] = (0.9, 0.95)
    eps: Annotated[Float, _between(1e-12, 1e-2)] = 1e-8
    weight_decay: Annotated[Float, _between(0.0, 1.0)] = 0.01
    grad_clip: Annotated[Float, _between(1e-4, 1e4)] = 1.0
    batch_size: Annotated[Int, _between(1, 65_536)] = 8
    seq_len: Annotated[Int, _between(1, 131_072)] = 64
    outer_lr: Annotated[Float, _between(1e-4, 10.0)] = 1.0
    outer_decay: Annotated[bool, Strict()] = False
    decay: Decay = Field("linear", exclude_if=_is("linear"))

    @model_validator(mode="after")
    def _rounds_are_of_kept_state(self) -> Self:
        if self.inner_state_rounds != STATE_ROUNDS and self.inner_state != "kept":
            raise ValueError('inner_state_rounds belongs to inner_state "kept"')
        return self

    def lr_at(self, round_number: int, rounds: int) -> float:
        """Inner learning rate of round 0..rounds-1: linear warm-up, then the decay.

        A round beyond ``rounds`` keeps the last value.
        """
        return self._scheduled(self.lr, round_number, rounds)

    def outer_lr_at(self, round_number: int, rounds: int) -> float:
        """Factor on the merged update of round 0..rounds-1, fp64; ``apply_outer`` rounds it."""
        if not self.outer_decay:
            return self.outer_lr
        return self._scheduled(self.outer_lr, round_number, rounds)

    def _scheduled(self, rate: float, round_number: int, rounds: int) -> float:
        place = round_number, rounds, self.warmup_rounds
        return scheduled(rate, *place, self.decay, self.min_lr_ratio)


class ToleranceSpec(_Frozen):
    """What a re-execution in another determinism class must reach.

    A job spec that leaves one out gets it from `tolerances_for`. Its canonical bytes then hold it.
    """

    cosine_min: Annotated[Float, _between(0.0, 1.0)]
    rel_l2_max: Annotated[Float, _between(0.0, 1.0)]


_REL_L2 = {("fp32", True): 0.005, ("fp32", False): 0.1, ("bf16", True): 0.1, ("bf16", False): 0.3}
"""By precision, and whether the codec is lossless. Honest re-executions on unlike machines differed
by less over 12 and 96 steps, by 100, 1.8, 4 and 1.2 times from a warmed-up or trained model, in
this order (`tests/measure/studies/class_spread.py`). Muon's products in bf16 are not among them:
they differ by more, and a job that has them lists one class
(`agents.jobs.combinations.machines`)."""


def tolerances_for(precision: str, lossless: bool) -> ToleranceSpec:
    """The tolerances of a spec that names none. KeyError for an unknown precision."""
    rel_l2 = _REL_L2[precision, lossless]
    return ToleranceSpec(cosine_min=implied_cosine(rel_l2), rel_l2_max=rel_l2)


EDGE_FLOOR = {"fp32": 1e-4, "bf16": 1e-3}
"""By precision: a change of an update, as a share of its length, that is always taken for rounding.
In fp32 twice what honest re-executions on unlike machines differed by in a settled round."""


def update_limit(spec: JobSpec) -> float:
    """How far apart honest updates of a job may be before a codec, as a share of their length: what
    the spec says; where that is the default of a lossy codec, what it would be without one."""
    given = spec.tolerances.rel_l2_max
    lossy = given == _REL_L2[spec.precision, False]
    return _REL_L2[spec.precision, True] if lossy else given


def update_tolerances(spec: JobSpec) -> ToleranceSpec:
    """What an update must reach that is compared before a codec: `update_limit`, and the cosine
    that the spec says or, where the limit is narrower than the spec's, that it implies."""
    given, limit = spec.tolerances, update_limit(spec)
    narrower = limit < given.rel_l2_max
    cosine = implied_cosine(limit) if narrower else given.cosine_min
    return ToleranceSpec(cosine_min=cosine, rel_l2_max=limit)


def implied_cosine(rel_l2: float) -> float:
    """The cosine that a relative L2 distance of 0..1 implies, sqrt(1 - r^2), rounded down to 6
    digits."""
    return math.floor(math.sqrt(1.0 - rel_l2 * rel_l2) * 1e6) / 1e6


MAX_CLASSES = 8
MAX_TRACE_EVERY = 10_000


def _different(texts: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(texts)) < len(texts):
        raise ValueError("a class is listed once")
    return texts


MAX_STAGES = 16
MAX_IN_FLIGHT = 64
MAX_SAMPLES = 65_536
"""Batches that a round of a pipeline hands out. A miner alone in its stage logs up to three events
of each."""
MAX_DRAWS = 2**17
"""Batches of such a round times stages: for each a miner is drawn by everybody, in 20 us of a core,
again and again."""


class OuterSpec(_Frozen):
    """The outer step with momentum (``agents.training.outer``), in the place of
    ``optimizer.outer_lr``. With ``momentum`` 0 there is no velocity, and ``rate`` does what
    ``outer_lr`` does. ``optimizer.outer_decay`` lets the rate fall. The velocity is a part of the
    model (``agents.jobs.outer_step``)."""

    rate: Annotated[Float, _between(1e-4, 10.0)] = 0.7
    momentum: Annotated[Float, _between(0.0, 0.999)] = 0.9


MAX_FULL_EVERY = 16
"""Rounds from one full synchronisation to the next, each of which a re-execution may have to do
again."""


class SharingSpec(_Frozen):
    """Compressed sharing: of each ``full_every`` rounds the last is a full synchronisation, and so
    is the job's last. In the others a miner's payload is made by ``codec``, with what it still owes
    from the rounds since the last full one. Seats change at the first round after a full one."""

    full_every: Annotated[Int, _between(1, MAX_FULL_EVERY)] = 1
    codec: Identifier = "dense"
    codec_options: Options = Field(default_factory=dict)


class PipelineSpec(_Frozen):
    """How a pipeline cuts the model, what crosses between its stages, and when a stage steps.

    ``layers`` is the number of blocks of each stage, first to last; together they are the model's.
    The options go to the boundary of that name, which says what they mean.

    ``local_batch`` is the number of backward passes whose mean gradient makes one inner step. A
    miner lets no sample in that would be one more, so at most as many wait there for their
    gradient. ``least_passes`` (B_min of the primer) is the fewest passes of a contributor to its
    stage's merge. ``quorum`` is the share of a stage's miners, rounded up, that must be
    contributors; else the stage keeps its weights. With 0 one is enough.

    Options that are not given are left out of the canonical bytes, so specs from before them keep
    theirs: ``outer``, ``all_reduce``, ``least_valid``, ``sharing``, ``declared_memory`` and
    ``segment``.

    With ``segment`` a drawn miner's epoch is not done again as a whole, but so many of its steps in
    a row, from a state that it published. With 0 the whole epoch is.

    With ``declared_memory`` a node that declared less free memory than a stage needs, by the
    report of the round before, is not seated there.

    With ``all_reduce`` ``butterfly`` every pair of a stage's miners owns one shard of its change,
    merges it and says so (``agents.pipeline.shards``). A shard that nobody delivers keeps its
    weights; where less than ``least_valid`` of a stage's shards are delivered all of it does. With
    ``none`` whoever proposes a result merges alone.

    With ``paths`` ``measured`` the miners of a stage are drawn for a sample in proportion to what
    earlier rounds showed of them (``agents.pipeline.pace``). With ``equal`` all count alike, and it
    is left out like the options above.
    """

    layers: Annotated[
        tuple[Annotated[Int, _between(1, 256)], ...], Field(min_length=1, max_length=MAX_STAGES)
    ]
    boundary: Identifier = "residual"
    boundary_options: Options = Field(default_factory=dict)
    local_batch: Annotated[Int, _between(1, MAX_IN_FLIGHT)] = 4
    least_passes: Annotated[Int, _between(1, 1_000_000)] = 1
    quorum: Annotated[Float, _between(0.0, 1.0)] = 0.0
    outer: OuterSpec | None = Field(default=None, exclude_if=is_none)
    all_reduce: Literal["none", "butterfly"] = Field("none", exclude_if=_is("none"))
    least_valid: Annotated[Float, _between(0.0, 1.0)] = Field(0.9, exclude_if=_is(0.9))
    paths: Literal["equal", "measured"] = Field("equal", exclude_if=_is("equal"))
    sharing: SharingSpec | None = Field(default=None, exclude_if=is_none)
    declared_memory: Annotated[bool, Strict()] = Field(False, exclude_if=_is(False))
    segment: Annotated[Int, _between(0, MAX_SAMPLES)] = Field(0, exclude_if=_is(0))

    @model_validator(mode="after")
    def _shards_are_merged(self) -> Self:
        if self.least_valid != 0.9 and self.all_reduce != "butterfly":
            raise ValueError('least_valid belongs to all_reduce "butterfly"')
        return self


class JobSpec(_Frozen):
    """One training job.

    ``data`` is the CID of the dataset manifest, ``val_fraction`` the last share of its
    sequences, ``audit_sample`` the number of nodes that are drawn for re-execution each round
    whatever they are paid, ``checkpoint_every`` a number of rounds. The others are explained by the
    classes above.

    ``trace_every`` is the number of steps from one hash of a task's trace to the next; the last
    step always has one. A hash reads the whole model, which takes a CPU longer than a GPU's step:
    with a hash in 50 steps it is done beside them. Where work is done again all of it is, so the
    number decides only how narrow the evidence of a lie is. With 1 it is left out of the canonical
    bytes, so specs from before it keep theirs.

    ``access`` says who may read the training data: everyone (``public``), nodes that were given
    the job's data key (``encrypted``), or only the node that brings its own (``local``; ``data``
    then holds the validation text and fixes the tokens). Nobody can redo work on data that only
    its owner has, so ``local`` goes with ``verify: screening`` and with nothing else.
    ``verify: gauntlet`` leaves a node free in how it trains and has validators measure what its
    payload does to the loss; it goes with ``score: gauntlet``, which is those measurements.
    The ``*_options`` go to the mechanism of that name, which says what they mean.

    ``classes`` lists the determinism classes that the job takes, each as a proof of computation
    states it (``agents.training.determinism.determinism_class``). Work whose proof states another
    one is no valid work. With none listed any class is taken, and the list is left out of the
    canonical bytes, so specs from before it keep theirs.

    ``mode: pipeline`` splits the model among the nodes as the block ``pipeline`` says. Where there
    is no such block it is left out of the canonical bytes, so specs from before it keep theirs.

    ``outer`` is the outer step with momentum, of a job of any mode. A pipeline may have it in its
    own block instead, where it stood first; not in both. Where there is none it is left out of the
    canonical bytes, so specs from before it keep theirs.

    ``data_licence`` is what the sponsor states about the licence of the data, such as an SPDX name
    or a URL. Nothing is computed from it; it goes with the model when that is exported. Where there
    is none it is left out of the canonical bytes, so specs from before it keep theirs.
    """

    version: Literal[1] = 1
    mode: Identifier = "data_parallel"
    codec: Identifier = "dense"
    merge: Identifier = "median"
    score: Identifier = "shares"
    verify: Identifier = "reexecution"
    privacy: Identifier = "none"
    codec_options: Options = Field(default_factory=dict)
    merge_options: Options = Field(default_factory=dict)
    score_options: Options = Field(default_factory=dict)
    privacy_options: Options = Field(default_factory=dict)
    access: Literal["public", "encrypted", "local"] = "public"
    model: ModelSpec = Field(default_factory=ModelSpec)
    optimizer: OptimizerSpec = Field(default_factory=OptimizerSpec)
    tolerances: ToleranceSpec = Field(default_factory=lambda: tolerances_for("fp32", True))
    data: Cid
    data_seed: Annotated[Int, _between(0, 2**63 - 1)] = 0
    val_fraction: Annotated[Float, _between(1e-6, 0.5)] = 0.05
    eval_batches: Annotated[Int, _between(1, 100_000)] = 16
    batches_per_round: Annotated[Int, _between(1, 1_000_000)] = 96
    rounds: Annotated[Int, _between(1, 1_000_000)] = 10
    audit_sample: Annotated[Int, _between(0, 10_000)] = 2
    checkpoint_every: Annotated[Int, _between(1, 1_000_000)] = 5
    trace_every: Annotated[Int, _between(1, MAX_TRACE_EVERY)] = Field(1, exclude_if=_is(1))
    precision: Literal["fp32", "bf16"] = "fp32"
    classes: Annotated[
        tuple[Line, ...], Field(max_length=MAX_CLASSES), AfterValidator(_different)
    ] = Field(default=(), exclude_if=is_empty)
    pipeline: PipelineSpec | None = Field(default=None, exclude_if=is_none)
    outer: OuterSpec | None = Field(default=None, exclude_if=is_none)
    data_licence: Licence | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="before")
    @classmethod
    def _with_tolerances(cls, fields: Any) -> Any:
        """Fill in tolerances that are left out. What is wrong is left for its own field to say."""
        if not isinstance(fields, dict):
            return fields
        given = fields.get("tolerances", {})
        if not isinstance(given, dict) or ("rel_l2_max" in given and "cosine_min" in given):
            return fields
        kind = (fields.get("precision", "fp32"), all(map(_is_lossless, _codecs(fields))))
        if not isinstance(kind[0], str) or kind not in _REL_L2:
            return fields
        rel_l2 = given.get("rel_l2_max", _REL_L2[kind])
        if type(rel_l2) not in (int, float) or not 0.0 <= rel_l2 <= 1.0:
            return fields
        filled = {"rel_l2_max": rel_l2, "cosine_min": implied_cosine(rel_l2), **given}
        return {**fields, "tolerances": filled}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.optimizer.seq_len > self.model.max_seq_len:
            raise ValueError(
                f"optimizer.seq_len {self.optimizer.seq_len} must not exceed "
                f"model.max_seq_len {self.model.max_seq_len}"
            )
        for key, value, name in verify.partners():
            if (getattr(self, key) == value) != (self.verify == name):
                raise ValueError(f'{key} "{value}" and verify "{name}" belong together')
        splitting = mode.splitting()
        if (self.mode in splitting) != (self.pipeline is not None):
            raise ValueError(
                f'mode "{splitting[0]}" and the block pipeline belong together; mode is '
                f'"{self.mode}"'
            )
        if self.pipeline is not None:
            self._check_samples(self.pipeline)
        self._check_outer()
        return self

    def _check_samples(self, pipeline: PipelineSpec) -> None:
        if not pipeline.least_passes <= self.batches_per_round <= MAX_SAMPLES:
            raise ValueError(
                "batches_per_round of a pipeline must be between pipeline.least_passes "
                f"{pipeline.least_passes} and {MAX_SAMPLES}, got {self.batches_per_round}"
            )
        draws = self.batches_per_round * len(pipeline.layers)
        if draws > MAX_DRAWS:
            raise ValueError(
                f"batches_per_round times the stages of the pipeline is {draws}, and at most "
                f"{MAX_DRAWS} are allowed: everybody draws a miner for each"
            )

    def _check_outer(self) -> None:
        inside = None if self.pipeline is None else self.pipeline.outer
        if inside is not None and self.outer is not None:
            raise ValueError("outer and pipeline.outer say the same; leave pipeline.outer out")
        if self._outer is not None and self.optimizer.outer_lr != 1.0:
            where = "outer" if inside is None else "pipeline.outer"
            raise ValueError(
                f"{where}.rate takes the place of optimizer.outer_lr; leave outer_lr out, "
                f"got {self.optimizer.outer_lr}"
            )

    @property
    def _outer(self) -> OuterSpec | None:
        if self.outer is not None or self.pipeline is None:
            return self.outer
        return self.pipeline.outer

    def outer_lr_at(self, step: int) -> float:
        """Factor on the merged update of the round after ``step`` finalized ones."""
        inner = self.optimizer
        if self._outer is not None:
            inner = inner.model_copy(update={"outer_lr": self._outer.rate})
        return inner.outer_lr_at(step, self.rounds)

    @property
    def full_every(self) -> int:
        """Rounds from one full synchronisation of a split model to the next; 1 where each is."""
        sharing = None if self.pipeline is None else self.pipeline.sharing
        return 1 if sharing is None else sharing.full_every

    def is_full(self, step: int) -> bool:
        """Whether the round after ``step`` finalized ones is a full synchronisation."""
        return (step + 1) % self.full_every == 0 or step + 1 >= self.rounds

    @property
    def measured_paths(self) -> bool:
        """Whether samples' paths are drawn by what was measured of miners."""
        return self.pipeline is not None and self.pipeline.paths == "measured"

    @property
    def butterfly(self) -> bool:
        """Whether the miners of a stage merge its shards."""
        return self.pipeline is not None and self.pipeline.all_reduce == "butterfly"

    @property
    def segment(self) -> int:
        """Steps of a miner's epoch that are done again together; 0 where the whole epoch is."""
        return 0 if self.pipeline is None else self.pipeline.segment

    @property
    def outer_momentum(self) -> float:
        """Of the outer step; 0 where the job has no velocity."""
        return 0.0 if self._outer is None else self._outer.momentum

    def mechanisms(self) -> dict[str, str]:
        """The six mechanism names by field, for the registries that hold them."""
        return {field: getattr(self, field) for field in MECHANISMS}

    def check_mechanisms(self, known: Callable[[str, str], bool]) -> None:
        """Raise SpecError unless ``known(field, name)`` holds for each mechanism."""
        named = list(self.mechanisms().items())
        if self.pipeline is not None and self.pipeline.sharing is not None:
            named.append(("codec", self.pipeline.sharing.codec))
        unknown = [f"{f}: {n!r}" for f, n in named if not known(f, n)]
        if unknown:
            raise SpecError(f"this agent has no mechanism for {', '.join(unknown)}; install it")

    def to_bytes(self) -> bytes:
        """Canonical JSON of every field, defaults included.

        ``inner_options`` and ``classes`` are in it if there are any, ``pipeline``, ``outer`` and
        ``data_licence`` if the spec has them, ``decay``, ``inner_state``, ``inner_state_rounds``
        and ``trace_every`` if they are not the default.
        """
        from agents.storage.canonical import dumps

        return dumps(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Read canonical JSON.

        Raises:
            SpecError: too long, not canonical JSON, an unknown key, or a value out of range.
        """
        from agents.storage.canonical import loads

        if len(raw) > MAX_SPEC_BYTES:
            raise SpecError(f"the spec has {len(raw)} bytes, at most {MAX_SPEC_BYTES} are allowed")
        try:
            fields = loads(raw)
        except ValueError as error:
            raise SpecError(f"the spec is not canonical JSON: {error}") from error
        return cls.from_dict(fields)

    @classmethod
    def from_dict(cls, fields: Any) -> Self:
        """Build from plain values; SpecError lists every field that is wrong."""
        if not isinstance(fields, dict):
            raise SpecError(f"the spec must be a JSON object, got {type(fields).__name__}")
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise SpecError(describe(error)) from error


@dataclass(frozen=True)
class Hyperparameters:
    """What the inner steps of one round need; ``lr`` is the round's own."""

    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    grad_clip: float
    precision: str
    inner: str = "adamw"
    inner_options: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    keeps_state: bool = False  # what the inner optimizer gathers goes into the next round
    trace_every: int = 1  # steps from one hash of the trace to the next

    @classmethod
    def of(cls, spec: JobSpec, round_number: int) -> Hyperparameters:
        """Those of round 0..rounds-1 of a job."""
        inner = spec.optimizer
        return cls(
            lr=inner.lr_at(round_number, spec.rounds),
            betas=inner.betas,
            eps=inner.eps,
            weight_decay=inner.weight_decay,
            grad_clip=inner.grad_clip,
            precision=spec.precision,
            inner=inner.inner,
            inner_options=inner.inner_options,
            keeps_state=inner.inner_state == "kept",
            trace_every=spec.trace_every,
        )


def _codecs(fields: Mapping[str, Any]) -> list[object]:
    """The names of all codecs that a spec's fields give."""
    found = [fields.get("codec", "dense")]
    place: object = fields
    for name in ("pipeline", "sharing"):
        place = place.get(name) if isinstance(place, dict) else None
    return [*found, place.get("codec", "dense")] if isinstance(place, dict) else found


def _is_lossless(name: object) -> bool:
    """Whether a codec is; an unknown one is refused elsewhere."""
    from agents.mechanisms import codec  # torch: only where a spec leaves tolerances out

    return name in codec.names() and bool(codec.get(str(name)).lossless)


def describe(error: ValidationError) -> str:
    """One sentence per wrong field: its dotted name, the rule, and the value seen. Of more than
    `MAX_ERRORS` only how many there are: a stranger's document may have a million wrong keys."""
    if error.error_count() > MAX_ERRORS:
        return f"{error.error_count()} fields are wrong"
    lines = []
    for item in error.errors(include_url=False):
        field = ".".join(str(part) for part in item["loc"]) or "spec"
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            message = "is not a known key; remove it"
        elif "got" not in message and not isinstance(item["input"], dict):
            message += f", got {json.dumps(item['input'], default=str)[:80]}"
        lines.append(f"{field}: {message}")
    return "; ".join(lines)


def demo_spec(data: str, **changes: Any) -> JobSpec:
    """The local network's job: a byte-level model of about 0.1 million parameters.

    96 batches a round give eight trainers twelve steps each. A short warm-up keeps the first
    rounds from doing all the work, so the loss falls over the whole run.

    Args:
        data: CID of the dataset manifest.
        changes: top-level fields to replace.
    """
    rounds = changes.get("rounds", 10)
    warmup = min(3, rounds // 3) if isinstance(rounds, int) else 0
    optimizer = {"warmup_rounds": warmup, "min_lr_ratio": 0.3}
    return JobSpec.from_dict({"data": data, "optimizer": optimizer, **changes})
