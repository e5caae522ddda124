# SPDX-License-Identifier: Apache-2.0
"""What a sponsor is told of a job before it is created, and why some jobs are refused.

`refuse_attacked` looks at terms before anything is published, all others at what was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click


def refuse_attacked(network: Any, terms: Any, fields: dict[str, Any], anyway: bool) -> None:
    """Say what attacks on the job bring, or that they can't be played in this installation.

    ClickException where one pays, unless `anyway`.
    """
    from agents.training.spec import SpecError
    from scripts._attacks.embedded import WHERE_PLAYED, lacking
    from scripts._attacks.quick import advice

    if (why := lacking()) is None:
        click.echo("Playing the known attacks on these terms ...", err=True)
    else:
        click.echo(
            f"Warning: The known attacks are not played on these terms, because {why}. One of them "
            f"may pay. {WHERE_PLAYED}",
            err=True,
        )
    try:
        found = advice(network, terms, fields)
    except SpecError as error:
        raise click.ClickException(str(error)) from None
    for sentence in found.notes:
        click.echo(f"Note: {sentence}.", err=True)
    if found.refused is not None and not anyway:
        raise click.ClickException(f"{found.refused} --though-attacks-pay creates it nevertheless.")


def refuse_riders(job: Any, anyway: bool) -> None:
    """ClickException where noise hides riders whose work is done again, unless `anyway`."""
    from agents.jobs.hidden_riders import riders_hidden
    from agents.runtime.config import TrainerSettings

    why = riders_hidden(job, TrainerSettings())
    if why is not None and not anyway:
        raise click.ClickException(
            f"The job is refused: {why}. --though-attacks-pay creates it nevertheless."
        )


def refuse_any_size(job: Any, anyway: bool) -> None:
    """ClickException where a payload of any size is merged and nobody finds its sender, unless
    `anyway`."""
    from agents.jobs.combinations.payloads import sizes

    found = sizes(job.spec, job.verification, job.codec, job.privacy)
    if found and not job.verification.redone and not anyway:
        raise click.ClickException(
            f"The job is refused: {found[0]}. --though-attacks-pay creates it nevertheless."
        )


def checking(network: Any, terms: Any, published: Any) -> list[str]:
    """Return what checking a round will take of a verifier, as `agents.jobs.deterrence` has it.

    By the stakes of today's trainers, the smallest ones where there are more than seats; the least
    permitted stake where there is none. Nothing where no work is done again. ClickException where a
    lie costs nothing.
    """
    from agents.jobs.at_stake import read_at_stake
    from agents.mechanisms import verify

    if not verify.get(published.spec.verify).redone:
        return []
    trainers, sample = read_at_stake(network), published.spec.audit_sample
    if not trainers.stakes:
        least = network.chain.call(network.registry, "parameters").trainer_stake
        trainers = replace(trainers, stakes=(least,))
    if undeterred := trainers.undeterred(terms, published.spec):
        raise click.ClickException(f"The job is refused: {undeterred}.")
    found = trainers.checking(terms, sample)
    if not terms.retain_rounds:
        return found.sentences()
    rounds = terms.retain_rounds
    later = float(trainers.checking(terms, sample, rounds).redone)
    return [*found.sentences(), f"once the pay of {rounds} rounds is retained, it is {later:.1f}"]


def shown(job: Any, trainers: int) -> list[str]:
    """What trainers will be shown of data whose shards have keys of their own."""
    from agents.jobs.seen import seen_sentence

    if not job.own_keys:
        return []
    return [seen_sentence(job.data, job.spec, trainers)]


def too_few(stages: int, trainers: int) -> list[str]:
    """What a sponsor of a split model should know before it pays."""
    if stages == 1 or trainers >= stages:
        return []
    return [
        f"the model has {stages} stages and {trainers} trainers are registered. A round works only "
        "with a trainer for each stage; until then the escrow is not touched."
    ]


def few_looked_at(spec: Any, trainers: int) -> list[str]:
    """That validators look at few of a job's trainers, batches or text, and what to change."""
    from agents.jobs.evaluated import few_evaluated, few_measured, held_back, many_sequences

    found = [tell(spec, trainers) for tell in (few_evaluated, held_back, many_sequences)]
    return [sentence for sentence in (*found, few_measured(spec)) if sentence is not None]


def trainers_leave(job: Any) -> list[str]:
    """Why trainers with the default settings leave the job, for a sponsor that knows its nodes."""
    from agents.jobs.hidden_riders import riders_hidden
    from agents.jobs.own_data import shown_openly
    from agents.jobs.riders import riders_paid
    from agents.runtime.config import AgentSettings, TrainerSettings

    trainer = TrainerSettings()
    usual = AgentSettings.model_construct(job_id=0, trainer=trainer)
    ridden = riders_paid(job.spec, trainer) or riders_hidden(job, trainer)
    told = (ridden, shown_openly(job, usual))
    return [f"trainers leave this job: {why}" for why in told if why is not None]
