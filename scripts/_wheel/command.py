# SPDX-License-Identifier: Apache-2.0
"""The command `menagerie`: those of `ape run` that need no checkout, under one name.

A command is one file of `scripts`, and is loaded when it is typed. None of them needs ape here.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import click

COMMANDS = (
    "agent",
    "appeal",
    "audit",
    "claim",
    "committee",
    "economics",
    "explain",
    "faucet",
    "job",
    "keys",
    "model",
    "node",
    "status",
    "task",
    "wallet",
    "web",
)
EXTRAS = ("web",)
"""Commands whose dependencies are an extra of the same name."""
_PACKAGE = __name__.removesuffix("._wheel.command")
_FOLDER = Path(__file__).resolve().parents[1]


class Commands(click.Group):
    """The commands whose files are there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if (_FOLDER / f"{name}.py").is_file()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        try:
            found = importlib.import_module(f"{_PACKAGE}.{cmd_name}").cli
        except ModuleNotFoundError as error:
            how = f" Install the extra that has it: pip install 'menagerie[{cmd_name}]'."
            raise click.ClickException(
                f"`{cmd_name}` needs {error.name}, which is not installed."
                + how * (cmd_name in EXTRAS)
            ) from None
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by the first sentences of their files: loading all takes seconds."""
        rows = [(name, _about(_FOLDER / f"{name}.py")) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _about(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


@click.command(cls=Commands)
@click.version_option(package_name="menagerie")
def cli() -> None:
    """Train one model on many strangers' GPUs: run a node, see the network, use the model.

    A new node takes `wallet new`, `node register`, `agent config` and `agent trainer`, in this
    order; each says what comes next. Accounts are the keystore files in ~/.ape/accounts, and
    --network is the URL of an RPC node.
    """
