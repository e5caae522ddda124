# SPDX-License-Identifier: Apache-2.0
"""Run an agent, or write its settings file.

ape run agent config trainer --keystore my-operator --out trainer.yaml
ape run agent trainer --config trainer.yaml        # the same as: python -m agents trainer ...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from agents.runtime.roles import FORMER_NAMES, PACKAGE, ROLES
from scripts._net.compiled import ROOT
from scripts._shared.operator import deployment_option, deployment_path, explained, store_of
from scripts._shared.places import CHECKOUT


@click.group()
def cli() -> None:
    """Run an agent, or write its settings file."""


def _role_command(role: str, name: str, hidden: bool = False) -> click.Command:
    @click.command(name=name, hidden=hidden, context_settings={"ignore_unknown_options": True})
    @click.option("--config", type=click.Path(exists=True, dir_okay=False), help="Settings file.")
    @click.argument("flags", nargs=-1, type=click.UNPROCESSED)
    def run(config: str | None, flags: tuple[str, ...]) -> None:
        chosen = ["--config", config] if config else []
        # The agent takes this process over: it needs nothing of ape, and signals reach it.
        command = [sys.executable, "-m", PACKAGE, role, *chosen, *flags]
        sys.stdout.flush()
        if CHECKOUT:
            os.environ["PYTHONPATH"] = os.pathsep.join(
                [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            )
        os.execv(command[0], command)

    article = "an" if role[0] in "aeiou" else "a"
    run.help = f"Run {article} {role} until SIGTERM or Ctrl-C. FLAGS: --set NAME=VALUE."
    return run


for _role in ROLES:
    cli.add_command(_role_command(_role, _role))
for _former, _role in FORMER_NAMES.items():
    cli.add_command(_role_command(_role, _former, hidden=True))


def _chain_at(rpc_url: str) -> int:
    from agents.runtime.chain import ChainClient
    from agents.runtime.logs import open_log

    return ChainClient(rpc_url, open_log("operator", "error", True, None)).chain_id()


@cli.command()
@click.argument("role", type=click.Choice((*ROLES, *FORMER_NAMES)))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--keystore", required=True, help="Keystore file, or alias in `ape accounts`.")
@click.option(
    "--passphrase-env", help="Variable with the keystore's passphrase (default: the agent asks)."
)
@click.option("--rpc-url", default="http://127.0.0.1:8545", show_default=True)
@deployment_option
@click.option(
    "--store",
    help="A folder, or the URL of a Kubo node (default: the local network's folder).",
)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder for the journal.")
@explained
def config(
    role: str, out: Path, data_dir: Path | None, deployment: Path | None, **values: Any
) -> None:
    """Write a settings file for ROLE.

    Where no deployment file is named, the node at --rpc-url is asked which chain it is on.
    """
    import yaml

    from agents.runtime.contracts import load_deployment

    role = FORMER_NAMES.get(role, role)
    if out.exists():
        raise click.ClickException(f"{out} exists already; it is never overwritten.")
    if not out.parent.is_dir():
        raise click.ClickException(f"There is no folder {out.parent}. Make it, or change --out.")
    path = deployment_path(deployment, 0 if deployment else _chain_at(values["rpc_url"]))
    chain_id = load_deployment(path).chain_id
    content = {
        "rpc_url": values["rpc_url"],
        "chain_id": chain_id,
        "deployment": str(path.resolve()),
        "keystore": values["keystore"],
        **({"passphrase_env": named} if (named := values["passphrase_env"]) else {}),
        "store": store_of(values["store"], chain_id),
        "data_dir": str((data_dir or out.with_suffix(".data")).resolve()),
        "job_id": 0,
        "log_format": "human",
    }
    out.write_text(yaml.safe_dump(content, sort_keys=False))
    click.echo(f"Written to {out}. Run it with: ape run agent {role} --config {out}")
