# SPDX-License-Identifier: Apache-2.0
"""The model card of an exported model: where it comes from, in words, for whoever finds the folder.

What a sponsor states is a stranger's text: it is shown as code, on one line.
"""

from __future__ import annotations

from datetime import UTC, datetime

from agents.models.folder import ModelFolder
from agents.models.provenance import Provenance

_SHOWN = 50  # contributors listed; provenance.json has all


def model_card(folder: ModelFolder, architecture: str) -> str:
    """The text of README.md, with the front matter that model hubs read."""
    found, spec = folder.provenance, folder.job.spec
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        "tags:",
        "- menagerie",
        "---",
        "",
        f"# Job {found.job} on chain {found.chain_id}, round {found.round}",
        "",
        f"A language model of {found.parameters:,} parameters (`{architecture}`), trained by nodes "
        "that nobody has to trust. Every round of its training is recorded on a chain, and can be "
        "replayed by anybody.",
        "",
        "## Where it comes from",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in _facts(found)),
        "",
        "`provenance.json` has the same for programs. Check it against the chain: "
        f"`ape run model pull --job {found.job} --round {found.round}` fetches the model again and "
        "compares its hash with the ledger's, and "
        f"`ape run audit --job {found.job}` replays how it came to be.",
        "",
        "## How it was trained",
        "",
        f"{found.rounds} rounds; mode `{spec.mode}`, codec `{spec.codec}`, merge `{spec.merge}`, "
        f"score `{spec.score}`, verification `{spec.verify}`, privacy `{spec.privacy}`. "
        f"{_loss(found)}",
        "",
        "## Data",
        "",
        _data(found),
        "",
        "## Contributors",
        "",
        *_contributors(found),
    ]
    return "\n".join(lines) + "\n"


def _facts(found: Provenance) -> list[tuple[str, str]]:
    when = "before the first round"
    if found.finalized_at:
        when = datetime.fromtimestamp(found.finalized_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        ("chain", str(found.chain_id)),
        ("job", f"{found.job}, in `{found.jobs_contract}`"),
        ("round", f"{found.round}, final {when}" if found.finalized_at else when),
        ("model hash", f"`0x{found.model}`"),
        ("ledger hash", f"`0x{found.head}`, in `{found.ledger_contract}`"),
        ("first model", f"`0x{found.genesis}`"),
        ("job spec", f"`{found.spec}`"),
        ("sponsor", f"`{found.sponsor}`"),
    ]


def _loss(found: Provenance) -> str:
    if found.val_loss is None:
        return "No round has trained it yet: these are the weights that the job began with."
    return f"Validation loss: {found.val_loss:.4f} nats a token, as the round's report states it."


def _data(found: Provenance) -> str:
    reach = {
        "public": f"The data is public: manifest `{found.data}`.",
        "encrypted": f"The data is encrypted (manifest `{found.data}`); nodes got its key.",
        "local": "Each node trained on data of its own, which nobody else has seen. The manifest "
        f"`{found.data}` names the text that it was validated on.",
    }.get(found.data_access, f"Manifest of the data: `{found.data}`.")
    licence = (
        "The sponsor states no licence of the data."
        if found.data_licence is None
        else "Licence of the data, as the sponsor states it: "
        f"`{found.data_licence.replace('`', '′')}`."
    )
    return f"{reach} {licence}"


def _contributors(found: Provenance) -> list[str]:
    if not found.contributors:
        return ["None yet."]
    lines = ["| node | owner | rounds | batches |", "|---|---|---|---|"]
    lines += [
        f"| {each.node} | `{each.owner}` | {each.rounds} | {each.batches} |"
        for each in found.contributors[:_SHOWN]
    ]
    left = len(found.contributors) - _SHOWN
    return [*lines, *(["", f"And {left} more, in `provenance.json`."] * (left > 0))]
