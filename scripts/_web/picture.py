# SPDX-License-Identifier: Apache-2.0
"""Takes the picture of a page that stands at the beginning of README.

python -m scripts._web.picture http://127.0.0.1:8700/ docs/page.png

It needs Chromium on PATH (Debian, Ubuntu: apt install chromium) and the package playwright, which
the test environment has.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click

_WIDTH, _HEIGHT = 1200, 860
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@click.command()
@click.argument("url")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--dark", is_flag=True, help="As on a system with a dark look.")
@click.option("--height", default=_HEIGHT, show_default=True, help="Of the part that is kept.")
def main(url: str, out: Path, dark: bool, height: int) -> None:
    """Write what a browser shows of URL into the PNG file OUT."""
    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome-stable"))), None)
    if found is None:
        raise click.ClickException(
            "There is no Chromium on PATH; install it (apt install chromium)."
        )
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise click.ClickException(
            "The package playwright is missing; run this in the test environment (make setup)."
        ) from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        page = browser.new_page(
            viewport={"width": _WIDTH, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        page.goto(url)
        page.locator("main h1").wait_for()
        out.write_bytes(page.screenshot())
        browser.close()
    click.echo(f"{out}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
