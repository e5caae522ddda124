# SPDX-License-Identifier: Apache-2.0
"""The model that a job has trained: fetch it, try it, judge it, take it elsewhere.

ape run model pull --network ... --job 1
ape run model generate model-1 "def "
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from scripts._shared.operator import (
    deployment_option,
    explained,
    read_network_option,
    reading,
    store_to_read,
)

FOLDER = click.Path(file_okay=False, path_type=Path)

device_option = click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N."
)
folder_argument = click.argument("folder", type=click.Path(exists=True, path_type=Path))


@click.group()
def cli() -> None:
    """The model that a job has trained, used.

    `pull` fetches it into a folder and checks it against the ledger. The other commands take such a
    folder, and need no network.
    """


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn what is wrong with a model, its files or a text into one sentence."""
    from agents.models.folder import FolderError
    from agents.models.huggingface import ExportError
    from agents.models.pull import PullError
    from agents.rounds.report import ReportError
    from agents.training.decode import NotFinite
    from agents.training.documents import DataError
    from agents.training.spec import SpecError
    from agents.training.state import PayloadError
    from agents.training.transformers import ModelConfigError

    known = (FolderError, ExportError, PullError, ReportError, NotFinite, DataError, SpecError)
    try:
        yield
    except (*known, PayloadError, ModelConfigError) as error:
        raise click.ClickException(str(error)) from None


def _computes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command that runs a model: torch is told how before it is loaded."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from agents.training.determinism import pin_environment

        pin_environment()
        with _sentences():
            return function(*args, **kwargs)

    return wrapped


@cli.command()
@read_network_option
@click.option("--job", "job_id", type=click.IntRange(1), required=True, help="The job.")
@click.option(
    "--round",
    "round_id",
    type=click.IntRange(0),
    help="The model after this round (default: the newest final one; 0: the first model).",
)
@click.option("--out", type=FOLDER, help="Where to (default: the folder model-<job>).")
@click.option("--store", help="A folder, or the URL of a Kubo node (default: localnet's folder).")
@deployment_option
@explained
@_computes
def pull(
    choice: str,
    job_id: int,
    round_id: int | None,
    out: Path | None,
    store: str | None,
    deployment: Path | None,
) -> None:
    """Fetch the model of a job, and check it against the ledger.

    It is rebuilt from the newest published checkpoint and the updates after it. A pull that was
    interrupted goes on where it stopped.
    """
    from rich.console import Console

    from agents.models.pull import pull as fetch
    from agents.storage.content_store import open_store

    network = reading(choice, deployment)
    opened = open_store(store_to_read(store, network.deployment.chain_id))
    out = out or Path(f"model-{job_id}")
    with _bar(Console(stderr=True)) as progress:
        done = fetch(network, opened, job_id, out, round_id, progress)
    found = done.folder.provenance
    what = f"after round {found.round}" if found.round else "that it began with"
    click.echo(f"The model of job {job_id} {what} is in {out}: {found.parameters:,} parameters.")
    click.echo(f"Its hash 0x{found.model} is the one that the ledger records.")
    click.echo(f"{done.fetched / 1e6:,.1f} MB were fetched.")
    click.echo(f'Next: `ape run model generate {out} "..."`, or `ape run model export {out}`.')


@contextmanager
def _bar(console: Any) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar; its steps are told to a pipe or a file as lines."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    if not console.is_terminal:
        told = [""]

        def tell(text: str, done: int, total: int) -> None:
            if text.rstrip("0123456789 ") != told[0]:
                told[0] = text.rstrip("0123456789 ")
                click.echo(text, err=True)

        yield tell
        return
    columns = (SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("asking the chain", total=None)
        yield lambda text, done, total: bar.update(
            task, description=text, completed=done, total=total or None
        )


@cli.command()
@folder_argument
@click.argument("prompt", default="")
@click.option("--tokens", type=click.IntRange(1), default=200, show_default=True, help="At most.")
@click.option(
    "--temperature",
    type=click.FloatRange(0, 100),
    default=0.0,
    show_default=True,
    help="0: the likeliest token each time. 1: drawn as the model expects them.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of the draws."
)
@device_option
@explained
@_computes
def generate(
    folder: Path, prompt: str, tokens: int, temperature: float, seed: int, device: str
) -> None:
    """Let the model in FOLDER go on from PROMPT."""
    reader = _reader(folder, device)
    click.echo(prompt, nl=False)
    for piece in reader.write(prompt, tokens, temperature, seed):
        click.echo(harmless(piece), nl=False)
    click.echo()


def harmless(text: str) -> str:
    """A text that can't steer a terminal: a model may write what strangers have trained it to."""
    return "".join(
        c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text
    )


@cli.command()
@folder_argument
@click.option(
    "--data",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    required=True,
    help=".txt, .jsonl or .parquet file (repeatable).",
)
@click.option("--field", default="text", show_default=True, help="Key or column with the text.")
@device_option
@explained
@_computes
def evaluate(folder: Path, files: tuple[Path, ...], field: str, device: str) -> None:
    """Say how well the model in FOLDER expects a text: the lower, the better."""
    from rich.console import Console

    from agents.training.documents import read_documents

    reader = _reader(folder, device)
    with _bar(Console(stderr=True)) as progress:
        found = reader.judge(
            read_documents(files, field),
            lambda done, total: progress("judging tokens", done, total),
        )
    click.echo(
        f"Loss {found.loss:.4f} nats a token over {found.tokens:,} tokens; perplexity "
        f"{found.perplexity:,.2f}; {found.bits_per_byte:.4f} bits a byte."
    )


@cli.command()
@folder_argument
@click.option("--format", "kind", type=click.Choice(["hf"]), default="hf", show_default=True)
@click.option("--out", type=FOLDER, help="A new folder (default: <FOLDER>-hf).")
@explained
@_computes
def export(folder: Path, kind: str, out: Path | None) -> None:
    """Write the model in FOLDER as one that Hugging Face's transformers loads.

    The new folder has the weights, the config, the tokenizer, and a model card that says where the
    model comes from.
    """
    from agents.models.folder import ModelFolder
    from agents.models.huggingface import export as write

    out = out or folder.with_name(f"{folder.name}-{kind}")
    name = write(ModelFolder.open(folder), out)
    click.echo(f"Written to {out}, as {name}. Load it in Python with:")
    click.echo("  from transformers import AutoModelForCausalLM, AutoTokenizer")
    click.echo(f'  model = AutoModelForCausalLM.from_pretrained("{out}")')
    click.echo(f'  tokenizer = AutoTokenizer.from_pretrained("{out}")')


def _reader(folder: Path, device: str) -> Any:
    from agents.models.folder import ModelFolder
    from agents.models.text import Reader
    from agents.training.local import device_of

    return Reader(ModelFolder.open(folder), device_of(device))
