# SPDX-License-Identifier: Apache-2.0
"""`python -m agents ROLE --config FILE`: one agent, one process."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click

from agents.runtime.roles import FORMER_NAMES, ROLES

_COMPUTES = ("trainer", "aggregator", "verifier")


@click.command()
@click.argument("role", type=click.Choice((*ROLES, *FORMER_NAMES)))
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (.toml or .yaml).")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="Override a setting (repeatable).",
)
def main(role: str, config: Path | None, overrides: tuple[str, ...]) -> None:
    """Run one agent until it is stopped (SIGTERM or Ctrl-C).

    ROLE is trainer, aggregator, verifier, executor or coordinator. Settings come from --set, then
    from MENAGERIE_* variables, then from --config. A setting that does not exist is refused with
    the list of those that do.
    """
    role = FORMER_NAMES.get(role, role)
    start(role, f"{__package__}.{role}", config, dict(_pair(text) for text in overrides))


def start(role: str, module: str, config: Path | None, overrides: dict[str, str]) -> None:
    """Run `module.build` as an agent of `role`; exits with 2 and a sentence on a setting error."""
    from agents.runtime.config import load_settings
    from agents.runtime.context import run_agent
    from agents.runtime.errors import ConfigError
    from agents.storage.errors import StoreError
    from agents.training.determinism import pin_environment

    try:
        settings = load_settings(config, overrides)
        # The variables must be set before torch is loaded, which importing a role may do.
        pin_environment(settings.portable)
        os.umask(0o077)
        build = importlib.import_module(module).build
        if role in _COMPUTES:
            from agents.training.determinism import pin_torch

            pin_torch()
        sys.exit(run_agent(settings, role, build, patient=(StoreError,)))
    except (ConfigError, StoreError) as error:
        print(f"{role}: {error}", file=sys.stderr)
        sys.exit(2)


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--set")
    return name, value


if __name__ == "__main__":
    main()
