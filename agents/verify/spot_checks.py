# SPDX-License-Identifier: Apache-2.0
"""Spot checks of a round: who is looked at, and what is found.

Rule: a malformed payload is a finding by itself. Of the others, those are re-executed that the
draw seed draws, each by what it stands to win and to lose (`agents.protocol.draw_chance`), those
that the chain flags as duplicates or public screening flags, and those whose proof of computation
doesn't add up. Only re-execution, or the malformed bytes themselves, is a finding.
Every other sign only says whose work to re-execute.

Where nodes train as they like there is nothing to reproduce and nothing to draw: a proof of
computation binds nobody, and an odd payload is for the validators' losses to judge. Those that are
alike are asked where they come from, and a copier is found by that (`agents.verify.copies`).

Where the model is split, a miner's epoch is done again (`agents.verify.miners`), and one whose log
denies what it signed is found by that alone (`agents.verify.denials`). Where the score is `clasp`,
a miner whose samples lose more than others' do is checked too. So are the miner of the last stage
who says the worst of it, and of each other stage the one beside whom it loses the most: either the
first did bad work, or the second states false losses, or one of the others spoilt what it worked
with.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from agents.jobs.job import JobContext
from agents.mechanisms.codec import EdgedCodec, LinearCodec
from agents.mechanisms.privacy.gaussian import Gaussian, clip_total
from agents.mechanisms.privacy.parts.residual import consistent
from agents.pipeline.clasp import MILLI
from agents.protocol.draw import draw, lots
from agents.protocol.numbers import Violation
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined
from agents.rounds.payload import max_payload_bytes
from agents.rounds.proof import ProofOfComputation
from agents.rounds.quality import outliers
from agents.rounds.submissions import Submission
from agents.storage.canonical import dumps
from agents.storage.content_store import ContentStore
from agents.training.assignment import task_id, work_order
from agents.training.determinism import determinism_class
from agents.training.replay import run_task, trace_of
from agents.training.spec import EDGE_FLOOR, update_limit
from agents.training.state import State, model_hash
from agents.training.trace import Trace
from agents.verify import bisection, similarity
from agents.verify.copies import Copies
from agents.verify.denials import contradicted, misfit
from agents.verify.miners import check_miner
from agents.verify.plausibility import Expected, check
from agents.verify.proofs import Proofs, Told
from agents.verify.reexecution import (
    Comparison,
    Encoding,
    Tolerances,
    compare,
    compare_encoded,
    unlike,
)
from agents.verify.unsettled import rounding_decides

_AT_THE_EDGE = (
    "its payload is at the edge of what the job's noise allows, where another machine's rounding "
    "may decide"
)
_BY_ROUNDING = "rounding alone decides what its steps give"
_COMMIT_SLACK_S = 60  # compute time is a wall clock's; the window is the chain's


@dataclass(frozen=True)
class Finding:
    """The verdict on one node. `violation` is None when the work is right.

    `trace`: of the replay, where the job's work is traced and the node says that it is in the
    determinism class of this machine, so that the same steps give the same hashes; else None.
    `unsure`: of work that is right, why a verifier of the node's class may have found it wrong all
    the same, as a sentence: it compares more than could be compared here. Empty where all was.
    `ask`: nodes to look at in its stead, since what they sent it keeps it from being judged here.
    """

    node: int
    violation: Violation | None
    reason: str
    evidence: bytes  # canonical JSON
    trace: Trace | None = None
    unsure: str = ""
    ask: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """One word for logs."""
        return "ok" if self.violation is None else self.violation.name


def malformed(inputs: RoundInputs) -> list[Finding]:
    """Findings by what was revealed alone, one for a node: payloads that can't be read, logs that
    don't fit what came in, logs that deny what was signed, and statements about shards that merging
    does not give. A payload that the store lacks is not a finding."""
    found = _disowned(inputs) + _lied(inputs)
    for submission in inputs.submissions:
        if submission.gradient is None and not submission.unavailable:
            violation = _violation(inputs, submission.reveal.node)
            found.append(_finding(inputs, submission, violation, submission.reason, {}))
    return found


def suspects(inputs: RoundInputs, store: ContentStore) -> dict[int, list[str]]:
    """Nodes to re-execute with the reasons: those of `suspects_by_sign` first, then those of
    `suspects_by_proof`. Raises as these do."""
    found = suspects_by_sign(inputs, store)
    for node, why in suspects_by_proof(inputs, Proofs(store)).items():
        found[node] = [*found.get(node, []), *why]
    return found


def suspects_by_sign(inputs: RoundInputs, store: ContentStore) -> dict[int, list[str]]:
    """Nodes that the draw, the chain's flags or their payloads have done again, with the reasons,
    ascending. Where the score is `clasp`, those that its losses speak against come first.

    Nobody where work is neither redone nor asked whose copy it is. Nothing is looked for in the
    store, except where copies are judged.

    Raises StoreUnavailable; where copies are judged, if the inputs are patient, StoreError for a
    payload that is gone.
    """
    if inputs.job.verification.copies_judged:
        return {node: [look.reason] for node, look in _copies(inputs, store).alike.items()}
    if not inputs.job.verification.redone:
        return {}
    if inputs.plan.epoch is not None:
        return _miners_to_check(inputs)
    payloads = {s.reveal.node: s.gradient for s in inputs.submissions if s.gradient is not None}
    reasons: dict[int, list[str]] = {node: [] for node in sorted(payloads)}
    for node in _drawn(inputs, payloads):
        reasons[node].append("drawn")
    for node in inputs.flagged & payloads.keys():
        reasons[node].append("identical content")
    for flag in similarity.screen(payloads, inputs.merged, inputs.draw_seed):
        reasons[flag.node_id].append(f"{flag.kind} {flag.value:.4f}")
    return {node: why for node, why in reasons.items() if why}


def suspects_by_proof(inputs: RoundInputs, proofs: Proofs) -> dict[int, list[str]]:
    """Nodes whose proof of computation is missing or doesn't add up, with the reasons, ascending.

    Nobody where proofs bind nobody. Raises StoreUnavailable.
    """
    if not _asks_proofs(inputs):
        return {}
    readable = {s.reveal.node: s for s in inputs.submissions if s.gradient is not None}
    nodes = [node for node in sorted(readable) if inputs.plan.manifest.of(node) is not None]
    told = proofs.of(inputs, nodes)
    reasons = {node: _proof_problems(inputs, readable[node], told[node]) for node in nodes}
    return {node: why for node, why in reasons.items() if why}


def suspects_by_findings(inputs: RoundInputs, found: Collection[Finding]) -> dict[int, list[str]]:
    """Nodes that findings say to look at and none of them is on, with the reasons, ascending."""
    known = {finding.node for finding in found}
    readable = {s.reveal.node for s in inputs.submissions if s.gradient is not None}
    reasons: dict[int, list[str]] = {}
    for finding in found:
        for node in finding.ask:
            if node in readable - known:
                reasons.setdefault(node, []).append(f"it sent to node {finding.node}")
    return dict(sorted(reasons.items()))


def look_ahead(inputs: RoundInputs, nodes: Collection[int], proofs: Proofs) -> None:
    """Have the proofs that redoing these nodes compares looked for side by side.

    Raises StoreUnavailable.
    """
    if _asks_proofs(inputs):
        proofs.of(inputs, nodes)


def _asks_proofs(inputs: RoundInputs) -> bool:
    verification = inputs.job.verification
    return verification.redone and not verification.copies_judged and inputs.plan.epoch is None


def _drawn(inputs: RoundInputs, nodes: Collection[int]) -> set[int]:
    """Each of `nodes` by the chance that its exposure asks for, and `audit_sample` of them
    whatever they are paid: one that earns nothing may still harm the model."""
    seed = inputs.draw_seed
    chances = {node: found.chance for node, found in inputs.exposures.items() if node in nodes}
    return {*lots(seed, chances), *draw(seed, nodes, inputs.job.spec.audit_sample)}


def _miners_to_check(inputs: RoundInputs) -> dict[int, list[str]]:
    miners = sorted(s.reveal.node for s in inputs.submissions if s.gradient is not None)
    assert inputs.plan.epoch is not None
    reasons: dict[int, list[str]] = {}
    for node, outlier in outliers(inputs.job, inputs.plan.epoch, inputs.submissions).items():
        z = max(outlier.judgement.stage_z, outlier.judgement.overall_z) / MILLI
        reasons.setdefault(node, []).append(f"its samples lose more than others', z {z:.1f}")
        if outlier.accuser != node:
            reasons.setdefault(outlier.accuser, []).append(f"its losses speak against node {node}")
        for other in outlier.companions:
            reasons.setdefault(other, []).append(f"node {node} loses the most beside it")
    first = list(reasons)
    for node in _drawn(inputs, miners):
        reasons.setdefault(node, []).append("drawn")
    for node in inputs.flagged & set(miners):
        reasons.setdefault(node, []).append("identical content")
    return {node: reasons[node] for node in [*first, *sorted(reasons.keys() - {*first})]}


def _disowned(inputs: RoundInputs) -> list[Finding]:
    """Findings on miners whose logs deny what came in or what they signed, one each."""
    epoch = inputs.plan.epoch
    if epoch is None:
        return []
    mined = {s.reveal.node: s for s in inputs.submissions if isinstance(s, Mined) and s.log}
    guilt: dict[int, tuple[str, dict[str, Any]]] = {}
    guilt |= {node: (why, {}) for node, one in mined.items() if (why := misfit(epoch, one))}
    for case in contradicted(epoch, list(mined.values()), inputs.signed):
        guilt.setdefault(case.miner, (case.reason, case.details))
    return [
        _finding(inputs, mined[node], Violation.INVALID, *guilt[node]) for node in sorted(guilt)
    ]


def _lied(inputs: RoundInputs) -> list[Finding]:
    """Findings on owners that signed a digest which merging their shard again does not give."""
    by_node = {s.reveal.node: s for s in inputs.submissions}
    found = []
    for node, lie in sorted(inputs.lies.items()):
        said = ", ".join(str(shard) for shard in lie["shards"][:8])
        reason = f"It signed a merge of shard {said} that its payloads do not give."
        place = inputs, by_node[node], Violation.INVALID
        found.append(_finding(*place, reason, dict(lie)))
    return found


def _proof_problems(inputs: RoundInputs, submission: Submission, told: Told) -> list[str]:
    if isinstance(told, str):
        return [told]
    proof, trace = told
    node = submission.reveal.node
    assignment = inputs.plan.manifest.of(node)
    assert assignment is not None
    expected = Expected(
        task=task_id(inputs.job_id, inputs.plan.step, node),
        steps=assignment.batches,
        hashes=inputs.steps(node) + 2,
        start_hash=model_hash(inputs.before),
        payload_hash=_shown_hash(inputs.job, submission),
        trace_root=submission.reveal.trace_root,
        longest=inputs.window_s + _COMMIT_SLACK_S,
    )
    return [problem.reason for problem in check(proof, trace, expected)]


def _shown_hash(job: JobContext, submission: Submission) -> bytes | None:
    """What a node's trace must end in; None where only re-execution can tell."""
    if job.sealed:
        return submission.reveal.content
    if (job.traced and not job.codec.lossless) or submission.gradient is None:
        return None
    return model_hash(submission.gradient)


def reexecute(
    inputs: RoundInputs,
    node: int,
    device: str,
    store: ContentStore,
    proofs: Proofs | None = None,
) -> Finding:
    """Run a node's task again and compare. Raises StoreUnavailable, StoreError for missing data.

    Where copies are judged: find out whether the payload is a copy, by the tasks of all that are
    like it. `proofs`: as they were found in the round; without it the node's is looked for.
    """
    submission = next(s for s in inputs.submissions if s.reveal.node == node)
    if submission.gradient is None:
        raise ValueError(f"node {node} has no readable payload to compare with")
    violation = _violation(inputs, node)
    if inputs.job.verification.copies_judged:
        origin = _copies(inputs, store).judge(node, device)
        guilt = None if origin.source is None else violation
        found = _finding(inputs, submission, guilt, origin.reason, origin.details)
        return found if origin.settled else replace(found, unsure=origin.reason)
    if isinstance(submission, Mined):
        redone = check_miner(inputs, submission, device, store)
        guilt = None if redone.right else violation
        found = _finding(inputs, submission, guilt, redone.reason, redone.details)
        return replace(found, unsure=redone.unsure, ask=redone.ask)
    spec = inputs.job.spec
    task = work_order(
        inputs.plan.manifest, node, spec, inputs.job_id, inputs.plan.step, model_hash(inputs.before)
    )
    told = (proofs or Proofs(store)).of(inputs, [node])[node]
    proof, trace = (None, None) if isinstance(told, str) else told
    same_class = _same_class(submission, proof, device)
    net, inner = inputs.job.net(device), inputs.inner(node)

    def moved(before: State, state: State | None) -> State:
        there = replace(task, model_id=model_hash(before))
        return run_task(net, there, before, inputs.job.data, inner=state).pseudo_gradient

    try:
        own = run_task(net, task, inputs.before, inputs.job.data, inner=inner)
    except FloatingPointError as error:
        # Whoever did this work had nothing to send.
        reason = f"Replay does not finish: {error}."
        if not same_class and rounding_decides(inputs, node, None, None, moved):
            return _not_judged(inputs, submission, reason, {})
        return _finding(inputs, submission, violation, reason, {})
    if inputs.job.noised:
        return _judge_noised(inputs, submission, own.pseudo_gradient, violation, store)
    try:
        sent = _as_sent(inputs, node, own.pseudo_gradient)
    except FloatingPointError as error:
        # What it sent before left a memory that nobody can send: it could not encode this either.
        return _finding(inputs, submission, violation, f"Replay can't be sent: {error}", {})
    verdict = compare(
        sent,
        submission.gradient,
        same_class,
        Tolerances(spec.tolerances.cosine_min, spec.tolerances.rel_l2_max),
        own.hashes,
        trace.hashes if trace is not None and inputs.job.traced else None,
    )
    if not (verdict.exact or same_class) and isinstance(inputs.job.codec, EdgedCodec):
        verdict = _compare_codes(inputs, submission, own.pseudo_gradient, verdict)
    details: dict[str, Any] = {
        "cosine": verdict.cosine,
        "rel_l2": verdict.rel_l2 if math.isfinite(verdict.rel_l2) else None,
        "same_class": same_class,
        "determinism_class": determinism_class(device),
    }
    replayed = trace_of(task, own) if inputs.job.traced else None
    shown = replayed if same_class else None
    if verdict.ok:
        right = _finding(inputs, submission, None, verdict.reason, details, shown)
        if isinstance(told, str) and inputs.job.traced:
            return replace(right, unsure=told)  # of its class or not: its trace was not compared
        known = replayed is None or (trace is not None and trace.hashes == own.hashes)
        sure = verdict.exact and known
        return right if sure else replace(right, unsure=unlike(_stated_class(submission, proof)))
    if not same_class and rounding_decides(inputs, node, own.pseudo_gradient, verdict, moved):
        return _not_judged(inputs, submission, verdict.reason, details)
    if replayed is not None:
        details["bisection"] = _first_wrong(replayed, trace, submission.reveal.trace_root)
    return _finding(inputs, submission, violation, verdict.reason, details, shown)


def _violation(inputs: RoundInputs, node: int) -> Violation:
    """What a node with wrong work is guilty of: the contract takes COPIED for equal contents only.

    A malformed payload may be a copy too, of a node that was assigned more steps.
    """
    return Violation.COPIED if node in inputs.flagged else Violation.INVALID


def _not_judged(
    inputs: RoundInputs, submission: Submission, why: str, details: dict[str, Any]
) -> Finding:
    """No word on a node of another class that would be wrong here."""
    reason = f"Not judged by a machine of another class: {_BY_ROUNDING}. ({why})"
    found = _finding(inputs, submission, None, reason, details)
    return replace(found, unsure=_BY_ROUNDING)


def _copies(inputs: RoundInputs, store: ContentStore) -> Copies:
    round_ = (inputs.job, inputs.job_id, inputs.plan, inputs.before, inputs.submissions)
    return Copies(*round_, store, inputs.patient)


def _as_sent(inputs: RoundInputs, node: int, gradient: State) -> State:
    """What the node's payload says if this was its gradient.

    Raises FloatingPointError where no payload does: with its memory it is too large for the codec.
    """
    codec, seed = inputs.job.codec, inputs.plan.codec_seed(inputs.job.codec, node)
    released, memory = inputs.job.privacy.release(gradient), inputs.memory(node)
    try:
        payload = codec.encode(released, memory, seed)
    except ValueError as error:
        raise FloatingPointError(str(error)) from error
    return codec.decode(payload, inputs.job.shapes, seed)


def _compare_codes(
    inputs: RoundInputs,
    submission: Submission,
    gradient: State,
    found: Comparison,
) -> Comparison:
    """What the payload says before the codec's choices, which a rounding may have turned."""
    job, node = inputs.job, submission.reveal.node
    codec, seed = job.codec, inputs.plan.codec_seed(job.codec, node)
    assert isinstance(codec, EdgedCodec)
    limits = update_limit(job.spec), EDGE_FLOOR[job.spec.precision]
    how = Encoding(codec, inputs.memory(node), seed, *limits)
    return compare_encoded(job.privacy.release(gradient), submission.payload, how, found)


def _judge_noised(
    inputs: RoundInputs,
    submission: Submission,
    gradient: State,
    violation: Violation,
    store: ContentStore,
) -> Finding:
    """Whether a payload may be this gradient, clipped, under noise that nobody else knows."""
    job, seed = inputs.job, inputs.plan.codec_seed(inputs.job.codec, submission.reveal.node)
    codec, privacy = job.codec, job.privacy
    if not isinstance(codec, LinearCodec) or not isinstance(privacy, Gaussian):
        raise TypeError("Noise can be checked under a linear codec only; the job's rules say so.")
    # Not a sealed one: the node itself has added the noise.
    raw = store.get_digest(submission.reveal.content, max_payload_bytes(codec, job.shapes))
    verdict = consistent(
        codec.measured(raw, job.shapes, seed).numpy(),
        codec.linear(clip_total(gradient, privacy.clip), seed).numpy(),
        privacy.sigma,
        codec.rounding_std(job.shapes),
    )
    details = {"length": verdict.length, "direction": verdict.direction}
    if verdict.passed:
        reason = "The payload is what replay gives, within the noise that the job asks for."
        right = _finding(inputs, submission, None, reason, details)
        return right if verdict.clear else replace(right, unsure=_AT_THE_EDGE)
    reason = f"Replay disagrees beyond the job's noise: {verdict.reason}."
    return _finding(inputs, submission, violation, reason, details)


def _same_class(submission: Submission, proof: ProofOfComputation | None, device: str) -> bool:
    """Whether the node states the class of this machine."""
    return _stated_class(submission, proof) == determinism_class(device)


def _stated_class(submission: Submission, proof: ProofOfComputation | None) -> str:
    """The class that the node states, empty if its proof can't be had. Where the job lists classes,
    what it stated when it was read counts: keeping the trace back must not buy the tolerances."""
    return submission.determinism_class or (proof.determinism_class if proof else "")


def _first_wrong(own: Trace, claimed: Trace | None, root: bytes) -> str | None:
    """The first wrong step with its Merkle proof, as hex of canonical JSON."""
    if claimed is None or claimed.root() != root:
        return None
    evidence = bisection.find_evidence(own, claimed)
    return None if evidence is None else evidence.to_bytes().hex()


def _finding(
    inputs: RoundInputs,
    submission: Submission,
    violation: Violation | None,
    reason: str,
    details: dict[str, Any],
    trace: Trace | None = None,
) -> Finding:
    evidence = {
        "version": 1,
        "job": inputs.job_id,
        "round": inputs.round_id,
        "node": submission.reveal.node,
        "content": submission.reveal.content.hex(),
        "trace_root": submission.reveal.trace_root.hex(),
        "violation": None if violation is None else violation.name,
        "reason": reason,
        **details,
    }
    return Finding(submission.reveal.node, violation, reason, dumps(evidence), trace)
