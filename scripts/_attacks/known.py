# SPDX-License-Identifier: Apache-2.0
"""Attacks on rounds that are known to pay within the attacker's share, and why.

No term that an honest sponsor chooses stops them, so they say nothing about a job.
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, str] = {
    "announce a node by guess": "a verifier's announcement of a node takes no deposit, so one "
    "guess a round is free; it earns the finder's bounty if it is right",
    "finalize before others attest": "the verifiers' cut is shared by those that have attested "
    "when the result is made final, which two thirds of the weight are enough for",
    "fill one's own job with noise": "the share of who is found goes back to the escrow, so that "
    "nobody gains by a rival's conviction; a sponsor may pay less by lower terms as well",
    "leave no time for a second result": "a job's windows have to fit one result into the "
    "unbonding period, and a round whose first result was rejected in time for no other is void, "
    "so its sponsor keeps the pay",
    "use up the time by wrong results": "the same at usual terms, with seven proposers who each "
    "lose a fifth of a trainer's stake",
}
"""Reasons by the names of attacks."""
