# SPDX-License-Identifier: Apache-2.0
"""Whether verifiers can hold a job's nodes to the determinism classes that its spec lists.

A node that states a class is compared to the bit by verifiers of that class, by tolerances by all
others. It is convicted by two owners with two thirds of the weight. So a class that they don't run
may as well not be listed: whoever states it lives by the tolerances, and where only its own class
could judge it (`agents.verify.rounding`) nobody does.

What verifiers run is read from their declarations (`TaskAppeals.declare_classes`), which are about
redundant tasks and their word. Agents declare where the network has executors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from agents.tasks.compute.classes import CPU, CPU_CLASS, label_of
from scripts._shared.economics import declared

if TYPE_CHECKING:
    from agents.tasks.contract import Recheckers

OPTION = "--few-verifiers"


def written_out(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a sponsor's spec, where the label of the one class of CPUs stands for its text.
    A GPU's label stands for several, so it is left, and refused later."""
    if not isinstance(listed := fields.get("classes"), list):
        return fields
    return {**fields, "classes": [CPU_CLASS if one == CPU else one for one in listed]}


def sentences(
    classes: Sequence[str], ids: Mapping[str, int], found: Sequence[Recheckers]
) -> tuple[list[str], list[str]]:
    """What the chain says of each listed class, and of those that too few verifiers declared why.

    `ids`: id of each class of redundant tasks by its label. `found`: who declared it, by id.
    """
    said, wrong = [], []
    for text in classes:
        label = label_of(text)
        if label is None or label not in ids:
            named = "it is no class of redundant tasks" if label is None else "it has no pool"
            wrong.append(f"{text}: no verifier can have declared it, because {named}")
            continue
        who = found[ids[label]]
        sentence = declared(label, who)
        if label.startswith("cuda:"):
            sentence += "; whether their GPU has the name that is listed is not on chain"
        said.append(sentence)
        if not who.can_judge:
            wrong.append(f"{label}: two owners with two thirds of the weight have not declared it")
    return said, wrong


def check_classes(network: Any, classes: Sequence[str], go_on: bool) -> None:
    """Print who declared the listed classes.

    Raises click.ClickException, unless `go_on`, if for one of them two owners with two thirds of
    the weight have not.
    """
    from agents.tasks.contract import Tasks

    if not classes:
        return
    tasks = Tasks(network)
    said, wrong = sentences(classes, tasks.class_ids(), tasks.recheckers())
    for sentence in said:
        click.echo(f"Note: {sentence}.", err=True)
    if not wrong:
        return
    if not go_on:
        raise click.ClickException(
            f"{'; '.join(wrong)}. Whoever states such a class is compared by the tolerances, as if "
            "the job listed none; in a pipeline with segments or with something owed between its "
            "rounds, where rounding decides, it is compared by nobody. "
            f"{OPTION} creates it nevertheless."
        )
    for sentence in wrong:
        click.echo(f"Warning: {sentence}", err=True)
