# SPDX-License-Identifier: Apache-2.0
"""What the codecs cost in learning, on the task of the peers' anchors.

A byte model of 869,504 parameters, eight peers, the same batches for every method of a seed; what a
peer uploads is what its payloads weigh. Prints a line a run and asserts nothing.

    python -m tests.measure.quality --method sparse --seed 0  # run and print
    python -m tests.measure.quality --method sparse --seed 0 --every 10 --option per_chunk=102
    python -m tests.measure.quality --record                  # run what docs/quality.json lacks
    python -m tests.measure.quality --record --method adamw --method sparse --seed 0 --steps 600
    python -m tests.measure.quality --table                   # docs/quality.md from it
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch

from tests.measure.quality.methods import METHODS
from tests.measure.quality.record import Key, Records, kept_or_made, line, say
from tests.measure.quality.sections import sections
from tests.measure.quality.task import CORPUS_SHA256, Task
from tests.measure.quality.trainer import Method, Trainer


def changed(method: Method, given: argparse.Namespace) -> Method:
    """The method with what the command line changes."""
    name, options = method.codec
    return replace(
        method,
        every=given.every or method.every,
        outer_lr=given.outer_lr or method.outer_lr,
        keep=method.keep and not given.reset,
        lr=given.lr or method.lr,
        low=method.low if given.low is None else given.low,
        inner=(method.inner[0], {**method.inner[1], **_numbers(given.inner_option)}),
        codec=(name, {**options, **_numbers(given.option)}),
    )


def _numbers(options: list[str]) -> dict[str, int | float]:
    pairs = (text.partition("=") for text in options)
    return {key: float(value) if "." in value else int(value) for key, _, value in pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--method", action="append", choices=list(METHODS), help="default: all")
    parser.add_argument("--seed", action="append", type=int, help="default: 0, 1 and 2")
    parser.add_argument("--steps", type=int, default=200, help="of 4,096 tokens each")
    parser.add_argument("--model", choices=("anchor", "llama"), default="anchor")
    parser.add_argument("--every", type=int, help="steps between exchanges, for this run")
    parser.add_argument("--outer-lr", type=float, help="factor on the merged update")
    parser.add_argument("--lr", type=float, help="peak inner rate, for this run")
    parser.add_argument("--low", type=float, help="the rates' end over their peak, for this run")
    parser.add_argument("--reset", action="store_true", help="inner state from zero every round")
    parser.add_argument("--inner-option", action="append", default=[], help="name=number")
    parser.add_argument("--option", action="append", default=[], help="of the codec: name=number")
    parser.add_argument("--record", action="store_true", help="run what is missing, and write it")
    parser.add_argument("--table", action="store_true", help="only write the page's tables")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.table:
        for section in sections():
            section.write_page()
        return
    methods = {name: changed(METHODS[name], given) for name in given.method or METHODS}
    plain = given.model == "anchor" and all(methods[name] == METHODS[name] for name in methods)
    if given.record and not plain:
        parser.error("only the methods as they are, on the anchors' model, are recorded")
    for seed in given.seed or (0, 1, 2):
        task = Task(seed, given.model)
        if task.sha256 != CORPUS_SHA256:
            print("This Python's library is not 3.11.7's: figures don't stand beside the anchors'.")
        for name, method in methods.items():
            key = Key(name, seed, given.steps)
            made = Trainer(task, method, given.steps, say).go
            run = kept_or_made(key, task, made, Records) if given.record else made()
            print(line(key, run), flush=True)


if __name__ == "__main__":
    main()
