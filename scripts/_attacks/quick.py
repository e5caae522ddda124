# SPDX-License-Identifier: Apache-2.0
"""What a sponsor is told about attacks on a job before it pays for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from agents.jobs.combinations.figures import RIDERS_EARN
from agents.jobs.publish import Terms
from agents.mechanisms import verify
from agents.protocol.network import Network
from scripts._attacks.attack import Attack, Outcome
from scripts._attacks.catalogue import play
from scripts._attacks.deployed import deployed
from scripts._attacks.embedded import Refused, lacking
from scripts._attacks.honest import breaks_even, duty
from scripts._attacks.job_spec import with_spec
from scripts._attacks.known import KNOWN
from scripts._attacks.market import Numbers
from scripts._attacks.table import amount

_FAMILIES = ("training", "verifying", "scoring")
_SCORED = ("training", "verifying", "gauntlet", "consensus")  # by verifiers
_ROUNDS = 4
_LEAST = 2  # trainers
_RIDERS = f"Who trains nothing and adapts what it sends to the score earns {RIDERS_EARN}."
_VERIFIERS = "What a verifier loses by it is its cut: give them more of the pay (--verifiers-cut)."
_SHOWN = (
    "Validators see the work in what a payload shows of it: let nodes send more numbers of each "
    "chunk and remember less (with codec demo as in the gauntlet's demo, codec_options.per_chunk "
    "512 and decay 0.5), or raise score_options.power."
)
_SHORTER = (
    "let what nodes keep from round to round start empty more often (codec_options.memory_rounds, "
    "optimizer.inner_state_rounds), since each check takes all rounds since then, "
)
_WHY = {"scoring": _RIDERS, "gauntlet": _SHOWN, "consensus": _VERIFIERS}
"""What to know or to change where an attack of this family pays and nothing is done again."""


@dataclass(frozen=True)
class Advice:
    """`refused`: why the job should not be created as it is; None if it may. `notes`: sentences."""

    refused: str | None
    notes: tuple[str, ...]


def numbers_of(network: Network, terms: Terms, spec: Mapping[str, Any]) -> Numbers:
    """What a job with these terms and fields of a spec is played at in this network: with no more
    trainers than it has seats, but two, since one alone has nobody to hurt. SpecError for fields
    that no spec may have."""
    numbers = deployed(network)
    nodes = max(_LEAST, min(numbers.nodes, terms.max_nodes))
    terms = replace(terms, max_nodes=max(_LEAST, terms.max_nodes))
    crowd = max(nodes, min(numbers.crowd, terms.max_nodes))
    numbers = replace(numbers, terms=terms, nodes=nodes, trainers=crowd, rounds=_ROUNDS)
    return with_spec(numbers, spec)


def advice(network: Network, terms: Terms, spec: Mapping[str, Any]) -> Advice:
    """Play the attacks on a job with these terms and fields of a spec in this network.

    An attack that pays is a reason not to create the job. Where work isn't done again, as with data
    that only its owner has, no term stops a node that works on its payload's form. Where it is, the
    sponsor is told whether the verifiers' cut pays for doing it. Where `lacking` says that the
    contracts can't be run, that is all it is told. Terms at which they refuse a deed that should
    pass are a reason as well: nobody knows then whether an attack pays. SpecError for fields that
    no spec may have.
    """
    numbers = numbers_of(network, terms, spec)
    redone = verify.get(str(spec.get("verify", "reexecution"))).redone
    if lacking() is not None:
        return Advice(None, (_verifiers_pay(numbers),) if redone else ())
    try:
        found = list(play(numbers, families(spec)))
    except Refused as error:
        return Advice(
            f"The attacks can't be played at these terms ({error}), so one of them may pay.", ()
        )
    # What pays at any terms says nothing about these.
    found = [(attack, one) for attack, one in found if attack.full_name not in KNOWN]
    rest = [one for _, one in found if not one.played]
    found = [(attack, one) for attack, one in found if one.played]
    paying = [(attack, one) for attack, one in found if one.pays]
    notes = (_verifiers_pay(numbers),) if redone else ()
    if not paying:
        told = f"none of {len(found)} attacks that were played on it pays"
        if rest:
            told += f"; {len(rest)} can't be played on such a job"
        return Advice(None, (told, *notes))
    told = "; ".join(_told(attack, one) for attack, one in paying)
    if redone:
        return Advice(
            f"At these terms {len(paying)} of {len(found)} attacks pay: {told}. Retain more rounds "
            "(--retain-rounds), pay less for a round, or ask the committee for a slashing table "
            "that takes more; `ape run economics attacks` plays them at other numbers.",
            notes,
        )
    why = dict.fromkeys(_WHY.get(attack.family, _RIDERS) for attack, _ in paying)
    return Advice(
        f"Nobody does this job's work again, so {len(paying)} of {len(found)} attacks pay: {told}. "
        f"{' '.join(why)} Choose verify: reexecution where the data may be seen, or let only nodes "
        "train that you know.",
        (),
    )


def families(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What is played on a job: where its verifiers' scores pay, also attacks on their medians."""
    return _SCORED if spec.get("score") == "gauntlet" else _FAMILIES


def _verifiers_pay(numbers: Numbers) -> str:
    """Whether a verifier that does all that the draw asks is paid for it, and what to change."""
    most, compute = breaks_even(numbers), Fraction(str(numbers.compute))
    said = (
        f"a verifier that does again all that the draw asks, {float(duty(numbers).redone):.1f} "
        f"trainers' work in a round, is paid for it over the job's {numbers.job_rounds} rounds "
        f"while a round's training costs up to {float(most):.0%} of its pay"
    )
    if most >= compute:
        return said
    least = duty(numbers).least_cut(compute)
    if least is not None:
        return f"{said}; --verifiers-cut {least / 100:g} pays it at {float(compute):.0%}"
    return (
        f"{said}, and no permitted cut pays it at {float(compute):.0%}; retain more rounds "
        f"(--retain-rounds), pay less for a round, {_SHORTER if numbers.carried > 1 else ''}or ask "
        "for trainers with more stake"
    )


def _told(attack: Attack, one: Outcome) -> str:
    return f"{attack.name} brings {amount(one.profit)} ZOO a round for {amount(one.capital)}"
