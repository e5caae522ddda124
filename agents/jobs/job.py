# SPDX-License-Identifier: Apache-2.0
"""A job's fixed facts: its spec, tensor shapes, mechanisms, data and network, checked once.

Rule: a spec is a stranger's file. It is read within bounds, every mechanism it names must exist
here and accept its options before anything is computed, and nothing in it is ever executed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any

from agents.jobs.budget import (
    check_data,
    check_spec,
    check_stages,
    check_whole,
    memory_here,
    stage_needs,
)
from agents.jobs.combinations.noise import fitted
from agents.jobs.compatible import check_together
from agents.jobs.outer_step import kept_shapes, start
from agents.jobs.role_memory import training_needs
from agents.mechanisms import codec, merge, mode, privacy, score, verify
from agents.mechanisms.codec import Codec
from agents.mechanisms.merge import Merge
from agents.mechanisms.mode import Mode
from agents.mechanisms.privacy import Privacy
from agents.mechanisms.privacy.aggregate import Aggregate
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.score import Score
from agents.mechanisms.verify import Verification
from agents.protocol.network import Network
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError
from agents.training.data import MAX_MANIFEST_BYTES, Dataset, DataSource, Reader, layout_of
from agents.training.documents import DataError
from agents.training.flat import FlatModel
from agents.training.inner_state import optimizer_shapes
from agents.training.model import hidden_names, init_state, template_of_job
from agents.training.sealed_data import key_for, open_sealed
from agents.training.slices import Slices, hidden_of, init_stages, products, stage_template
from agents.training.spec import MAX_SPEC_BYTES, Hyperparameters, JobSpec, SpecError
from agents.training.state import Shapes, State

_FOLDERS = {
    "mode": mode,
    "codec": codec,
    "merge": merge,
    "score": score,
    "verify": verify,
    "privacy": privacy,
}


def mechanism_exists(field: str, name: str) -> bool:
    """Whether this program has the mechanism `name` for a spec's `field`."""
    return name in _FOLDERS[field].names()


def mechanism(spec: JobSpec, field: str, fixed: Mapping[str, Any] | None = None) -> Any:
    """The spec's mechanism for a field, made from its options; SpecError if it refuses them.

    `fixed`: options that follow from the rest of the spec.
    """
    chosen = getattr(spec, f"{field}_options", {})  # of mode and verify a spec has none
    options: Mapping[str, Any] = {**chosen, **(fixed or {})}
    try:
        return _FOLDERS[field].get(getattr(spec, field))(**options)
    except (TypeError, ValueError, OverflowError) as error:
        raise SpecError(
            f"{field}_options: {getattr(spec, field)} refuses {dict(options)}: {error}"[:500]
        ) from error


def cut(spec: JobSpec) -> Slices | None:
    """Where the spec's mode cuts the model, None if it does not; SpecError for a bad cut."""
    if spec.pipeline is None:
        return None
    try:
        return Slices.of(spec.model, spec.pipeline)
    except (ValueError, OverflowError) as error:
        raise SpecError(f"pipeline: {error}"[:500]) from error


class DataLocked(StoreError):
    """The job's data is encrypted, and nobody gave this agent the key."""


DataKeys = bytes | Mapping[int, bytes]
"""The sponsor's secret, which opens every shard, or keys of single shards by place."""

KeySource = Callable[[], DataKeys | None]


def _no_key() -> DataKeys | None:
    return None


class JobContext:
    """One job as the maths needs it.

    `shapes`: model tensors. `slices`: where the model is cut, None if a node holds it whole; then
    `shapes` are those of all stages together. Then the job's mechanisms.

    `key`: gives the keys of encrypted data, None while none is held; it is asked again for each
    shard that has a key of its own. `memory`: bytes that
    the job may take, by default three quarters of the machine's. SpecError for a spec or a manifest
    that can't be used, or that asks for more; nothing of their size is built before.
    """

    def __init__(
        self,
        spec: JobSpec,
        store: Reader,
        key: KeySource = _no_key,
        memory: int | None = None,
    ) -> None:
        spec.check_mechanisms(mechanism_exists)
        self.spec = spec
        self._store = store
        self._key = key
        self.slices = cut(spec)
        cid = spec.model.config_cid
        self._config = None if cid is None else store.get(cid, MAX_MANIFEST_BYTES)
        self._stages = _stage_shapes(self.slices)
        self.shapes: Shapes = _union(self._stages) or _template(spec, self._config)
        self.mode: Mode = mechanism(spec, "mode")
        self.verification: Verification = mechanism(spec, "verify")
        self.merge: Merge = mechanism(spec, "merge")
        self.score: Score = mechanism(spec, "score")
        self.privacy: Privacy = mechanism(spec, "privacy")
        self.codec: Codec = mechanism(spec, "codec", fitted(spec, self.privacy))
        try:
            self.codec.wire_size(self.shapes)
        except ValueError as error:
            raise SpecError(
                f"codec_options: {spec.codec} can't encode this job's model: {error}"
            ) from error
        self._sharing = self._sharing_codec()
        self.warnings = check_together(
            spec, self.shapes, self.verification, self.codec, self.privacy
        )
        per_example = self.privacy.unit == "example"
        self._memory = memory_here() if memory is None else memory
        if self.slices is None:
            asked = training_needs(spec, self.shapes, self.codec, per_example)
            check_spec(spec, asked, self._memory)
        else:
            check_stages(spec, self.slices, self._stages, self._memory)
        try:
            self._dataset = Dataset.from_bytes(store.get(spec.data, MAX_MANIFEST_BYTES))
            check_data(spec, self._dataset)
            layout_of(self._dataset, spec)
        except DataError as error:
            raise SpecError(f"data: {error}") from error
        if self.own_keys and spec.access != "encrypted":
            raise SpecError(
                f'data: its shards are sealed, each with a key of its own; access "{spec.access}" '
                'gives nobody a key, set "encrypted"'
            )

    def _sharing_codec(self) -> Codec:
        """What payloads between full synchronisations are made by; `codec` where there are none."""
        sharing = None if self.spec.pipeline is None else self.spec.pipeline.sharing
        if sharing is None:
            return self.codec
        options = dict(sharing.codec_options)
        try:
            found: Codec = codec.get(sharing.codec)(**options)
            for shapes in self._stages:
                found.wire_size(shapes)
        except (TypeError, ValueError, OverflowError) as error:
            raise SpecError(
                f"pipeline.sharing: {sharing.codec} refuses {options}: {error}"[:500]
            ) from error
        return found

    def codec_at(self, step: int) -> Codec:
        """What payloads of the round after `step` finalized ones are made by."""
        return self.codec if self.spec.is_full(step) else self._sharing

    @property
    def traced(self) -> bool:
        """Whether nodes publish a hash of the state after each step.

        Only where everyone who may check may also see the data, and nothing is noised: a hash of
        what noise was to hide would confirm a guess at it.
        """
        return self.verification.shows_trace and self.privacy.unit == "none"

    @property
    def inner_rounds(self) -> int:
        """Finalized rounds after which an inner optimizer starts from zero; 0 if it always does."""
        inner = self.spec.optimizer
        return inner.inner_state_rounds if inner.inner_state == "kept" else 0

    @property
    def carried_rounds(self) -> int:
        """Rounds that a re-execution may have to do again, for what nodes take from one into the
        next; 0 if they take nothing."""
        return max(self.codec.memory_rounds if self.codec.has_memory else 0, self.inner_rounds)

    @property
    def looked_back(self) -> int:
        """The same, of a model that is split too."""
        if self.slices is None:
            return self.carried_rounds
        return self.spec.full_every if self.codec_at(1).has_memory else 0

    @property
    def noised(self) -> bool:
        """Whether a payload carries noise that only its node knows."""
        return isinstance(self.privacy, Gaussian)

    @property
    def sealed(self) -> bool:
        """Whether payloads are for aggregators and verifiers only, who add and check the noise."""
        return isinstance(self.privacy, Aggregate)

    @property
    def parameters(self) -> int:
        """How many numbers the model has."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def trace_steps(self, steps: int) -> int:
        """Hashes between the first and the last of the trace of a task of `steps` steps."""
        return math.ceil(steps / self.spec.trace_every) if self.traced else 0

    @property
    def own_keys(self) -> bool:
        """Whether each shard of the data is sealed with a key of its own."""
        return self._dataset.key_salt is not None

    @cached_property
    def data(self) -> DataSource:
        """The job's batches. Raises DataLocked while the one key of encrypted data is not held.

        Where each shard has a key, reading a batch raises it while those of its shards are not.
        """
        if self.spec.access != "encrypted":
            return DataSource(self._store, self.spec)
        if self.own_keys:
            return DataSource(open_sealed(self._store, self._shard_key, self.spec.data), self.spec)
        key = self._key()
        if not isinstance(key, bytes):
            raise DataLocked("the data of this job is encrypted and its key is not held here")
        return DataSource(open_sealed(self._store, key, self.spec.data), self.spec)

    def _shard_key(self, index: int) -> bytes:
        held = self._key()
        if isinstance(held, bytes):
            return key_for(self._dataset, held)(index)
        if held is None or index not in held:
            raise DataLocked(f"the key of shard {index} was not given to this node")
        return held[index]

    def stage_shapes(self, index: int) -> Shapes:
        """The tensors of stage 0.. of a split model; ValueError if there is no such stage."""
        if not 0 <= index < len(self._stages):
            raise ValueError(f"the model has {len(self._stages)} stages; there is no {index}")
        return self._stages[index]

    def optimizer_shapes(self, index: int) -> Shapes:
        """The tensors of the inner optimizer of stage 0.. of a split model."""
        if index not in self._optimizers:
            assert self.slices is not None
            hyper = Hyperparameters.of(self.spec, 0)
            self._optimizers[index] = optimizer_shapes(self.slices, index, hyper)
        return self._optimizers[index]

    def stage_hidden(self, index: int) -> tuple[str, ...]:
        """Names of the hidden matrices of stage 0.. of a split model, which an inner optimizer may
        treat in its own way."""
        if index not in self._hidden:
            assert self.slices is not None
            self._hidden[index] = hidden_of(self.slices, index)
        return self._hidden[index]

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """The same of a model that is not split."""
        return hidden_names(self.spec.model, self._config)

    @cached_property
    def _hidden(self) -> dict[int, tuple[str, ...]]:
        return {}

    @cached_property
    def _optimizers(self) -> dict[int, Shapes]:
        return {}

    @cached_property
    def stages_need(self) -> tuple[int, ...]:
        """Bytes of memory that a miner of each stage takes, by the spec alone."""
        assert self.slices is not None
        found = (
            stage_needs(self.spec, self.slices, index, shapes)
            for index, shapes in enumerate(self._stages)
        )
        return tuple(one.memory for one in found)

    @cached_property
    def stages_cost(self) -> tuple[int, ...]:
        """What a sample costs a miner of each stage beside those of the others: products."""
        assert self.slices is not None
        length = self.spec.optimizer.seq_len
        return tuple(products(self.slices, index, length) for index in range(len(self._stages)))

    @property
    def memory(self) -> int:
        """Bytes that the job may take on this machine."""
        return self._memory

    def kept_shapes(self, index: int | None = None) -> Shapes:
        """The tensors of the model's files, or of one stage's: its weights, and the velocity of
        the outer step where the job has one."""
        weights = self.shapes if index is None else self.stage_shapes(index)
        return kept_shapes(self.spec, weights)

    def genesis(self) -> State:
        """The state that the first round starts from, of all stages together if there are any,
        unless the sponsor brought weights: those are in the checkpoint that the chain names."""
        if self.slices is not None:
            return start(self.spec, init_stages(self.slices))
        return start(self.spec, init_state(self.spec.model, self._config))

    def net(self, device: str) -> FlatModel:
        """The job's network on `device`, built at first use.

        Of a split model it is all stages. A miner needs none of it; SpecError where the machine
        has not the memory for them.
        """
        if device not in self._nets:
            if self.slices is not None:
                check_whole(self.spec, self.shapes, self._memory)
            net = FlatModel(self.spec.model, self._config, device, self.slices)
            self._nets[device] = net
        return self._nets[device]

    @property
    def has_net(self) -> bool:
        """Whether the job's network was built here."""
        return bool(self._nets)

    @property
    def tokenizer(self) -> str | None:
        """The CID of the data's tokenizer.json; None where tokens are bytes."""
        return self._dataset.tokenizer

    @property
    def shards(self) -> int:
        """How many shards the job's data has."""
        return len(self._dataset.shards)

    @cached_property
    def _nets(self) -> dict[str, FlatModel]:
        return {}


def _stage_shapes(slices: Slices | None) -> tuple[Shapes, ...]:
    if slices is None:
        return ()
    try:
        return tuple(stage_template(slices, index) for index in range(slices.last + 1))
    except ValueError as error:
        raise SpecError(f"pipeline: {error}") from error


def _template(spec: JobSpec, config: bytes | None) -> Shapes:
    """The tensors of the spec's model; SpecError if it can't be built."""
    try:
        return template_of_job(spec.model, config)
    except Exception as error:  # any class of error can come out of a stranger's model
        raise SpecError(f"model: {type(error).__name__}: {error}"[:500]) from error


def _union(stages: Iterable[Shapes]) -> Shapes:
    return dict(sorted((name, shape) for stage in stages for name, shape in stage.items()))


_MOST = 256  # contexts that are kept, and the shards of their data together
_MOST_SHARDS = 500_000


class JobContexts:
    """Contexts of jobs by id, those that were asked for last.

    A stranger's manifest may name 100,000 shards, which take 67 MB, and its job costs it next to
    nothing. So what was not asked for lately is forgotten and read again when it is; not a job that
    this machine computes in, whose network it would have to build again.
    """

    def __init__(
        self,
        network: Network,
        store: ContentStore,
        key_of: Callable[[int], DataKeys | None] | None = None,
        memory: int | None = None,
        files: Reader | None = None,
    ) -> None:
        """`key_of`: the keys of a job's data by its id, None while none is held. `memory`: as for
        JobContext. `files`: by what config, manifest and text are read, by default `store`."""
        self._network = network
        self._store = store
        self._files: Reader = files or store
        self._key_of = key_of or (lambda job_id: None)
        self._memory = memory
        self._contexts: dict[tuple[int, bytes], JobContext] = {}  # asked for last: at the end

    def context(self, job_id: int) -> JobContext:
        """The job's context. Raises SpecError, StoreError, DataError."""
        digest = self._network.job(job_id).terms.spec
        found = self._contexts.pop((job_id, digest), None)
        if found is None:
            raw = self._store.get_digest(digest, MAX_SPEC_BYTES)
            found = JobContext(
                JobSpec.from_bytes(raw), self._files, partial(self._key_of, job_id), self._memory
            )
        self._contexts[job_id, digest] = found
        self._forget()
        return found

    def fetch(self, spec: bytes) -> None:
        """Have the store get what the context of a spec is read from, in any thread. Raises
        SpecError, StoreError."""
        found = JobSpec.from_bytes(self._store.get_digest(spec, MAX_SPEC_BYTES))
        for cid in filter(None, (found.model.config_cid, found.data)):
            self._store.get(cid, MAX_MANIFEST_BYTES)

    def _forget(self) -> None:
        """Drop the contexts that are too many; the one that was asked for last stays."""
        shards = sum(one.shards for one in self._contexts.values())
        for place, one in list(self._contexts.items())[:-1]:
            if len(self._contexts) <= _MOST and shards <= _MOST_SHARDS:
                return
            if not one.has_net:
                shards -= one.shards
                del self._contexts[place]


__all__ = ["JobContext", "JobContexts", "SpecError", "mechanism_exists"]
