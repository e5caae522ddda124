# SPDX-License-Identifier: Apache-2.0
"""What just happened on the chain, one sentence an event, with the pages that it leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from agents.protocol.numbers import Violation
from scripts._report.amounts import zoo
from scripts._web.index.models import Happening

LOOKED_THROUGH = 120  # events, of which most say what another says too


@dataclass(frozen=True)
class Said:
    """One line. `node`: who did it or whom it is about, None for nobody. `href`: where it leads."""

    time: int
    node: int | None
    words: str
    tone: str
    href: str | None


def _violation(args: dict[str, Any]) -> str:
    try:
        return Violation(int(args["violation"])).name
    except ValueError:
        return "a violation"


def _zoo(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda args: f"{zoo(int(args[name]))} ZOO"


# By event: who, what it did, and how it is coloured. `{}` stands for a detail.
_SENTENCES: dict[str, tuple[str | None, str, str, Callable[[dict[str, Any]], str] | None]] = {
    "RoundOpened": (None, "The round opens", "plain", None),
    "Committed": ("node_id", "committed to its work", "commit", None),
    "Revealed": ("node_id", "revealed its update", "reveal", None),
    "ResultProposed": ("proposer", "proposed a new model", "aggregate", None),
    "Attested": ("verifier_id", "computed it too, and attested it", "challenge", None),
    "Challenged": (None, "The result is challenged, with a bond of {}", "bad", _zoo("bond")),
    "RoundFinalized": (None, "The round is finished, and its model is in the ledger", "good", None),
    "RoundVoided": (None, "The round came to nothing: {}", "bad", lambda args: args["reason"]),
    "PoolClosed": (None, "{} are paid or kept for nodes", "good", _zoo("paid")),
    "ViolationReported": ("verifier_id", "reported a node: {}", "bad", _violation),
    "ReportAnnounced": ("verifier_id", "announced a finding: deposit {}", "bad", _zoo("deposit")),
    "FinderPaid": ("verifier_id", "has {} for finding a node first", "good", _zoo("amount")),
    "NodeSlashed": ("node_id", "was slashed {}", "bad", _zoo("amount")),
    "NodeRegistered": ("node_id", "registered with a stake of {}", "plain", _zoo("stake")),
    "ExitBegun": ("node_id", "begins to leave", "plain", None),
    "BenchmarkSettled": ("node_id", "has its benchmark judged", "plain", None),
    "FalseBenchmarkSlashed": ("node_id", "has invented its benchmark", "bad", None),
    "JobCreated": (None, "The job is created", "plain", None),
    "JobFunded": (None, "The job is funded with {}", "good", _zoo("amount")),
    "RewardClaimed": (None, "Rewards of {} are claimed", "good", _zoo("amount")),
    "TaskCreated": (None, "A task is created", "plain", None),
}


def said(events: Iterable[Happening], most: int) -> list[Said]:
    """Return the newest events that a reader wants to know of."""
    found: list[Said] = []
    for event in events:
        if event.name not in _SENTENCES or len(found) == most:
            continue
        who, words, tone, detail = _SENTENCES[event.name]
        node = int(event.args[who]) if who is not None else None
        words = words if detail is None else words.replace("{}", detail(event.args))
        found.append(Said(event.time, node, words, tone, _href(event)))
    return found


def _href(event: Happening) -> str | None:
    if event.job_id and event.round_id:
        return f"/jobs/{event.job_id}/rounds/{event.round_id}"
    if event.job_id:
        return f"/jobs/{event.job_id}"
    return f"/tasks/{event.task_id}" if event.task_id else None
