# SPDX-License-Identifier: Apache-2.0
"""Makes a page again from the data beside it: `python -m scripts._report.page report/run.json`."""

from __future__ import annotations

from pathlib import Path

import click

from scripts._report.page.report import write_page
from scripts._report.run import Run


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(file: Path) -> None:
    """Write index.html into the folder of FILE, a run.json."""
    click.echo(write_page(file.parent, Run.read(file)))


if __name__ == "__main__":
    main()
