# SPDX-License-Identifier: Apache-2.0
"""Starts an agent that is not ours, a liar or a slow one:
`python -m tests.e2e.dishonest ROLE MODULE --config FILE`.

The module is imported only after the environment that torch needs has been set.
"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("role")
@click.argument("module")
@click.option("--config", type=click.Path(path_type=Path), required=True, help="Settings file.")
def main(role: str, module: str, config: Path) -> None:
    """Run `MODULE.build` as an agent of ROLE until it is stopped."""
    from agents.__main__ import start

    start(role, module, config, {})


if __name__ == "__main__":
    main()
