# SPDX-License-Identifier: Apache-2.0
"""What every node of a round revealed: its payload, its proof of computation, its trace.

Rule: bytes that are missing or wrong are differences; a proof that doesn't add up is a difference
only where it contradicts the chain. Of a node found invalid it is a remark.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.jobs.job import JobContext
from agents.jobs.model_files import stage_of
from agents.pipeline.epoch import Epoch
from agents.protocol.structs import Reveal
from agents.rounds.mined import fetch_mined
from agents.rounds.payload_bound import Bound, bound_of, no_bound
from agents.rounds.plan import Plan
from agents.rounds.proof import MAX_PROOF_BYTES, ProofOfComputation, max_proof_bytes
from agents.rounds.submissions import Submission, fetch, fetch_proof
from agents.storage.errors import StoreError
from agents.training.assignment import input_root
from agents.training.state import PayloadError, State


def read_submissions(
    part: Part,
    job: JobContext,
    artefacts: Artefacts,
    plan: Plan,
    reveals: Sequence[Reveal],
    invalid: frozenset[int],
    before: bytes,
    state: State | None,
    audit_seed: bytes | None,
) -> list[Submission]:
    """Payload, proof and trace of every reveal; of a split model, log and entries too.

    `before`: hash of the round's first model. `state`: that model, None if it is not known.
    `audit_seed`: of the round, None if it is not known.
    """
    if plan.epoch is not None:
        return _read_mined(part, job, artefacts, plan, reveals, invalid, state, audit_seed)
    found = []
    for reveal in reveals:
        node = f"node {reveal.node}"
        artefacts.name(reveal.content, f"payload of {node}")
        artefacts.name(reveal.proof, f"proof of {node}")
        seed, due = plan.codec_seed(job.codec, reveal.node), None
        if job.verification.input_enforced and plan.manifest.of(reveal.node) is not None:
            due = input_root(plan.manifest, reveal.node, before)
        bound: Bound = no_bound
        if state is not None:
            bound = bound_of(job, plan, reveal.node, partial(dict, state))
        found.append(fetch(reveal, job, artefacts, seed, due=due, allowed=bound))
        excused = reveal.node in invalid
        _read_proof(part, job, artefacts, plan, reveal, excused, before)
        part.counts["artefacts"] = part.counts.get("artefacts", 0) + 2
    return found


def _read_mined(
    part: Part,
    job: JobContext,
    artefacts: Artefacts,
    plan: Plan,
    reveals: Sequence[Reveal],
    invalid: frozenset[int],
    state: State | None,
    audit_seed: bytes | None,
) -> list[Submission]:
    assert plan.epoch is not None
    found: list[Submission] = []
    for reveal in reveals if state is not None else ():
        artefacts.name(reveal.content, f"payload of node {reveal.node}")
        artefacts.name(reveal.proof, f"proof of node {reveal.node}")
        _name_beside(artefacts, job, plan.epoch, reveal)
        stage = plan.epoch.stage_of(reveal.node)
        start = {} if stage is None or state is None else stage_of(job, state, stage)
        mined = fetch_mined(reveal, job, artefacts, plan, start, audit_seed)
        found.append(mined)
        part.counts["artefacts"] = part.counts.get("artefacts", 0) + 4 + len(mined.states)
        if mined.reason and not mined.unavailable:
            sentence = f"node {reveal.node}: {mined.reason}."
            if reveal.node in invalid:
                part.remark(sentence)
    return found


def _read_proof(
    part: Part,
    job: JobContext,
    artefacts: Artefacts,
    plan: Plan,
    reveal: Reveal,
    excused: bool,
    before: bytes,
) -> None:
    assignment = plan.manifest.of(reveal.node)
    batches = 0 if assignment is None else assignment.batches
    node = f"node {reveal.node}"
    _name_trace(artefacts, reveal)
    read = fetch_proof(reveal, job.trace_steps(batches), artefacts)
    if isinstance(read, str):
        part.remark(f"{node}: {read}.")
        return
    trace = read[1]
    wrong = []
    if not job.verification.own_start and trace.root() != reveal.trace_root:
        wrong.append(
            f"its trace has the root {trace.root().hex()}, it revealed {reveal.trace_root.hex()}"
        )
    if job.traced and trace.hashes[0] != before:
        wrong.append(f"its trace starts from the model {trace.hashes[0].hex()}")
    for sentence in wrong:
        if excused:
            part.remark(f"{node}: {sentence}.")
        else:
            part.differ("artefacts", node, f"{sentence}.")


def _name_trace(artefacts: Artefacts, reveal: Reveal) -> None:
    """Learn which artefact is the node's trace; an unusable proof is told of elsewhere."""
    with suppress(StoreError, PayloadError):
        raw = artefacts.get_digest(reveal.proof, MAX_PROOF_BYTES)
        trace = ProofOfComputation.from_bytes(raw).trace
        artefacts.name(trace, f"trace of node {reveal.node}")


def _name_beside(artefacts: Artefacts, job: JobContext, epoch: Epoch, reveal: Reveal) -> None:
    """Learn which artefacts are a miner's log, entries and states; see `_name_trace`."""
    with suppress(StoreError, PayloadError):
        most = len(epoch.samples), len(epoch.samples) if job.spec.segment else 0
        raw = artefacts.get_digest(reveal.proof, max_proof_bytes(*most))
        proof = ProofOfComputation.from_bytes(raw, *most)
        artefacts.name(proof.trace, f"log of node {reveal.node}")
        if proof.inbox is not None:
            artefacts.name(proof.inbox, f"entries of node {reveal.node}")
        for index, state in enumerate(proof.states):
            artefacts.name(state, f"state {index} of node {reveal.node}")
        if proof.weights is not None:
            artefacts.name(proof.weights, f"last weights of node {reveal.node}")
