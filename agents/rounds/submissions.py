# SPDX-License-Identifier: Apache-2.0
"""What a node revealed, fetched and checked: its payload, its proof of computation, its trace.

The bytes of a node must have the digest on chain, and their size is bounded before they are read. A
fault becomes a sentence and no exception, so that one bad node can't stop a round. Where nobody
redoes the work, a payload that was committed for another input than the node's assignment is no
payload, whatever is in it. Neither is one that says more than a round's work can
(`agents.rounds.payload_bound`). Where the job lists determinism classes, neither is one whose proof
of computation can't be read, or states a class that is not listed.

A lossy codec's payload is kept beside what it decodes to, since some checks compare what it says
before its choices. The store can't be asked for it again: where payloads are sealed, what lies
there is the sealed one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from agents.jobs.classes import unlisted
from agents.jobs.job import JobContext
from agents.protocol.structs import Reveal
from agents.rounds.payload import max_payload_bytes, read_payload
from agents.rounds.payload_bound import Bound, no_bound
from agents.rounds.proof import MAX_PROOF_BYTES, ProofOfComputation
from agents.rounds.report import UNAVAILABLE
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable, TooLarge
from agents.storage.sealed import SealError
from agents.storage.sealed_payload import NotForUs, sealed_bound
from agents.training.state import PayloadError, State
from agents.training.trace import Trace, max_trace_bytes


@dataclass(frozen=True)
class Submission:
    """A node's payload, or the reason why there is none. `gradient` is fp32 by tensor name.

    `determinism_class`: the one that its proof states, where the job lists classes; else empty.
    `payload`: the checked bytes that `gradient` was decoded from, opened if they were sealed; empty
    where there is no gradient, and where the codec is lossless.
    """

    reveal: Reveal
    gradient: State | None
    reason: str
    determinism_class: str = field(default="", kw_only=True)
    payload: bytes = field(default=b"", kw_only=True, repr=False)

    @property
    def unavailable(self) -> bool:
        """Whether the store simply doesn't have it (yet)."""
        return self.reason.startswith(UNAVAILABLE)


def left_out(submissions: Sequence[Submission], nodes: Collection[int]) -> list[Submission]:
    """A round's submissions, as who could not get the payloads of some nodes has them."""
    return [
        replace(one, gradient=None, reason=UNAVAILABLE, payload=b"")
        if one.reveal.node in nodes
        else one
        for one in submissions
    ]


Unseal = Callable[[bytes], bytes]


def shut(raw: bytes) -> bytes:
    """For whoever holds no key. Raises NotForUs."""
    raise NotForUs("the payload is sealed for the round's aggregators and verifiers")


def fetch(
    reveal: Reveal,
    job: JobContext,
    store: ContentStore,
    seed: bytes = b"",
    unseal: Unseal = shut,
    due: bytes | None = None,
    allowed: Bound = no_bound,
) -> Submission:
    """Fetch and check a payload. Raises StoreUnavailable when the store itself is down.

    `seed`: the round's, which the job's codec may need. `unseal`: opens a payload where those of
    the job are sealed; one that can't be opened here is as good as unavailable. `due`: the input
    root that the node's commitment must have bound (`task.input_root`); None leaves that unchecked.
    `allowed`: what the payload may say.
    """
    if due is not None and reveal.input_root != due:
        return Submission(
            reveal,
            None,
            f"wrong input: it committed to {reveal.input_root.hex()}, not to the batches, model "
            f"and seed of its task, which are {due.hex()}",
        )
    try:
        bound = max_payload_bytes(job.codec, job.shapes)
        raw = store.get_digest(reveal.content, sealed_bound(bound) if job.sealed else bound)
        if job.sealed:
            raw = unseal(raw)
        stated = _class_of(reveal, job, store) if job.spec.classes else ""
    except StoreUnavailable:
        raise
    except SealError as error:
        return Submission(reveal, None, f"bad payload: {error}"[:300])
    except TooLarge as error:
        return Submission(reveal, None, f"too large: {error}"[:300])
    except StoreError as error:
        return Submission(reveal, None, f"{UNAVAILABLE}{error}"[:300])
    except PayloadError as error:
        return Submission(reveal, None, f"bad proof: {error}"[:300])
    try:
        gradient = read_payload(raw, job.codec, job.shapes, seed)
        allowed(gradient)
    except PayloadError as error:
        return Submission(reveal, None, f"bad payload: {error}"[:300])
    kept = b"" if job.codec.lossless else raw
    return Submission(reveal, gradient, "", determinism_class=stated, payload=kept)


def _class_of(reveal: Reveal, job: JobContext, store: ContentStore) -> str:
    """The class that a node's proof states, one of the job's; PayloadError if it is none of them,
    or if there is no proof in the bytes; StoreError if they can't be had."""
    proof = _read_proof(reveal, store)
    wrong = unlisted(job.spec, proof.determinism_class)
    if wrong:
        raise PayloadError(wrong)
    return proof.determinism_class


def _read_proof(reveal: Reveal, store: ContentStore) -> ProofOfComputation:
    return ProofOfComputation.from_bytes(store.get_digest(reveal.proof, MAX_PROOF_BYTES))


def fetch_proof(
    reveal: Reveal, steps: int, store: ContentStore
) -> tuple[ProofOfComputation, Trace] | str:
    """Fetch a node's proof of computation and trace; a sentence if they can't be used.

    `steps`: of its trace, which has two hashes more (`JobContext.trace_steps`). Raises
    StoreUnavailable when the store itself is down.
    """
    try:
        proof = _read_proof(reveal, store)
        raw = store.get(proof.trace, max_trace_bytes(steps))
        return proof, Trace.from_bytes(raw, reveal.node, steps)
    except StoreUnavailable:
        raise
    except (StoreError, PayloadError) as error:
        return f"no usable proof of computation: {error}"[:300]
