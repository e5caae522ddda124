# SPDX-License-Identifier: Apache-2.0
"""Starts one cheat as the process of a node."""

from __future__ import annotations

from pathlib import Path

import click

TRAINERS = (
    *("noise", "copier", "silent", "poisoner", "desynchronised", "late"),
    *("loafer", "two_faced", "misstater", "prying", "leaker"),
)
EXECUTORS = ("forger", "quitter")


@click.command()
@click.argument("cheat", type=click.Choice((*TRAINERS, *EXECUTORS)))
@click.option("--config", type=click.Path(path_type=Path), required=True, help="Settings file.")
def main(cheat: str, config: Path) -> None:
    """Run one dishonest node until it is stopped."""
    from agents.__main__ import start

    role = "executor" if cheat in EXECUTORS else "trainer"
    start(role, f"scripts._demo.cheats.{cheat}", config, {})


if __name__ == "__main__":
    main()
