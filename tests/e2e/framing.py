# SPDX-License-Identifier: Apache-2.0
"""A verifier that reports an honest trainer (see dishonest.py for how it is started).

FRAMED is the node's id. Everything else it does is honest, so that only the report is a lie.
"""

from __future__ import annotations

import os

from agents.protocol.numbers import Violation
from agents.protocol.view import View
from agents.rounds.outcome import Outcome
from agents.rounds.submissions import Submission
from agents.runtime.context import Context
from agents.storage.canonical import dumps
from agents.storage.several import open_stores
from agents.verifier import Verifier, VerifierInJob
from agents.verify.spot_checks import Finding

FRAMED = "LIAR_FRAMED"


class FramingInJob(VerifierInJob):
    """Finds its victim's work invalid, whatever it is."""

    def _spot_check(
        self, view: View, node: int, outcome: Outcome, submissions: list[Submission]
    ) -> tuple[list[Finding], bool] | None:
        checked = super()._spot_check(view, node, outcome, submissions)
        if checked is None:
            return None
        found, complete = checked
        victim = int(os.environ[FRAMED])
        lie = Finding(victim, Violation.INVALID, "a lie", dumps({"says": "it is wrong"}))
        others = [finding for finding in found if finding.node != victim]
        return [*self._unsaid(view, node, [lie]), *others], complete


class Framing(Verifier):
    """Frames in every job."""

    kind = FramingInJob


def build(context: Context) -> Framing:
    """The liar of a started agent."""
    return Framing(context, open_stores(context.settings.store))
