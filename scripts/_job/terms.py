# SPDX-License-Identifier: Apache-2.0
"""The terms of a job that is to be created: those chosen, and usual ones that fit the chain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from agents.runtime.errors import Reverted
from scripts._job.options import SCORE_WINDOWS, WINDOWS
from scripts._shared.operator import Contracts, rehearse


def rounds_of(fields: dict[str, Any]) -> int:
    """Return how many rounds a spec asks for."""
    from agents.training.spec import JobSpec

    rounds = fields.get("rounds", JobSpec.model_fields["rounds"].default)
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        raise click.ClickException(f"rounds: {rounds!r} is no number of rounds.")
    return rounds


def funded(rounds: int, chosen: int | None) -> int:
    """How many of a job's rounds are paid for now."""
    if chosen is not None and chosen > rounds:
        words = f"the job has {rounds} rounds, and {chosen} would be paid for."
        raise click.BadParameter(words, param_hint="--fund-rounds")
    return rounds if chosen is None else chosen


def terms_of(
    contracts: Contracts, account: Any, fields: dict[str, Any], given: dict[str, Any]
) -> Any:
    """Return what `chosen_terms` does, with a verifiers' cut by the spec's verification."""
    terms = chosen_terms(contracts, account, rounds_of(fields), given)
    return _with_cut(contracts, terms, fields, given)


def chosen_terms(contracts: Contracts, account: Any, rounds: int, given: dict[str, Any]) -> Any:
    """Return the terms that were chosen, with windows that fit the chain where none were named.

    `account`: who creates the job, None where that is not known. The contract itself is asked,
    before there is a spec to name. ClickException where it refuses what was chosen.
    """
    from agents.jobs.publish import Terms, retained_by_default
    from scripts._net.pace import paced
    from scripts._shared.refused_terms import refused_terms

    names = [f"{name}_s".replace("-", "_") for name in (*WINDOWS, *SCORE_WINDOWS)]
    chosen = {name: given[name] for name in names if given[name] is not None}
    chosen |= {
        "reward_per_round": given["reward"],
        "max_nodes": given["max_nodes"],
        "challenge_bond": given["bond"],
        "retain_rounds": given["retain_rounds"],
    }
    if given["verifiers_cut"] is not None:
        chosen["verifier_bps"] = round(100 * given["verifiers_cut"])
    if chosen["retain_rounds"] is None:
        least = contracts.TrainingJobs.bounds().least_retained
        chosen["retain_rounds"] = max(least, retained_by_default(rounds))
    create = contracts.TrainingJobs.create_job

    def ask(terms: Any) -> None:
        some = b"\1" * 32
        by = {} if account is None else {"sender": account}
        rehearse(create, (some, some, some, rounds, *terms.figures()), **by)

    block_s = contracts.block_s()
    refusal = ""
    for windows in (Terms(), Terms.brief()):
        asked = replace(paced(windows, block_s), **chosen)
        try:
            ask(asked)
            return asked
        except Reverted as error:
            if refusal and "bad window" in error.reason:
                break  # a brief one, which nobody chose; a chosen one is refused at first
            refusal, refused = error.reason, asked
        if "windows exceed unbonding" not in refusal:
            break
    unbonding_s = contracts.NodeRegistry.parameters().unbonding_period
    bounds = contracts.TrainingJobs.bounds()
    raise click.ClickException(refused_terms(refusal, refused, bounds, unbonding_s))


def _with_cut(
    contracts: Contracts, terms: Any, fields: dict[str, Any], given: dict[str, Any]
) -> Any:
    """Return the terms with a verifiers' cut that pays them for doing work again, where work is and
    no cut was named, as `agents.jobs.verifying_pay` has it."""
    from agents.mechanisms import verify
    from scripts._attacks.honest import fairly_paid
    from scripts._attacks.quick import numbers_of

    try:
        redone = verify.get(str(fields.get("verify", "reexecution"))).redone
        if given["verifiers_cut"] is not None or not redone:
            return terms
        return fairly_paid(numbers_of(contracts.network(), terms, fields)).terms
    except ValueError as error:  # a verification or a pipeline that there is not
        raise click.ClickException(str(error)) from None
