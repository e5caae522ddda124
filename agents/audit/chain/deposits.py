# SPDX-License-Identifier: Apache-2.0
"""Deposits of announced reports: each is settled once, for what was paid, and a finder earns at
most what the oldest announcement of the node bore.

Rule: what an announcement bore is looked up by its verifier, round and block, because its opening
shows no more. Where a verifier announced several in one block, any of them may be the one.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from agents.protocol.formulas import announcement_key
from agents.runtime.contracts import Event

DEPOSITS = ("ReportAnnounced", "DepositSettled", "FinderPaid")


class Deposits:
    """The deposits of one history. `odd` collects what can't be followed."""

    def __init__(self, odd: list[str]) -> None:
        self._odd = odd
        self._open: dict[bytes, Counter[int]] = defaultdict(Counter)  # by scope
        self._borne: dict[tuple[bytes, int], set[int]] = defaultdict(set)  # by scope and block

    def announced(self, event: Event) -> None:
        """A verifier has paid a deposit."""
        args = event.args
        scope = announcement_key(args["job_id"], args["round_id"], args["verifier_id"])
        self._open[scope][args["deposit"]] += 1
        self._borne[scope, event.block].add(args["deposit"])

    def settled(self, event: Event) -> None:
        """A deposit has gone back, or to the treasury."""
        args = event.args
        scope = announcement_key(args["job_id"], args["round_id"], args["verifier_id"])
        if not self._open[scope][args["amount"]]:
            self._odd.append(
                f"DepositSettled in block {event.block}: verifier {args['verifier_id']} has no "
                f"deposit of {args['amount']} left in round {args['round_id']}."
            )
            return
        self._open[scope][args["amount"]] -= 1

    def check_pay(self, event: Event, scope: bytes, block: int) -> None:
        """Check what a finder was paid, whose announcement of this scope was made in this block."""
        paid, bounty = event.args["amount"], event.args["amount"] + event.args["rest"]
        if paid not in {min(bounty, deposit) for deposit in self._borne[scope, block]}:
            self._odd.append(
                f"FinderPaid in block {event.block}: verifier {event.args['verifier_id']} was paid "
                f"{paid} of {bounty}, which is not what its deposit bears."
            )
