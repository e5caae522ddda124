# SPDX-License-Identifier: Apache-2.0
"""Options of `ape run job`: what a job is made of, its windows, its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agents.protocol.numbers import MAX_NODES
from scripts._shared.operator import ZOO_AMOUNT

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
WINDOWS = ("commit", "reveal", "aggregate", "challenge", "appeal", "dispute")
SCORE_WINDOWS = ("score-commit", "score-reveal")

store_option = click.option(
    "--store", help="A folder, or the URL of a Kubo node (default: localnet's folder)."
)


def window_option(name: str, words: str, otherwise: str | None = None) -> Any:
    """Return the option for one of the windows. Its default depends on the chain.

    `otherwise`: the default in words, if it is another.
    """
    usual = {
        "commit": "600",
        "reveal": "300",
        "aggregate": "300",
        "challenge": "1800",
        "appeal": "86400",
        "dispute": "259200",
        "score-commit": "600",
        "score-reveal": "300",
    }[name]
    told = f"{words}, in seconds (default: {otherwise or usual})."
    return click.option(f"--{name}-s", type=click.IntRange(1), help=told)


_PACKING = (
    click.option(
        "--data",
        "files",
        type=FILE,
        multiple=True,
        help=".txt, .jsonl or .parquet file; repeatable (default: Python's standard library).",
    ),
    click.option("--field", default="text", show_default=True, help="Key or column with the text."),
    click.option("--spec", type=FILE, help="Fields of the job spec, YAML or JSON."),
    click.option(
        "--model",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of a Hugging Face model: the job starts from its config, tokenizer and "
        "weights (extra: hf).",
    ),
    click.option("--model-config", type=FILE, help="A Hugging Face config.json (extra: hf)."),
    click.option("--tokenizer", type=FILE, help="A Hugging Face tokenizer.json (extra: hf)."),
    click.option(
        "--separator", type=click.IntRange(0), help="Token between documents, with --tokenizer."
    ),
    click.option("--rounds", type=click.IntRange(1), help="Rounds until the job is complete."),
    click.option(
        "--reward", type=ZOO_AMOUNT, default="1000", show_default=True, help="ZOO per round."
    ),
    click.option("--max-nodes", type=click.IntRange(1, MAX_NODES), default=64, show_default=True),
    window_option("commit", "Commit window"),
    window_option("reveal", "Reveal window"),
    window_option("aggregate", "Duty window"),
    window_option("challenge", "Challenge window"),
    window_option("appeal", "Appeal window"),
    window_option("dispute", "Committee's time"),
    window_option("score-commit", "Verifiers' time to commit scores (score gauntlet)"),
    window_option("score-reveal", "Verifiers' time to reveal them"),
    click.option(
        "--bond", type=ZOO_AMOUNT, default="100", show_default=True, help="A challenge's."
    ),
    click.option(
        "--retain-rounds",
        type=click.IntRange(0, 32),
        help="Rounds' pay of a trainer that answers for its work until the end "
        "(default: a quarter of the rounds, at most 8, or what the network asks for).",
    ),
    click.option(
        "--verifiers-cut",
        type=click.FloatRange(0, 50),
        help="The verifiers' part of the pay, in percent (default: 10, or what it takes to pay "
        "them for doing work again while training costs half of its pay).",
    ),
    click.option(
        "--few-verifiers",
        is_flag=True,
        help="Go on although too few verifiers have declared a determinism class of the spec.",
    ),
    store_option,
    click.option("--data-key", type=FILE, help="Encrypt the data with this file of `keys new`."),
    click.option(
        "--one-key", is_flag=True, help="Seal all shards with that key, and none with its own."
    ),
    click.option(
        "--shard-bytes",
        type=click.IntRange(4),
        help="Plain bytes of a shard, a multiple of 4. A node downloads shards whole; where each "
        "has a key of its own, it comes to hold the keys of those that its batches lie in, so "
        "smaller ones show it less. Default: 1 MiB, or with --data-key 64 KiB, less where a small "
        "corpus would give fewer than eight shards for each node (a batch at least), more where a "
        "large one would give over 1,024.",
    ),
    click.option("--passphrase-env", help="Variable with that file's passphrase (default: ask)."),
    click.option(
        "--though-attacks-pay", is_flag=True, help="Create it even if an attack on it pays."
    ),
)


def packing_options(command: Any) -> Any:
    """Add what a job is made of: its data, spec, terms and store."""
    for option in reversed(_PACKING):
        command = option(command)
    return command
