# SPDX-License-Identifier: Apache-2.0
"""Starts one cheat as a trainer process."""

from __future__ import annotations

from pathlib import Path

import click

CHEATS = ("noise", "copier", "silent", "poisoner", "desynchronised", "late")


@click.command()
@click.argument("cheat", type=click.Choice(CHEATS))
@click.option("--config", type=click.Path(path_type=Path), required=True, help="Settings file.")
def main(cheat: str, config: Path) -> None:
    """Run one dishonest trainer until it is stopped."""
    from agents.__main__ import start

    start("trainer", f"scripts._cheats.{cheat}", config, {})


if __name__ == "__main__":
    main()
