# SPDX-License-Identifier: Apache-2.0
"""From text files to a job: data packed, model initialised, spec published, terms filled in.

Rule: everything a job's nodes need is in the store, and everything the terms name is a digest of
it, before a transaction is sent; a job whose artefacts do not exist cannot be created from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agents.jobs.job import JobContext
from agents.jobs.model_files import hash_of, pack_model
from agents.jobs.outer_step import start
from agents.mechanisms import verify
from agents.protocol.numbers import ZOO
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore
from agents.training.data import pack
from agents.training.sealed_data import pack_sealed
from agents.training.spec import JobSpec, SpecError
from agents.training.state import PayloadError, State, check_state

USUAL_NODES = 8  # that data is cut for, where nobody says how many there will be
_NO_DATA = cid_of_bytes(b"")  # stands in a spec that is read before its data is packed


@dataclass(frozen=True)
class Published:
    """A job's artefacts in the store, by CID, and the genesis model's hash (32 bytes).

    `warnings`: what the spec's mechanisms keep badly, as sentences.
    """

    spec: JobSpec
    spec_cid: str
    checkpoint_cid: str
    model: bytes
    parameters: int
    tokens: int
    warnings: tuple[str, ...] = ()

    @property
    def by_consensus(self) -> bool:
        """Whether validators' scores pay for the work: the sponsor must adopt ScoreConsensus.

        Between creating the job and funding it: an unfunded job's first round can't open, and
        after it has opened, which anyone may do, there is no adopting any more.
        """
        return bool(verify.get(self.spec.verify).validators_score)


@dataclass(frozen=True)
class Terms:
    """What the sponsor offers and demands. Amounts in 1e-18 ZOO, times in seconds.

    The two score windows are not in the job's terms but in its adoption of ScoreConsensus.
    """

    reward_per_round: int = 1_000 * ZOO
    verifier_bps: int = 1_000
    aggregator_bps: int = 500
    max_nodes: int = 64
    commit_s: int = 600
    reveal_s: int = 300
    aggregate_s: int = 300
    challenge_s: int = 1_800
    appeal_s: int = 86_400
    dispute_s: int = 259_200
    challenge_bond: int = 100 * ZOO
    retain_rounds: int = 0
    score_commit_s: int = 600
    score_reveal_s: int = 300

    @classmethod
    def brief(cls, **others: Any) -> Terms:
        """Terms for a network whose stakes unbond within hours: windows of a minute or two."""
        windows = {
            "commit_s": 120,
            "reveal_s": 60,
            "aggregate_s": 60,
            "challenge_s": 60,
            "appeal_s": 60,
            "dispute_s": 300,
            "score_commit_s": 120,
            "score_reveal_s": 60,
        }
        return cls(**{**windows, **others})

    def encode(self, published: Published) -> tuple[Any, ...]:
        """Return the JobTerms tuple that `create_job` takes."""
        return (
            digest_of(published.spec_cid),
            published.model,
            digest_of(published.checkpoint_cid),
            published.spec.rounds,
            *self.figures(),
        )

    def figures(self) -> tuple[int, ...]:
        """Return what of the JobTerms tuple follows the digests and the number of rounds."""
        return tuple(v for name, v in asdict(self).items() if not name.startswith("score_"))

    @property
    def score_windows(self) -> tuple[int, int]:
        """The windows that `ScoreConsensus.adopt` takes."""
        return self.score_commit_s, self.score_reveal_s


def retained_by_default(rounds: int) -> int:
    """Rounds' pay of a trainer that a job of so many rounds retains unless its sponsor names it."""
    return min(8, rounds // 4)


def publish_job(
    store: ContentStore,
    documents: Iterable[bytes],
    spec: Mapping[str, Any],
    model_config: bytes | None = None,
    tokenizer: bytes | None = None,
    separator: int | None = None,
    data_key: bytes | None = None,
    one_key: bool = False,
    shard_bytes: int | None = None,
    nodes: int = USUAL_NODES,
    weights: State | None = None,
) -> Published:
    """Pack the documents, build the genesis model and put both with the spec into the store.

    Args:
        documents: UTF-8 texts.
        spec: fields of the job spec to set; `data` is filled in here, and `model.config_cid`
            when there is a model config.
        model_config: a Hugging Face config.json, for `model.kind: transformers`.
        tokenizer: a Hugging Face tokenizer.json; None trains on bytes.
        separator: token between documents; required with a tokenizer.
        data_key: 32 secret bytes, from which each shard's key is derived; sets
            `access: encrypted`.
        one_key: seal all shards with `data_key` itself.
        shard_bytes: plain bytes of a shard; by default what the data's length asks for, and the
            job's nodes where shards have keys of their own (`agents.training.sharding`).
        nodes: how many the job is for.
        weights: what the model starts from; by default drawn from the spec's `init_seed`.

    Raises:
        SpecError: a field is unknown, out of range or names a mechanism that does not exist or
            does not go with the others, or `access` is "encrypted" without a key, or is not with
            one, or the weights are not the model's.
        DataError: no text, or too little for one batch and one validation sequence.
        StoreError: the store cannot be written.
    """
    fields = dict(spec)
    if data_key is not None:
        fields.setdefault("access", "encrypted")
    if (fields.get("access") == "encrypted") != (data_key is not None):
        raise SpecError(
            'access "encrypted" and a data key belong together; make one with `keys new`'
        )
    if model_config is not None:
        model = {"kind": "transformers", **fields.get("model", {})}
        fields["model"] = {**model, "config_cid": store.put_bytes(model_config)}
    options: dict[str, Any] = {"tokenizer": tokenizer, "separator": separator}
    if shard_bytes is not None:
        options["shard_bytes"] = shard_bytes
    if data_key is None:
        fields["data"] = pack(documents, store, **options)
    else:
        inner = JobSpec.from_dict({**fields, "data": _NO_DATA}).optimizer
        batch = inner.batch_size * inner.seq_len * (1 if tokenizer is None else 2)
        place = (documents, store, data_key, one_key, nodes, batch)
        fields["data"] = pack_sealed(*place, **options)
    job = JobContext(JobSpec.from_dict(fields), store, lambda: data_key)
    state = job.genesis() if weights is None else _started(job, weights)
    files = pack_model(job, state)
    for part in files.parts:
        store.put_bytes(part)
    return Published(
        spec=job.spec,
        spec_cid=store.put_bytes(job.spec.to_bytes()),
        checkpoint_cid=store.put_bytes(files.main),
        model=hash_of(job, state),
        parameters=job.parameters,
        tokens=job.data.dataset.tokens,
        warnings=tuple(job.warnings),
    )


def _started(job: JobContext, weights: State) -> State:
    """What the first round starts from with weights of the sponsor's. Raises SpecError."""
    if job.slices is not None:
        raise SpecError("model: one that is cut into stages starts from its init_seed, not weights")
    try:
        check_state(weights, job.shapes)
    except PayloadError as error:
        raise SpecError(f"model: the weights are not this model's: {error}") from error
    return start(job.spec, weights)
