# SPDX-License-Identifier: Apache-2.0
"""How the reader verifies the run, and what the model is called."""

from __future__ import annotations

from scripts._report.page.markup import definitions, text
from scripts._report.run import Model, Run


def verify(run: Run) -> list[str]:
    """The lines to type, what they found here, and the model's names."""
    lines = []
    if run.commands:
        lines += [
            "<p>Type this in the project's folder. It replays the run from the chain and the "
            "store that it names, and asks no agent of this run anything:</p>",
            f"<pre>{text(chr(10).join(run.commands))}</pre>",
        ]
        if not run.limits:
            lines.append(
                "<p>With <code>--deep</code> it also repeats every node's training, step by "
                "step.</p>"
            )
    pairs = []
    if replay := run.replay:
        found = "no difference" if not replay.differences else f"{len(replay.differences)}"
        pairs.append(
            (
                "Replayed here",
                f"{replay.compared:,} facts compared, {found} found, as of block {replay.block} "
                f"(<code>{text(replay.block_hash)}</code>)",
            )
        )
        pairs += [("Difference", text(sentence)) for sentence in replay.differences]
    if run.limits:
        pairs.append(("Not repeated", text(run.limits)))
    if model := run.model:
        pairs += [
            (
                "The model",
                f"<a href='checkpoint.safetensors'>checkpoint.safetensors</a>, "
                f"{model.parameters:,} parameters",
            ),
            (
                "Its CID" if model.stages == 1 else "The index of its stages' files",
                f"<code>{text(model.cid)}</code>",
            ),
            ("Its hash in the ledger", f"<code>{text(model.digest)}</code>"),
            ("Attested by the committee", _attested(model)),
        ]
    if run.claim is not None:
        pairs.append(("The owner's claim", f"<code>{text(run.claim.tx)}</code>"))
    pairs.append(("This page as data", "<a href='run.json'>run.json</a>"))
    return [*lines, definitions(pairs)]


def _attested(model: Model) -> str:
    if not model.attested:
        return "no checkpoint"
    rounds = ", ".join(map(str, model.attested))
    return (
        f"the checkpoint of round {rounds}: its members recomputed every round until then from "
        "what the nodes published"
    )
