# SPDX-License-Identifier: Apache-2.0
"""Attacks that are known to pay within the attacker's share, and why.

No term that an honest sponsor chooses stops them, so they say nothing about a job. docs/attacks.md
lists them with their profits, and tests fail when one of them no longer pays.
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, str] = {
    "consensus: tie the first scores with stake at the cap": "a third of the verifiers at twice "
    "the others' stake is half of the weight, and before any consensus a tie pays everybody alike",
    "verifying: attest without a look": "who looked can't be told from who did not; others find "
    "what is drawn, and have the bounties",
    "tasks: fake in own pairs and block verdicts with stake": "a third of the verifiers at twice "
    "the others' stake is half of the weight, and without them no appeal finds two thirds",
    "tasks: run a task once for both lanes of own pairs": "two owners who are friends answer with "
    "one computation; the result is right, and nobody loses",
}
"""Reasons by `Attack.full_name`."""

BEYOND = frozenset(
    {
        "consensus: tie the scores with stake at the cap",
        "consensus: tie the first scores with stake at the cap",
        "tasks: fake in own pairs and block verdicts with stake",
    }
)
"""Attacks that take half of the verifiers' weight, which a third of the verifiers have once they
double their stake: more than the attacker's share of the stake."""
