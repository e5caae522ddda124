# SPDX-License-Identifier: Apache-2.0
"""Every node's training, done again: who was found invalid must fail, all others must pass.

Rule: the verdict is `agents.verify.spot_checks.reexecute`'s, the one that verifiers report by.
Where the job lists determinism classes and this machine, of another class than the node states,
finds it near, it has nothing to say against verifiers of that class: that is a remark.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.audit.chain.evidence import Replayed
from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.rounds.inputs import RoundInputs
from agents.storage.errors import StoreError, StoreUnavailable
from agents.verify.spot_checks import malformed, reexecute


def redo_training(
    part: Part,
    inputs: RoundInputs,
    guilty: frozenset[int],
    device: str,
    artefacts: Artefacts,
    progress: Callable[[str], None],
) -> dict[int, Replayed]:
    """Run every node's task again. `guilty`: found invalid, and no appeal was upheld.

    Returns what the replay of a node's steps gave, by node, where it may be compared hash by hash.
    """
    replayed, unsure = {}, dict[str, list[str]]()
    by_itself = {finding.node for finding in malformed(inputs)}
    for submission in inputs.submissions:
        node = submission.reveal.node
        who = f"node {node}"
        progress(f"round {part.round_id}: training of {who}")
        if submission.gradient is None:
            if not submission.unavailable:
                sentence = f"its payload can't be used ({submission.reason}), but nobody "
                sentence += "had it found INVALID."
                part.hold("training", node in guilty, who, sentence)
            continue
        try:
            finding = reexecute(inputs, node, device, artefacts)
        except StoreUnavailable:
            raise
        except (StoreError, ValueError) as error:
            part.differ("training", who, f"its training can't be done again: {error}")
            continue
        if finding.trace is not None:
            replayed[node] = Replayed(submission.reveal.trace_root, finding.trace)
        wrong = finding.violation is not None or node in by_itself
        if node in guilty and not wrong and finding.unsure:
            part.remark(f"{who} was found invalid. It can't be cleared here: {finding.unsure}")
            continue
        if finding.unsure and not wrong:
            unsure.setdefault(finding.unsure, []).append(who)
        if node in guilty:
            sentence = "it was found invalid, but its training gives what it revealed: "
        else:
            sentence = "its training gives something else than it revealed: "
        sentence += finding.reason
        part.hold("training", wrong == (node in guilty), who, sentence)
    for why, passed in unsure.items():
        part.remark(f"{', '.join(passed)}: that its training is right is not sure here: {why}.")
    return replayed
