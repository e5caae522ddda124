# SPDX-License-Identifier: Apache-2.0
"""What a sponsor is told about attacks on a job before it pays for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agents.jobs.publish import Terms
from agents.mechanisms import verify
from agents.protocol.network import Network
from scripts._attacks.attack import Attack, Outcome
from scripts._attacks.catalogue import play
from scripts._attacks.deployed import deployed
from scripts._attacks.embedded import Refused
from scripts._attacks.known import KNOWN
from scripts._attacks.table import amount

_FAMILIES = ("training", "verifying", "scoring")
_ROUNDS = 4


@dataclass(frozen=True)
class Advice:
    """`refused`: why the job should not be created as it is; None if it may. `notes`: sentences."""

    refused: str | None
    notes: tuple[str, ...]


def advice(network: Network, terms: Terms, spec: Mapping[str, Any]) -> Advice:
    """Play the attacks on a job with these terms and fields of a spec in this network.

    Where work is done again, an attack that pays is a reason not to create the job. Where it isn't,
    as with data that only its owner has, no term stops a node that works on its payload's form: the
    sponsor is told what that brings.
    """
    numbers = replace(deployed(network), terms=terms, spec=dict(spec), rounds=_ROUNDS)
    numbers = replace(numbers, nodes=min(numbers.nodes, terms.max_nodes))
    if "audit_sample" in spec:
        numbers = replace(numbers, sample=int(spec["audit_sample"]))
    try:
        found = list(play(numbers, _FAMILIES))
    except Refused as error:
        return Advice(None, (f"the attacks can't be played at these terms ({error})",))
    # What pays at any terms says nothing about these.
    found = [(attack, one) for attack, one in found if attack.name not in KNOWN]
    paying = [(attack, one) for attack, one in found if one.pays]
    if not paying:
        return Advice(None, (f"none of {len(found)} attacks that were played on it pays",))
    told = "; ".join(_told(attack, one) for attack, one in paying)
    redone = verify.get(str(spec.get("verify", "reexecution"))).redone
    if redone:
        return Advice(
            f"At these terms {len(paying)} of {len(found)} attacks pay: {told}. Retain more rounds "
            "(--retain-rounds), pay less for a round, or ask the committee for a slashing table "
            "that takes more; `ape run economics attacks` plays them at other numbers.",
            (),
        )
    return Advice(
        None,
        (
            f"nobody does this job's work again, so {len(paying)} of {len(found)} attacks pay: "
            f"{told}. Choose verify: reexecution where the data may be seen, or let only nodes "
            "train that you know",
        ),
    )


def _told(attack: Attack, one: Outcome) -> str:
    return f"{attack.name} brings {amount(one.profit)} ZOO a round for {amount(one.capital)}"
